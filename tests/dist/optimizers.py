"""`ravine replay optimizer` on two ranks: rules that take the mean gradient against one rank that is given it, and 1-bit Adam against its formula.

python3 optimizers.py PATH_OF_ravine [FUNCTION ..]
"""
import array
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from training import LAUNCH, launch
import given_gradients as given
import ravine_run as r
from ravine_run import check

STEPS, FREEZE = 9, 4
SHAPES = {"w": (6, 5), "b": (7,)}
F64 = ["--backend", "ref", "precision.compute=f64"]


def single(xs):
    return array.array("f", xs).tolist()


def make_input(folder):
    """(path for two ranks, path for one with the means, {name: numbers}, {name: [rank][step][numbers]}, rates)"""
    draw = random.Random(3)
    p = {n: single(draw.gauss(0, 0.5) for _ in range(math.prod(s))) for n, s in SHAPES.items()}
    g = {n: [[single(draw.gauss(0, 1) for _ in range(math.prod(s))) for _ in range(STEPS)] for _ in range(2)] for n, s in SHAPES.items()}
    lrs = single(0.01 * (1 + k % 3) for k in range(STEPS))
    common = {**{f"p.{n}": ("F32", s, p[n]) for n, s in SHAPES.items()}, "lrs": ("F32", (STEPS,), lrs)}
    flat = lambda x: [v for y in x for v in (flat(y) if isinstance(y, list) else [y])]
    two = {f"g.{n}": ("F32", (2, STEPS, *s), flat(g[n])) for n, s in SHAPES.items()}
    # Halves of f32 numbers are exact; their sum is rounded once, here as there.
    mean = {f"g.{n}": ("F32", (STEPS, *s), single((a + b) / 2 for a, b in zip(flat(g[n][0]), flat(g[n][1])))) for n, s in SHAPES.items()}
    return r.save_tensors(folder / "two.safetensors", {**common, **two}), r.save_tensors(folder / "mean.safetensors", {**common, **mean}), p, g, lrs


def replay(folder, source, ranks, *words):
    out = folder / f"out{ranks}.safetensors"
    done = subprocess.run([*(LAUNCH + ["-n", str(ranks)] if ranks > 1 else []), *r.command("replay", "optimizer", "--input", source, "--out", out, "--overwrite", *words)],
                          capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == 0, done.stderr)
    header, body = r.load_raw(out)
    kinds = {"F64": "d", "F32": "f"}
    return {n: (t["shape"], array.array(kinds[t["dtype"]], body[slice(*t["data_offsets"])]).tolist()) for n, t in header.items() if t.get("dtype") in kinds}


def test_rules_take_the_mean_gradient(folder):
    two, mean, *_ = make_input(folder)
    for kind in r.rows(("adamw", "lamb", "muon"), 1, "the mean is taken before any rule"):
        a, b = replay(folder, two, 2, f"optimizer.type={kind}"), replay(folder, mean, 1, f"optimizer.type={kind}")
        for n, s in SHAPES.items():
            check(a["p." + n][0] == [2, STEPS + 1, *s] and b["p." + n][0] == [STEPS + 1, *s], f"{kind}: {a['p.' + n][0]}")
            check(a["p." + n][1] == b["p." + n][1] * 2, f"{kind}: p.{n} differs from one rank with the mean")


def compressed(mine, worker, server, padded):
    """The mean of two ranks as DeepSpeed's CompressedBackend leaves it."""
    sign = lambda x: 1.0 if x >= 0 else -1.0
    scale = lambda x: math.sqrt(sum(v * v for v in x) / len(x))
    sent = []
    for k in range(2):
        c = [a + b for a, b in zip(mine[k] + [0.0] * (padded - len(mine[k])), worker[k])]
        s = scale(c)
        worker[k] = [v - s * sign(v) for v in c]
        sent.append([s * sign(v) for v in c])
    out, half = [], padded // 2
    for k in range(2):
        c = [(a + b) / 2 + e for a, b, e in zip(sent[0][k * half:(k + 1) * half], sent[1][k * half:(k + 1) * half], server[k])]
        s = scale(c)
        server[k] = [v - s * sign(v) for v in c]
        out += [s * sign(v) for v in c]
    return out[:len(mine[0])]


