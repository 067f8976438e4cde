"""`ravine replay optimizer`: every update rule against its formula, written down here once more as plain loops over lists, in double.

python3 optimizers.py PATH_OF_ravine [FUNCTION ..]
"""
import array
import json
import math
import random
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import check

STEPS, LR = 7, 0.02
SHAPES = {"embed": (5, 3), "tall": (6, 4), "wide": (3, 7), "cube": (2, 3, 4), "bias": (5,)}
F64 = ["--backend", "ref", "precision.compute=f64"]


def make_input(folder, ranks=1, seed=1):
    """(path, {name: numbers}, {name: [ranks][steps][numbers]}, rates), all of them f32 numbers."""
    draw = random.Random(seed)
    single = lambda xs: array.array("f", xs).tolist()
    size = lambda s: math.prod(s)
    p = {n: single(draw.gauss(0, 0.5) for _ in range(size(s))) for n, s in SHAPES.items()}
    g = {n: [[single(draw.gauss(0, 1) * 10 ** draw.uniform(-2, 0) for _ in range(size(s))) for _ in range(STEPS)] for _ in range(ranks)] for n, s in SHAPES.items()}
    lrs = single(LR * (0.3 + 0.7 * math.cos(0.2 * k)) for k in range(STEPS))
    tensors = {f"p.{n}": ("F32", s, p[n]) for n, s in SHAPES.items()}
    for n, s in SHAPES.items():
        tensors[f"g.{n}"] = ("F32", ((ranks,) if ranks > 1 else ()) + (STEPS, *s), [x for rank in g[n] for step in rank for x in step])
    return r.save_tensors(folder / f"in{ranks}.safetensors", {**tensors, "lrs": ("F32", (STEPS,), lrs)}), p, g, lrs


def load(path):
    header, body = r.load_raw(path)
    kinds = {"F64": "d", "F32": "f"}
    return {n: (t["shape"], array.array(kinds[t["dtype"]], body[slice(*t["data_offsets"])]).tolist()) for n, t in header.items()
            if n != "__metadata__" and t["dtype"] in kinds}


def replay(folder, source, *options, out="out.safetensors", status=0):
    done = r.run("replay", "optimizer", "--input", source, "--out", folder / out, "--overwrite", *options, status=status)
    return done.stderr if status else load(folder / out)


# One step of each rule: what(p, g, state, t, lr, shape) changes the lists p and state; wd is the decay.

def norm(x):
    return math.sqrt(sum(v * v for v in x))


def rms(x):
    return norm(x) / math.sqrt(len(x))


def adam_moments(s, g, b1, b2):
    m, v = s.setdefault("m", [0.0] * len(g)), s.setdefault("v", [0.0] * len(g))
    for i, x in enumerate(g):
        m[i] = b1 * m[i] + (1 - b1) * x
        v[i] = b2 * v[i] + (1 - b2) * x * x
    return m, v


def adamw(p, g, s, t, lr, shape, wd, b1=0.9, b2=0.95, eps=1e-8, l2=False):
    m, v = adam_moments(s, [x + wd * w for x, w in zip(g, p)] if l2 else g, b1, b2)
    for i in range(len(p)):
        p[i] -= (0 if l2 else lr * wd * p[i]) + lr * (m[i] / (1 - b1 ** t)) / (math.sqrt(v[i] / (1 - b2 ** t)) + eps)


def sgd(p, g, s, t, lr, shape, wd):
    for i, x in enumerate(g):
        x += wd * p[i]
        b = s.setdefault("b", [0.0] * len(g))
        b[i] = x if t == 1 else 0.9 * b[i] + x
        p[i] -= lr * b[i]


def adagrad(p, g, s, t, lr, shape, wd):
    for i, x in enumerate(g):
        x += wd * p[i]
        total = s.setdefault("sum", [0.25] * len(g))
        total[i] += x * x
        p[i] -= lr / (1 + (t - 1) * 0.1) * x / (math.sqrt(total[i]) + 1e-10)


def lion(p, g, s, t, lr, shape, wd):
    m = s.setdefault("m", [0.0] * len(g))
    for i, x in enumerate(g):
        p[i] -= lr * wd * p[i] + math.copysign(lr, 0.9 * m[i] + 0.1 * x)
        m[i] = 0.99 * m[i] + 0.01 * x


