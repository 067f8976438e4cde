"""Whole runs of `ravine train` against training curves of PyTorch and Transformers (tests/golden/curves, made by tools/golden/make_curves.py): loss, rate,
norm and validation loss of every step and the weights in the end, of every optimizer and family. In double precision the two differ by roundings of 2^-53, in
single by those of 2^-24.

The bounds follow from what single precision came to in PyTorch itself: `distance` is the largest over a few orders of its sums. A second program is another draw
of that spread, with other orders and kernels: 8 times the distance. Roundings of double precision are 2^-29 of those, and grow alike."""
import array
import json
import math
import os
import shutil
from pathlib import Path

import ravine_run as r

GOLDEN = Path(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "curves").resolve()
RECORD = json.loads((GOLDEN / "curves.json").read_text())
DRAWS = 8
TYPES = {"f32": ([], 2.0 ** -24), "f64": (["--backend", "ref"], 2.0 ** -53), "bf16": ([], 2.0 ** -8), "f16": ([], 2.0 ** -11)}  # the flags, and half the distance from 1 to the next number


def train(model, output, options, kind, **more):
    values = {"model.path": model, "data.train": [str(GOLDEN / "train.safetensors")], "data.valid": [str(GOLDEN / "valid.safetensors")],
              "data.sequence_length": RECORD["columns"], "train.steps": RECORD["steps"], "train.global_batch": RECORD["global_batch"],
              "train.micro_batch": RECORD["micro_batch"], "train.valid_every": RECORD["valid_every"], "train.threads": 1, "checkpoint.every": 0,
              "log.tensorboard": False, "precision.compute": kind, "train.output": output, **options, **more}
    r.run("train", *TYPES[kind][0], *r.settings(values))
    return output


def floats(tensor):
    return array.array("f", tensor[2])


def distance(a, b):
    """|a - b| / |b| of two lists of numbers."""
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b))


def compare(name, folder, kind, **more):
    case = RECORD["cases"][name]
    rounding = TYPES[kind][1]
    far = {key: value for key, value in case["distance"].items() if key != "weights"}
    share = rounding / 2.0 ** -24
    out = train(GOLDEN / "models" / case["model"], folder / f"{name}-{kind}", case["options"], kind, **more)
    steps = r.metrics(out)
    r.check(sorted(steps) == list(range(1, RECORD["steps"] + 1)), f"{name}: steps {sorted(steps)}")
    wrong = []

    def near(what, got, want, bound):
        if not abs(got - want) <= bound * abs(want):
            wrong.append(f"{what}: {got!r} instead of {want!r}, off by {abs(got - want) / (bound * abs(want) or 5e-324):.3g} bounds")

    for step, row in steps.items():
        for key in ("loss", "grad_norm"):
            near(f"step {step}, {key}", row[key], case[key][step - 1], DRAWS * far[key] * share + 4 * rounding)
        near(f"step {step}, lr", row["lr"], case["lr"][step - 1], 4 * 2.0 ** -53)
        valid = case["valid_loss"].get(str(step))
        if (valid is None) != ("valid_loss" not in row):
            wrong.append(f"step {step}: validation {'missing' if valid else 'unasked'}")
        elif valid is not None:
            near(f"step {step}, valid_loss", row["valid_loss"], valid, DRAWS * far["valid_loss"] * share + 4 * rounding)
    begun, want, got = (r.load_tensors(f, "*.safetensors") for f in (GOLDEN / "models" / case["model"], prepare_final(folder, name), out / "model"))
    r.check(got.keys() == want.keys(), f"{name}: tensors {sorted(got.keys() ^ want.keys())}")
    for tensor in want:
        r.check(got[tensor][:2] == want[tensor][:2], f"{name}: {tensor} is {got[tensor][:2]}")
        if want[tensor][2] == begun[tensor][2]:  # frozen, or at a rate of 0
            if got[tensor][2] != begun[tensor][2]:
                wrong.append(f"{tensor} must stay as it was")
            continue
        off, bound = distance(floats(got[tensor]), floats(want[tensor])), DRAWS * case["distance"]["weights"][tensor] * share + 2 * 2.0 ** -24  # stored in f32
        if not off <= bound:
            wrong.append(f"{tensor}: off by {off:.3g}, {off / bound:.3g} bounds")
    r.check(not wrong, f"{name} in {kind}: " + "; ".join(wrong[:6]) + f" ({len(wrong)} in all)")
    shutil.rmtree(out)


