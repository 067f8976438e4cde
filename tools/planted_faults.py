"""Plants faults in the sources, one at a time, and demands that the tests named beside each of them fail: a test that cannot fail proves nothing.

    python3 tools/planted_faults.py [NAME...] [--area AREA]... [--sample N] [--seconds S] [--here]

NAME: part of a fault's or a test's name; default: all. --area: those of planted_faults/AREA.json alone, may be repeated. --sample: N of them
that still fit the code: first those in files that the change under test touches (tools/this_change.py), then the same ones on any day. One that no longer fits or
compiles is reported there and is no failure. --seconds: no test begins later. Works in a copy of the tree under build/planted, so the tree
itself is never touched; --here plants in the tree, which saves the build of a copy: for a checkout that nobody else uses. There a file whose changes
are not committed is left alone, and what a killed run left is put back by the next one.

First every test named runs without a fault (the baseline) and must pass; where all it would run is skipped, its faults are not tried and said to be
so. Each fault is a replacement in one file (it must match exactly once, so a fault that no longer fits the code is reported), the test targets to
build, the command that has to fail, and, where other CPUs would not show it, a flag of /proc/cpuinfo ("cpu"). The faults are in tools/planted_faults/*.json, a file for each area. Exit status 1: a test fails without a
fault, a fault was not found by its test, or, without --sample, could not be planted."""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import this_change

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Tree:
    """Where faults are planted: a copy of the tree, or the tree itself."""

    def __init__(self, here):
        self.here = here
        self.root = ROOT if here else ROOT / "build" / "planted"
        self.build = self.root / "build" / "release"
        self.journal = ROOT / "build" / "planted.json"  # --here: the file as it was
        self.environment = {k: v for k, v in os.environ.items() if k != "RAVINE_SHARED"}
        self.environment["XDG_CACHE_HOME"] = str(self.root / "build" / "planted-cache")
        if here:
            self.put_back()
        else:
            self.fill()
        if not (self.build / "build.ninja").exists():
            made = self.run(["cmake", "--preset", "release"])
            if made.returncode:
                sys.exit(made.stdout)

    def fill(self):
        """The tree as it stands, uncommitted changes too; what is equal keeps its time, so that only changes are built again."""
        listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        names = {n for n in listed.splitlines() if (ROOT / n).is_file() and not n.startswith("tests/fuzz/corpus")}
        for name in names:
            source, copy = ROOT / name, self.root / name
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        for folder in ("src", "tests"):
            for copy in (self.root / folder).rglob("*"):
                if copy.is_file() and copy.suffix != ".pyc" and str(copy.relative_to(self.root)) not in names:
                    copy.unlink()

    def run(self, command, **more):
        return subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **{"env": self.environment, **more})

    def make(self, targets):
        return self.run(["cmake", "--build", "--preset", "release", "--target", *targets], env=os.environ)  # with the compiler cache of all trees, which is found by XDG_CACHE_HOME

    def plant(self, name, text):
        path = self.root / name
        if self.here:
            self.journal.write_text(json.dumps({"file": name, "text": path.read_text()}))
        path.write_text(text)

    def occupied(self, name):
        """Somebody works on this file of the tree itself."""
        return self.here and subprocess.run(["git", "diff", "--quiet", "HEAD", "--", name], cwd=ROOT).returncode != 0

    def restore(self, name, text):
        (self.root / name).write_text(text)
        self.journal.unlink(missing_ok=True)

    def put_back(self):
        if self.journal.exists():
            left = json.loads(self.journal.read_text())
            self.restore(left["file"], left["text"])


class Test:
    """A command that is to fail under its faults."""

    def __init__(self, tree, fault):
        self.tree = tree
        self.command = shlex.split(fault["test"].replace("BUILD", str(tree.build)))
        self.targets = fault.get("targets") or (["ravine"] if self.command[0].startswith("python") else [pathlib.Path(self.command[0]).name])
        self.limit = fault.get("timeout", 300)
        self.partly = False  # something in it is skipped here

    def run(self):
        """"passed", "failed" or "skipped", and what it said."""
        try:
            done = self.tree.run(self.command, timeout=self.limit)
        except subprocess.TimeoutExpired:
            return "failed", f"no end after {self.limit} s"  # a test that hangs has noticed
        if done.returncode == 77 or (done.returncode == 0 and re.search(r"^\[  PASSED  \] 0 tests", done.stdout, re.M)):
            return "skipped", done.stdout
        return ("failed" if done.returncode else "passed"), done.stdout

    def baseline(self):
        """Why its faults cannot be tried; empty: it passes."""
        verdict, said = self.run()
        if verdict == "failed":  # one that needs the machine for itself gets a second chance
            verdict, said = self.run()
        self.partly = re.search(r"^\W*skipped\b", said, re.I | re.M) is not None
        return {"passed": "", "skipped": "SKIPPED"}.get(verdict, "the test fails without a fault:\n" + said[-3000:])


