"""A small copy of the recorded learning-rate curves of Transformers: the schedules of ravine, at a part of the steps.

python tools/golden/copy_schedules.py RECORDED/optim/schedules.json > tests/golden/schedules.json
"""
import json
import sys

TYPES = {"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_min_lr", "polynomial", "cosine_with_restarts",
         "inverse_sqrt", "warmup_stable_decay", "cosine_warmup_with_min_lr"}

with open(sys.argv[1]) as file:
    recorded = json.load(file)
steps = [s for s in range(recorded["steps"]) if s < 24 or s % 9 == 0 or s > recorded["steps"] - 4]
curves = {}
for name, curve in recorded["huggingface"].items():
    if curve["lr_scheduler_type"] in TYPES:
        curves[name] = {**curve, "lr": [curve["lr"][s] for s in steps]}
versions = {k: v for k, v in recorded["versions"].items() if k in ("torch", "transformers")}
print(json.dumps({"versions": versions, "base_lr": recorded["base_lr"], "steps": steps}, indent=1)[:-2] + ",\n \"huggingface\": {")
print(",\n".join(f"  {json.dumps(n)}: {json.dumps(c)}" for n, c in curves.items()) + "\n }\n}")
