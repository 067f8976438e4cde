"""Rates of `ravine trainer` by the names of --lr_scheduler_type, worked out here from the formulas of Transformers: what is not given is its default, never one of Ravine's own; what it needs and does not get is refused.

python3 trainer_rates.py PATH_OF_ravine [FUNCTION ..]
"""
import json
import math

import ravine_run as r
from ravine_run import check

STEPS, RATE = 8, 4e-3


def prepare(folder):
    r.save_config(folder / "model" / "config.json")
    r.save_ids(folder / "ids.safetensors", 32, 16)
    r.save_ids(folder / "valid.safetensors", 10, 16, seed=3)


def line(folder, *flags, output="out", steps=STEPS):
    return ["trainer", "--config_name", folder / "model" / "config.json", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", steps, "--learning_rate", RATE, "--per_device_train_batch_size", 2, "--logging_steps", 1,
            "--save_strategy", "no", "--report_to", "none", "--output_dir", folder / output, *flags]


def wave(x):
    return 0.5 * (1 + math.cos(math.pi * x))


def warmed(fall):
    """t / W while the warm-up lasts, then `fall` of what is left of the way, which goes from 0 to 1."""
    return lambda t, w: t / w if t < w else fall(t, w, (t - w) / (STEPS - w))


def lifted(low, x):
    return x * (1 - low) + low


def ahead(low, first):
    """cosine_warmup_with_min_lr: a step ahead."""
    return lambda t, w: ((t + 1) / w if first is None else first + (1 - first) * t / max(1, w - 1)) if t < w else lifted(low, wave((t - w + 1) / (STEPS - w)))


def stable(decay, cycles, low, held=None):
    def rate(t, w):
        still = STEPS - w - decay if held is None else held
        if t < w:
            return lifted(low, t / w)
        if t < w + still:
            return 1
        return lifted(low, wave(2 * cycles * (t - w - still) / decay)) if t < w + still + decay else low
    return rate


# Name, lr_scheduler_kwargs, share of the rate at step t (from 0) with a warm-up of w steps.
SCHEDULERS = (
    ("constant", None, lambda t, w: 1),
    ("constant_with_warmup", None, warmed(lambda t, w, x: 1)),
    ("linear", None, warmed(lambda t, w, x: 1 - x)),
    ("cosine", None, warmed(lambda t, w, x: wave(x))),
    ("cosine", {"num_cycles": 1.5}, warmed(lambda t, w, x: wave(3 * x))),
    ("cosine_with_restarts", None, warmed(lambda t, w, x: wave(x))),
    ("cosine_with_restarts", {"num_cycles": 2}, warmed(lambda t, w, x: wave(2 * x % 1))),
    ("polynomial", None, warmed(lambda t, w, x: ((RATE - 1e-7) * (1 - x) + 1e-7) / RATE)),
    ("polynomial", {"lr_end": 1e-3, "power": 2}, warmed(lambda t, w, x: (3e-3 * (1 - x) ** 2 + 1e-3) / RATE)),
    ("inverse_sqrt", None, warmed(lambda t, w, x: 1 / math.sqrt((t + (w or 10000) - w) / (w or 10000)))),
    ("inverse_sqrt", {"timescale": None}, warmed(lambda t, w, x: 1 / math.sqrt((t + (w or 10000) - w) / (w or 10000)))),
    ("cosine_with_min_lr", {"min_lr": 1e-3}, warmed(lambda t, w, x: lifted(0.25, wave(x)))),
    ("cosine_with_min_lr", {"min_lr_rate": 0.5, "min_lr": None}, warmed(lambda t, w, x: lifted(0.5, wave(x)))),
    ("cosine_with_min_lr", {"min_lr": 0}, warmed(lambda t, w, x: wave(x))),
    ("cosine_warmup_with_min_lr", {"min_lr": 2e-3}, ahead(0.5, None)),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.5, "warmup_lr_rate": 0.1}, ahead(0.5, 0.1)),
    ("warmup_stable_decay", {"num_decay_steps": 3}, stable(3, 0.5, 0)),
    ("warmup_stable_decay", {"num_decay_steps": 3, "num_cycles": 1, "min_lr_ratio": 0.2, "num_stable_steps": 1}, stable(3, 1, 0.2, 1)),
    ("reduce_lr_on_plateau", None, lambda t, w: 1),
)