# What a fault leaves unused is no mistake of the fault.
LOOSE = "".join(f'#pragma GCC diagnostic ignored "-Wunused-{what}"\n' for what in ("parameter", "variable", "but-set-variable", "but-set-parameter", "function"))


NO_BUILD = "does not compile:\n"


def attempt(tree, fault, test):
    """What is wrong with the fault's test; empty: it failed as it has to."""
    good = (tree.root / fault["file"]).read_text()
    if good.count(fault["old"]) != 1:
        return f"'{fault['old']}' is {good.count(fault['old'])} times in {fault['file']}"
    try:
        loose = LOOSE if fault["file"].endswith((".cpp", ".h")) else ""
        tree.plant(fault["file"], loose + good.replace(fault["old"], fault["new"]))
        built = tree.make(test.targets)
        if built.returncode:
            return NO_BUILD + built.stdout[-3000:]
        verdict, _ = test.run()
        return "" if verdict == "failed" else f"the test {verdict}"
    finally:
        tree.restore(fault["file"], good)


def unseen_here(fault, problem, tree):
    """Why a fault is not tried; empty: it is."""
    if problem == "SKIPPED":
        return "its test is skipped here"
    if fault.get("cpu") and not re.search(rf"^flags\b.*\b{fault['cpu']}\b", pathlib.Path("/proc/cpuinfo").read_text(), re.M):
        return f"this CPU has no {fault['cpu']}"
    return f"{fault['file']} has changes that are not committed" if tree.occupied(fault["file"]) else ""


def fits(fault):
    path = ROOT / fault["file"]
    return path.is_file() and path.read_text().count(fault["old"]) == 1


def choose(arguments):
    files = sorted((ROOT / "tools/planted_faults").glob("*.json"))
    if unknown := set(arguments.area) - {f.stem for f in files}:
        sys.exit(f"no area {', '.join(sorted(unknown))}; there are {', '.join(f.stem for f in files)}")
    faults = [f for file in files if not arguments.area or file.stem in arguments.area for f in json.loads(file.read_text())]
    chosen = [f for f in faults if not arguments.names or any(part in f["name"] + " " + f["test"] for part in arguments.names)]
    if arguments.sample:
        short = [f for f in chosen if f.get("timeout", 300) <= 300 and not f["file"].endswith(".h")]  # a header asks for much to be built
        stale = [f for f in short if not fits(f)]
        for f in stale:
            print(f"stale: {f['name']}: its text no longer stands once in {f['file']}")
        rest = sorted((f for f in short if f not in stale), key=lambda f: hashlib.sha256((f["name"] + f["old"]).encode()).digest())
        chosen = sorted(rest, key=lambda f: f["file"] not in this_change.files())[:arguments.sample]
    return sorted(chosen, key=lambda f: f["file"])  # neighbours share what has to be built again


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--area", action="append", default=[])
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--here", action="store_true")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    tree, chosen = Tree(arguments.here), choose(arguments)
    if not chosen:
        sys.exit(f"no fault and no test has {' or '.join(map(repr, arguments.names))} in its name")
    tests = {f["test"]: Test(tree, f) for f in chosen}
    targets = sorted({t for test in tests.values() for t in test.targets})
    if chosen and (built := tree.make(targets)).returncode:
        sys.exit("the tree does not compile:\n" + built.stdout[-3000:])
    over = lambda: time.monotonic() - start > arguments.seconds
    wrong = {name: test.baseline() for name, test in tests.items() if not over()}
    tried = missed = skipped = 0
    for i, fault in enumerate(chosen):
        began = time.monotonic()
        if over():
            print(f"{len(chosen) - i} are left for another time: {arguments.seconds:.0f} s are over")
            break
        problem = wrong[fault["test"]]
        if why := unseen_here(fault, problem, tree):
            skipped += 1
            print(f"{i + 1}/{len(chosen)} SKIPPED {fault['name']}: {why}", flush=True)
            continue
        problem = problem or attempt(tree, fault, tests[fault["test"]])
        if problem == "the test passed" and tests[fault["test"]].partly:
            skipped += 1
            print(f"{i + 1}/{len(chosen)} SKIPPED {fault['name']}: what its test skips here may be what notices it", flush=True)
            continue
        if arguments.sample and problem.startswith(NO_BUILD):
            skipped += 1
            print(f"{i + 1}/{len(chosen)} stale: {fault['name']}: it no longer compiles", flush=True)
            continue
        tried += 1
        missed += bool(problem)
        print(f"{i + 1}/{len(chosen)} {'MISSED' if problem else 'found '} {fault['name']} ({time.monotonic() - began:.0f} s){': ' + problem if problem else ''}", flush=True)
    if tree.here and tried + skipped:
        tree.make(targets)  # what is left behind is built from the tree as it is
    print(f"{tried - missed} of {tried} faults found" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(missed > 0)


main()
