"""`train.given_gradients` and `replay optimizer --gradients`: gradients of another program in place of a run's own.

The gradients are drawn here, and written as .npy, .npz and safetensors. The weights after the step are those of AdamW, written down once more.
"""
import array
import io
import json
import math
import random
import struct
import sys
import zipfile

import ravine_run as r
from ravine_run import check

LR, WD, EPS = 1e-2, 0.1, 1e-8
CLIP = 0.5
SETTINGS = {"optimizer.lr": LR, "optimizer.weight_decay": WD, "optimizer.clip_norm": CLIP, "schedule.type": "constant", "precision.compute": "f32"}


def npy(shape, numbers, kind="f"):
    code = {"f": "<f4", "d": "<f8"}[kind]
    head = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + array.array(kind, numbers).tobytes()


def begin(folder):
    """The parameters of the tiny model in their order, before the first step: {name: (shape, numbers)}."""
    r.run("train", *r.options(folder, folder / "start", **{"train.steps": 1, "optimizer.lr": 0, "precision.compute": "f32", "checkpoint.model_dtype": "f32"}))
    return stored(folder / "start")


def stored(output):
    tensors = {}
    for name, (kind, shape, data) in r.load_tensors(output / "model").items():
        check(kind == "F32", (name, kind))
        tensors[name] = (shape, array.array("f", data).tolist())
    return tensors


def order_of(output):
    """Parameters in the order of the model: the embedding, the layers, the norm, the head."""
    names = list(stored(output))

    def place(n):
        parts = n.split(".")
        layer = int(parts[2]) if parts[1] == "layers" else -1 if "embed" in n else 10**6 + ("lm_head" in n)
        inner = ["input_layernorm", "q_proj", "k_proj", "v_proj", "o_proj", "post_attention_layernorm", "gate_proj", "up_proj", "down_proj"]
        return layer, next((i for i, x in enumerate(inner) if x in n), 0)
    return sorted(names, key=place)


def draw_gradients(p, seed=5, scale=0.02):
    draw = random.Random(seed)
    return {n: array.array("f", (draw.gauss(0, scale) for _ in x)).tolist() for n, (_, x) in p.items()}


def adamw(p, g, clip):
    """AdamW's first step: m / c1 is g, v / c2 is g squared."""
    norm = math.sqrt(math.fsum(x * x for v in g.values() for x in v))
    scale = min(1.0, clip / (norm + 1e-6)) if clip else 1.0
    out = {}
    for n, (shape, x) in p.items():
        wd = WD if len(shape) > 1 else 0
        out[n] = [w * (1 - LR * wd) - LR * (scale * d) / (abs(scale * d) + EPS) for w, d in zip(x, g[n])]
    return out, norm


def apart(a, b):
    return max(abs(x - y) for n in a for x, y in zip(a[n], b[n]))


def train(folder, name, given, when="before_clip", launch=None, **more):
    out = folder / name
    words = r.options(folder, out, **{"train.steps": 1, "checkpoint.model_dtype": "f32", "train.given_gradients": f"{{path: {given}, when: {when}}}", **SETTINGS, **more})
    done = r.run("train", *words) if launch is None else launch("train", *words)
    return done, {n: x for n, (_, x) in stored(out).items()}


def write_numbered(folder, names, p, g, first):
    folder.mkdir()
    for i, n in enumerate(names):
        (folder / f"grad_{i + first}.npy").write_bytes(npy(p[n][0], g[n]))
    return folder


def test_a_step_takes_the_given_gradients(folder):
    p = begin(folder)
    names, g = order_of(folder / "start"), draw_gradients(p)
    matrices_first = [n for n in names if len(p[n][0]) > 1] + [n for n in names if len(p[n][0]) == 1]
    wanted, norm = adamw(p, g, CLIP)
    check(norm > 2 * CLIP, norm)
    with zipfile.ZipFile(folder / "g.npz", "w") as z:
        for n in names:
            z.writestr(f"{n}.npy", npy(p[n][0], g[n], "d"))
    sources = {"zero": write_numbered(folder / "from0", names, p, g, 0), "one": write_numbered(folder / "from1", names, p, g, 1),
               "groups": write_numbered(folder / "from_groups", matrices_first, p, g, 1), "npz": folder / "g.npz",
               "tensors": r.save_tensors(folder / "g.safetensors", {f"module.{n}": ("F32", p[n][0], g[n]) for n in names})}
    said = {"zero": "numbered from 0", "one": "numbered from 1, in the order of the parameters", "groups": "weight decay first", "npz": "by name", "tensors": "by name"}
    for name, source in sources.items():
        done, got = train(folder, name, source)
        check(apart(got, wanted) < 2e-6, f"{name}: {apart(got, wanted)}")
        check(said[name] in done.stderr and "before clipping" in done.stderr, done.stderr)
        check(abs(r.metrics(folder / name)[1]["grad_norm"] - norm) < 1e-5 * norm, "the norm is that of the given gradients")
    # Clipped already: the step does not clip again. A tiny gradient shows it through eps.
    small = {n: [x * 1e-6 for x in v] for n, v in g.items()}
    large = {n: [x * 1e-6 * (1e6 if n == names[0] else 1) for x in v] for n, v in g.items()}
    for when, clip in (("before_clip", CLIP), ("after_clip", 0)):
        _, got = train(folder, when, write_numbered(folder / f"g_{when}", names, p, large, 0), when)
        wanted, _ = adamw(p, large, clip)
        check(apart(got, wanted) < 2e-6, f"{when}: {apart(got, wanted)}")
    check(apart(adamw(p, large, CLIP)[0], adamw(p, large, 0)[0]) > 1e-4 and small, "both are the same here, so nothing is shown")


