"""A run that is started again: complete runs say so and write nothing, changed options are named, those that must not change are refused by name."""
import os
from pathlib import Path

import ravine_run as r


def options(folder, **more):
    values = {"model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 64, 17)], "data.sequence_length": 17,
              "train.steps": 4, "train.global_batch": 4, "train.micro_batch": 2, "optimizer.lr": 1e-2, "schedule.warmup_steps": 1, "schedule.steps": 8,
              "checkpoint.every": 2, "log.tensorboard": False}
    return {**values, **{key.replace("__", "."): value for key, value in more.items()}}


def train(folder, status=0, name="run", **more):
    return r.run("train", *r.settings({**options(folder, **more), "train.output": folder / name}), status=status).stderr


def files(output):
    """Bytes and time of change of everything but what every start appends to."""
    return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in Path(output).rglob("*") if p.is_file() and p.name not in ("log.txt", ".lock")}


def test_a_complete_run_says_so(folder):
    train(folder)
    before = files(folder / "run")
    log = train(folder)
    r.check("complete: 4 of 4 steps" in log and "nothing is left to do" in log and "saved    " not in log, log)
    r.check(files(folder / "run") == before, "something was written again")
    log = train(folder, train__steps=3)
    r.check("complete: 4 steps, train.steps is 3" in log, log)
    r.check(files(folder / "run") == before, "something was written again")
    # What is missing comes again; a longer run goes on.
    for file in sorted((folder / "run" / "model").iterdir()):
        file.unlink()
    log = train(folder)
    r.check("complete: 4 of 4 steps" in log and "after step 4" in log and (folder / "run" / "model" / "config.json").exists(), log)
    r.check(r.weights(folder / "run") == before[folder / "run" / "model" / "model.safetensors"][1], "another model")
    log = train(folder, train__steps=6)
    r.check("changed  train.steps: 6, was 4" in log and "complete: " not in log and sorted(r.metrics(folder / "run")) == [1, 2, 3, 4, 5, 6], log)
    train(folder, name="whole", train__steps=6)
    r.check(r.same_run(folder / "whole", folder / "run") == "", r.same_run(folder / "whole", folder / "run"))


def test_passes_over_the_data_are_counted_in_steps(folder):
    """64 sequences in steps of 4: a quarter of a pass are 4 steps. From there on it is a run of so many steps."""
    given = {**options(folder), "train.output": folder / "counted"}
    del given["train.steps"], given["schedule.steps"], given["schedule.warmup_steps"]
    by_epochs = {**given, "schedule.warmup_ratio": 0.25, "train.output": folder / "run"}
    log = r.run("train", *r.settings({**by_epochs, "train.epochs": 0.25})).stderr
    r.run("train", *r.settings({**given, "train.steps": 4, "schedule.warmup_steps": 1}))
    r.check("run      4 steps" in log and r.same_run(folder / "counted", folder / "run") == "", log)
    config = (folder / "run" / "config.yaml").read_text()
    r.check("steps: 4" in config and "epochs: 0" in config and "warmup_steps: 1" in config, config)
    log = r.run("train", *r.settings({**by_epochs, "train.epochs": 0.25})).stderr
    r.check("complete: 4 of 4 steps" in log, log)
    refused = r.run("train", *r.settings({**by_epochs, "train.epochs": 0.5}), status=2).stderr
    r.check("schedule.warmup_steps is 2, was 1" in refused and "schedule.warmup_steps=1 (in place of schedule.warmup_ratio)" in refused and "(default)" not in refused, refused)
    del by_epochs["schedule.warmup_ratio"]
    log = r.run("train", *r.settings({**by_epochs, "schedule.warmup_steps": 1, "train.epochs": 0.5})).stderr
    r.check("changed  train.steps: 8, was 4" in log and sorted(r.metrics(folder / "run")) == list(range(1, 9)), log)
    refused = r.run("train", *r.settings({**by_epochs, "train.epochs": 1, "train.steps": 5}), status=2).stderr
    r.check("each says how long the run is" in refused, refused)
    shown = r.run("data", "show", "--config", folder / "run" / "config.yaml", "train.output=" + str(folder / "none"))
    r.check("train.steps=8" in shown.stderr, shown.stderr)


def test_a_model_of_fewer_steps_is_not_taken_for_complete(folder):
    """Killed after its last checkpoint and before the model: the model of the shorter run is replaced."""
    train(folder)
    train(folder, name="whole", train__steps=6)
    short = {p.name: p.read_bytes() for p in (folder / "run" / "model").iterdir()}
    mark = (folder / "run" / "exported").read_bytes()
    train(folder, train__steps=6)
    for name, data in short.items():
        (folder / "run" / "model" / name).write_bytes(data)
    (folder / "run" / "exported").write_bytes(mark)
    train(folder, train__steps=6)
    r.check(r.same_run(folder / "whole", folder / "run") == "", "the model of step 4 stayed")


FIXED = {"optimizer.lr": 2e-2, "optimizer.type": "sgd", "optimizer.weight_decay": 0.2, "optimizer.clip_norm": 2.0, "train.seed": 7,
         "train.dropout": 0.1, "train.freeze": ["model.embed*"], "schedule.type": "linear", "schedule.warmup_steps": 2, "precision.compute": "bf16", "data.shuffle": False}
ADAM = {"optimizer.betas": [0.9, 0.99], "optimizer.eps": 1e-7}  # not of sgd


