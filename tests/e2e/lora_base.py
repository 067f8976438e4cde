"""`lora.base`: frozen weights in blocks of 4 bits against a model with bitsandbytes' values (tests/golden/nf4, made by tools/golden/make_nf4.py), under layouts and resumes, in
memory; in bf16; and what is refused."""
import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "nf4"
if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads
EPS = 2.0**-24
WIDE = {"hidden_size": 128, "intermediate_size": 128}  # cut over two ranks, no block of 64 is


def numbers(tensor):
    import array
    kind, _, body = tensor
    return array.array({"F64": "d", "F32": "f", "I64": "q"}[kind], body).tolist()


def distance(got, want):
    got, want = numbers(got), numbers(want)
    check(len(got) == len(want), f"{len(got)} numbers instead of {len(want)}")
    return max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))


def batch(folder):
    want = r.load_tensors(GOLDEN, "golden.safetensors")
    r.save_tensors(folder / "in.safetensors", {n: ("I64", [2, 9], numbers(want[n])) for n in ("input_ids", "labels")})
    return want, folder / "in.safetensors"


def trace(folder, given, *more, adapter=True, status=0):
    said = r.run("trace", "--model", GOLDEN / "base", *(["--adapter", GOLDEN / "adapter"] if adapter else []), "--input", given, "--out", folder / "out.safetensors", "--overwrite",
                 *more, status=status)
    return said.stderr if status else r.load_tensors(folder, "out.safetensors")


def test_logits_loss_and_gradients_are_those_of_bitsandbytes_values(folder):
    """In f64 to the roundings of f64; in f32 to those of a model of two layers (as in lora.py); in bf16 weights and activations are rounded to 8 bits."""
    want, given = batch(folder)
    for more, bound in ((("--backend", "ref", "precision.compute=f64"), 1e-11), (("precision.compute=f32",), 2000 * EPS), (("precision.compute=bf16",), 2.0**-4)):
        got = trace(folder, given, "--backward", "lora.base=nf4", *more)
        check(distance(got["logits"], want["logits"]) < bound, f"{more}: logits {distance(got['logits'], want['logits'])}")
        check(distance(got["loss"], want["loss"]) < bound, f"{more}: loss")
        names = {n for n in want if n.startswith("grad.")}
        check({n for n in got if n.startswith("grad.")} == names, f"gradients of {sorted({n for n in got if n.startswith('grad.')} ^ names)[:4]}")
        for n in names:
            check(distance(got[n], want[n]) < 20 * bound, f"{more}: {n} differs by {distance(got[n], want[n])}")
    plain = trace(folder, given, "--backend", "ref", "precision.compute=f64")
    check(distance(plain["logits"], want["logits"]) > 1e-3, "four bits change something")


def test_a_training_curve_is_that_of_peft(folder):
    want, given = batch(folder)
    r.run("train", f"model.path={GOLDEN / 'base'}", f"lora.path={GOLDEN / 'adapter'}", "lora.base=nf4", f"data.train=[{given}]", "data.sequence_length=9", "train.steps=5", "train.global_batch=2",
          "train.micro_batch=2", "optimizer.lr=0.01", "optimizer.betas=[0.9, 0.95]", "optimizer.weight_decay=0.1", "optimizer.clip_norm=0", "schedule.type=constant", "schedule.warmup_steps=0",
          "checkpoint.every=0", "log.tensorboard=false", f"train.output={folder / 'run'}", "--backend", "ref", "precision.compute=f64")
    got = [row["loss"] for row in r.metrics(folder / "run").values()]
    curve = numbers(want["losses"])
    check(len(got) == 5 and all(abs(a - b) < 1e-9 for a, b in zip(got, curve)), f"{got} instead of {curve}")


def base_model(folder):
    if not (folder / "base" / "model").exists():
        model = r.save_config(folder / "wide.json", **WIDE)
        r.run("train", *r.options(folder, folder / "base", checkpoint__every=0, model__config=model))
    return folder / "base" / "model"


