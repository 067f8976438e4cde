"""A tiny model learns one batch by heart and recites it; diff, plan, info and config say what they should."""
import array
import json
import math
import struct

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


def next_float(x, steps=1):
    """The f32 that lies `steps` further from zero."""
    return struct.unpack("f", struct.pack("I", struct.unpack("I", struct.pack("f", x))[0] + steps))[0]


def test_diff_of_tensors(folder):
    numbers = [0.0, 1.0, -2.5, 1e-30, 3.0, 0.1]
    good = {"a": ("F32", (2, 3), numbers), "b": ("I64", (2,), [5, 1 << 60]), "c": ("F32", (2,), [1.0, 2.0])}

    def compare(name, other, *flags, status=1):
        left, right = r.save_tensors(folder / "left.safetensors", good), r.save_tensors(folder / "right.safetensors", other)
        out = json.loads(r.run("diff", left, right, "--json", *flags, status=status).stdout)
        text = r.run("diff", left, right, *flags, status=status).stdout
        rows = {row["name"]: row for row in out["tensors"]}
        r.check(out["equal"] == (status == 0) and out["tensors_compared"] == len(rows), f"{name}: {out}")
        return rows, text

    rows, text = compare("same", good, status=0)
    r.check(all(row["status"] == "equal" for row in rows.values()) and "all 3 tensors are bitwise equal" in text, text)
    rows, text = compare("one ulp", {**good, "a": ("F32", (2, 3), [*numbers[:4], next_float(3.0), 0.1])})
    a = rows["a"]
    r.check(a["status"] == "different" and a["differing"] == 1 and a["max_ulp"] == 1 and a["at"] == 4 and a["elements"] == 6, a)
    r.check(a["max_abs"] == 2.0 ** -22 and abs(a["max_rel"] - 2.0 ** -22 / 3) < 1e-12 and 1 - 1e-12 < a["cosine"] <= 1 + 1e-12, a)
    r.check("2 of 3 tensors are bitwise equal" in text and rows["b"]["status"] == rows["c"]["status"] == "equal", text)
    rows, _ = compare("signed zero", {**good, "a": ("F32", (2, 3), [-0.0, *numbers[1:]])})
    r.check(rows["a"]["differing"] == 1 and rows["a"]["max_abs"] == 0 and rows["a"]["max_ulp"] == 0, rows["a"])
    rows, _ = compare("nan", {**good, "a": ("F32", (2, 3), [math.nan, *numbers[1:]])})
    r.check(rows["a"]["nan_on_one_side"] == 1 and rows["a"]["max_abs"] is None, rows["a"])
    rows, _ = compare("whole numbers that doubles do not hold apart", {**good, "b": ("I64", (2,), [5, (1 << 60) + 1])})
    r.check(rows["b"]["status"] == "different" and rows["b"]["max_abs"] == 1, rows["b"])
    rows, text = compare("missing", {"a": good["a"], "b": good["b"], "d": good["c"]})
    r.check(rows["c"]["status"] == "only in A" and rows["d"]["status"] == "only in B" and "only in B" in text, f"{rows}\n{text}")
    rows, text = compare("shape", {**good, "a": ("F32", (3, 2), numbers)})
    r.check(rows["a"]["status"] == "shape" and rows["a"]["a"] == "f32 [2, 3]" and rows["a"]["b"] == "f32 [3, 2]" and "[3, 2]" in text, rows["a"])
    rows, _ = compare("type", {**good, "b": ("I32", (2,), [5, 6])})
    r.check(rows["b"]["status"] == "dtype" and rows["b"]["differing"] == 1, rows["b"])
    rows, _ = compare("only", {**good, "c": ("F32", (2,), [1.0, 3.0])}, "--only", "a,b", status=0)
    r.check(sorted(rows) == ["a", "b"], rows)
    r.run("diff", folder / "left.safetensors", folder / "right.safetensors", "--only", "x*", status=2)
    (folder / "empty").mkdir()
    for path in (folder / "nothing", folder / "left.safetensors" / "x", folder / "empty"):
        line = r.run("diff", folder / "left.safetensors", path, status=2).stderr
        r.check(str(path) in line and line.count("\n") == 1, line)


def test_diff_of_shards(folder):
    """The same model as one file and as shards is equal; another number in one shard is found."""
    big = {"hidden_size": 128, "intermediate_size": 640}
    r.save_config(folder / "big.json", **big)
    one = train(folder, "one", train__steps=1, model__config=folder / "big.json")
    many = train(folder, "many", train__steps=1, model__config=folder / "big.json", checkpoint__shard_mb=1)
    shards = sorted((many / "model").glob("*.safetensors"))
    r.check(len(shards) >= 2, f"not sharded: {shards}")
    r.check("bitwise equal" in r.run("diff", one / "model", many / "model").stdout, "shards differ from one file")
    data = bytearray(shards[1].read_bytes())
    data[-3] ^= 1
    shards[1].write_bytes(data)
    out = json.loads(r.run("diff", one / "model", many / "model", "--json", status=1).stdout)
    r.check(out["tensors_equal"] == out["tensors_compared"] - 1, out)


def test_tools(folder):
    output = train(folder, "run", train__steps=2, checkpoint__every=2)
    config = folder / "config.json"
    plan = json.loads(r.run("plan", f"model.config={config}", "data.sequence_length=32", "--json").stdout)
    r.check(plan["parameters"] == 34976 and plan["weights"] >= 4 * 34976 and plan["total"] > plan["arena"] > 0, plan)
    text = r.save_text(folder / "train.txt", 3000, 1)
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tokenizer", "--vocab-size", 300)

    def info(path):
        shown = r.run("info", path).stdout
        r.check(str(path) in shown, f"{path}: {shown}")
        return json.loads(r.run("info", path, "--json").stdout)

    kinds = {config: "config", output: "run", output / "model": "model", output / "checkpoints" / "step_000002": "checkpoint",
             folder / "ids.safetensors": "fixed batches", output / "model" / "model.safetensors": "safetensors",
             folder / "tokenizer": "tokenizer", folder / "tokenizer" / "tokenizer.model": "tokenizer"}
    said = {path: info(path) for path in kinds}
    for path, kind in kinds.items():
        r.check(said[path]["kind"] == kind, f"{path}: {said[path]}")
    model = said[output / "model"]
    r.check(model["parameters"] == 34976 and model["tensors"] == 21 and model["config"]["hidden_size"] == 32, model)
    run = said[output]
    r.check(run["checkpoints"] == ["step_000002"] and run["latest"] == "step_000002" and run["final_model"] and run["last_step"]["step"] == 2, run)
    checkpoint = said[output / "checkpoints" / "step_000002"]
    r.check(checkpoint["manifest"]["step"] == 2 and checkpoint["tensors"] == 3 * 21, checkpoint)
    ids = said[folder / "ids.safetensors"]
    r.check(ids["tensors"] == 1 and ids["tensor_list"][0]["shape"] == [ROWS, COLUMNS], ids)
    r.check(said[folder / "tokenizer"]["vocabulary"] == 300, said[folder / "tokenizer"])
    (folder / "empty").mkdir()
    (folder / "program.exe").write_bytes(b"MZ")
    for path in (folder / "nothing", folder / "empty", folder / "program.exe"):
        line = r.run("info", path, status=2).stderr
        r.check(line.startswith("error: ") and str(path) in line and line.count("\n") == 1, line)
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
