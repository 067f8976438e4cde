"""A process measured from outside, for the scripts of this folder."""
import os, subprocess, sys, tempfile, time


def process(argv):
    """Runs it to its end: (seconds, peak resident memory in MiB). One that fails ends the script with what it said."""
    with tempfile.TemporaryFile() as err:
        began = time.monotonic()
        child = subprocess.Popen([str(x) for x in argv], stdout=subprocess.DEVNULL, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            err.seek(0)
            sys.exit(err.read().decode())
        return time.monotonic() - began, usage.ru_maxrss / 1024
