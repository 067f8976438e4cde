"""A rank that is killed, stopped or throws ends the job, quickly, with its name; one that computes for long does not.

python3 faults.py PATH_OF_dist_faulty
"""
import os
import re
import socket
import subprocess
import sys
import time

PATIENCE = 3  # of dist_faulty
LAUNCH = ["mpirun", "--oversubscribe", "-n", "4"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def run(harm):
    began = time.monotonic()
    done = subprocess.run([*LAUNCH, sys.argv[1], harm], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
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
    status, out, err, seconds = run(harm)
    check(status != 0 and "done" not in out, f"{harm}: exit status {status}")
    check(all(w in err for w in words), f"{harm}: {words} not in\n{err}")
    check(harm != "two" or "on fire" not in err, f"two: what failed second is named\n{err}")
    check(err.count("error: ") == 1, f"{harm}: said more than once\n{err}")
    check(seconds < 30, f"{harm}: took {seconds:.0f} s")
    # A watch that was itself late by half its patience counts from anew: so never 1.5 times of it, whatever else this machine does.
    silent = re.search(r"has not answered for (\d+) s", err)
    check(bool(silent) == (harm == "stop"), f"{harm}: {err}")
    check(not silent or PATIENCE <= int(silent[1]) <= 1.5 * PATIENCE + 0.7, f"{harm}: patience is {PATIENCE} s, {silent and silent[0]}")
status, out, err, _ = run("slow")
check(status == 0 and "done" in out, f"slow: exit status {status}\n{err}")
print("kill, wait, stop, throw, two and slow: as promised")
