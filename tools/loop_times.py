"""Measures the loops of a working day on this machine and prints a table: how long it takes to build, to test, to change something.

    python3 tools/loop_times.py [ROW...]        rows: program all second check header tests ci-empty ci-full; default: all of them

Works on copies of the committed tree in a folder of its own (removed at the end), with a compiler cache of its own that is empty at first. Each row is one
run, whole, on the clock; nothing else should run beside it. Environment: RAVINE_SHARED and ../shared are used as scripts/test uses them."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = {"config": "load.cpp", "data": "open_datasets.cpp", "train": "trainer.cpp", "kernels": "cpu/adamw.cpp"}  # one file of each is changed
HEADER = "src/base/error.h"


def cpu():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    return re.search(r"model name\s*: (.*)", text)[1] + f", family {re.search(r'cpu family.*: (.*)', text)[1]}, {os.cpu_count()} cores"


class House:
    """Copies of the tree beside each other, and beside ../shared where there is one; one cache."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ravine-loops-"))
        self.folder.chmod(0o755)  # one test runs the program as another user
        if (ROOT.parent / "shared").is_dir():
            (self.folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
        self.trees = 0

    def environment(self, cache):
        return {**os.environ, "CCACHE_DIR": str(self.folder / cache), "CI": "true"}

    def tree(self):
        self.trees += 1
        path = self.folder / f"tree{self.trees}"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(path)], check=True)
        return path

    def time(self, what, command, tree, cache="cache"):
        began = time.monotonic()
        done = subprocess.run(command, cwd=tree, env=self.environment(cache), shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        took = time.monotonic() - began
        print(f"{what:<72} {int(took // 60):3d} min {took % 60:4.0f} s{'' if done.returncode == 0 else f'   FAILED with {done.returncode}'}", flush=True)
        if done.returncode:
            print("\n".join("    " + line for line in done.stdout.splitlines()[-15:]), flush=True)
        return took


def change(path, salt):
    """Another object of the same meaning, which no cache knows."""
    with open(path, "a") as file:
        file.write(f'\nstatic_assert(sizeof(int) == 4, "{salt}");\n')


def main():
    known = ["program", "all", "second", "check", "header", "tests", "ci-empty", "ci-full"]
    asked = sys.argv[1:] or known
    if set(asked) - set(known):
        sys.exit(__doc__)
    commit = subprocess.run(["git", "log", "-1", "--format=%h %s"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"{cpu()}\n{commit}\n{time.strftime('%Y-%m-%d')}, load before: {os.getloadavg()[0]:.1f}\n", flush=True)
    house = House()
    try:
        first = None
        if set(asked) & {"program", "all", "second", "check", "header", "tests"}:
            first = house.tree()
            part = house.time("program alone (scripts/build), empty cache", "scripts/build", first)
            rest = house.time("  tests behind it (scripts/build release all)", "scripts/build release all", first)
            print(f"{'program and all tests, empty cache':<72} {int((part + rest) // 60):3d} min {(part + rest) % 60:4.0f} s", flush=True)
        if "second" in asked:
            house.time("the same in a second working tree, full cache", "scripts/build release all", house.tree())
        if "tests" in asked:
            house.time("tests that .ci/run runs (ctest of the short tier)", "RAVINE_SHARED=$(realpath ../shared 2> /dev/null) ctest --test-dir build/release -j2 --output-on-failure", first)
        if "check" in asked:
            for room, file in ROOMS.items():
                change(first / "src" / room / file, "loop")
                house.time(f"one file changed, src/{room}/{file}: scripts/check {room}", f"scripts/check {room}", first)
        if "header" in asked:
            change(first / HEADER, "header")
            house.time(f"a header that most include changed, {HEADER}: scripts/build release all", "scripts/build release all", first)
        if "ci-empty" in asked:
            house.time("whole .ci/run, empty cache", ".ci/run", house.tree(), "another")
        if "ci-full" in asked:
            house.time("whole .ci/run, full cache", ".ci/run", house.tree(), "another" if "ci-empty" in asked else "cache")
    finally:
        shutil.rmtree(house.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
