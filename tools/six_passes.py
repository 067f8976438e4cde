"""Shows that no test depends on the clock or on an idle machine: the short tier passes three times alone and three times beside three busy loops and a stream of
writes to the disk.

    python3 tools/six_passes.py [alone N] [loaded N] [-- ARGUMENTS OF ctest]        default: alone 3 loaded 3

Prints a line for each pass: how, how long, how many of how many passed, and the names of those that did not; the log is tools/logs/six_passes.log. Needs a
build (scripts/build release all). Exit status 1: some test failed."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def load(folder):
    writes = f"while :; do dd if=/dev/zero of={folder}/stream bs=1M count=256 conv=fsync 2> /dev/null; done"
    return [subprocess.Popen(["sh", "-c", text], start_new_session=True) for text in ["while :; do :; done"] * 3 + [writes]]


def one_pass(how, more):
    began, jobs = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        try:
            jobs = load(folder) if how == "loaded" else []
            done = subprocess.run(["ctest", "--test-dir", "build/release", "-j2", *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        finally:
            for job in jobs:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
    failed = re.findall(r"^\s*\d+ - (\S+) \((?!Skipped)", done.stdout, re.M)
    summary = re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", done.stdout)
    said = f"{int(summary[3]) - int(summary[2])} of {summary[3]} passed" if summary else done.stdout[-500:]
    print(f"{how:<7} {(time.monotonic() - began) / 60:5.1f} min  {said}{'  FAILED: ' + ' '.join(failed) if failed else ''}", flush=True)
    return done.returncode == 0


def main():
    words = sys.argv[1:]
    more = words[words.index("--") + 1:] if "--" in words else []
    words = words[:words.index("--")] if "--" in words else words
    if len(words) % 2 or set(words[::2]) - {"alone", "loaded"} or not all(w.isdigit() for w in words[1::2]):
        sys.exit(__doc__)
    counts = dict(zip(words[::2], map(int, words[1::2]))) or {"alone": 3, "loaded": 3}
    commit = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"{commit}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores", flush=True)
    sys.exit(not all([one_pass(how, more) for how, count in counts.items() for _ in range(count)]))


main()
