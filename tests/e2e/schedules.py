"""Schedules of other programs, by the names of their classes: the rates of a whole run, also of one that goes on inside its warm-up; betas that the schedule moves.

python3 schedules.py PATH_OF_ravine [FUNCTION ..]
"""
import math

import ravine_run as r
from health import metrics, train
from optimizers import load
from ravine_run import check

WARM = {"schedule.type": "WarmupDecayLR", "schedule.warmup_steps": None, "schedule.warmup_num_steps": 5, "schedule.warmup_min_lr": 1e-4, "schedule.warmup_max_lr": 2e-3, "train.steps": 9}


def rates(folder, name):
    return [row["lr"] for row in metrics(folder / name).values()]


def test_resumed_inside_the_warm_up(folder):
    """DeepSpeed: rate k is that of i = k - 2; ln(i + 1) / ln(5) while i < 5, then down to the lowest at 9."""
    want = [1e-4] + [1e-4 + 1.9e-3 * (math.log(i + 1) / math.log(5) if i < 5 else (9 - i) / 4) for i in range(8)]
    train(folder, "whole", **WARM)
    got = rates(folder, "whole")
    check(all(abs(a - b) < 1e-15 for a, b in zip(got, want, strict=True)), f"{got}, not {want}")
    train(folder, "parts", **WARM | {"train.steps": 3, "schedule.total_num_steps": 9, "checkpoint.every": 3})
    train(folder, "parts", **WARM | {"schedule.total_num_steps": 9})
    check(rates(folder, "parts") == got, f"{rates(folder, 'parts')}, not {got}")
    check(r.weights(folder / "whole") == r.weights(folder / "parts"), "a resume inside the warm-up leads elsewhere")


def test_mindformers_length_is_that_of_the_run(folder):
    train(folder, "run", **{"schedule.type": "LinearWithWarmUpLR", "schedule.warmup_ratio": 0.25, "train.steps": 8, "optimizer.lr": 1e-3})
    want = [1e-3 * (t / 2 if t < 2 else (8 - t) / 6) for t in range(8)]
    got = rates(folder, "run")
    check(all(abs(a - b) < 1e-15 for a, b in zip(got, want, strict=True)), f"{got}, not {want}")


def test_restarts_end_at_zero_behind_their_length(folder):
    """MindFormers' CosineWithRestartsAndWarmUpLR, where the decay is longer than the schedule: behind the end the rate is 0, whatever lr_end is."""
    train(folder, "run", **{"schedule.type": "CosineWithRestartsAndWarmUpLR", "schedule.warmup_steps": 1, "schedule.total_steps": 4, "schedule.decay_steps": 8, "schedule.lr_end": 1e-5,
                            "train.steps": 6, "optimizer.lr": 1e-3})
    want = [0] + [1e-5 + 9.9e-4 * (1 + math.cos(math.pi * p / 3)) / 2 for p in range(3)] + [0, 0]
    got = rates(folder, "run")
    check(all(abs(a - b) < 1e-15 for a, b in zip(got, want, strict=True)), f"{got}, not {want}")


def replay(folder, name, *options):
    source = folder / "in.safetensors"
    if not source.exists():
        r.save_tensors(source, {"p.x": ("F32", (1,), [1.0]), "g.x": ("F32", (6, 1), [1.0, -2.0, 3.0, 0.5, 1.0, -1.0])})
    r.run("replay", "optimizer", "--input", source, "--out", folder / name, "--overwrite", "--backend", "ref", "precision.compute=f64", "optimizer.weight_decay=0", *options)
    return load(folder / name)["p.x"][1]


def test_cycle_moves_betas(folder):
    """OneCycle: the first beta falls while the rate rises, and the second is 0.99; AdamW by hand."""
    cycle = ["schedule.type=OneCycle", "schedule.cycle_min_lr=0.01", "schedule.cycle_max_lr=0.05", "schedule.cycle_first_step_size=2", "optimizer.type=adamw"]
    got = replay(folder, "moved.safetensors", *cycle)
    p, m, v, g = 1.0, 0.0, 0.0, [1.0, -2.0, 3.0, 0.5, 1.0, -1.0]
    scale = [0, 0.5, 1, 0.5, 0, 0]
    for t in range(6):
        lr, b1, b2 = 0.01 + 0.04 * scale[t], 0.8 if t == 0 else 0.9 - 0.1 * scale[t], 0.99
        m, v = b1 * m + (1 - b1) * g[t], b2 * v + (1 - b2) * g[t] ** 2
        p -= lr / (1 - b1 ** (t + 1)) * m / (math.sqrt(v / (1 - b2 ** (t + 1))) + 1e-8)
        check(abs(got[t + 1] - p) < 1e-12, f"after update {t + 1}: {got[t + 1]}, not {p}")
    still = replay(folder, "still.safetensors", *cycle, "schedule.cycle_momentum=false")
    check(still != got, "betas moved without cycle_momentum")


def test_what_a_class_needs_is_said(folder):
    said = r.run("config", "schedule.type=OneCycle", status=2).stderr
    check("schedule.cycle_min_lr" in said and "OneCycle" in said, said)
    said = r.run("config", "schedule.type=WarmupDecay", status=2).stderr
    check("WarmupDecayLR" in said, said)


if __name__ == "__main__":
    r.main(globals())
