"""What a run leaves when it ends, is stopped, or loses its folder, and what the next start makes of that: exports that are not whole, checkpoints that are damaged or of a
branch that was left, saves that failed, folders of ours that are no run's, curves of a run before."""
import json
import re
import shutil
import time
from pathlib import Path

import ravine_run as r
from ravine_run import check

def options(folder, output, **more):
    return r.options(folder, output, **{"train__steps": 4, **more})


def train(folder, output, status=0, **more):
    return r.run("train", *options(folder, output, **more), status=status).stderr


def last(log):
    return log.splitlines()[-1]


def flip(path, at=5000):
    data = bytearray(Path(path).read_bytes())
    data[at] ^= 1
    Path(path).write_bytes(data)


def wait_for(process, condition, text):
    end = time.monotonic() + r.LIMIT
    while not condition():
        check(process.poll() is None and time.monotonic() < end, text)
        time.sleep(0.01)


def steps_of(output):
    return [int(name[5:]) for name in r.checkpoints(output)]


def test_an_export_that_is_not_whole_is_made_again(folder):
    run, model = folder / "run", folder / "run" / "model"
    train(folder, run)
    weights = model / "model.safetensors"
    before, size = weights.read_bytes(), weights.stat().st_size
    check("nothing is left to do" in train(folder, run), "a whole one is not left alone")
    for lost in (weights, model / "generation_config.json", model):
        shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
        log = train(folder, run)
        check("nothing is left to do" not in log and "exported again" in log and lost.name in log, f"without {lost.name}: {log}")
        check(weights.read_bytes() == before, "another model")
        check("nothing is left to do" in train(folder, run), "it is not known to be whole again")
    # Other bytes may be somebody's work: they are not replaced, and the advice works. A model above 1 MiB is read whole too.
    wide = r.save_config(folder / "wide.json", hidden_size=128, intermediate_size=512)
    large = folder / "large"
    for output, more in ((run, {}), (large, {"model__config": wide})):
        train(folder, output, **more)
        weights = output / "model" / "model.safetensors"
        kept = weights.read_bytes()
        check(output == run or len(kept) > 1 << 20, "the model says nothing")
        flip(weights, len(kept) - 10)
        log = train(folder, output, status=2, **more)
        check(str(weights) in last(log) and "move it away" in last(log), log)
        weights.rename(folder / "moved")
        log = train(folder, output, **more)
        check("exported again" in log and weights.read_bytes() == kept, log)


def test_keep_counts_what_is_sound_and_of_this_line(folder):
    run, checkpoints = folder / "run", folder / "run" / "checkpoints"
    more = {"train__steps": 6, "checkpoint__every": 2}
    train(folder, run, **more)
    check(steps_of(run) == [2, 4, 6], str(steps_of(run)))
    flip(checkpoints / "step_000006" / "state-00000.safetensors")
    flip(checkpoints / "step_000004" / "state-00000.safetensors")
    shutil.copytree(run, folder / "damaged")
    # From 2 on to 5: the damaged 4 does not count, so that 2 stays.
    log = train(folder, run, train__steps=6, checkpoint__every=0)
    check("after step 2" in log, log)
    log = train(folder, run, train__steps=5, checkpoint__every=5, checkpoint__keep=2, checkpoint__resume=checkpoints / "step_000002")
    check(steps_of(run) == [2, 4, 5, 6], f"a sound one went, and damaged ones stayed: {steps_of(run)}")
    check(sum("does not count for checkpoint.keep" in line and "step_000004" in line for line in log.splitlines()) == 1, log)
    # What is older than the ones that are kept goes, damaged or not.
    train(folder, run, train__steps=8, checkpoint__every=1, checkpoint__keep=2)
    check(steps_of(run) == [7, 8], str(steps_of(run)))
    # Of a branch that was left nothing counts, nor is it taken for the line after another start.
    branch = folder / "branch"
    train(folder, branch, train__steps=5, checkpoint__every=1)
    check(steps_of(branch) == [1, 2, 3, 4, 5], str(steps_of(branch)))
    train(folder, branch, train__steps=6, checkpoint__every=6, checkpoint__keep=2, checkpoint__resume=branch / "checkpoints" / "step_000002")
    check(steps_of(branch) == [2, 3, 4, 5, 6], f"3 to 5 are of the branch that was left: {steps_of(branch)}")
    train(folder, branch, train__steps=7, checkpoint__every=7, checkpoint__keep=3)
    check(steps_of(branch) == [2, 3, 4, 5, 6, 7], f"after another start: {steps_of(branch)}")
    train(folder, branch, train__steps=9, checkpoint__every=1, checkpoint__keep=3)
    check(steps_of(branch) == [7, 8, 9], str(steps_of(branch)))


