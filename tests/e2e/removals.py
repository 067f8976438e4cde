"""A kill while a run removes what it needs no longer, an old checkpoint or a state that has become files of another program: the same command goes on, whatever was gone."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import check

TRACER = Path(__file__).with_name("killed_at.py")


def words(folder, output, layout, steps=6):
    return ["train", *r.options(folder, folder / output, train__steps=steps, schedule__steps=6, checkpoint__every=2, checkpoint__keep=1, checkpoint__layout=layout)]


def killed(pattern, count, *arguments):
    """Returns what was being removed."""
    done = subprocess.run([sys.executable, "-B", TRACER, pattern, str(count), *r.command(*arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    if done.returncode == 77:
        raise r.Skipped("this system does not let processes be traced")
    check(done.returncode == 137, f"{pattern} {count}: not killed, {done.returncode}: {done.stdout}{done.stderr[-500:]}")
    return done.stdout


def losses(folder):
    return [row["loss"] for row in r.metrics(folder).values()]


def removals(folder, layout):
    """Of a run that nobody kills; returns the paths that it removes."""
    done = subprocess.run([sys.executable, "-B", TRACER, ".", "0", *r.command(*words(folder, f"{layout}-whole", layout))], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    if done.returncode == 77:
        raise r.Skipped("this system does not let processes be traced")
    check(done.returncode == 0, done.stderr)
    return done.stdout.splitlines()


OLD = {"ravine": r"/checkpoints/step_000002([./]|$)", "trainer": r"/checkpoint-2(/|$|.*(?<!plan|lock)$)", "deepspeed": r"/checkpoint-2(/|$|.*(?<!plan|lock)$)", "megatron": r"/iter_0000002(/|$|.*(?<!plan|lock)$)",
       "mindformers": r"/rank_0/.*_2\."}


def test_an_old_checkpoint_is_being_removed(folder):
    for layout, pattern in r.rows(OLD.items(), 2, "one way of removal"):
        count = sum(1 for path in removals(folder, layout) if re.search(pattern, path))
        check(count > 0, f"{layout}: nothing is removed")
        for at in sorted({max(count // 2, 1), count}):  # something has gone, and all but the folder
            out = f"{layout}-{at}"
            said = killed(pattern, at, *words(folder, out, layout))
            log = r.run(*words(folder, out, layout)).stderr
            check(losses(folder / out) == losses(folder / f"{layout}-whole") and "after step 4" in log, f"{layout} {at}: {said}{log}")


def test_ranks_keep_a_whole_checkpoint(folder):
    """MindFormers' files of ranks: no rank's older one goes before all have the new one."""
    if not shutil.which("mpirun"):
        raise r.Skipped("no mpirun")
    launch = ["mpirun", "--oversubscribe", "-n", "2", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    line = [*words(folder, "out", "mindformers", steps=4), "train.micro_batch=1"]
    done = subprocess.run([*launch, sys.executable, "-B", TRACER, OLD["mindformers"], "1", *r.command(*line)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    if done.returncode == 77:
        raise r.Skipped("this system does not let processes be traced")
    there = sorted(p.name for p in folder.glob("out/checkpoint/rank_*/*_4.safetensors"))
    check(done.returncode != 0 and len(there) == 2, f"{done.returncode} {there}: {done.stdout}{done.stderr[-500:]}")


HIDDEN = ("trainer", "deepspeed", "megatron", "mindformers")


def test_a_state_that_was_published_is_being_removed(folder):
    for layout in r.rows(HIDDEN, 2, "one way of removal"):
        r.run(*words(folder, f"{layout}-whole", layout))
        for pattern, count in ((r"/\.saving/step_000006[./]", 1), (r"/\.saving/step_000006[./]", 2), (r"/\.saving(\.[^/]*)?/latest$", 1)):
            out = f"{layout}-{count}-{'latest' in pattern}"
            said = killed(pattern, count, *words(folder, out, layout))
            log = r.run(*words(folder, out, layout)).stderr
            check(losses(folder / out) == losses(folder / f"{layout}-whole"), f"{layout} {count}: {said}{log}")
            again = r.run(*words(folder, out, layout, steps=7)).stderr
            check("after step 6" in again and not [p.name for p in (folder / out).iterdir() if p.name.startswith(".saving")], f"{layout} {count}: {again}{list((folder / out).iterdir())}")


def test_a_damaged_state_beside_a_published_one(folder):
    """It is a warning, and the run goes on from what was published; where nothing was, it is an error as before."""
    out = folder / "out"
    r.run(*words(folder, "whole", "trainer"))
    r.run(*words(folder, "out", "trainer", steps=4))
    for name, text in (("manifest.json", "{"), ("state-00000.safetensors", "")):
        hidden = out / ".saving/step_000004"
        hidden.mkdir(parents=True)
        (hidden / name).write_text(text)
        log = r.run(*words(folder, "out", "trainer", steps=6 if name.startswith("state") else 5)).stderr
        check("warning: " in log and str(hidden) in log and f"the run goes on from {out}/checkpoint-" in log and not (out / ".saving").exists(), log)
    check(losses(out) == losses(folder / "whole"), f"{losses(out)}")
    hidden = folder / "none/.saving/step_000002"
    shutil.copytree(out, folder / "none", ignore=shutil.ignore_patterns("checkpoint-*", "model"))
    hidden.mkdir(parents=True)
    (hidden / "manifest.json").write_text("{")
    said = r.run(*words(folder, "none", "trainer"), status=1).stderr
    check("no checkpoint can be used" in said and str(hidden.parent) in said, said)


if __name__ == "__main__":
    r.main(globals())
