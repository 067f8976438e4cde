"""A small copy of the recorded learning-rate curves of DeepSpeed's and MindFormers' classes, at a part of the steps; and curves of DeepSpeed's OneCycle
that are recorded here, with numbers of stairs that are 0 or not said.

python tools/golden/copy_class_schedules.py RECORDED/optim/schedules.json RECORDED/mindformers/lr_curves.json DEEPSPEED > tests/golden/class_schedules.json

DEEPSPEED is a folder with an unpacked deepspeed 0.19.8, of which lr_schedules.py alone is loaded. Needs torch.
"""
import json
import logging
import pathlib
import sys
import types

import torch

RULE = "0.19.8"  # of DeepSpeed
CYCLE = {"cycle_min_lr": 2e-5, "cycle_max_lr": 3e-4, "cycle_first_step_size": 20, "cycle_second_step_size": 40}
CYCLES = [
    {"cycle_first_stair_count": 4, "cycle_second_stair_count": 0},
    {"cycle_first_stair_count": 4},  # as many stairs down as up
    {"cycle_first_stair_count": 0, "cycle_second_stair_count": 5},
    {"cycle_first_stair_count": 3, "cycle_second_stair_count": 1, "decay_step_size": 0, "decay_lr_rate": 0.5, "decay_mom_rate": 0.001},
]


def one_cycle(folder, base_lr, steps, kwargs):
    """Rates and betas before each step."""
    utils = types.ModuleType("deepspeed.utils")
    utils.logger = logging.getLogger("deepspeed")
    sys.modules |= {"deepspeed": types.ModuleType("deepspeed"), "deepspeed.utils": utils}
    scope = {"__name__": "lr_schedules"}
    exec((pathlib.Path(folder) / "deepspeed/runtime/lr_schedules.py").read_text(), scope)
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=base_lr)
    scheduler = scope["OneCycle"](optimizer, **kwargs)
    group, lr, betas = optimizer.param_groups[0], [], []
    for _ in range(steps):
        lr.append(group["lr"])
        betas.append(list(group["betas"]))
        scheduler.step()
    return lr, betas


def numbers(values):
    return all(isinstance(v, float) for v in values)


with open(sys.argv[1]) as file:
    deepspeed = json.load(file)
with open(sys.argv[2]) as file:
    mindformers = json.load(file)
steps = [s for s in range(deepspeed["steps"]) if s < 24 or s % 9 == 0 or s > deepspeed["steps"] - 4]
curves = []
for curve in deepspeed["deepspeed"].values():
    got = curve[RULE]
    if "lr" in got:
        curves.append({"type": curve["type"], "base_lr": deepspeed["base_lr"], "args": curve["params"], "lr": [got["lr"][s] for s in steps]}
                      | ({"betas": [got["betas"][s] for s in steps]} if "betas" in got else {}))
for stairs in CYCLES:
    lr, betas = one_cycle(sys.argv[3], deepspeed["base_lr"], deepspeed["steps"], CYCLE | stairs)
    curves.append({"type": "OneCycle", "base_lr": deepspeed["base_lr"], "args": CYCLE | stairs, "lr": [lr[s] for s in steps], "betas": [betas[s] for s in steps]})
for curve in mindformers["curves"]:
    args, kind, scale = dict(curve["args"]), curve["type"], {}
    if kind == "LearningRateWiseLayer":  # any other one times a factor
        scale = {"lr_scale": args["lr_scale"]}
        kind, args = args["base_lr"]
    if "lr" not in curve or not numbers(curve["lr"]) or args.get("total_steps") == -1 or (rate := args.pop("learning_rate", args.pop("base_lr", 0))) < 0:
        continue  # refused there, not a number there, the trainer's -1 in a bare class, or no rate here
    curves.append({"type": kind, "base_lr": rate, "args": args | scale, "f32": True, "lr": [curve["lr"][s] for s in steps]})
versions = {k: v for k, v in deepspeed["versions"].items() if k == "deepspeed"} | mindformers["versions"]
print(json.dumps({"versions": versions}, indent=1)[:-2] + f',\n "steps": {json.dumps(steps)},\n "curves": [')
print(",\n".join("  " + json.dumps(c) for c in curves) + "\n ]\n}")
