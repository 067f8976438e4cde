"""A rank that is killed, stopped or throws ends the job, quickly, with its name; one that computes for long does not.

python3 faults.py PATH_OF_dist_faulty

The short tier has three of the six (RAVINE_FULL=1: all): a rank that is lost, one that stands still and one that throws.
"""
import os
import re
import socket
import subprocess
import sys
import time

PATIENCE = 3  # of dist_faulty
FULL = bool(os.environ.get("RAVINE_FULL"))
SOON = 30 if FULL else 300  # seconds; what hangs does so for ever
LAUNCH = ["mpirun", "--oversubscribe", "-n", "4", "--mca", "mpi_yield_when_idle", "1"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def run(harm):
    began = time.monotonic()
    done = subprocess.run([*LAUNCH, sys.argv[1], harm], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def check(condition, text):
    if not condition:
        sys.exit(f"faults.py: {text}")


host = socket.gethostname()
for harm, words in {"kill": [f"rank 2 ({host}) is gone", "waited in all_gather over data"],
                    "wait": [f"rank 2 ({host}) is gone; ranks 0 1 waited in all_gather over data;"],
                    "stop": [f"rank 2 ({host}) has not answered for", "ranks 0 1 3 waited in all_gather over data"],
                    "throw": [f"rank 2 ({host}): the disk is on fire", "ranks 0 1 3 waited in all_gather over data"],
                    "two": [f"rank 0 ({host}): the roof has come down", "ranks 1 3 waited in all_gather over data"]}.items():
    if not FULL and harm in ("wait", "two"):
        continue
    status, out, err, seconds = run(harm)
    check(status != 0 and "done" not in out, f"{harm}: exit status {status}")
    check(all(w in err for w in words), f"{harm}: {words} not in\n{err}")
    check(harm != "two" or "on fire" not in err, f"two: what failed second is named\n{err}")
    check(err.count("error: ") == 1, f"{harm}: said more than once\n{err}")
    check(seconds < SOON, f"{harm}: took {seconds:.0f} s")
    # A watch that was itself late by half its patience counts from anew: so never 1.5 times of it, whatever else this machine does.
    silent = re.search(r"has not answered for (\d+) s", err)
    check(bool(silent) == (harm == "stop"), f"{harm}: {err}")
    check(not silent or PATIENCE <= int(silent[1]) <= 1.5 * PATIENCE + 0.7, f"{harm}: patience is {PATIENCE} s, {silent and silent[0]}")
if FULL:
    status, out, err, _ = run("slow")
    check(status == 0 and "done" in out, f"slow: exit status {status}\n{err}")
print(f"kill, {'wait, ' if FULL else ''}stop{', throw, two and slow' if FULL else ' and throw'}: as promised")
