"""A work folder belongs to one process at a time; what another does to it in spite of that is an error, not a crash."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import ravine_run as r
from data import tokenizer



def preprocess(folder, prefix, *more):
    return ("preprocess", "--input", folder / "text.txt", "--tokenizer", tokenizer(), "--output-prefix", prefix, "--workers", 1, "--save-every", 0, *more)


def halfway(folder, prefix):
    """A preprocess that has saved something and stands still."""
    job = subprocess.Popen(r.command(*preprocess(folder, prefix)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    work = Path(f"{prefix}.preprocess")
    while not (work / "state.json").exists():
        r.check(job.poll() is None, "it ended at once: the text is too short")
        time.sleep(0.001)
    job.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    r.check(job.poll() is None and work.exists(), "it ended: the text is too short")
    return job, work


def test_restart_beside_a_running_one(folder):
    r.save_text(folder / "text.txt", 400000, 1)
    r.run(*preprocess(folder, folder / "whole"))
    job, work = halfway(folder, folder / "p")
    before = sorted(p.name for p in work.iterdir())
    try:
        done = r.run(*preprocess(folder, folder / "p", "--restart"), status=2)
        r.check("in use" in done.stderr and f"process {job.pid} " in done.stderr, done.stderr)
        r.check(sorted(p.name for p in work.iterdir()) == before, "its folder was touched")
    finally:
        job.send_signal(signal.SIGCONT)
    text = job.communicate(timeout=r.LIMIT)[0]
    r.check(job.returncode == 0, f"the first ends with {job.returncode}: {text}")
    for end in (".bin", ".idx"):
        r.check(Path(f"{folder}/p_text_document{end}").read_bytes() == Path(f"{folder}/whole_text_document{end}").read_bytes(), f"{end} differs")
    r.check(not work.exists(), "the work folder is left")


def test_restart_after_a_kill(folder):
    r.save_text(folder / "text.txt", 400000, 1)
    job, work = halfway(folder, folder / "p")
    job.kill()
    job.wait()
    r.run(*preprocess(folder, folder / "p", "--restart"))
    r.check(not work.exists() and (folder / "p_text_document.idx").exists(), f"left: {sorted(os.listdir(folder))}")


def test_folder_taken_away(folder):
    """Somebody removes or empties the folder under a running preprocess: it says which file, with status 1."""
    r.save_text(folder / "text.txt", 400000, 1)
    for name in ("removed", "emptied"):
        job, work = halfway(folder, folder / name)
        files = [p.name for p in work.iterdir() if p.name != "state.json"]
        shutil.rmtree(work)
        if name == "emptied":
            work.mkdir()
            for file in files:
                (work / file).write_bytes(b"")
        job.send_signal(signal.SIGCONT)
        text = job.communicate(timeout=r.LIMIT)[0]
        r.check(job.returncode in (1, 2) and text.splitlines()[-1].startswith("error: ") and str(work) in text.splitlines()[-1], f"{name}: {job.returncode}: {text}")


if __name__ == "__main__":
    r.main(globals())