def test_steps_behind_the_given_ones_are_the_runs_own(folder):
    p = begin(folder)
    names, g = order_of(folder / "start"), draw_gradients(p)
    source = write_numbered(folder / "g", names, p, g, 1)
    done, _ = train(folder, "two", source, **{"train.steps": 2})
    check("from step 2 on the gradients are the run's own" in done.stderr, done.stderr)
    rows = r.metrics(folder / "two")
    check(abs(rows[1]["grad_norm"] - adamw(p, g, 0)[1]) < 1e-4 and abs(rows[2]["grad_norm"] - rows[1]["grad_norm"]) > 1e-2, rows)
    # Two steps in one file.
    twice = {n: ("F32", (2, *p[n][0]), g[n] + [2 * x for x in g[n]]) for n in names}
    done, _ = train(folder, "both", r.save_tensors(folder / "twice.safetensors", twice), **{"train.steps": 2})
    rows = r.metrics(folder / "both")
    check(abs(rows[2]["grad_norm"] - 2 * rows[1]["grad_norm"]) < 1e-4, rows)


def test_pairs_that_are_not_told_are_refused(folder):
    p = begin(folder)
    names, g = order_of(folder / "start"), draw_gradients(p)
    swapped = list(names)
    i, k = names.index("model.layers.0.input_layernorm.weight"), names.index("model.layers.0.mlp.gate_proj.weight")
    swapped[i], swapped[k] = swapped[k], swapped[i]
    source = write_numbered(folder / "swapped", swapped, p, g, 0)
    words = lambda given: r.options(folder, folder / "refused", **{"train.steps": 1, "train.given_gradients": f"{{path: {given}}}"})
    text = r.run("train", *words(source), status=2).stderr
    check("map.json" in text and "have this shape" in text, text)
    (source / "map.json").write_text(json.dumps({f"grad_{i}": n for i, n in enumerate(swapped)}))
    done, got = train(folder, "mapped", source)
    check("by map.json" in done.stderr and apart(got, adamw(p, g, CLIP)[0]) < 2e-6, done.stderr)
    few = write_numbered(folder / "few", names[:-1], p, g, 0)
    check(f"{len(names) - 1} arrays for {len(names)} parameters" in r.run("train", *words(few), status=2).stderr, "too few")
    bad = dict(g)
    bad[names[0]] = [math.nan] + g[names[0]][1:]
    check("nan" in r.run("train", *words(write_numbered(folder / "nan", names, p, bad, 0)), status=2).stderr, "not finite")
    other = {n: ("F32", [7] if n == names[0] else p[n][0], [0.0] * 7 if n == names[0] else g[n]) for n in names}
    text = r.run("train", *words(r.save_tensors(folder / "shape.safetensors", other)), status=2).stderr
    check("the array is [7]" in text and names[0] in text, text)
    check("no such file" in r.run("train", *words(folder / "none"), status=2).stderr, "missing")


def test_replay_takes_them_too(folder):
    p = begin(folder)
    names, g = order_of(folder / "start"), draw_gradients(p)
    source = write_numbered(folder / "g", names, p, g, 1)
    before = r.save_tensors(folder / "before.safetensors", {n: ("F32", p[n][0], p[n][1]) for n in names})
    words = r.settings({"schedule.warmup_steps": 0, **{k: v for k, v in SETTINGS.items() if not k.startswith("precision")}})
    for when, clip in (("before_clip", CLIP), ("after_clip", 0)):
        out = folder / f"{when}.safetensors"
        done = r.run("replay", "optimizer", "--input", before, "--gradients", source, "--when", when, "--out", out, *words)
        check("paired" in done.stderr, done.stderr)
        header, body = r.load_raw(out)
        got = {n: array.array("f", body[slice(*header[f"p.{n}"]["data_offsets"])]).tolist()[len(p[n][1]):] for n in names}
        check(apart(got, adamw(p, g, clip)[0]) < 2e-6, when)
    # And to name what another optimizer did with them.
    after = adamw(p, g, 0)[0]
    after = {n: [w - LR * WD * x if len(p[n][0]) == 1 else w for w, x in zip(after[n], p[n][1])] for n in names}
    saved = r.save_tensors(folder / "after.safetensors", {n: ("F32", p[n][0], after[n]) for n in names})
    said = json.loads(r.run("replay", "optimizer", "--input", before, "--gradients", source, "--identify", "--after", saved, "--json", *words).stdout)
    check({"setting": "decayed", "value": "all"} in said["identified"], said)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