def test_a_save_that_failed_is_tried_again(folder):
    """A file of somebody in the folder of a checkpoint keeps it from being replaced."""
    run = folder / "run"
    dear = run / "checkpoints" / "step_000004" / "notes.txt"
    dear.parent.mkdir(parents=True)
    dear.write_text("dear")
    (run / ".ravine").write_text(json.dumps({"format": "ravine-folder", "version": 1, "run": "x", "files": {}}))
    (run / "checkpoints" / "step_000004" / "manifest.json").write_text("{}")
    begin = {"checkpoint__resume": "auto", "checkpoint__every": 2}
    dear.parent.rename(folder / "blocked")
    train(folder, run, train__steps=2, schedule__steps=8, **begin)
    (folder / "blocked").rename(dear.parent)
    (run / "checkpoints" / "latest").write_text("step_000002\n")
    log = train(folder, run, schedule__steps=8, **begin)
    failed = [line for line in log.splitlines() if line.startswith("warning: checkpoint step_000004 was not saved")]
    check(len(failed) == 2, f"not tried again at the end: {log}")
    check("no checkpoint of step 4 could be saved" in log and "step_000002" in log and dear.read_text() == "dear", log)
    # In the middle it is said when the next one comes, and that one is.
    shutil.rmtree(run / "checkpoints" / "step_000002")
    train(folder, folder / "long", train__steps=2, schedule__steps=8, **begin)
    shutil.copytree(dear.parent, folder / "long" / "checkpoints" / "step_000004")
    (folder / "long" / "checkpoints" / "latest").write_text("step_000002\n")
    log = train(folder, folder / "long", train__steps=400, schedule__steps=8, checkpoint__resume="auto", checkpoint__every=4)
    failed = [line for line in log.splitlines() if line.startswith("warning: checkpoint step_000004 was not saved")]
    check(len(failed) == 1 and "saved    step_000008" in log and "could be saved" not in log, log)
    following = re.search(r"the next is tried after step (\d+), or when the run stops", failed[0])
    check(following and int(following[1]) > 4 and int(following[1]) % 4 == 0, failed[0])


def test_validation_after_a_skipped_step_is_kept(folder):
    run = folder / "run"
    valid = r.save_ids(folder / "valid.safetensors", 4, 16, seed=3)
    log = train(folder, run, data__valid=[valid], train__valid_every=2, data__skip_steps="[2]", log__tensorboard=True)
    rows = {row["step"]: row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())}
    check(rows[2]["skipped"] and rows[2]["valid_loss"] > 0, str(rows[2]))
    line = next(l for l in log.splitlines() if "step 2/4" in l)
    check(f"valid_loss {rows[2]['valid_loss']:.4f}" in line, line)
    tags = json.loads(r.run("info", run / "tensorboard", "--json").stdout)["tags"]
    check(tags["train/valid_loss"]["points"] == 2 and tags["train/loss"]["points"] == 3, str(tags))


