"""`ravine check shrink`: the reduced case of a training runs, has the weights of the first layers bit for bit, says the same in the other side's format, and tells if a symptom still shows."""
import json

import check_config
import ravine_run as r
from ravine_run import check


def model_of(folder, layers=4):
    """A trained model of four layers, as a folder."""
    out = folder / "big"
    r.run("train", *r.options(folder, out, model__config=r.save_config(folder / "layers.json", num_hidden_layers=layers), train__steps=1, checkpoint__every=0))
    return out / "model"


def config_of(folder, model):
    (folder / "run.yaml").write_text(f"model: {{path: {model}}}\ndata: {{train: [{folder / 'ids.safetensors'}], sequence_length: 16}}\ntrain: {{steps: 500, global_batch: 4, micro_batch: 2, dropout: 0.1, output: {folder / 'big-run'}}}\n"
                                     "optimizer: {lr: 0.002, eps: 1.0e-5}\nschedule: {type: cosine, warmup_steps: 50}\nparallel: {tensor: 2, zero: 1}\nlog: {tensorboard: false}\n")
    return folder / "run.yaml"


def value(text, section, key):
    import re
    inside = re.search(rf"^{section}:\n((?:  .*\n)*)", text, re.M)[1]
    return re.search(rf"^  {key}: (.*)$", inside, re.M)[1]


def test_the_case_of_ravine(folder):
    model = model_of(folder)
    done = r.run("check", "shrink", config_of(folder, model), "--layers", 2, "--steps", 3, "--out", folder / "small")
    text = (folder / "small" / "run.yaml").read_text()
    for section, key, want in (("train", "dropout", "0.0"), ("train", "steps", "3"), ("optimizer", "eps", "1.0e-08"), ("optimizer", "lr", "0.002"), ("schedule", "type", "constant"), ("schedule", "warmup_steps", "0"),
                               ("parallel", "tensor", "1"), ("parallel", "zero", "0")):
        check(value(text, section, key) == want, f"{section}.{key}: {value(text, section, key)}")
    check("num_hidden_layers 4 -> 2" in done.stderr + done.stdout and "schedule.warmup_steps 50 -> 0" in done.stderr + done.stdout, done.stdout)
    check(json.loads((folder / "small" / "model" / "config.json").read_text())["num_hidden_layers"] == 2, "config.json is not cut")
    was, now = r.load_tensors(model), r.load_tensors(folder / "small" / "model")
    check({k for k in was if ".layers.2." in k or ".layers.3." in k} == set(was) - set(now), f"{set(was) - set(now)}")
    check(all(was[k] == now[k] for k in now), "a weight has other bits")
    r.run("train", "--config", folder / "small" / "run.yaml", "train.threads=1")
    check([row["lr"] for row in r.metrics(folder / "small" / "run").values()] == [0.002] * 3, f"{r.metrics(folder / 'small' / 'run')}")
    readme = (folder / "small" / "README.md").read_text()
    check("megatron.txt" in readme and "train --config" in readme and "curves" in readme, readme)
    moved = r.load_tensors(folder / "small" / "megatron") if list((folder / "small" / "megatron").glob("*.safetensors")) else list((folder / "small" / "megatron").rglob("*.pt"))
    check(moved, "no weights in the other side's layout")
    r.run("convert", "--input", folder / "small" / "megatron", "--output", folder / "back", "--to", "hf", "--model-config", folder / "small" / "model" / "config.json")
    back = r.load_tensors(folder / "back")
    check(all(back[k] == now[k] for k in now), "weights in Megatron's layout have other bits")


def test_the_case_of_other_programs(folder):
    """The reduced case says the same in the other side's format, by `check config`."""
    for name, side, file in (("megatron", check_config.megatron(folder), "megatron.txt"), ("mindformers", check_config.mindformers(folder), "mindformers.yaml")):
        out = folder / name
        r.run("check", "shrink", side, "--layers", 1, "--steps", 5, "--out", out, "--samples", 80)
        answer, rows = check_config.ask(out / "run.yaml", out / file, samples=20)
        check(rows["num_layers"]["a"] == rows["num_layers"]["b"] == "1" and rows["lr_schedule"]["verdict"] in ("equal", "unknown"), f"{name}: {rows['num_layers']}, {rows['lr_schedule']}")
        check(answer["agrees"], f"{name}: {check_config.different(rows)}")
        check("Draw them once" in (out / "README.md").read_text(), "it names no way to the same weights")


def test_a_symptom(folder):
    """--reference trains the case: exit status 0 if its curve is the reference's, 1 if it parts."""
    model = model_of(folder)
    side = config_of(folder, model)
    r.run("check", "shrink", side, "--steps", 6, "--out", folder / "one")
    r.run("train", "--config", folder / "one" / "run.yaml", "train.threads=1")
    rows = [json.loads(line) for line in (folder / "one" / "run" / "metrics.jsonl").read_text().splitlines()]
    for name, gap, status, words in (("same", 0, 0, "no longer shows"), ("far", 0.5, 1, "still shows")):
        (folder / f"{name}.csv").write_text("step,loss\n" + "".join(f"{x['step']},{x['loss'] + gap}\n" for x in rows))
        done = r.run("check", "shrink", side, "--steps", 6, "--out", folder / name, "--reference", folder / f"{name}.csv", status=status)
        check(words in done.stdout + done.stderr, done.stdout + done.stderr)


def test_mistakes(folder):
    model = model_of(folder, 2)
    side = config_of(folder, model)
    check("give --layers 2 or fewer" in r.run("check", "shrink", side, "--layers", 3, "--out", folder / "out", status=2).stderr, "too many layers")
    check(not (folder / "out").exists(), "a refused case leaves a folder")
    (folder / "full").mkdir()
    (folder / "full" / "mine.txt").write_text("mine")
    check("not empty" in r.run("check", "shrink", side, "--out", folder / "full", status=2).stderr, "a folder of others is used")


if __name__ == "__main__":
    r.main(globals())
