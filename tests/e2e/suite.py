"""What the tests are run and judged by: a skipped test is said to be one, a planted fault that no test finds is, and so is a test that fails without any."""
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import Skipped, check, main, this_change

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """import sys
sys.path.insert(0, {tests!r})
import ravine_run as r
def test_a(folder): pass
def test_b(folder): r.shared("golden")
def test_c(folder): r.check(False, "it is broken")
r.main(dict(test_a=test_a, test_b=test_b, test_c=test_c))
"""


def python(*arguments, **more):
    return subprocess.run([sys.executable, "-B", *map(str, arguments)], capture_output=True, text=True, **more)


def test_functions(folder):
    """0 passed, 77 all skipped, 1 failed."""
    (folder / "t.py").write_text(SCRIPT.format(tests=str(ROOT / "tests" / "e2e")))
    environment = {"PATH": "/usr/bin:/bin"}
    for names, status, words in (([], 1, ["passed  test_a", "SKIPPED: test_b: RAVINE_SHARED", "FAILED  test_c"]), (["test_a", "test_b"], 0, ["SKIPPED: test_b"]),
                                 (["test_b"], 77, ["SKIPPED: test_b"]), (["test_c"], 1, ["it is broken"])):
        done = python(folder / "t.py", "none", *names, env=environment)
        check(done.returncode == status and all(w in done.stdout for w in words), f"{names}: {done.returncode}\n{done.stdout}{done.stderr}")


KILLED = """import sys, time
sys.path.insert(0, {tests!r})
import ravine_run as r
def test_a(folder):
    (folder / "large").write_text("")
    print("begun", flush=True)
    r.run("curves", "--help")
    time.sleep(600)
r.main(dict(test_a=test_a))
"""


