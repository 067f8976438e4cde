"""What is said of runs: by `info` of whatever lies there, by `plan` before any work, by `convert` of a run whose model is gone, and of flags that other programs have."""
import json
import shutil
from pathlib import Path

import ravine_run as r
from ravine_run import check

CHAT = Path(__file__).resolve().parent.parent / "golden" / "chat"


def train(folder, output, status=0, **more):
    return r.run("train", *r.options(folder, output, **more), status=status).stderr


def info(path, cwd=None):
    return json.loads(r.run("info", path, "--json", cwd=cwd).stdout)


def commands(text):
    return [part.strip() for part in text.split(";")]


def test_info_of_all_that_belongs_to_a_run(folder):
    runs = folder / "runs"
    served, r.SERVED = r.SERVED, None  # started itself: it names the program that it is
    try:
        log = train(folder, runs / "a")
    finally:
        r.SERVED = served
    train(folder, runs / "b", train__steps=1, checkpoint__every=0)
    # Each line `next` and each command of to_use_it is one that works.
    following = next(line for line in log.splitlines() if line.startswith("next")).split(None, 1)[1].split()
    check(following[:2] == [r.PROGRAM, "info"], str(following))
    r.run(*following[1:])
    run = info(runs / "a")
    check(run["kind"] == "run" and run["latest"] == "step_000002" and run["final_model"], str(run))
    plot, goes_on, model = commands(run["to_use_it"])
    r.run(*plot.split()[1:])
    check("complete: 2 of 2" in r.run(*goes_on.split(" (")[0].split()[1:]).stderr, goes_on)
    r.run(*model.split()[1:])
    check(info(".", cwd=runs / "a")["kind"] == "run", "the run itself, as .")
    several = info(runs)
    check(several["kind"] == "folder of runs" and several["runs"] == {"a": "step 2, step_000002, model", "b": "step 1, model"}, str(several))
    for command in commands(several["to_use_it"]):
        r.run(*command.split()[1:])
    (folder / "empty").mkdir()
    shutil.copytree(runs, folder / "empty" / "runs")
    check(info(".", cwd=folder / "empty")["runs"].keys() == {"runs/a", "runs/b"}, "runs below a project")
    saved = info(runs / "a" / "checkpoints")
    check(saved["kind"] == "checkpoints of a run" and saved["checkpoints"] == ["step_000001", "step_000002"], str(saved))
    first, second = commands(saved["to_use_it"])[:2]
    r.run(*first.split()[1:])
    r.run(*second.replace("DIR", str(folder / "made")).split()[1:])
    check("a run of ravine" in info(runs / "a" / "model")["made_by"], "an exported folder")
    for place, kind in ((runs / "a", "run"), (runs / "a" / "model", "model")):
        mark = info(place / ".ravine")
        check(mark["kind"] == "mark of a folder" and mark["made_as"] == kind and str(place) in mark["to_use_it"], str(mark))
    (folder / ".ravine").write_text("{}")
    check("not a mark" in r.run("info", folder / ".ravine", status=2).stderr, "a damaged mark")
    check(info(runs / "a" / "checkpoints" / "latest")["checkpoint"].endswith("step_000002"), "latest")


def test_plan_asks_and_refuses_before_it_works(folder):
    dear = folder / "dear.svg"
    dear.write_text("dear")
    # The model is not there: whoever looked at it first would say so.
    for flag in ("--schedule", "--svg"):
        told = r.run("plan", f"model.config={folder / 'none.json'}", flag, dear, status=2).stderr
        check("output exists" in told and "none.json" not in told, told)
    told = r.run("plot", folder / "none", "--output", dear, status=2).stderr
    check("output exists" in told, told)
    model = r.save_config(folder / "config.json")
    for more in ([], ["--decide"], ["--layouts", "--ranks", 2], ["--schedule", "-"]):
        told = r.run("plan", f"model.config={model}", "data.sequence_length=65", *more, status=2).stderr
        check("max_position_embeddings = 64" in told and "data.sequence_length=64" in told, told)
    told = r.run("train", *r.options(folder, folder / "run", data__sequence_length=65), status=2).stderr
    check("max_position_embeddings = 64" in told, "train says so too")
    plan = r.run("plan", f"model.config={model}", "data.sequence_length=64").stdout
    check("total" in plan and "not in it" in plan, "as many as it has; and what the plan does not count is said")