def train(folder, name, ranks=1, status=0, **more):
    base = base_model(folder)
    words = ["train", *r.options(folder, folder / name, **{"model__config": None, "model__path": base, "train__steps": 4, "optimizer__lr": 0.01, "lora__rank": 4,
                                                            "lora__targets": "all-linear", "lora__base": "nf4", **more})]
    if ranks == 1:
        return r.run(*words, status=status).stderr
    launch = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", str(ranks)]
    done = subprocess.run([*launch, *r.command(*words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"{done.returncode}: {done.stderr}")
    return done.stderr


def adapter(folder, name):
    return r.load_tensors(folder / name / "adapter")


def test_a_run_says_what_it_keeps_and_is_used(folder):
    said = train(folder, "run")
    blocks = sum(4 * (1 + 1) + n // 64 + n // 2 for n in [128 * 128] * 5 + [64 * 128] * 2) * 2
    told = re.search(r"base in nf4: ([\d.]+) k of its weights in ([\d.]+) KiB, scales counted; bf16 would take ([\d.]+) KiB", said)
    check(told and abs(float(told[2]) * 1024 - blocks) < 100, f"{blocks} bytes: {said}")
    losses = [row["loss"] for row in r.metrics(folder / "run").values()]
    plain = train(folder, "plain", lora__base=None)
    check("nf4" not in plain and losses != [row["loss"] for row in r.metrics(folder / "plain").values()], "another base")
    (folder / "ids.json").write_text("[[5, 6, 7, 8, 9]]")
    words = ["generate", "--model", base_model(folder), "--adapter", folder / "run" / "adapter", "--prompt-ids", folder / "ids.json", "--max-new-tokens", 6, "--json"]
    for more in ([], ["lora.base=nf4"], ["lora.base=bf16"]):
        check(len(json.loads(r.run(*words, *more).stdout.splitlines()[0])["ids"]) == 6, f"{more}")
    whole = r.run("merge-lora", "--model", base_model(folder), "--adapter", folder / "run" / "adapter", "--output", folder / "merged")
    train(folder, "together", lora__merge=True)
    check(r.load_tensors(folder / "together" / "model") == r.load_tensors(folder / "merged"), f"lora.merge adds to the weights of model.path: {whole.stderr}")


def test_merged_into_the_values_of_the_blocks(folder):
    """`merge-lora --base nf4` against bitsandbytes' values with the adapter beside them: in f32 every merged weight is rounded once, in the base's type too."""
    want, given = batch(folder)
    r.run("merge-lora", "--model", GOLDEN / "base", "--adapter", GOLDEN / "adapter", "--base", "nf4", "--dtype", "f32", "--output", folder / "merged")
    r.run("trace", "--model", folder / "merged", "--input", given, "--out", folder / "out.safetensors", "--backend", "ref", "precision.compute=f64")
    got = distance(r.load_tensors(folder, "out.safetensors")["logits"], want["logits"])
    check(got < 100 * EPS, f"logits differ by {got}")
    r.run("merge-lora", "--model", GOLDEN / "base", "--adapter", GOLDEN / "adapter", "--base", "bf16", "--output", folder / "bf16")
    stored, plain, half = (r.load_tensors(p) for p in (GOLDEN / "base", folder / "merged", folder / "bf16"))
    check({n: t[:2] for n, t in half.items()} == {n: t[:2] for n, t in stored.items()} and half != plain, "types and shapes are the base's")


def test_resumes_and_recompute_change_no_bit(folder):
    for compute in r.rows(("f32", "bf16"), 1, "the types take turns"):
        train(folder, f"whole-{compute}", precision__compute=compute)
        train(folder, f"half-{compute}", precision__compute=compute, train__steps=2)
        train(folder, f"half-{compute}", precision__compute=compute)
        train(folder, f"again-{compute}", precision__compute=compute, train__recompute="full", train__threads=1)
        for other in ("half", "again"):
            check(r.metrics(folder / f"whole-{compute}") == r.metrics(folder / f"{other}-{compute}"), f"{compute}: {other}")
            check(adapter(folder, f"whole-{compute}") == adapter(folder, f"{other}-{compute}"), f"{compute}: adapters of {other}")
    said = train(folder, f"half-{compute}", status=2, lora__base=None, train__steps=6)
    check("lora.base" in said, said)


def test_layouts(folder):
    if not shutil.which("mpirun"):
        raise r.Skipped("no mpirun")
    alike = {"train__micro_batch": 1, "parallel__sum_leaves": 2, "train__threads": 1}
    train(folder, "one", **alike)
    one = r.metrics(folder / "one")
    for name, more in r.rows({"zero0": {}, "zero3": {"parallel__zero": 3, "parallel__zero_threshold": 1}, "stages": {"parallel__pipeline": 2}}.items(), 1, "layouts take turns"):
        train(folder, name, ranks=2, **alike, **more)
        check(r.metrics(folder / name) == one, f"{name}: {r.metrics(folder / name)}\n{one}")
        check(adapter(folder, name) == adapter(folder, "one"), f"{name}: adapters")
    train(folder, "tensor", ranks=2, parallel__tensor=2, **alike)
    for step, row in r.metrics(folder / "tensor").items():
        check(abs(row["loss"] - one[step]["loss"]) < 1e-5 * one[step]["loss"], f"tensor: {row} {one[step]}")


def test_what_is_refused_is_named(folder):
    check("lora.base without an adapter" in train(folder, "no", status=2, lora__rank=None, lora__targets=None), "no adapter")
    check("lora.base" in train(folder, "no", status=2, lora__base="int8"), "another word")
    _, given = batch(folder)
    check("lora.base without an adapter" in trace(folder, given, "lora.base=nf4", adapter=False, status=2), "trace")
    if shutil.which("mpirun"):
        narrow = r.save_config(folder / "narrow.json", hidden_size=32, intermediate_size=64)
        r.run("train", *r.options(folder, folder / "narrow", checkpoint__every=0, model__config=narrow))
        said = train(folder, "no", ranks=2, status=2, model__path=folder / "narrow" / "model", parallel__tensor=2)
        check("cuts blocks of 64" in said and ".o_proj" in said and "lora.base=bf16" in said, said)


def save_bf16(folder, config, layers, hidden=512, wide=1536, vocabulary=256):
    """A model whose weights are all 2^-6: without a run that makes it."""
    names = {"model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    for i in range(layers):
        names |= {f"model.layers.{i}.self_attn.{n}_proj.weight": (hidden, hidden) for n in "qkvo"}
        names |= {f"model.layers.{i}.mlp.{n}_proj.weight": (hidden, wide) if n == "down" else (wide, hidden) for n in ("gate", "up", "down")}
        names |= {f"model.layers.{i}.{n}_layernorm.weight": (hidden,) for n in ("input", "post_attention")}
    header, at = {}, 0
    for name, shape in names.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    folder.mkdir(parents=True)
    shutil.copy(config, folder / "config.json")
    r.save_raw(folder / "model.safetensors", header, b"")
    with open(folder / "model.safetensors", "ab") as out:
        for begin in range(0, at, 1 << 20):  # what this process held would count as its children's
            out.write(b"\x80\x3c" * (min(1 << 20, at - begin) // 2))


def test_memory(folder):
    """The frozen matrices of a model of 57 M parameters, most of them in its layers: what the process takes is less by what bf16 keeps more, and never more while it loads."""
    if r.sanitized():
        print("SKIPPED: test_memory: a sanitizer has memory of its own")
        return
    layers = 16
    model = r.save_config(folder / "big.json", hidden_size=512, intermediate_size=1536, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=8, vocab_size=256)
    if r.FULL:
        r.run("train", *r.options(folder, folder / "big", checkpoint__every=0, model__config=model, train__steps=1, checkpoint__model_dtype="bf16"))
    else:
        save_bf16(folder / "big" / "model", model, layers)
    most = {}
    for base in ("bf16", "nf4"):
        words = r.options(folder, folder / base, model__config=None, model__path=folder / "big" / "model", lora__rank=4, train__steps=1, precision__compute="bf16", lora__base=base,
                          checkpoint__every=0, train__threads=1)
        run = subprocess.Popen(r.command("train", *words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        check(run.returncode == 0, f"{base}: {run.returncode}")
        most[base] = usage.ru_maxrss / 1024
    elements = layers * (4 * 512 * 512 + 3 * 512 * 1536)
    less = elements * (2 - 4.127 / 8) / 2**20
    check(abs(most["bf16"] - most["nf4"] - less) < 0.15 * less, f"{most} MiB, {less} expected between them")


if __name__ == "__main__":
    r.main(globals())
