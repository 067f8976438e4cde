"""A tiny model learns one batch by heart and recites it; diff, plan, info and config say what they should."""
import array
import json
import math

import ravine_run as r

ROWS, COLUMNS = 4, 32


def train(folder, name, **more):
    options = {
        "model.config": r.save_config(folder / "config.json"),
        "data.train": [r.save_ids(folder / "ids.safetensors", ROWS, COLUMNS)],
        "data.sequence_length": COLUMNS, "train.steps": 60, "train.global_batch": ROWS, "train.micro_batch": 2,
        "optimizer.lr": 2e-2,
        "optimizer.weight_decay": 0, "schedule.type": "constant", "schedule.warmup_steps": 4, "checkpoint.every": 0,
        "train.output": folder / name,
    }
    r.run("train", *r.settings({**options, **{key.replace("__", "."): value for key, value in more.items()}}))
    return folder / name


def batch(folder):
    header, body = r.load_raw(folder / "ids.safetensors")
    r.check(header["input_ids"]["dtype"] == "I32", "the batch file is another than thought")
    ids = list(array.array("i", body))
    return [ids[i:i + COLUMNS] for i in range(0, len(ids), COLUMNS)]


def recite(folder, model, prompt):
    """How many of the tokens after the first `prompt` ones of each row greedy generation repeats."""
    rows = batch(folder)
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps([row[:prompt] for row in rows]))
    out = r.run("generate", "--model", model, "--prompt-ids", prompts, "--max-new-tokens", COLUMNS - prompt, "--json").stdout
    answers = [json.loads(line) for line in out.splitlines()]
    r.check([a["prompt_ids"] for a in answers] == [row[:prompt] for row in rows], out)
    r.check(all(a["finish"] == "length" and a["text"] == "" for a in answers), out)
    return sum(got == want for a, row in zip(answers, rows) for got, want in zip(a["ids"], row[prompt:]))


def test_overfit(folder):
    output = train(folder, "run")
    numbers = r.metrics(output)
    first, last = numbers[1]["loss"], numbers[60]["loss"]
    r.check(abs(first - math.log(256)) < 0.3, f"the first loss is {first}, of a model that knows nothing {math.log(256)}")
    r.check(last < 0.1 * first, f"the loss goes from {first} to {last}")
    total = ROWS * (COLUMNS - 2)
    right = recite(folder, output / "model", 2)
    r.check(right == total, f"{right} of {total} tokens are recited")
    fresh = train(folder, "fresh", train__steps=1)
    r.check(recite(folder, fresh / "model", 2) < total // 4, "a model that learned nothing recites too")


def test_diff(folder):
    a, b = train(folder, "a", train__steps=3, checkpoint__every=3), train(folder, "b", train__steps=3, checkpoint__every=3)
    c = train(folder, "c", train__steps=3, checkpoint__every=3, train__seed=43)
    for part in ("model", "checkpoints/step_000003"):
        r.check("bitwise equal" in r.run("diff", a / part, b / part).stdout, part)
        out = json.loads(r.run("diff", a / part, c / part, "--json", status=1).stdout)
        r.check(not out["equal"] and out["tensors_compared"] > 20, f"{part}: {out}")
    r.run("diff", a / "model", a / "nothing", status=2)


def test_tools(folder):
    output = train(folder, "run", train__steps=2, checkpoint__every=2)
    config = folder / "config.json"
    plan = json.loads(r.run("plan", f"model.config={config}", "data.sequence_length=32", "--json").stdout)
    r.check(plan["parameters"] == 34976 and plan["weights"] >= 4 * 34976 and plan["total"] > plan["arena"] > 0, plan)
    for path in (config, output, output / "model", output / "checkpoints" / "step_000002", folder / "ids.safetensors"):
        r.check(isinstance(json.loads(r.run("info", path, "--json").stdout), dict) and r.run("info", path).stdout, path)
    model = json.loads(r.run("info", output / "model", "--json").stdout)
    r.check(model["parameters"] == 34976 and model["tensors"] == 21, model)
    explained = r.run("config", "--explain", "train.steps").stdout
    r.check("train.steps" in explained and "1000" in explained, explained)
    again = r.run("config", "--config", output / "config.yaml").stdout
    r.check("steps: 2\n" in again, again)
    r.run("config", "--explain", "train.stpes", status=2)


def test_config_runs_again(folder):
    first = train(folder, "first", train__steps=3)
    r.run("train", "--config", first / "config.yaml", f"train.output={folder / 'second'}")
    difference = r.same_run(first, folder / "second")
    r.check(difference == "", f"config.yaml of a run gives another run: {difference}")


if __name__ == "__main__":
    r.main(globals())