def stop(folder, output, steps=1, **more):
    """A long run, stopped after some steps; its last line and the step."""
    process = r.start("train", *options(folder, output, train__steps=1000000, schedule__steps=1000000, checkpoint__every=0, **more))
    metrics = output / "metrics.jsonl"
    wait_for(process, lambda: metrics.exists() and metrics.read_text().count("\n") >= steps, "it ended by itself")
    r.run("stop", output)
    log = process.communicate(timeout=r.LIMIT)[0]
    check(process.returncode == 130, log)
    return last(log), max(r.metrics(output))


def test_the_command_that_goes_on_is_named(folder):
    first = folder / "first"
    plain, done = stop(folder, first)
    check(plain.endswith("the same command goes on from there"), plain)
    start = first / "checkpoints" / f"step_{done:06}"
    for name, resume in (("none", "none"), ("from", start), ("first", start)):
        line, done = stop(folder, folder / name, steps=done + 1 if resume != "none" else 1, checkpoint__resume=resume)
        check("the same command with checkpoint.resume=auto goes on from there" in line, f"{name}: {line}")
        end = {"train__steps": done + 1, "schedule__steps": 1000000, "checkpoint__every": 0, "checkpoint__resume": resume}
        log = r.run("train", *options(folder, folder / name, **end), "checkpoint.resume=auto").stderr
        check(f"after step {done}" in log, log)


def test_a_run_accepts_only_the_folder_of_a_run(folder):
    run = folder / "run"
    train(folder, run)
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name not in (".lock", "log.txt")}
    for inside in ("model", "tensorboard", "checkpoints", "checkpoints/step_000004", "tokens", "config.edited-1.yaml", "model.new-1"):
        log = train(folder, run / inside, status=2)
        check("is inside another run" in last(log) and str(run) in last(log), f"{inside}: {log}")
    shutil.copytree(run / "model", folder / "moved")
    check("a model that a run has exported" in last(train(folder, folder / "moved", status=2)), "a model that was moved")
    mark = json.loads((folder / "moved" / ".ravine").read_text())
    mark.pop("kind")  # as older versions wrote it
    (folder / "moved" / ".ravine").write_text(json.dumps(mark))
    check("a model that a run has exported" in last(train(folder, folder / "moved", status=2)), "of an older version")
    (folder / "work").mkdir()
    (folder / "work" / ".ravine").write_text(json.dumps({**mark, "kind": "preprocess", "files": {}}))
    check("a folder of `ravine preprocess`" in last(train(folder, folder / "work", status=2)), "the work folder of another command")
    check(before == {p: p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name not in (".lock", "log.txt")}, "a refused start wrote something")
    # A run of a version that said no kind is gone on with.
    mark = json.loads((run / ".ravine").read_text())
    mark.pop("kind")
    (run / ".ravine").write_text(json.dumps(mark))
    check("after step 4" in train(folder, run, train__steps=5), "a mark without a kind")
    check(json.loads((run / ".ravine").read_text())["kind"] == "run", "the kind is not said")


def test_the_advice_for_damaged_checkpoints_works(folder):
    run = folder / "run"
    train(folder, run)
    for name in r.checkpoints(run):
        flip(run / "checkpoints" / name / "state-00000.safetensors")
    log = train(folder, run, status=2)
    check("all 4 are damaged" in last(log) and f"move {run}/checkpoints/step_* away" in last(log) and "checkpoint.resume=none" in last(log), log)
    (folder / "away").mkdir()
    for step in (run / "checkpoints").glob("step_*"):
        step.rename(folder / "away" / step.name)
    train(folder, run, checkpoint__resume="none")
    check(steps_of(run) == [1, 2, 3, 4], "it did not begin anew")
    for name in r.checkpoints(run):
        flip(run / "checkpoints" / name / "state-00000.safetensors")
    train(folder, folder / "other")  # the other advice


