"""A small copy of the recorded learning-rate curves of DeepSpeed's and MindFormers' classes, at a part of the steps.

python tools/golden/copy_class_schedules.py RECORDED/optim/schedules.json RECORDED/mindformers/lr_curves.json > tests/golden/class_schedules.json
"""
import json
import sys

RULE = "0.19.8"  # of DeepSpeed


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