def test_onebit_adam_is_its_formula(folder):
    two, _, p, g, lrs = make_input(folder)
    got = replay(folder, two, 2, "optimizer.type=onebit_adam", f"optimizer.freeze_step={FREEZE}", "optimizer.weight_decay=0.1", "optimizer.decay=all", *F64)
    for n, shape in SHAPES.items():
        size, padded = math.prod(shape), -(-math.prod(shape) // 16) * 16
        w, m, v, want = list(p[n]), [0.0] * size, [0.0] * size, list(p[n])
        worker, server = [[0.0] * padded for _ in range(2)], [[0.0] * (padded // 2) for _ in range(2)]
        for t in range(1, STEPS + 1):
            mine = [g[n][k][t - 1] for k in range(2)]
            if 1 < t <= FREEZE:
                mean = [(a + b) / 2 for a, b in zip(*mine)]
                m = [0.9 * a + 0.1 * b for a, b in zip(m, mean)]
                v = [0.999 * a + 0.001 * b * b for a, b in zip(v, mean)]
            elif t > FREEZE:
                m = compressed([[0.9 * a + 0.1 * b for a, b in zip(m, x)] for x in mine], worker, server, padded)
            if t > 1:  # the first changes nothing
                w = [a - lrs[t - 1] * (b / (math.sqrt(c) + 1e-8) + 0.1 * a) for a, b, c in zip(w, m, v)]
            want += w
        off = max(abs(a - b) for a, b in zip(got["p." + n][1], want * 2))
        check(off < 1e-12, f"p.{n} is off by {off}")


def test_ranks_go_on_with_their_own(folder):
    """Between two exchanges of zeroone_adam ranks hold weights and errors of their own: a resume on as many has the bits of a run left alone, on
    others it says what is dropped. The model has the weights of one rank, not parts of several."""
    config = r.save_config(folder / "config.json", hidden_size=64, intermediate_size=192)  # buckets that ZeRO would divide
    data = r.save_ids(folder / "ids.safetensors", 20, 17)
    base = {"model.config": config, "data.train": [data], "data.sequence_length": 17, "train.global_batch": 2, "train.micro_batch": 1, "optimizer.lr": 0.01,
            "schedule.type": "constant", "schedule.warmup_steps": 0, "log.tensorboard": False, "checkpoint.every": 100, "optimizer.type": "zeroone_adam",
            "optimizer.var_freeze_step": 2, "optimizer.local_step_scaler": 1}

    def train(output, steps, ranks=2, **more):
        words = r.command("train", *r.settings({**base, "train.output": str(folder / output), "train.steps": steps, "parallel.data": ranks, **more}))
        done = subprocess.run([*LAUNCH, "-n", str(ranks), *words] if ranks > 1 else words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
        check(done.returncode == 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stderr
    train("alone", 9)
    said = train("stopped", 7) + train("stopped", 9)
    check("per-rank error buffers" not in said, said)
    told = r.run("diff", folder / "alone/checkpoints/step_000009", folder / "stopped/checkpoints/step_000009").stdout
    check("bitwise equal" in told and " not" not in told, told)
    names = [t["name"] for t in json.loads((folder / "alone/checkpoints/step_000009/manifest.json").read_text())["tensors"]]
    check("rank_00001/weights/lm_head.weight" in names and "rank_00001/errors/lm_head.weight" in names, names)
    # Before an exchange the model is that of the first rank, bit for bit.
    for kind in ("", "rank_00000/"):
        check(f"{kind}weights/lm_head.weight" in names, names)
    header, body = r.load_raw(folder / "alone/checkpoints/step_000009/state-00000.safetensors")
    part = lambda name: body[slice(*header[name]["data_offsets"])]
    for name in [n for n in names if n.startswith("weights/")]:
        check(part(name) == part("rank_00000/" + name), f"{name} is not that of the first rank")
    said = train("stopped", 10, ranks=1)
    check("per-rank error buffers of" in said and "they restart at zero" in said, said)
    # Ranks part between exchanges; clipped to every step, exchanges leave roundings of f32 between them.
    train("clipped", 9, **{"optimizer.local_step_clipper": 1})
    far = {}
    for output in ("alone", "clipped"):
        ranks = []
        for rank in range(2):
            header, body = r.load_raw(folder / f"{output}/checkpoints/step_000009/state-{rank:05}.safetensors")
            ranks.append(array.array("f", body[slice(*header[f"rank_{rank:05}/weights/lm_head.weight"]["data_offsets"])]))
        far[output] = max(abs(a - b) for a, b in zip(*ranks)) / max(map(abs, ranks[0]))
    check(far["alone"] > 1e-3 and far["clipped"] < 9 * 2 ** -24, f"{far}")


def test_the_norm_of_ranks_that_see_the_same(folder):
    """Behind the freeze a rank knows its own gradient only. Where two ranks have the same rows that is the gradient of one."""
    config = r.save_config(folder / "config.json")
    data = r.save_ids(folder / "ids.safetensors", 1, 17)
    header, body = r.load_raw(Path(data))
    kind, shape = next(iter(header.values()))["dtype"], [20, 17]
    row = array.array({"I32": "i", "I64": "q"}[kind], body).tolist()
    same = r.save_tensors(folder / "same.safetensors", {"input_ids": (kind, shape, row * 20)})
    norms = []
    for ranks in (1, 2):
        words = r.command("train", *r.settings({"model.config": config, "data.train": [same], "data.sequence_length": 17, "train.global_batch": ranks, "train.micro_batch": 1, "optimizer.lr": 0.01,
                                                "schedule.type": "constant", "schedule.warmup_steps": 0, "log.tensorboard": False, "checkpoint.every": 0, "optimizer.type": "onebit_adam",
                                                "optimizer.freeze_step": 2, "train.steps": 4, "train.output": folder / f"run{ranks}", "parallel.data": ranks}))
        done = subprocess.run([*(LAUNCH + ["-n", str(ranks)] if ranks > 1 else []), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
        check(done.returncode == 0, done.stderr)
        norms.append([m["grad_norm"] for m in r.metrics(folder / f"run{ranks}").values()])
    # The third step is the first behind the freeze, from the same weights.
    check(all(abs(a - b) <= 1e-5 * a for a, b in zip(norms[0][:3], norms[1][:3])), f"{norms}")


def test_every_layout_takes_given_gradients(folder):
    """train.given_gradients over data ranks with ZeRO, tensor ranks and stages: the weights of one rank."""
    p = given.begin(folder)
    names, g = given.order_of(folder / "start"), given.draw_gradients(p)
    source = given.write_numbered(folder / "grads", names, p, g, 1)
    wanted, norm = given.adamw(p, g, given.CLIP)
    for name, layout in {"zero0": {"zero": 0}, "zero2": {"zero": 2}, "zero3": {"zero": 3}, "tensor": {"tensor": 2}, "stages": {"pipeline": 2}}.items():
        _, got = given.train(folder, name, source, launch=lambda *words: launch(2, words), **{"train.micro_batch": 1, **{f"parallel.{k}": v for k, v in layout.items()}})
        check(given.apart(got, wanted) < 2e-6, f"{name}: {given.apart(got, wanted)}")
        check(abs(r.metrics(folder / name)[1]["grad_norm"] - norm) < 1e-5 * norm, name)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