def test_a_folder_that_is_taken_from_its_run(folder):
    for name, take in (("removed", lambda at: shutil.rmtree(at)), ("renamed", lambda at: shutil.rmtree(at) if (folder / "elsewhere").exists() else at.rename(folder / "elsewhere"))):  # a save may make it once more
        for every in (0, 1):
            run = folder / f"{name}-{every}"
            process = r.start("train", *options(folder, run, train__steps=1000000, schedule__steps=1000000, checkpoint__every=every, log__tensorboard=True))
            wait_for(process, lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text().count("\n") >= 2, "it ended by itself")
            while run.exists():
                try:
                    take(run)
                except OSError:  # it writes there while it is being removed
                    pass
                time.sleep(0.02)
            log = process.communicate(timeout=r.LIMIT)[0]
            check(process.returncode == 1 and last(log).startswith("error: the folder of the run is gone") and str(run) in last(log), f"{name}: {process.returncode} {log}")
            check(not run.exists(), f"made again: {list(run.rglob('*')) if run.exists() else ''}")
            shutil.rmtree(folder / "elsewhere", ignore_errors=True)


def test_curves_of_a_run_before_are_taken_back(folder):
    run = folder / "run"
    more = {"log__tensorboard": True}
    train(folder, run, **more)
    shutil.rmtree(run / "checkpoints")
    train(folder, run, train__steps=2, checkpoint__resume="none", **more)
    tags = json.loads(r.run("info", run / "tensorboard", "--json").stdout)["tags"]
    check(tags["train/loss"]["points"] == 2 and tags["train/loss"]["last_step"] == 2, str(tags["train/loss"]))


def test_only_weights_count_as_weights(folder):
    train(folder, folder / "made", train__steps=1)
    base = folder / "base"
    shutil.copytree(folder / "made" / "model", base)
    (base / "training_args.bin").write_bytes(b"a" * 100)
    (base / "optimizer.bin").write_bytes(b"b" * 100)
    run, more = folder / "run", {"model__config": None, "model__path": base}
    train(folder, run, train__steps=2, **more)
    (base / "training_args.bin").write_bytes(b"c" * 200)
    (base / "optimizer.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    log = train(folder, run, train__steps=3, **more)
    check("after step 2" in log and "other weights" not in log, log)
    # Weights that were not fetched are named; a run that goes on does not need them.
    (base / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    log = train(folder, run, train__steps=4, **more)
    check("after step 3" in log and any("warning" in line and "model.safetensors" in line and "git lfs pull" in line for line in log.splitlines()), log)
    log = train(folder, folder / "new", status=2, **more)
    check("model.safetensors" in last(log) and "git lfs pull" in last(log), log)


def test_a_resume_that_is_stopped_at_once(folder):
    """Nothing was learned since the checkpoint, so nothing is lost and nothing is saved again."""
    run = folder / "run"
    train(folder, run, train__steps=2)
    for _ in range(5):  # a step may end before the signal comes
        before = steps_of(run)
        process = r.start("train", *options(folder, run, train__steps=1000))
        log = ""
        while "after step" not in log:
            line = process.stdout.readline()
            check(line, f"it ended: {log}")
            log += line
        process.terminate()
        log += process.communicate(timeout=r.LIMIT)[0]
        check(process.returncode == 130 and ", saved; " in log and "not saved" not in log, f"{process.returncode}: {log}")
        if f"stopped after step {before[-1]}, saved" in log:
            check(steps_of(run) == before, f"{before} became {steps_of(run)}")
            return
    raise r.Skipped("each time a step ended before the signal came")


def test_a_stop_that_comes_before_the_first_step(folder):
    """A request that an older run left is dropped when the folder is taken, and one that comes from then on counts."""
    run = folder / "run"
    run.mkdir()
    (run / ".ravine").write_text(json.dumps({"format": "ravine-folder", "version": 1, "kind": "run", "run": "x", "files": {}}))
    (run / "stop").write_text("stop\n")
    log = train(folder, run)
    check("step 4/4" in log and not (run / "stop").exists(), log)


if __name__ == "__main__":
    r.main(globals())
