"""Kills a small run that saves every three steps with SIGKILL, many times, half of them aimed into a save, and resumes it each time;
all that end must equal a run left alone, bit for bit. The long form of tests/e2e/resume.py.

    python3 tools/kill_resume.py build/release/ravine [KILLS] [SEED] > tools/logs/kill_resume.log
"""
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
import ravine_run
import resume


def main():
    ravine_run.PROGRAM = os.path.abspath(sys.argv[1])
    kills, seed = int(sys.argv[2]) if len(sys.argv) > 2 else 200, int(sys.argv[3]) if len(sys.argv) > 3 else 200
    root = Path(tempfile.mkdtemp(prefix="ravine-kill-"))
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        done, inside, rounds = resume.kill_and_resume(root, kills, seed, lambda line: print(line, flush=True))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{done} kills, {inside} of them inside a save; {rounds} runs brought to their end, all bitwise equal to one left alone")


main()
