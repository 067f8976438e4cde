"""Plants faults in the sources, one at a time, and demands that the tests named beside each of them fail: a test that cannot fail proves nothing.

    python3 tools/planted_faults.py [NAME...]      NAME: part of a fault's or a test's name; default: all

Works in a copy of the tree under build/planted, so the tree itself is never touched. Each fault is a replacement in one file (it must match
exactly once, so a fault that no longer fits the code is reported), the test targets to build, and the command that has to fail. The faults are in tools/planted_faults/*.json, a file for each
area. Exit status 1: a fault was not found by its test, or could not be planted."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "planted"
BUILD = COPY / "build" / "release"


def run(command, **more):
    return subprocess.run(command, cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def fill_copy():
    """The tree as it stands, uncommitted changes too; what is equal keeps its time, so that only changes are built again."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    names = [n for n in listed.splitlines() if (ROOT / n).is_file() and not n.startswith("tests/fuzz/corpus")]
    for name in names:
        source, copy = ROOT / name, COPY / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    for folder in ("src", "tests"):
        for copy in (COPY / folder).rglob("*"):
            if copy.is_file() and copy.suffix != ".pyc" and str(copy.relative_to(COPY)) not in set(names):
                copy.unlink()
    if not (BUILD / "build.ninja").exists():
        made = run(["cmake", "--preset", "release"])
        if made.returncode:
            sys.exit(made.stdout)


def build(targets):
    return run(["cmake", "--build", "--preset", "release", "--target", *targets])


def attempt(fault):
    """What is wrong with the fault's test; empty: it failed as it has to."""
    path = COPY / fault["file"]
    good = path.read_text()
    if good.count(fault["old"]) != 1:
        return f"'{fault['old']}' is {good.count(fault['old'])} times in {fault['file']}"
    command = fault["test"].replace("BUILD", str(BUILD)).split()
    targets = fault.get("targets") or [pathlib.Path(command[0]).name]
    try:
        path.write_text(good.replace(fault["old"], fault["new"]))
        built = build(targets)
        if built.returncode:
            return "does not compile:\n" + built.stdout[-3000:]
        try:
            tried = run(command, timeout=fault.get("timeout", 300), env={**os.environ, "RAVINE_SHARED": ""})
        except subprocess.TimeoutExpired:
            return ""  # a test that hangs has noticed
        return "" if tried.returncode else "the test passes"
    finally:
        path.write_text(good)


fill_copy()
faults = [f for file in sorted((ROOT / "tools/planted_faults").glob("*.json")) for f in json.loads(file.read_text())]
chosen = [f for f in faults if not sys.argv[1:] or any(part in f["name"] + " " + f["test"] for part in sys.argv[1:])]
missed = 0
for i, fault in enumerate(chosen):
    began = time.monotonic()
    wrong = attempt(fault)
    missed += bool(wrong)
    print(f"{i + 1}/{len(chosen)} {'MISSED' if wrong else 'found '} {fault['name']} ({time.monotonic() - began:.0f} s){': ' + wrong if wrong else ''}", flush=True)
print(f"{len(chosen) - missed} of {len(chosen)} faults found")
sys.exit(missed > 0)