def test_a_script_that_is_ended_leaves_nothing(folder):
    (folder / "t.py").write_text(KILLED.format(tests=str(ROOT / "tests" / "e2e")))
    (folder / "tmp").mkdir()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        heard = functools.partial(signal.signal, number, signal.SIG_DFL)  # these tests may run where it is ignored
        job = subprocess.Popen([sys.executable, "-B", folder / "t.py", r.PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin", "TMPDIR": str(folder / "tmp")}, preexec_fn=heard)
        check(job.stdout.readline() == "begun\n" and list((folder / "tmp").glob("ravine-e2e-*/test_a/large")), "it did not begin")
        job.send_signal(number)
        job.communicate(timeout=60)
        check(job.returncode not in (0, 77) and not list((folder / "tmp").iterdir()), f"{number}: {job.returncode}, {list((folder / 'tmp').iterdir())} is left")


LOG = """Start testing: now
----------------------------------------------------------
1/4 Testing: unit_a
1/4 Test: unit_a
Output:
----------------------------------------------------------
[ RUN      ] A.Runs
[       OK ] A.Runs (0 ms)
[ RUN      ] A.Needs
/x/a.cpp:137: Skipped
RAVINE_SHARED names no folder

[  SKIPPED ] A.Needs (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.Needs
<end of output>
----------------------------------------------------------
Test Passed.
2/4 Testing: e2e_b
2/4 Test: e2e_b
Output:
----------------------------------------------------------
passed  test_x  1.0 s
SKIPPED: test_parquet: built without Apache Arrow
<end of output>
Test Passed.
4/4 Testing: dist_comm
Output:
----------------------------------------------------------
SKIPPED: no MPI
<end of output>
Test Pass Reason:
Skip regular expression found in output.
3/4 Testing: unit_c
Output:
----------------------------------------------------------
<end of output>
Test {last}
"""


def test_words_that_scripts_do_not_know(folder):
    """A word that is no room, script, file, option or preset is refused, with those that there are, before anything is installed or built."""
    for script, words, named in [("check", ["nonsense"], "no room and no script is named 'nonsense'"), ("check", ["probe", "nonsense"], "has no file 'nonsense'"),
                                 ("check", ["--ful", "probe"], "no option '--ful'"), ("check", ["probe", "probe_dump", "more"], "one room at a time"), ("check", [], "ROOM"),
                                 ("test", ["--fulll"], "--sanitize"), ("build", ["relase"], "no preset 'relase'"), ("build", ["--parqet"], "no option '--parqet'")]:
        done = subprocess.run([ROOT / "scripts" / script, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        check(done.returncode == 2 and named in done.stdout + done.stderr, f"scripts/{script} {words}: {done.returncode} {done.stdout[-300:]} {done.stderr[-300:]}")
        check("Building" not in done.stdout, done.stdout[-300:])


def test_skipped_tests_are_named(folder):
    tool = ROOT / "tools" / "skipped_tests.py"
    want = ["SKIPPED: unit_a A.Needs: RAVINE_SHARED names no folder", "SKIPPED: e2e_b test_parquet: built without Apache Arrow", "SKIPPED: dist_comm: no MPI"]
    for last, summary, status in (("Passed.", "100% tests passed, 0 tests failed out of 4", 0), ("Failed.", "75% tests passed, 1 tests failed out of 4", 1)):
        (folder / "LastTest.log").write_text(LOG.format(last=last))
        done = python(tool, folder / "LastTest.log")
        check(done.stdout.splitlines() == [*want, summary] and done.returncode == status, done.stdout + done.stderr)
        check(python(tool, folder / "LastTest.log", "--summary").stdout.splitlines() == [summary], "--summary")


PRESETS = {"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}], "buildPresets": [{"name": "release", "configurePreset": "release"}]}
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(toy CXX)
add_executable(right src/right.cpp)
add_executable(blind src/blind.cpp)
add_executable(broken src/broken.cpp)
add_executable(absent src/absent.cpp)
"""


def test_every_planted_fault_fits_the_code(folder):
    """Each has a name of its own and names a test that is there. One that no longer fits the code is reported; it fails the full tier alone, since a change
    that moved the code is not to blame."""
    wrong, stale, names = [], [], set()
    for file in sorted((ROOT / "tools" / "planted_faults").glob("*.json")):
        for fault in json.loads(file.read_text()):
            source, where = ROOT / fault["file"], f"{file.name}: {fault['name']}"
            found = source.read_text().count(fault["old"]) if source.is_file() else -1
            if fault["old"] == fault["new"]:
                wrong.append(f"{where}: it changes nothing")
            if found != 1:
                stale.append(f"{where}: {fault['file']} has it {found} times")
            if (key := (file.name, fault["name"])) in names:
                wrong.append(f"{where} is there twice")
            names.add(key)
            for word in fault["test"].split():
                if word.endswith(".py") and not (ROOT / word).is_file():
                    wrong.append(f"{where}: {word} is not there")
    print("".join(f"    stale: {line}\n" for line in stale), end="", flush=True)
    wrong += stale if r.FULL else []
    check(len(names) > 400 and not wrong, "\n".join(wrong))


def test_planted_faults(folder):
    """A toy tree: one fault that its test finds, one that it does not, one whose test fails anyway, one whose test is skipped, one that fits no more."""
    for tool in ("cmake", "ninja", "git"):
        if not shutil.which(tool):
            raise Skipped(f"no {tool}")
    tree = folder / "toy"
    (tree / "src").mkdir(parents=True)
    (tree / "tools" / "planted_faults").mkdir(parents=True)
    for name in ("planted_faults.py", "this_change.py"):
        shutil.copy(ROOT / "tools" / name, tree / "tools")
    (tree / "CMakePresets.json").write_text(json.dumps(PRESETS))
    (tree / "CMakeLists.txt").write_text(CMAKE)
    (tree / ".gitignore").write_text("build/\n")
    for name, status in (("right", "2 + 2 != 4"), ("blind", "0 * 2"), ("broken", "2 + 1"), ("absent", "75 + 2")):
        (tree / "src" / f"{name}.cpp").write_text(f"int main() {{ return {status}; }}\n")
    rows = [{"name": "a right one", "file": "src/right.cpp", "old": "2 + 2", "new": "2 + 3", "test": "BUILD/right"},
            {"name": "a blind one", "file": "src/blind.cpp", "old": "0 * 2", "new": "0 * 3", "test": "BUILD/blind"},
            {"name": "a broken one", "file": "src/broken.cpp", "old": "2 + 1", "new": "2 + 2", "test": "BUILD/broken"},
            {"name": "an absent one", "file": "src/absent.cpp", "old": "75 + 2", "new": "1", "test": "BUILD/absent"},
            {"name": "an old one", "file": "src/right.cpp", "old": "gone", "new": "x", "test": "BUILD/right"}]
    (tree / "tools" / "planted_faults" / "toy.json").write_text(json.dumps(rows))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "toy"]):
        subprocess.run([*git, *command], cwd=tree, check=True, capture_output=True)
    sources = {p: p.read_text() for p in (tree / "src").iterdir()}
    for more in ([], ["--here"]) if r.FULL else (["--here"],):  # short: what follows is of the tree itself
        done = python(tree / "tools" / "planted_faults.py", *more)
        said = {line.split(" ", 1)[1].split(" (")[0].split(":")[0]: line for line in done.stdout.splitlines() if "/5 " in line}
        want = {"found  a right one": "", "MISSED a blind one": "the test passed", "MISSED a broken one": "fails without a fault", "SKIPPED an absent one": "skipped here",
                "MISSED an old one": "'gone' is 0 times"}
        check(said.keys() == want.keys() and all(w in said[k] for k, w in want.items()), f"{more}: {done.stdout}{done.stderr}")
        check(done.returncode == 1 and done.stdout.splitlines()[-1] == "1 of 4 faults found, 1 skipped", done.stdout)
        check({p: p.read_text() for p in (tree / "src").iterdir()} == sources, "the tree is not as it was")
    # In the tree itself: the last build is of the sources as they are; a file that somebody changes is left alone; what a killed run left is put back.
    check(subprocess.run([tree / "build" / "release" / "right"]).returncode == 0, "the fault is still built in")
    (tree / "src" / "right.cpp").write_text("int main() { return 2 + 2 != 4; }  // mine\n")
    done = python(tree / "tools" / "planted_faults.py", "--here", "a right")
    check("SKIPPED a right one: src/right.cpp has changes that are not committed" in done.stdout and done.returncode == 0, done.stdout)
    (tree / "build" / "planted.json").write_text(json.dumps({"file": "src/right.cpp", "text": sources[tree / "src" / "right.cpp"]}))
    (tree / "src" / "right.cpp").write_text("int main() { return 2 + 3 != 4; }\n")
    done = python(tree / "tools" / "planted_faults.py", "--here", "a right", "--sample", 3, "--seconds", 60)
    check("found  a right one" in done.stdout and done.returncode == 0, done.stdout)
    check((tree / "src" / "right.cpp").read_text() == sources[tree / "src" / "right.cpp"], "what a killed run left is still there")
    done = python(tree / "tools" / "planted_faults.py", "--here", "a right", "an old", "--sample", 3)
    check("stale: an old one" in done.stdout and done.stdout.splitlines()[-1] == "1 of 1 faults found" and done.returncode == 0, done.stdout)


DATES = """import sys
sys.path.insert(0, {tests!r})
import ravine_run as r
r.FOLDER = {folder!r}
for short in (1 / 4, 5):
    print(r.rows([(f"row {{i}}", {folder!r} + f"/{{i}}", len) for i in range(40 + {more})], short, "as drawn"))
"""


def test_rows_are_the_same_on_any_day(folder):
    """Also in another folder, and with more rows: one that was not drawn is drawn by no other row."""
    if not shutil.which("faketime"):
        raise Skipped("no faketime")

    def drawn(date, where, more=0):
        (folder / "d.py").write_text(DATES.format(tests=str(ROOT / "tests" / "e2e"), folder=where, more=more))
        done = subprocess.run(["faketime", f"{date} 12:00:00", sys.executable, "-B", folder / "d.py"], capture_output=True, text=True, env={k: v for k, v in os.environ.items() if k != "RAVINE_FULL"})
        check(done.returncode == 0, done.stderr)
        return [set(re.findall(r"row (\d+)", line)) for line in done.stdout.splitlines() if line.startswith("[")]

    share, few = drawn("2026-11-28", "/a")
    check(len(few) == 5 and 3 <= len(share) <= 20, f"{share} {few}")
    for date, where in (("2026-11-29", "/a"), ("2031-02-03", "/b/c")):
        check(drawn(date, where) == [share, few], f"other rows on {date} in {where}")
    wider, still = drawn("2026-11-28", "/a", 20)
    check(share <= wider and all(int(x) >= 40 for x in (wider - share) | (still - few)), f"{share} {wider}; {few} {still}")


def test_a_change_runs_the_rows_that_it_touches(folder):
    texts = ["rope_theta 3", "optimizer.epsilon x", "optimizer.epsilon y", "common_word a", "common_word b", "common_word c"]
    kept = this_change.words
    this_change.words = lambda: {"optimizer.epsilon", "common_word"}
    try:
        check(r.touched(texts) == {1, 2}, "rows with a word of the change that few others have")
    finally:
        this_change.words = kept


if __name__ == "__main__":
    main(dict(globals()))
