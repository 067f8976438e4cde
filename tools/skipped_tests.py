"""Says which tests a run of ctest skipped, whole or in part, and why; the last line is ctest's own summary.

    python3 tools/skipped_tests.py build/release/Testing/Temporary/LastTest.log [--summary]

--summary: that line alone. A line for each: `SKIPPED: PROGRAM TEST: reason`. Reads what GoogleTest and tests/e2e/ravine_run.py print, and the log's own verdicts.
"""
import re
import sys


def blocks(text):
    """(name, what it printed, passed) of every test of the log."""
    for part in re.split(r"^\d+/\d+ Testing: ", text, flags=re.M)[1:]:
        name = part.split("\n", 1)[0].strip()
        said = re.search(r"^-{10,}\n(.*?)^<end of output>", part, re.M | re.S)
        yield name, said[1] if said else "", bool(re.search(r"^Test Pass(ed| Reason)", part, re.M))


def skipped(said):
    """(test, why) of each test of one program that was skipped."""
    reason = "it says no reason"
    for line in said.splitlines():
        if m := re.match(r".*\.(?:cpp|h):\d+: Skipped$", line):
            reason = ""
        elif m := re.match(r"\[  SKIPPED \] (\S+) \(\d+ ms\)", line):
            yield m[1], reason.strip() or "it says no reason"
            reason = "it says no reason"
        elif m := re.match(r"SKIPPED: (?:(test_\w+): )?(.*)", line):
            yield m[1] or "", m[2]
        elif reason != "it says no reason":
            reason += " " + line.strip()


def main():
    text = open(sys.argv[1], errors="replace").read()
    total = failed = 0
    for name, said, passed in blocks(text):
        total += 1
        failed += not passed
        for test, why in {} if "--summary" in sys.argv else dict.fromkeys(skipped(said)):
            print(f"SKIPPED: {name}{' ' if test else ''}{test}: {why}")
    print(f"{100 * (total - failed) // max(total, 1)}% tests passed, {failed} tests failed out of {total}")
    return failed > 0 or total == 0


if __name__ == "__main__":
    sys.exit(main())