def prepare_final(folder, name):
    """A folder of its own for one file of final weights."""
    place = folder / f"final-{name}"
    place.mkdir(exist_ok=True)
    shutil.copy(GOLDEN / "final" / f"{name}.safetensors", place / "model.safetensors")
    return place


def families():
    return [name for name, case in RECORD["cases"].items() if case["model"] == name]


def test_optimizers_in_double(folder):
    for name in RECORD["cases"]:
        if name not in families():
            compare(name, folder, "f64")


def test_optimizers_in_single(folder):
    for name in RECORD["cases"]:
        if name not in families():
            compare(name, folder, "f32")


def test_families_in_double(folder):
    for name in families():
        compare(name, folder, "f64")


def test_families_in_single(folder):
    for name in families():
        compare(name, folder, "f32")


def test_sixteen_bits(folder):
    """Products of 16 bits with masters in f32: roundings are 2^16 or 2^13 times those of f32. Enough to see that what is trained is what is read."""
    for name in ("llama", "qwen2", "gpt2", "groups"):
        compare(name, folder, "bf16")
        compare(name, folder, "f16")


def test_however_memory_is_kept(folder):
    """Recomputation and another micro batch change no curve."""
    for more in ({"train.recompute": "full", "train.micro_batch": 1}, {"train.recompute": "none", "train.micro_batch": 4}):
        compare("groups", folder, "f64", **more)
        compare("gpt2", folder, "f32", **more)


def alike(folder, name, like, config, tensors):
    """The family `name`, of the weights of `like`, has the same curve to the bit."""
    place = folder / name
    place.mkdir()
    was = json.loads((GOLDEN / "models" / like / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({k: v for k, v in {**was, "model_type": name, **config}.items() if v is not None}))
    held = r.load_tensors(GOLDEN / "models" / like)
    header, body = {}, b""
    for tensor, parts in tensors(held).items():
        data = b"".join(held[p][2] for p in parts)
        shape = [sum(held[p][1][0] for p in parts), *held[parts[0]][1][1:]]
        header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    r.save_raw(place / "model.safetensors", header, body)
    options = RECORD["cases"][like]["options"]
    one, other = train(GOLDEN / "models" / like, folder / f"{name}-like", options, "f32"), train(place, folder / f"{name}-run", options, "f32")
    r.check(r.metrics(one) == r.metrics(other), f"{name} trains otherwise than {like}")
    ends, same = r.load_tensors(other / "model"), r.load_tensors(one / "model")
    for tensor, parts in tensors(held).items():
        r.check(ends[tensor][2] == b"".join(same[p][2] for p in parts), f"{name}: {tensor} ends otherwise than that of {like}")


def test_families_that_are_llama(folder):
    def same(held):
        return {name: [name] for name in held}

    def packed(held):
        out = {name: [name] for name in held if not any(x in name for x in ("q_proj", "k_proj", "v_proj"))}
        for name in held:
            if "q_proj" in name:
                out[name.replace("q_proj", "W_pack")] = [name.replace("q_proj", x) for x in ("q_proj", "k_proj", "v_proj")]
        return out

    alike(folder, "aquila", "llama", {}, same)
    alike(folder, "internlm", "llama_bias", {"bias": True, "attention_bias": None, "num_key_value_heads": None, "rope_theta": None}, same)
    alike(folder, "baichuan", "llama", {"num_key_value_heads": None, "rope_theta": None}, packed)


if __name__ == "__main__":
    r.main(globals())
