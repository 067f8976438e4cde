"""Runs that train an adapter: what they begin with, leave and save; resumes, merges, layouts; the base that stays; what is refused."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

import ravine_run as r
from ravine_run import check

LORA = {"lora__rank": 4, "lora__targets": "all-linear"}


def base_model(folder, **more):
    """A model folder: what a short run leaves."""
    if not (folder / "base" / "model").exists():
        r.run("train", *r.options(folder, folder / "base", checkpoint__every=0, **more))
    return folder / "base" / "model"


def settings(folder, output, **more):
    base = base_model(folder)
    return r.options(folder, output, **{"model__config": None, "model__path": base, "train__steps": 4, "optimizer__lr": 0.01, **LORA, **more})


def train(folder, name, ranks=1, status=0, **more):
    words = ["train", *settings(folder, folder / name, **more)]
    if ranks == 1:
        return r.run(*words, status=status)
    launch = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", str(ranks)]
    done = subprocess.run([*launch, *r.command(*words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"{done.returncode}: {done.stderr}")
    return done


def adapter(folder, name):
    return r.load_tensors(folder / name / "adapter")


def floats(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 4}f", tensor[2])


def sums(path):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(path.iterdir()) if p.is_file()}


def test_a_run_from_start_to_adapter(folder):
    model = base_model(folder)
    before = sums(model)
    # At a rate of 0 the first loss is the base's, B stays zero and A is drawn.
    train(folder, "still", optimizer__lr=0.0, train__steps=1)
    plain = r.run("train", *settings(folder, folder / "plain", lora__rank=None, lora__targets=None, optimizer__lr=0.0, train__steps=1))
    check(r.metrics(folder / "still")[1]["loss"] == r.metrics(folder / "plain")[1]["loss"], "the first loss is the base's")
    for name, t in adapter(folder, "still").items():
        values = floats(t)
        check(".lora_A." in name or ".lora_B." in name, name)
        if ".lora_B." in name:
            check(not any(values), f"{name} is zero")
        else:
            bound = t[1][1] ** -0.5
            check(t[1][0] == 4 and max(map(abs, values)) <= bound and max(values) > 0.8 * bound and min(values) < -0.8 * bound, f"{name}: {min(values)} to {max(values)}, by {bound}")
    said = train(folder, "run").stderr
    losses = [row["loss"] for row in r.metrics(folder / "run").values()]
    check(all(a != b for a, b in zip(losses, losses[1:])), losses)
    after = adapter(folder, "run")
    check(all(any(floats(t)) for n, t in after.items() if ".lora_B." in n) and len(after) == 2 * 7 * 2, f"{len(after)} tensors")
    numbers = sum(a * b for _, (a, b), _ in after.values())
    check("adapter  rank 4, alpha 16 on all-linear" in said and f"{numbers / 1000:.1f} k of" in said, said)
    check(not (folder / "run" / "model").exists() and sums(model) == before, "no model, and the base is as it was")
    config = json.loads((folder / "run" / "adapter" / "adapter_config.json").read_text())
    check(config["r"] == 4 and config["lora_alpha"] == 16 and len(config["target_modules"]) == 14 and "model.layers.1.mlp.up_proj" in config["target_modules"] and config["base_model_name_or_path"] == str(model), config)
    # A checkpoint holds what is trained and its two moments.
    held = sum(sum(elements(t) for t in r.load_raw(p)[0].items())
               for p in (folder / "run" / "checkpoints" / "step_000004").glob("*.safetensors"))
    check(held == 3 * numbers, f"{held} elements in a checkpoint of {numbers} that are trained")
    check("nothing is left to do" in train(folder, "run").stderr, "the same command again")
    # What is written goes on, and is used.
    said = r.run("generate", "--model", model, "--adapter", folder / "run" / "adapter", "--prompt-ids", ids(folder), "--max-new-tokens", 4, "--json").stdout
    check(len(json.loads(said.splitlines()[0])["ids"]) == 4, said)


def elements(item):
    name, t = item
    count = 1
    for n in t.get("shape", []):
        count *= n
    return 0 if name == "__metadata__" else count


def ids(folder):
    (folder / "ids.json").write_text("[[5, 6, 7]]")
    return folder / "ids.json"


def test_a_resume_goes_on_bit_for_bit(folder):
    train(folder, "whole", lora__dropout=0.2, precision__compute="bf16")
    train(folder, "half", lora__dropout=0.2, precision__compute="bf16", train__steps=2)
    train(folder, "half", lora__dropout=0.2, precision__compute="bf16")
    check(r.metrics(folder / "whole") == r.metrics(folder / "half"), f"{r.metrics(folder / 'whole')}\n{r.metrics(folder / 'half')}")
    check(adapter(folder, "whole") == adapter(folder, "half"), "the adapters")
    train(folder, "undropped", precision__compute="bf16")
    check(r.metrics(folder / "whole")[1] != r.metrics(folder / "undropped")[1] or r.metrics(folder / "whole")[2] != r.metrics(folder / "undropped")[2], "dropout does something")
    said = train(folder, "half", status=2, lora__dropout=0.3, precision__compute="bf16", train__steps=5).stderr
    check("lora.dropout" in said, said)


def test_merged_at_the_end_and_after(folder):
    train(folder, "apart")
    r.run("merge-lora", "--model", base_model(folder), "--adapter", folder / "apart" / "adapter", "--output", folder / "merged")
    said = train(folder, "together", lora__merge=True).stderr
    check(not (folder / "together" / "adapter").exists() and "together/model" in said, said)
    check(r.load_tensors(folder / "together" / "model") == r.load_tensors(folder / "merged"), "lora.merge writes what merge-lora does")
    check(r.load_tensors(folder / "merged") != r.load_tensors(base_model(folder)), "something was merged")
    # The adapter of a run is where another begins; its settings need not be said again.
    train(folder, "further", lora__rank=None, lora__targets=None, lora__path=folder / "apart" / "adapter", optimizer__lr=0.0, train__steps=1)
    check(adapter(folder, "further") == adapter(folder, "apart"), "at a rate of 0 it stays")


def test_an_alpha_with_a_fraction(folder):
    train(folder, "run", lora__alpha=2.5, train__steps=1)
    said = json.loads((folder / "run" / "adapter" / "adapter_config.json").read_text())
    check(said["lora_alpha"] == 2.5, said)


def test_modules_trained_whole(folder):
    train(folder, "run", lora__save=["embed_tokens", "norm"])
    after, was = adapter(folder, "run"), r.load_tensors(base_model(folder))
    whole = {n[len("base_model.model."):] for n in after if ".lora_" not in n}
    check("model.embed_tokens.weight" in whole and "model.norm.weight" in whole and "model.layers.1.post_attention_layernorm.weight" in whole and len(whole) == 6, sorted(whole))  # as PEFT: names that end so, also inside a word
    check(all(after["base_model.model." + n][2] != was[n][2] for n in whole), "they were trained")


def test_layouts_train_the_same(folder):
    """One rank, and what divides batch, matrices, layers and states. Sums in another order: f32 of a few hundred terms per number, four steps."""
    one = None
    layouts = [({}, 1), ({"parallel__data": 2, "parallel__zero": 1}, 2), ({"parallel__data": 2, "parallel__zero": 3, "parallel__zero_threshold": 16}, 2), ({"parallel__tensor": 2}, 2),
               ({"parallel__tensor": 2, "parallel__sequence": True}, 2), ({"parallel__pipeline": 2}, 2)]
    for i, (layout, ranks) in enumerate([layouts[0], *r.rows(layouts[1:], 1, "layouts take turns")]):
        if ranks > 1 and not shutil.which("mpirun"):
            raise r.Skipped("no mpirun")
        train(folder, f"run{i}", ranks, train__micro_batch=1, lora__dropout=0.1, lora__save=["embed_tokens"], **layout)
        got, tensors = r.metrics(folder / f"run{i}"), adapter(folder, f"run{i}")
        if one is None:
            one, first = got, tensors
            continue
        for step in one:
            for key in ("loss", "grad_norm"):
                check(abs(got[step][key] - one[step][key]) <= 2e-5 * abs(one[step][key]), f"{layout}, step {step}, {key}: {got[step][key]} instead of {one[step][key]}")
        check(got[1]["loss"] == one[1]["loss"] or "parallel__tensor" in layout, f"{layout}: the first loss, bit for bit")
        for name in first:
            worst = max(abs(a - b) for a, b in zip(floats(tensors[name]), floats(first[name])))
            check(worst <= 4 * 0.01 * 0.05, f"{layout}: {name} differs by {worst}")  # Adam's first steps are as long as the rate, whatever a gradient near zero comes to


def test_an_adapter_goes_on_as_its_file_says(folder):
    """With lora.path the run takes what adapter_config.json says and keeps it: options that are given agree, at their defaults too, and a file that is changed
    behind a run is found by its resume."""
    train(folder, "first", lora__alpha=8, lora__dropout=0.1)
    first = folder / "first" / "adapter"
    more = {"lora__rank": None, "lora__targets": None, "lora__path": first}
    train(folder, "next", **more, train__steps=2)
    kept = (folder / "next" / "config.yaml").read_text()
    check("alpha: 8" in kept and "dropout: 0.1" in kept and "rank: 4" in kept, kept)
    train(folder, "words", **{**more, "lora__targets": "all-linear"}, train__steps=1)  # other words for the same modules
    said = train(folder, "other", **more, lora__alpha=16, status=2).stderr  # 16 is the default
    check("lora.alpha is 16" in said and "says 8" in said, said)
    said = train(folder, "other", **{**more, "lora__targets": "[q_proj]"}, status=2).stderr
    check("lora.targets" in said, said)
    copy = folder / "copy"
    shutil.copytree(first, copy)
    (copy / ".ravine").unlink(missing_ok=True)
    train(folder, "changed", **{**more, "lora__path": copy}, train__steps=2)
    text = (copy / "adapter_config.json").read_text()
    check('"lora_alpha": 8' in text, text)
    (copy / "adapter_config.json").write_text(text.replace('"lora_alpha": 8', '"lora_alpha": 800'))
    said = train(folder, "changed", **{**more, "lora__path": copy}, status=2).stderr
    check("lora.alpha" in said and "800" in said, said)
    weights = bytearray((first / "adapter_model.safetensors").read_bytes())
    weights[-5] ^= 64
    (first / "adapter_model.safetensors").write_bytes(weights)
    (folder / "ids.json").write_text("[[1, 2]]")
    for words in (["generate", "--model", base_model(folder), "--adapter", first, "--prompt-ids", folder / "ids.json"], ["merge-lora", "--model", base_model(folder), "--adapter", first, "--output", folder / "m"]):
        said = r.run(*words, status=2).stderr
        check("damaged" in said and "adapter_model.safetensors" in said, said)
    for key in ("rank_pattern", "alpha_pattern"):
        said = train(folder, "no", **{f"lora__{key}": "{nosuch: 4}"}, status=2).stderr
        check("no module with an adapter matches 'nosuch'" in said and f"lora.{key}" in said, said)
    said = r.run("convert", "--input", folder / "first", "--output", folder / "whole", "--to", "hf", "--allow-unknown", status=2).stderr
    check("a run of an adapter, not of a model" in said and "the adapter alone" in said and f"merge-lora --model {folder / 'first'} --adapter" in said, said)


def test_bench_trains_adapters(folder):
    """As many parameters more as A and B have."""
    model = base_model(folder)

    def bench(*words):
        return json.loads(r.run("bench", "train", "--model", model, "--sequence-length", 16, "--steps", 1, "--json", *words).stdout)

    full, adapted = bench(), bench("lora.rank=4", "lora.targets=[q_proj]")
    config = json.loads((model / "config.json").read_text())
    heads = config["num_attention_heads"] * config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    check(adapted["parameters"] - full["parameters"] == config["num_hidden_layers"] * 4 * (config["hidden_size"] + heads), f"{adapted} {full}")
    check("'query'" in r.run("bench", "train", "--model", model, "lora.rank=4", "lora.targets=[query]", status=2).stderr, "a target that is not there")


def test_what_is_refused(folder):
    def refused(*parts, **more):
        said = train(folder, "bad", status=2, **more).stderr
        check(all(p in said for p in parts), f"{parts}: {said}")
        check(not (folder / "bad" / "checkpoints").exists(), "nothing was begun")

    refused("model.path", lora__rank=4, model__path=None, model__config=folder / "config.json")
    refused("no module of the model ends in 'query'", "q_proj", lora__targets=["query"])
    refused("no module of the model ends in '_proj'", "lora.targets", lora__targets=["_proj"])  # names end in whole parts
    refused("lora.alpha without an adapter", "lora.rank", lora__rank=None, lora__targets=None, lora__alpha=8)
    refused("lora.rank", lora__rank=-1)
    refused("lora.alpha", lora__alpha=0)
    refused("layer 9 of 2", lora__layers=[9])
    refused("ends in 'nothing'", lora__save=["nothing"])
    train(folder, "good", train__steps=1)
    path = folder / "good" / "adapter"
    refused("lora.rank is 8", "says 4", lora__path=path, lora__rank=8, lora__targets=None)
    (folder / "empty").mkdir()
    refused("adapter_config.json", lora__path=folder / "empty", lora__rank=None, lora__targets=None)
    refused("lora.rank_pattern", lora__rank_pattern='{"q_proj": 0}')
    refused("lora.rank_pattern", lora__rank_pattern="[1]")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
