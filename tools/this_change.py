"""The change that is being tested: the commits of the last hours before HEAD, by their own dates, and what is not committed. No clock is asked, so the answer
is the same on any day. Where git or the history is missing, nothing has changed."""
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOURS = 4  # commits closer to HEAD than this belong to one change


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, errors="replace")
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def base():
    """The commit before the change; empty: there is none."""
    head = git("log", "-1", "--format=%ct").strip()
    return git("rev-list", "-1", f"--before={int(head) - HOURS * 3600}", "HEAD").strip() if head else ""


@functools.cache
def files():
    """Paths that the change touches."""
    return frozenset(git("diff", "--name-only", base()).splitlines()) if base() else frozenset()


@functools.cache
def words():
    """The words of all lines that the change adds to sources and tests, or removes from them."""
    if not base():
        return frozenset()
    lines = git("diff", "-U0", base(), "--", "src", "tests/e2e", "tests/dist").splitlines()
    return frozenset(w for line in lines if re.match(r"[+-](?![+-]{2})", line) for w in words_of(line))


def words_of(text):
    """Names of options, flags, keys and files: long enough to mean one thing."""
    return set(re.findall(r"[A-Za-z_][\w.\-]{5,}\w", text))