def test_fixed_options_are_refused_by_name(folder):
    train(folder, train__steps=2)
    before = files(folder / "run")
    for key, value in {**FIXED, **ADAM}.items():
        log = train(folder, status=2, **{key.replace(".", "__"): value})
        error = log.splitlines()[-1]
        r.check(error.startswith("error: ") and f"{key} is " in error and ", was " in error and "step_000002" in error and "train.output" in error, f"{key}: {log}")
        r.check(("checkpoint.other_data=true" in error) == key.startswith("data."), f"{key}: {error}")
    error = train(folder, status=2, optimizer__lr=2e-2, train__seed=7).splitlines()[-1]
    r.check("train.seed is 7, was 42; optimizer.lr is 0.02, was 0.01 (command line)" in error and "set train.seed=42 optimizer.lr=0.01" in error, error)
    # Complete or not, and from a folder given by name.
    error = train(folder, status=2, train__steps=2, optimizer__lr=2e-2).splitlines()[-1]
    r.check("optimizer.lr is 0.02, was 0.01" in error, error)
    error = train(folder, status=2, name="other", checkpoint__resume=folder / "run" / "checkpoints" / "step_000002", optimizer__lr=2e-2).splitlines()[-1]
    r.check("optimizer.lr is 0.02, was 0.01" in error and not (folder / "other" / "checkpoints").exists(), error)
    # Another model is named by its field.
    for field, value, had in (("num_hidden_layers", 3, 2), ("intermediate_size", 96, 64), ("rms_norm_eps", 1e-6, 1e-05)):
        error = train(folder, status=2, model__config=r.save_config(folder / f"{field}.json", **{field: value})).splitlines()[-1]
        r.check(f"{field} is {value}, was {had} ({folder / f'{field}.json'})" in error.replace("1e-06", "1e-06") and "missing tensor" not in error, error)
    r.check(files(folder / "run") == before, "a refused start wrote something")
    log = train(folder, data__shuffle=False, checkpoint__other_data=True)
    r.check("changed  data.shuffle: false, was true" in log and "after step 2" in log, log)


def test_other_data_lets_data_change_and_nothing_else(folder):
    """checkpoint.other_data=true is about the data section: what is fixed elsewhere stays fixed, named without the options of data."""
    train(folder, train__steps=2)
    before = files(folder / "run")
    others = {key.replace(".", "__"): value for key, value in FIXED.items()}
    error = train(folder, status=2, checkpoint__other_data=True, **others).splitlines()[-1]
    for key in FIXED:
        r.check((f"{key} is " in error) == (not key.startswith("data.")), f"{key}: {error}")
    error = train(folder, status=2, checkpoint__other_data=True, data__shuffle=False, optimizer__lr=2e-2).splitlines()[-1]
    r.check("optimizer.lr is 0.02, was 0.01" in error and "data.shuffle" not in error and "checkpoint.other_data" not in error, error)
    r.check(files(folder / "run") == before, "a refused start wrote something")


LINEAR = {"rope_type": "linear", "factor": 2.0}


def test_what_a_config_leaves_out_counts(folder):
    """Objects and fields that only one of two configs has make another model, where they say other than what the family takes anyway (the table of all kinds:
    tests/unit/runs/run_record.cpp)."""
    train(folder, train__steps=2, model__config=r.save_config(folder / "linear.json", rope_scaling=LINEAR))
    for number, (other, error) in enumerate((({"rope_scaling": {**LINEAR, "factor": 4.0}}, 'rope_scaling is {"rope_type":"linear","factor":4.0}, was {"rope_type":"linear","factor":2.0}'),
                                             ({}, 'rope_scaling is not given, was {"rope_type":"linear","factor":2.0}'),
                                             ({"rope_scaling": LINEAR, "rope_theta": 5e5}, "rope_theta is 500000.0, was not given"))):
        log = train(folder, status=2, model__config=r.save_config(folder / f"{number}.json", **other))
        r.check(f"error: {error} ({folder / f'{number}.json'}): step_000002 resumes with the model" in log, log)
    log = train(folder, model__config=r.save_config(folder / "same.json", rope_parameters={**LINEAR, "rope_theta": 10000.0}, attention_bias=False))
    r.check("after step 2" in log and max(r.metrics(folder / "run")) == 4, log)


def test_what_may_change_is_named(folder):
    train(folder, train__steps=2)
    changes = {"train.steps": 4, "train.global_batch": 8, "train.micro_batch": 1, "train.recompute": "full", "train.threads": 1, "log.every": 2, "checkpoint.every": 1, "checkpoint.keep": 1,
               "parallel.patience": 30.0, "schedule.steps": 9}
    log = train(folder, **{key.replace(".", "__"): value for key, value in changes.items()})
    for key, value in changes.items():
        r.check(f"changed  {key}: {value}, was " in log, f"{key} is not named:\n{log}")
    r.check(log.count("changed  ") == len(changes) and log.count("not bit for bit") == 1 and "after step 2" in log, log)
    r.check("changed" not in train(folder, name="still"), "a new run names changes")
    moved = options(folder)["model.config"]
    os.rename(moved, folder / "moved.json")
    log = r.run("train", *r.settings({**options(folder, train__steps=5), "model.config": folder / "moved.json", "train.output": folder / "still"})).stderr
    r.check("changed  model.config: " in log and "after step 4" in log, log)


def test_checkpoints_without_options_go_on(folder):
    """As converted ones, and those of older programs."""
    train(folder, train__steps=2)
    for name, more, words in (("on", {}, None), ("lr", {"optimizer__lr": 2e-2}, None), ("sgd", {"optimizer__type": "sgd"}, "optimizer.type is sgd, was adamw")):
        r.run("convert", "--input", folder / "run" / "checkpoints" / "step_000002", "--output", folder / name, "--to", "ravine", "--optimizer", "--model-config", folder / "config.json")
        log = train(folder, name=name, status=2 if words else 0, **more)
        r.check(words in log if words else "after step 2" in log and "changed" not in log, log)


if __name__ == "__main__":
    r.main(globals())