def test_convert_a_run_whose_model_folder_is_gone(folder):
    train(folder, folder / "made", train__steps=1, checkpoint__every=0)
    base = folder / "base"
    shutil.copytree(folder / "made" / "model", base)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CHAT / name, base / name)
    train(folder, folder / "run", model__config=None, model__path=base)
    shutil.copytree(folder / "run", folder / "stopped")
    shutil.rmtree(folder / "stopped" / "model")  # as one that was stopped
    shutil.rmtree(base)
    r.run("convert", "--input", folder / "run", "--output", folder / "out", "--to", "hf")
    check((folder / "out" / "tokenizer.json").read_bytes() == (CHAT / "tokenizer.json").read_bytes(), "the run's own copy is not taken")
    done = r.run("convert", "--input", folder / "stopped", "--output", folder / "out2", "--to", "hf")
    check(f"{base}, which the run's config.yaml names, is gone" in done.stderr and not (folder / "out2" / "tokenizer.json").exists(), done.stderr)
    check((folder / "out2" / "model.safetensors").read_bytes() == (folder / "out" / "model.safetensors").read_bytes(), "other weights")
    # With the config given, and with that of the checkpoint, what cannot be read of config.yaml is no reason to fail.
    (folder / "stopped" / "config.yaml").write_text("no: [")
    for name, more in (("out3", ["--model-config", folder / "run" / "model" / "config.json"]), ("out4", [])):
        done = r.run("convert", "--input", folder / "stopped", "--output", folder / name, "--to", "hf", *more)
        check("the options of the run are not looked at" in done.stderr, done.stderr)
        check((folder / name / "model.safetensors").read_bytes() == (folder / "out" / "model.safetensors").read_bytes(), name)


def test_flags_of_others_are_carried_over_truly(folder):
    for words, want, never in (
        (["--report_to", "wandb"], "nothing is sent to such services", "log.tensorboard=wandb"),
        (["--report_to", "none"], "log.tensorboard=false", "=none"),
        (["--report_to=tensorboard"], "log.tensorboard=true", "=tensorboard"),
        (["--optim", "adamw_torch"], "optimizer.type=adamw", "adamw_torch"),
        (["--optim", "adamw_8bit"], "there is no such optimizer", "=adamw_8bit"),
        (["--optim", "sgd"], "optimizer.type=sgd", ""),
        (["--epochs", "3"], "here it is train.epochs=3", "train.steps=3"),
        (["--num_train_epochs", "3"], "here it is train.epochs=3", "train.steps=3"),
        (["--lr_scheduler_type", "constant_with_warmup"], "schedule.type=constant", "constant_with_warmup"),
        (["--lr_scheduler_type", "sawtooth"], "'sawtooth' is not among its values: see `ravine config --explain schedule.type`", "schedule.type=sawtooth"),
        (["--resume_from_checkpoint", "True"], "leave it out: the same command goes on", "checkpoint.resume=True"),
        (["--bf16", "False"], "leave it out", ""),
        (["--bf16", "True"], "precision.compute=bf16", ""),
        (["--torch_dtype", "bfloat16"], "precision.compute=bf16", "bfloat16"),
        (["--warmup", "0.03"], "'0.03' is not among its values", "schedule.warmup_steps=0.03"),
        (["--max_steps", "30"], "train.steps=30", ""),
        (["--learning_rate", "1e-4"], "optimizer.lr=1e-4", ""),
    ):
        fix = r.run("train", *words, status=2).stderr.split("has no such flag")[1]
        check(want in fix and not (never and never in fix), f"{words}: {fix}")


if __name__ == "__main__":
    r.main(globals())