def lamb(p, g, s, t, lr, shape, wd):
    m, v = adam_moments(s, g, 0.9, 0.999)
    u = [a / (math.sqrt(b) + 1e-6) + wd * w for a, b, w in zip(m, v, p)]
    ratio = min(max(norm(p) / norm(u), 0.01), 10.0)
    for i in range(len(p)):
        p[i] -= lr * math.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * ratio * u[i]


def factored(s, key, x, shape, decay, eps):
    """x / sqrt(row col / mean(row)) of each matrix, after its means of squares have moved; the vector's own squares."""
    if len(shape) < 2:
        v = s.setdefault(key, [0.0] * len(x))
        for i, a in enumerate(x):
            v[i] = decay * v[i] + (1 - decay) * (a * a + eps)
        return lambda y: [a / math.sqrt(b) for a, b in zip(y, v)]
    rows, columns = shape[-2:]
    matrices = len(x) // (rows * columns)
    row, col = s.setdefault(key + "r", [0.0] * (matrices * rows)), s.setdefault(key + "c", [0.0] * (matrices * columns))
    at = lambda k, i, j: x[(k * rows + i) * columns + j] ** 2 + eps
    for k in range(matrices):
        for i in range(rows):
            row[k * rows + i] = decay * row[k * rows + i] + (1 - decay) * sum(at(k, i, j) for j in range(columns)) / columns
        for j in range(columns):
            col[k * columns + j] = decay * col[k * columns + j] + (1 - decay) * sum(at(k, i, j) for i in range(rows)) / rows
    mean = [sum(row[k * rows:(k + 1) * rows]) / rows for k in range(matrices)]
    return lambda y: [a / math.sqrt(row[i // columns] / mean[i // (rows * columns)]) / math.sqrt(col[i // (rows * columns) * columns + i % columns]) for i, a in enumerate(y)]


def adafactor(p, g, s, t, lr, shape, wd):
    u = factored(s, "v", g, shape, 1 - t ** -0.8, 1e-30)(g)
    lr *= max(1e-3, rms(p))
    scale = lr / max(1.0, rms(u) / 0.8)
    m = s.setdefault("m", [0.0] * len(g))
    for i in range(len(p)):
        m[i] = 0.6 * m[i] + 0.4 * scale * u[i]
        p[i] -= lr * wd * p[i] + m[i]


def came(p, g, s, t, lr, shape, wd):
    u = factored(s, "v", g, shape, 1 - t ** -0.8, 1e-30)(g)
    u = [x / max(1.0, rms(u)) for x in u]
    m = s.setdefault("m", [0.0] * len(g))
    for i in range(len(p)):
        m[i] = 0.9 * m[i] + 0.1 * u[i]
    way = factored(s, "i", [a - b for a, b in zip(u, m)], shape, 0.99, 1e-16)(m) if len(shape) > 1 else m
    for i in range(len(p)):
        p[i] -= lr * wd * p[i] + lr * way[i]


def half(x):
    """Rounded to f16, by way of bytes."""
    import struct
    return struct.unpack("<e", struct.pack("<e", x))[0]


def single(x):
    return array.array("f", [x])[0]


def cadam(p, g, s, t, lr, shape, wd):
    columns = shape[-1]
    q, scale = s.setdefault("q", [0.0] * len(g)), s.setdefault("s", [1.0] * (len(g) // columns))
    for row in range(len(scale)):
        at = range(row * columns, (row + 1) * columns)
        m = [0.965 * q[i] * scale[row] + (1 - 0.965) * g[i] for i in at]
        scale[row] = single(max(map(abs, m)) / 65503 + 1e-8)
        for i, x in zip(at, m):
            q[i] = half(min(max(x / scale[row], -65503), 65503))
            p[i] -= lr * wd * p[i] + (math.copysign(lr, x) if x else 0)


def product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def muon(p, g, s, t, lr, shape, wd, name="", factor=lambda rows, columns: 0.2 * math.sqrt(max(rows, columns))):
    if len(shape) < 2 or "embed" in name:
        return adamw(p, g, s, t, lr, shape, wd)
    m = s.setdefault("m", [0.0] * len(g))
    for i, x in enumerate(g):
        m[i] = 0.95 * m[i] + 0.05 * x
    rows, columns = shape[-2:]
    for k in range(len(p) // (rows * columns)):
        at = lambda i, j: (k * rows + i) * columns + j
        x = [[0.05 * g[at(i, j)] + 0.95 * m[at(i, j)] for j in range(columns)] for i in range(rows)]
        size = max(math.sqrt(sum(v * v for row in x for v in row)), 1e-7)
        x = [[v / size for v in row] for row in x]
        if rows > columns:
            x = list(map(list, zip(*x)))
        for _ in range(5):
            a = product(x, list(zip(*x)))
            b = product(a, a)
            b = [[-4.775 * u + 2.0315 * v for u, v in zip(*two)] for two in zip(a, b)]
            x = [[3.4445 * u + v for u, v in zip(*two)] for two in zip(x, product(b, x))]
        if rows > columns:
            x = list(map(list, zip(*x)))
        for i in range(rows):
            for j in range(columns):
                p[at(i, j)] -= lr * wd * p[at(i, j)] + lr * factor(rows, columns) * x[i][j]


# Options, the rule, and what its steps may be off by, relative: products of muon are summed in another order, and its five steps multiply what is off.
RULES = {
    "adamw": ({"weight_decay": 0.1}, adamw), "adam": ({"weight_decay": 0.1}, lambda *a: adamw(*a, l2=True)),
    "sgd": ({"momentum": 0.9, "weight_decay": 0.1}, sgd), "adagrad": ({"initial_accumulator_value": 0.25, "lr_decay": 0.1, "weight_decay": 0.1}, adagrad),
    "lion": ({"betas": [0.9, 0.99], "weight_decay": 0.1}, lion), "lamb": ({"eps": 1e-6, "weight_decay": 0.1}, lamb),
    "adafactor": ({"relative_step": False, "clip_threshold": 0.8, "beta1": 0.6, "weight_decay": 0.1}, adafactor), "came": ({"weight_decay": 0.1}, came),
    "cadam": ({"beta1": 0.965, "weight_decay": 0.1}, cadam), "muon": ({"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.1}, muon),
    "muon, original": ({"adjust_lr_fn": "original", "weight_decay": 0.1}, lambda *a: muon(*a, factor=lambda rows, columns: math.sqrt(max(1, rows / columns)))),
}


def expected(kind, rule, p, g, lrs, wd):
    """{name: numbers before and after every step, one after the other}."""
    out = {}
    for n, shape in SHAPES.items():
        w, state, out[n] = list(p[n]), {}, list(p[n])
        for t in range(1, STEPS + 1):
            rule(w, g[n][0][t - 1], state, t, lrs[t - 1], shape, wd, *([n] if kind.startswith("muon") else []))
            out[n] += w
    return out


def settings(kind, options):
    return r.settings({"optimizer.type": kind.split(",")[0], "optimizer.decay": "all", **{f"optimizer.{k}": v for k, v in options.items()}})


def test_rules_are_their_formulas(folder):
    source, p, g, lrs = make_input(folder)
    for kind, (options, rule) in RULES.items():
        want = expected(kind, rule, p, g, lrs, options["weight_decay"])
        judge, own = (replay(folder, source, *settings(kind, options), *more) for more in (F64, []))
        for n, shape in SHAPES.items():
            top = max(map(abs, want[n]))
            check(judge["p." + n][0] == own["p." + n][0] == [STEPS + 1, *shape], f"{kind}: p.{n} is {judge['p.' + n][0]}")
            off = max(abs(a - b) for a, b in zip(judge["p." + n][1], want[n])) / top
            check(off < 1e-10 if kind.startswith("muon") else off < 1e-13, f"{kind}: p.{n} is off by {off}")
            # f32: a few roundings of 2^-24 a step, of p and of the step, which m (a difference) and roots of v make larger.
            off = max(abs(a - b) for a, b in zip(own["p." + n][1], want[n])) / top
            check(off < STEPS * 2 ** -20, f"{kind} in f32: p.{n} is off by {off}")


def test_matrices_alone_decay_unless_all_do(folder):
    source, *_ = make_input(folder)
    for kind in RULES:
        options = {k: v for k, v in RULES[kind][0].items() if k != "weight_decay"}
        none, some = (replay(folder, source, *settings(kind, {**options, "weight_decay": wd}), "optimizer.decay=matrices", *F64) for wd in (0, 0.1))
        check(none["p.bias"] == some["p.bias"] and none["p.tall"] != some["p.tall"], f"{kind}: what decays")


def test_rates_of_a_schedule_and_clipping(folder):
    source, p, g, lrs = make_input(folder)
    header, body = r.load_raw(source)
    del header["lrs"]
    last = max(t["data_offsets"][1] for t in header.values())
    r.save_raw(folder / "no_lrs.safetensors", header, body[:last])
    got = replay(folder, folder / "no_lrs.safetensors", "optimizer.type=sgd", "optimizer.momentum=0", "optimizer.weight_decay=0", "optimizer.lr=0.5", "schedule.type=linear",
                 "schedule.warmup_steps=2", *F64)["p.bias"][1]
    for k in range(STEPS):  # the schedule is as long as the file
        rate = 0.5 * (k / 2 if k < 2 else (STEPS - k) / (STEPS - 2))
        check(abs(got[5 * k] - got[5 * k + 5] - rate * g["bias"][0][k][0]) < 1e-14, f"step {k + 1}")
    clipped = replay(folder, source, "optimizer.type=sgd", "optimizer.momentum=0", "optimizer.weight_decay=0", "optimizer.clip_norm=0.5", *F64)["p.bias"][1]
    size = math.sqrt(sum(x * x for n in SHAPES for x in g[n][0][0]))
    check(size > 0.5 and abs(clipped[0] - clipped[5] - lrs[0] * g["bias"][0][0][0] * 0.5 / (size + 1e-6)) < 1e-14, "clipped")


def test_threads_change_no_bit(folder):
    source, *_ = make_input(folder)
    for kind in [*RULES, "onebit_adam", "zeroone_adam", "onebit_lamb"]:
        a, b = (replay(folder, source, *settings(kind, {"relative_step": False} if kind == "adafactor" else {}), f"--threads={n}") for n in (1, 3))
        check(a == b, kind)


def test_mistakes_are_named(folder):
    source, *_ = make_input(folder)
    def refused(tensors, *words, options=()):
        text = replay(folder, r.save_tensors(folder / "bad.safetensors", tensors), *options, status=2)
        check(all(w in text for w in words), f"{words}: {text}")
    one = ("F32", (2,), [1, 2])
    refused({"p.a": one}, "'p.a' has no gradients", "add 'g.a'")
    refused({"g.a": one}, "'g.a' has no parameter")
    refused({"p.a": one, "g.a": ("F32", (3, 3), [0] * 9)}, "'g.a' is [3, 3]", "it must be [S, 2]")
    refused({"p.a": one, "g.a": ("F32", (2, 3, 2), [0] * 12)}, "gradients of 2 ranks, and 1 run", "start it with mpirun -n 2")
    refused({"p.a": one, "g.a": ("F32", (1, 2), [0, 0]), "p.b": one, "g.b": ("F32", (2, 2), [0] * 4)}, "has 2 steps, others 1")
    refused({"p.a": one, "g.a": ("F32", (1, 2), [0, 0]), "lrs": one}, "'lrs' is [2]", "one rate for each of 1 steps")
    refused({"p.a": one, "g.a": ("F32", (1, 2), [0, math.nan])}, "gradients of step 1 are not finite")
    refused({"p.a": ("I64", (2,), [1, 2]), "g.a": ("F32", (1, 2), [0, 0])}, "'p.a' is i64")
    refused({"p.a": ("F32", (2,), [1, math.nan]), "g.a": ("F32", (1, 2), [0, 0])}, "'p.a' holds nan")
    refused({"x": one}, "'x' in the file")
    text = replay(folder, source, "optimizer.type=adafactor", status=2)
    check("relative_step" in text and "leave out lrs" in text, text)
    (folder / "mine").write_text("x")
    done = r.run("replay", "optimizer", "--input", source, "--out", folder / "mine", status=2)
    check("--overwrite" in done.stderr and (folder / "mine").read_text() == "x", done.stderr)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