def test_rates_are_those_of_transformers(folder):
    prepare(folder)
    valid = ["--evaluation_strategy", "steps", "--eval_steps", 100, "--validation_file", folder / "valid.safetensors"]
    for i, (kind, kwargs, share) in enumerate(SCHEDULERS):
        for flags, w in (([], 0), (["--warmup_steps", 3], 3), (["--warmup_ratio", 0.25], 2)):
            more = ["--lr_scheduler_type", kind, *(["--lr_scheduler_kwargs", json.dumps(kwargs)] if kwargs else []), *flags, *(valid if kind.endswith("plateau") else [])]
            r.run(*line(folder, *more, output=f"{i}-{w}"))
            got = [row["lr"] for row in r.metrics(folder / f"{i}-{w}").values()]
            want = [RATE * share(t, w) for t in range(STEPS)]
            check(len(got) == STEPS and all(abs(a - b) < 1e-12 for a, b in zip(got, want, strict=True)), f"{more}: {got}, not {want}")


def test_constant_whatever_else_is_said(folder):
    """Another optimizer and a DeepSpeed config without a scheduler change nothing of it."""
    prepare(folder)
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}')
    for i, more in enumerate((["--optim", "sgd"], ["--optim", "adafactor"], ["--deepspeed", folder / "ds.json"], ["--bf16"])):
        r.run(*line(folder, "--lr_scheduler_type", "constant", *more, output=str(i), steps=2))
        got = [row["lr"] for row in r.metrics(folder / str(i)).values()]
        check(got == [RATE, RATE], f"{more}: {got}")


def test_what_a_schedule_needs_is_refused_without_it(folder):
    prepare(folder)
    for kind, kwargs, words in (("cosine_with_min_lr", None, "min_lr_rate"), ("cosine_with_min_lr", {"num_cycles": 1}, "min_lr_rate"), ("cosine_with_min_lr", {"min_lr": 1e-3, "min_lr_rate": 0.1}, "exclude each other"),
                                ("cosine_warmup_with_min_lr", {"min_lr": None}, "min_lr_rate"), ("cosine_with_min_lr", {"min_lr": 5e-3}, "0.004"), ("cosine_with_min_lr", {"min_lr": "low"}, "min_lr is"),
                                ("warmup_stable_decay", None, "num_decay_steps"), ("warmup_stable_decay", {"min_lr_ratio": 0.1}, "num_decay_steps"), ("linear", {"min_lr": 1e-4}, "takes no 'min_lr'")):
        said = r.run(*line(folder, "--lr_scheduler_type", kind, *(["--lr_scheduler_kwargs", json.dumps(kwargs)] if kwargs else []), output="refused"), status=2).stderr
        check("--lr_scheduler_kwargs" in said and words in said and not (folder / "refused").exists(), said)
    r.run(*line(folder, output="out", steps=1))
    r.run("trainer", "--model_name_or_path", folder / "out" / "model", "--do_eval", "--validation_file", folder / "valid.safetensors", "--lr_scheduler_type", "cosine_with_min_lr", "--output_dir", folder / "alone")  # nothing is scheduled


def schedule(folder, kind, **params):
    (folder / "ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "scheduler": {"type": kind, "params": params}}))
    return ["--deepspeed", folder / "ds.json"]


def test_rates_of_deepspeeds_schedulers(folder):
    """WarmupDecayLR without warmup_max_lr rises to its own default, 0.001; a rate that is the schedule's too has an effect, and no line says otherwise."""
    prepare(folder)
    for i, (kind, params, top) in enumerate((("WarmupDecayLR", {"total_num_steps": "auto", "warmup_num_steps": 2, "warmup_type": "linear"}, 1e-3), ("WarmupLR", {"warmup_num_steps": 2, "warmup_type": "linear"}, RATE),
                              ("WarmupLR", {"warmup_max_lr": "auto", "warmup_num_steps": 2}, RATE), ("WarmupDecayLR", {"warmup_max_lr": "auto", "total_num_steps": "auto", "warmup_num_steps": 2, "warmup_type": "linear"}, RATE))):
        said = r.run(*line(folder, *schedule(folder, kind, **params), "--warmup_steps", 2, output=str(i))).stderr
        got = max(row["lr"] for row in r.metrics(folder / str(i)).values())
        check(abs(got - top) < 1e-12, f"{kind} {params}: {got}, not {top}")
        check(("has no effect" in said) == (top != RATE), f"{kind} {params}: {said}")


if __name__ == "__main__":
    r.main(globals())
