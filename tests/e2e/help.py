"""Help pages: short ones fit a screen, long ones have everything, a terminal shows them within its width and in a pager.

python3 help.py PATH_OF_RAVINE [test_function ..]
"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import tty
from pathlib import Path

import ravine_run as r

ROOT = Path(__file__).resolve().parents[2]
SCREEN = 60  # lines


def commands():
    """The words of every command and action."""
    out = [[c] for c in re.findall(r"^  ([a-z][a-z-]*) {2,}", r.run("--help").stdout.split("\nUsage:")[1], re.M)]
    for words in out:
        page = r.run(*words, "--help").stdout
        if "\nActions:\n" in page:
            out += [[*words, a] for a in re.findall(r"^  ([a-z][a-z-]*) {2,}", page.split("\nActions:\n")[1], re.M)]
    return out


def test_every_page_fits_a_screen(folder):
    pages = commands()
    r.check(len(pages) > 40, f"{len(pages)} pages")
    for words in pages:
        page = r.run(*words, "--help").stdout
        lines = page.splitlines()
        r.check(len(lines) <= SCREEN, f"{' '.join(words)}: {len(lines)} lines")
        r.check(page.startswith("Example:\n  ") and "ravine " in lines[1] and "\nUsage: ravine " in page, f"{' '.join(words)}: no example and usage first:\n{page[:300]}")
        r.check(f"\n{' '.join(words)}: " in page, f"{' '.join(words)}: its summary is missing")


def test_a_long_page_has_everything(folder):
    options = set(re.findall(r"^\| `([a-z]+\.[a-z0-9_]+)` \|", (ROOT / "docs" / "options.md").read_text(), re.M))
    short, long = r.run("train", "--help").stdout, r.run("train", "--help-all").stdout
    named = lambda page: set(re.findall(r"^  ([a-z]+\.[a-z0-9_]+)=", page, re.M)) | set(re.findall(r"same as ([a-z]+\.[a-z0-9_]+)", page))
    r.check(named(long) == options, sorted(named(long) ^ options))
    r.check(15 <= len(named(short)) <= 45 and named(short) < options, len(named(short)))
    r.check({"train.steps", "optimizer.lr", "data.train", "parallel.zero", "checkpoint.resume"} <= named(short), sorted(named(short)))
    for section in ("optimizer", "schedule", "data"):
        there = named(r.run("train", "--help", section).stdout)
        r.check(there == {o for o in options if o.startswith(section + ".")}, f"{section}: {sorted(there)}")
        r.check(f"train --help SECTION" in short and section in short.split("Sections: ")[1], short[-400:])
    said = r.run("train", "--help", "optimzer", status=2).stderr
    r.check("unknown section 'optimzer'" in said and "optimizer" in said.split(";")[-1], said)
    said = r.run("generate", "--help", "optimizer", status=2).stderr
    r.check("unknown section 'optimizer'" in said and "precision" in said, said)
    r.check(r.run("train", "train.steps=3", "--help").stdout == short and r.run("help", "train").stdout == short, "the same page, wherever --help stands")


def on_terminal(rows, columns, *words, pager=None):
    """The output on a terminal of this size."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm", **({"PAGER": pager} if pager else {})}
    job = subprocess.Popen(r.command(*words), stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    r.check(job.wait(timeout=r.LIMIT) == 0, shown)
    return shown.decode()


def test_a_terminal_gets_its_width_and_a_pager(folder):
    shown = on_terminal(200, 72, "train", "--help")
    plain = re.sub(r"\x1b\[\d*m", "", shown)
    r.check("\x1b[1mFlags:\x1b[0m" in shown, shown[:600])
    r.check(all(len(line) <= 72 or " " not in line.strip() for line in plain.splitlines()), [line for line in plain.splitlines() if len(line) > 72])
    r.check(plain.split() == r.run("train", "--help").stdout.split(), "the same words as without a terminal")
    paged = folder / "paged.txt"
    shown = on_terminal(24, 100, "train", "--help", pager=f"cat > {paged}")
    r.check(not shown and "train.steps" in paged.read_text(), f"{shown[:200]!r}")
    paged.unlink()
    r.check("Usage: ravine stop" in on_terminal(24, 100, "stop", "--help", pager=f"cat > {paged}") and not paged.exists(), "a page that fits needs no pager")
    r.check("train.steps" in on_terminal(24, 100, "train", "--help", pager="no-such-program 2> /dev/null"), "a pager that is not there")


if __name__ == "__main__":
    r.main(globals())
