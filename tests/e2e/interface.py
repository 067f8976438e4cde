"""Where the ranks of a job meet beside MPI: parallel.interface on one machine, which has many addresses (127.0.0.0/8)."""
import os
import re
import subprocess
import time
from pathlib import Path

import ravine_run as r
from full_disk import LAUNCH, MPIRUN, options


def connections(pid):
    """(local, remote) addresses of its connections."""
    mine = {found[1] for fd in Path(f"/proc/{pid}/fd").iterdir() if (found := re.match(r"socket:\[(\d+)\]", os.readlink(fd)))}
    rows = [row.split() for row in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {(row[1].split(":")[0], row[2].split(":")[0]) for row in rows if row[3] == "01" and row[9] in mine}


def test_the_address_that_is_named(folder):
    if not MPIRUN:
        return print("SKIPPED: no mpirun", flush=True)
    for name, address in (("127.0.0.9", "0900007F"), *(("", "0100007F"), ("lo", "0100007F")) * r.FULL):  # of the others a name that is none tells the list
        output = folder / f"out{name}"
        more = {"parallel.interface": name} if name else {}
        job = subprocess.Popen([*LAUNCH, *r.command("train", *options(folder, train__steps=100000, train__output=output, **more))], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            while not (output / "metrics.jsonl").exists():
                r.check(job.poll() is None, f"it ended: {job.communicate()[0] if job.poll() is not None else ''}")
                time.sleep(0.01)
            pid = int((output / ".lock").read_text().split()[3])  # of rank 0
            r.check(address in {local for local, remote in connections(pid)}, f"{name}: rank 0 is connected as {connections(pid)}")
        finally:
            if job.poll() is None:
                r.run("stop", output)
            job.communicate(timeout=r.LIMIT)
        r.check(job.returncode == 130, f"{name}: exit status {job.returncode}")


def test_a_name_that_is_none(folder):
    if not MPIRUN:
        return print("SKIPPED: no mpirun", flush=True)
    done = subprocess.run([*LAUNCH, *r.command("train", *options(folder, **{"parallel.interface": "eth77"}))], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=r.LIMIT)
    said = [line for line in done.stderr.splitlines() if "error: " in line]
    r.check(done.returncode != 0 and len(said) == 1 and "eth77" in said[0] and "parallel.interface" in said[0] and "lo 127.0.0.1/8" in said[0], done.stderr)


if __name__ == "__main__":
    r.main(globals())
