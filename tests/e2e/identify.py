"""`ravine replay optimizer --identify`: settings that were planted in an update are named, alone and in pairs.

The updates are made here, by AdamW and Adam written down once more as plain loops, with weights and moments rounded to f32 at each step.
"""
import array
import json
import math
import random
import sys

import ravine_run as r
from ravine_run import check

SHAPES = {"embed_tokens.weight": (12, 8), "layers.0.up.weight": (16, 8), "layers.0.down.weight": (8, 16), "layers.0.norm.weight": (8,), "head.bias": (16,)}
STEPS = 5
BASE = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "decayed": "matrices", "clip_norm": 1.0, "bias_correction": True, "order": "decoupled"}
OPTIONS = ["optimizer.lr=0.001", "optimizer.betas=[0.9, 0.95]", "optimizer.weight_decay=0.1", "optimizer.clip_norm=1", "schedule.type=constant", "schedule.warmup_steps=0"]

# Ten planted settings and more, then ten pairs.
SINGLES = [("lr", 2e-3), ("lr", 1e-4), ("beta1", 0.95), ("beta2", 0.999), ("eps", 1e-6), ("weight_decay", 0.01), ("weight_decay", 0.0), ("decayed", "all"),
           ("decayed", ["layers.0.down.weight", "layers.0.up.weight"]), ("clip_norm", 0.5), ("clip_norm", 0.0), ("bias_correction", False), ("order", "coupled"),
           ("order", "clipped before unscaled")]
PAIRS = [(("lr", 5e-4), ("weight_decay", 0.01)), (("beta1", 0.8), ("beta2", 0.99)), (("beta2", 0.999), ("eps", 1e-5)), (("lr", 3e-3), ("decayed", "all")),
         (("lr", 2e-3), ("bias_correction", False)), (("decayed", "all"), ("clip_norm", 0.5)), (("weight_decay", 0.05), ("order", "coupled")),
         (("eps", 1e-4), ("decayed", "all")), (("beta1", 0.95), ("clip_norm", 0.0)), (("weight_decay", 0.02), ("beta2", 0.98)),
         (("bias_correction", False), ("decayed", ["layers.0.down.weight"])), (("lr", 1e-2), ("beta1", 0.5))]


def single(x):
    return array.array("f", x).tolist()


def gradients(seed=1, small=False):
    """Norms lie on both sides of 1, and elements over three decades."""
    draw = random.Random(seed)
    g = {}
    for name, shape in SHAPES.items():
        g[name] = [single(draw.gauss(0, 1) * 10 ** draw.uniform(-4 if small else -3, -1) * scale for _ in range(math.prod(shape))) for scale in (3.0, 0.5, 1.0, 4.0, 0.7)]
    return g


def weights(seed=2):
    draw = random.Random(seed)
    return {n: single(draw.gauss(0, 0.2) + ("norm" in n) for _ in range(math.prod(s))) for n, s in SHAPES.items()}


def decays(name, which):
    return name in which if isinstance(which, list) else which == "all" or len(SHAPES[name]) > 1


def adam(p, g, rates=None, **settings):
    """The weights after each step, and the moments after the last."""
    o = {**BASE, **settings}
    rates = rates or [o["lr"]] * STEPS
    p = {n: list(x) for n, x in p.items()}
    m, v = ({n: [0.0] * len(x) for n, x in p.items()} for _ in range(2))
    after = {n: [] for n in p}
    for t in range(1, STEPS + 1):
        norm = math.sqrt(math.fsum(x * x for n in g for x in g[n][t - 1]))
        scale = 1024 if o["order"] == "clipped before unscaled" else 1
        clip = min(1.0, o["clip_norm"] / (scale * norm + 1e-6)) if o["clip_norm"] else 1.0
        c1, c2 = (1 - o["beta1"] ** t, 1 - o["beta2"] ** t) if o["bias_correction"] else (1.0, 1.0)
        for n in p:
            wd = o["weight_decay"] if decays(n, o["decayed"]) else 0.0
            for i, x in enumerate(g[n][t - 1]):
                x *= clip
                if o["order"] == "coupled":
                    x += wd * p[n][i]
                m[n][i] = o["beta1"] * m[n][i] + (1 - o["beta1"]) * x
                v[n][i] = o["beta2"] * v[n][i] + (1 - o["beta2"]) * x * x
                step = rates[t - 1] * (m[n][i] / c1) / (math.sqrt(v[n][i] / c2) + o["eps"])
                p[n][i] = p[n][i] - step - (0 if o["order"] == "coupled" else rates[t - 1] * wd * p[n][i])
            p[n], m[n], v[n] = single(p[n]), single(m[n]), single(v[n])
            after[n].append(list(p[n]))
    return after, m, v


def save_in(folder, p, g, lrs=None):
    tensors = {f"p.{n}": ("F32", s, p[n]) for n, s in SHAPES.items()}
    tensors |= {f"g.{n}": ("F32", (STEPS, *s), [x for step in g[n] for x in step]) for n, s in SHAPES.items()}
    if lrs:
        tensors["lrs"] = ("F64", (STEPS,), lrs)
    return r.save_tensors(folder / "in.safetensors", tensors)


def save_after(folder, after, m=None, v=None, every=False, kind="F32"):
    tensors = {}
    for n, s in SHAPES.items():
        tensors[f"p.{n}"] = (kind, (STEPS, *s), [x for step in after[n] for x in step]) if every else (kind, s, after[n][-1])
        if m:
            tensors[f"state.m.{n}"], tensors[f"state.v.{n}"] = ("F32", s, m[n]), ("F32", s, v[n])
    return r.save_tensors(folder / "after.safetensors", tensors)


