"""Runs a command and kills it at one of its removals: killed_at.py PATTERN COUNT COMMAND ... kills it as it begins the COUNT-th removal of a path in which PATTERN is found; 0: never.
Exit status: that of the command; 137: it was killed; 77: this system does not let processes be traced. Each removal so found is a line of stdout."""
import ctypes
import os
import platform
import re
import signal
import struct
import sys

CALLS = {"x86_64": {87: None, 84: None, 263: 1}, "aarch64": {35: 1}}.get(platform.machine(), {})  # unlink, rmdir, unlinkat; the argument of the path behind the folder's, if there is one
TRACEME, CONT, SETOPTIONS, SYSCALL_INFO = 0, 7, 0x4200, 0x420E
OPTIONS = 0x08 | 0x80 | 0x100000  # of clones, of filters, and no child outlives this process
WALL = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def filtered():
    """From here on a tracer sees these calls of this process, and no other."""
    code = [(0x20, 0, 0, 0)] + [(0x15, len(CALLS) - i, 0, number) for i, number in enumerate(CALLS)] + [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x7FF00000)]
    text = b"".join(struct.pack("HBBI", *c) for c in code)
    kept = ctypes.create_string_buffer(text)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(kept)))
    return libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0


def path_of(pid):
    info = ctypes.create_string_buffer(88)
    libc.ptrace(SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
    number, *arguments = struct.unpack_from("7Q", info, 24)
    at = CALLS[number]
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(arguments[at or 0])
        text = b""
        while b"\0" not in text:  # not beyond the page
            text += memory.read(256 - memory.tell() % 256)
    name = text.split(b"\0")[0].decode(errors="replace")
    if at is None or name.startswith("/") or ctypes.c_int(arguments[0]).value == -100:
        return name
    return os.readlink(f"/proc/{pid}/fd/{ctypes.c_int(arguments[0]).value}") + "/" + name


def main(pattern, count, *command):
    child = os.fork()
    if child == 0:
        if not CALLS or libc.ptrace(TRACEME, 0, None, None) != 0 or not filtered():
            os._exit(77)
        os.execv(command[0], command)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSTOPPED(status) or libc.ptrace(SETOPTIONS, child, None, OPTIONS) != 0:
        os.kill(child, signal.SIGKILL)
        return 77
    libc.ptrace(CONT, child, None, None)
    seen = 0
    while True:
        pid, status = os.waitpid(-1, WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            if pid == child:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            continue
        number, event = os.WSTOPSIG(status), status >> 16
        if number == signal.SIGTRAP and event == 7:
            path = path_of(pid)
            if re.search(pattern, path):
                seen += 1
                print(path, flush=True)
                if seen == int(count):
                    os.kill(child, signal.SIGKILL)
        libc.ptrace(CONT, pid, None, 0 if number in (signal.SIGTRAP, signal.SIGSTOP) else number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
