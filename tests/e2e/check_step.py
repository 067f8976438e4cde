"""`ravine check step`: forward, backward or optimizer, told from runs, logs and dumps with faults that were planted; clean pairs are silent."""
import json
import math
import random
import re
import sys

import ravine_run as r
from ravine_run import check

F32 = {"precision.compute": "f32", "log.local_norms": "*", "log.every": 1}


def train(folder, name, **more):
    r.run("train", *r.options(folder, folder / name, **{**F32, **more}))
    return folder / name


def step(*sides, status=0, flags=()):
    return json.loads(r.run("check", "step", *sides, "--json", *flags, status=status).stdout)


def test_the_phase_of_planted_faults(folder):
    """Each fault is one setting of our own run; the clean pairs differ in the order of sums."""
    base = train(folder, "base")
    for name, more in (("again", {}), ("recomputed", {"train.recompute": "full"}), ("unfused", {"precision.unfused": ["attention", "loss_head"]})):
        said = step(train(folder, name, **more), base)
        check(said["phase"] == "none" and said["agrees"] and not said["weights"], (name, said))
    faults = {
        "eps": ("forward", {"model.config": r.save_config(folder / "eps.json", rms_norm_eps=1e-3)}),
        "rate": ("optimizer", {"optimizer.lr": 6e-4}), "betas": ("optimizer", {"optimizer.eps": 1e-3}), "decay": ("optimizer", {"optimizer.weight_decay": 3}),
    }
    for name, (phase, more) in faults.items():
        said = step(train(folder, name, **more), base, status=1)
        check(said["phase"] == phase, (name, said))
        if name == "rate":
            check("learning rates of step 1 are 0.0006 and 0.0003" in said["verdict"], said)
    # A gradient that is 1 % too long.
    bent = folder / "bent"
    bent.mkdir()
    rows = [json.loads(x) for x in (base / "metrics.jsonl").read_text().splitlines()]
    name = "model.layers.1.mlp.up_proj.weight"
    rows[0]["local_norms"][name]["squares"] = [x * 1.01**2 for x in rows[0]["local_norms"][name]["squares"]]
    (bent / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows))
    (bent / "config.yaml").write_text((base / "config.yaml").read_text())
    said = step(bent, base, status=1)
    check(said["phase"] == "backward" and [w["name"] for w in said["weights"]] == [name] and "model.layers.1.mlp.up_proj" in said["verdict"], said)


def megatron_log(path, losses, squares, norms, lr=3e-4):
    text = ""
    for i, (loss, norm) in enumerate(zip(losses, norms), 1):
        text += f"print torch local norm:\n[{', '.join(f'tensor({x:.7g}, device=' + repr('cuda:0') + ')' for x in squares)}]\n"
        text += f" iteration {i:8d}/      10 | consumed samples: 16 | elapsed time per iteration (ms): 1.0 | learning rate: {lr:.3E} | global batch size: 8 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped iterations: 0 |\n"
    path.write_text(text)
    return path


def mindformers_log(path, losses, values, norms, lr=3e-4):
    text = ""
    for i, (loss, norm) in enumerate(zip(losses, norms), 1):
        text += f"2026-01-01 - mindformers - INFO -  norm_size: ({', '.join(['4'] * len(values))})\nlocal_norm:\n({', '.join(f'{x:.7g}' for x in values)})\n"
        text += f"2026-01-01 - mindformers - INFO - {{ Epoch:[  1/  1], step:[{i:5d}/   10], loss: {loss:.6f}, per_step_time: 43ms, lr: {lr}, overflow cond: False, loss_scale: 1.0, global_norm: [{norm:.6f}], train_throughput_per_npu: 1T\n"
    path.write_text(text)
    return path


def test_logs_of_other_programs(folder):
    """Squares in one log, roots in the other: told apart by the global norm, and said."""
    draw = random.Random(3)
    roots = [math.exp(draw.gauss(-1, 1)) for _ in range(12)]
    norm = math.sqrt(sum(x * x for x in roots))
    squares = [x * x for x in roots]
    losses = [5.5, 5.4]
    a = megatron_log(folder / "megatron.log", losses, squares, [norm, norm])
    b = mindformers_log(folder / "mindformers.log", losses, roots, [norm, norm])
    said = step(a, b)
    facts = " ".join(said["facts"])
    check(said["phase"] == "none" and "sums of squares; their sum is the square" in facts and "roots; their sum of squares" in facts, said)
    for name, logs, phase in (
            ("loss", ([5.6, 5.4], roots, [norm, norm]), "forward"), ("one", (losses, [*roots[:3], roots[3] * 1.5, *roots[4:]], [norm, norm]), "backward"),
            ("later", ([5.5, 5.3], roots, [norm, norm]), "optimizer")):
        said = step(a, mindformers_log(folder / f"{name}.log", *logs), status=1)
        check(said["phase"] == phase, (name, said))
        if name == "one":
            check([w["name"] for w in said["weights"]] == ["number 4"], said)
    said = step(a, mindformers_log(folder / "scaled.log", losses, [1024 * x for x in roots], [norm, norm]), status=1)
    check(said["phase"] == "backward" and "one ratio" in " ".join(said["facts"]), said)
    # Without local norms a later difference may be of either; what to record is said.
    plain = folder / "plain.csv"
    plain.write_text("step,loss\n1,5.5\n2,5.3\n")
    said = step(a, plain, status=1)
    check(said["phase"] is None and "global norm" in " ".join(said["record"]), said)


def test_our_logs_in_other_programs_forms(folder):
    """A log in Megatron's form lists parameters without names, and pairs with the names of a run."""
    base = train(folder, "base")
    for style in ("megatron", "mindformers"):
        out = train(folder, style, **{"log.style": style})
        said = step(out / "log.txt", base)
        check(said["phase"] == "none" and "paired by position" in " ".join(said["facts"]), (style, said))
    # The value of one matrix of an unnamed list is changed: the name is that of the other side.
    log = (folder / "megatron" / "log.txt").read_text()
    names = list(json.loads((base / "metrics.jsonl").read_text().splitlines()[0])["local_norms"])
    values = re.findall(r"tensor\(([^)]*)\)", log)
    (folder / "bent.log").write_text(log.replace(values[7], f"{float(values[7]) * 1.1:.7g}", 1))
    said = step(folder / "bent.log", base, status=1, flags=["--compute", "f32"])
    check(said["phase"] == "backward" and [w["name"] for w in said["weights"]] == [names[7]], said)


def test_dumps(folder):
    dump = lambda name: f"[{{dir: {folder / name}, steps: 1-2, phases: [update]}}]"
    a, b = folder / "da", folder / "db"
    train(folder, "a", **{"probe.dump": dump("da")})
    train(folder, "b", **{"probe.dump": dump("db"), "optimizer.lr": 1e-2})
    train(folder, "c", **{"probe.dump": dump("dc")})
    check(step(folder / "dc", a)["phase"] == "none", "equal dumps")
    said = step(b, a, status=1)
    check(said["phase"] == "optimizer" and said["weights"] and "learning rates" in said["verdict"], said)


def test_refusals(folder):
    base = train(folder, "base")
    check("no such file" in r.run("check", "step", base, folder / "none", status=2).stderr, "missing")
    check(r.run("check", "step", base, status=2).stderr, "one side")
    text = r.run("check", "step", train(folder, "a", **{"optimizer.lr": 1e-2}), base, status=1).stdout
    check("phase    optimizer" in text and "replay optimizer --identify" in text, text)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