def identify(source, after, *options, status=0):
    return json.loads(r.run("replay", "optimizer", "--input", source, "--identify", "--after", after, "--json", *(options or OPTIONS), status=status).stdout)


def hold(said, planted):
    found = {x["setting"]: x["value"] for x in said["identified"]}
    check(set(found) == {name for name, _ in planted}, f"planted {planted}, found {said}")
    for name, value in planted:
        is_number = isinstance(value, float) and not isinstance(value, bool)
        same = abs(found[name] - value) <= 1e-3 * abs(value) if is_number else sorted(found[name]) == sorted(value) if isinstance(value, list) else found[name] == value
        check(same, f"planted {planted}, found {said}")
    check(said["unexplained"] < 1e-3 and said["worst"] <= 1, said)


def test_each_planted_setting(folder):
    p, g = weights(), gradients()
    source = save_in(folder, p, g)
    for name, value in SINGLES:
        after, m, v = adam(p, g, **{name: value})
        hold(identify(source, save_after(folder, after, m, v)), [(name, value)])


def test_each_planted_pair(folder):
    p, g = weights(), gradients()
    source = save_in(folder, p, g)
    for pair in r.rows(PAIRS, 5, "each pair costs a search of a second; singles are all tried"):
        after, m, v = adam(p, g, **dict(pair))
        hold(identify(source, save_after(folder, after, m, v, every=True)), pair)


def test_weights_alone_are_enough_where_steps_differ(folder):
    """Without moments, from the last weights alone."""
    p, g = weights(), gradients()
    source = save_in(folder, p, g)
    for name, value in (("beta2", 0.999), ("lr", 2e-3), ("decayed", "all"), ("clip_norm", 0.5)):
        after, _, _ = adam(p, g, **{name: value})
        said = identify(source, save_after(folder, after))
        check([x["setting"] for x in said["identified"]] == [name], said)


def test_the_configured_settings_explain_their_own_result(folder):
    p, g = weights(), gradients()
    source = save_in(folder, p, g)
    after, m, v = adam(p, g)
    said = identify(source, save_after(folder, after, m, v))
    check(said["identified"] == [] and said["explained"] and "configured settings explain" in said["verdict"], said)
    # Ravine's own result too, in its own form.
    r.run("replay", "optimizer", "--input", source, "--out", folder / "own.safetensors", *OPTIONS)
    check(identify(source, folder / "own.safetensors")["identified"] == [], "own result")


def test_what_one_step_cannot_tell(folder):
    """One step from zero moments hides both betas; a single weight that is moved is no setting."""
    p, g = weights(), gradients()
    tensors = {f"p.{n}": ("F32", s, p[n]) for n, s in SHAPES.items()} | {f"g.{n}": ("F32", (1, *s), g[n][1]) for n, s in SHAPES.items()}
    source = r.save_tensors(folder / "in.safetensors", tensors)
    global STEPS
    kept, STEPS = STEPS, 1
    try:
        one = {n: [x[1]] for n, x in g.items()}
        after, _, _ = adam(p, one, beta2=0.999)
        check(identify(source, save_after(folder, after))["identified"] == [], "a beta in one step")
        after, _, _ = adam(p, one, eps=1e-5, clip_norm=0.0)  # norm 0.5 or so: no clipping, with a limit or without
        said = identify(source, save_after(folder, after))
        check(said["identified"] == [{"setting": "eps", "value": 1e-5}] and said["alternatives"] and "cannot tell it from" in said["verdict"], said)
        after, _, _ = adam(p, one)
        after["head.bias"][-1][3] += 0.01
        said = identify(source, save_after(folder, after), status=1)
        check(said["identified"] == [] and not said["explained"] and "head.bias" in said["verdict"], said)
    finally:
        STEPS = kept


def test_rates_of_another_schedule(folder):
    p, g = weights(), gradients()
    lrs = [1e-3 * (t + 1) / STEPS for t in range(STEPS)]
    source = save_in(folder, p, g, lrs)
    after, _, _ = adam(p, g, rates=[x * 3 for x in lrs])
    said = identify(source, save_after(folder, after))
    check([x["setting"] for x in said["identified"]] == ["lr"] and abs(said["identified"][0]["value"] - 3e-3) < 1e-6 and "3 times as large" in said["verdict"], said)
    late = [0.0, *lrs[:-1]]  # a warm-up that begins a step late
    after, _, _ = adam(p, g, rates=late)
    said = identify(source, save_after(folder, after, every=True))
    found = said["identified"][0]
    check(found["setting"] == "lr" and all(abs(a - b) < 1e-6 for a, b in zip(found["value"], late)), said)


def test_refusals(folder):
    p, g = weights(), gradients()
    source = save_in(folder, p, g)
    after, _, _ = adam(p, g)
    path = save_after(folder, after)
    for flags, words in ((["--identify"], "--after"), (["--after", path], "--identify"), ([], "--out"),
                         (["--identify", "--after", path, "optimizer.type=lion"], "adamw and adam")):
        done = r.run("replay", "optimizer", "--input", source, *flags, status=2)
        check(words in done.stderr, done.stderr)
    short = r.save_tensors(folder / "short.safetensors", {"p.head.bias": ("F32", (16,), after["head.bias"][-1])})
    check("embed_tokens" in r.run("replay", "optimizer", "--input", source, "--identify", "--after", short, status=2).stderr, "a missing parameter")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
