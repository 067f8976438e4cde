"""Runs a command as on a machine that lacks something: what a test needs and does not find, it has to skip by name.

    python3 tools/without.py LACK[,LACK...] COMMAND...

LACK: io_uring, user_namespaces, rename_exchange, huge_pages (of hugetlbfs), thp (transparent huge pages), shm (/dev/shm has 64 MB; needs root).
System calls are answered with the error of a kernel that does not have them (seccomp), for the command and all it starts. x86-64 and Linux only."""
import ctypes
import errno
import os
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, MODE_FILTER = 22, 38, 41, 2
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, FAIL = 0x7fff0000, 0x00050000
NUMBER, ARGUMENTS = 0, 16  # offsets in struct seccomp_data
# Name: (system call, argument or None for any, bits of it, error).
CALLS = {
    "io_uring": [(425, None, 0, errno.ENOSYS)],
    "user_namespaces": [(272, 0, 0x10000000, errno.EPERM), (56, 0, 0x10000000, errno.EPERM), (435, None, 0, errno.ENOSYS)],  # unshare, clone, clone3
    "rename_exchange": [(316, 4, 2, errno.EINVAL)],
    "huge_pages": [(9, 3, 0x40000, errno.ENOMEM)],
    "thp": [],
    "shm": [],
}


def program(calls):
    """The filter: each call is one block that falls through to the next where it does not fit."""
    lines = []
    for number, argument, bits, error in calls:
        fail = (RETURN, 0, 0, FAIL | error)
        if argument is None:
            lines += [(LOAD, 0, 0, NUMBER), (EQUAL, 0, 1, number), fail]
        else:
            lines += [(LOAD, 0, 0, NUMBER), (EQUAL, 0, 3, number), (LOAD, 0, 0, ARGUMENTS + 8 * argument), (ANY_BIT, 0, 1, bits), fail]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines), len(lines)


def lack(names):
    text, count = program([call for name in names for call in CALLS[name]])
    kept = ctypes.create_string_buffer(text)

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("lines", ctypes.c_void_p)]

    if "thp" in names and LIBC.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
        sys.exit(f"without.py: thp: {os.strerror(ctypes.get_errno())}")
    if "shm" in names:
        if LIBC.unshare(0x20000) or subprocess.run(["mount", "--make-rprivate", "/"]).returncode or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", "/dev/shm"]).returncode:
            sys.exit("without.py: /dev/shm cannot be made smaller: this needs root")
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or LIBC.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(Filter(count, ctypes.cast(kept, ctypes.c_void_p)))):
        sys.exit(f"without.py: seccomp: {os.strerror(ctypes.get_errno())}")


def main():
    if len(sys.argv) < 3 or set(names := sys.argv[1].split(",")) - CALLS.keys():
        sys.exit(__doc__)
    lack(names)
    os.execvp(sys.argv[2], sys.argv[2:])


main()
