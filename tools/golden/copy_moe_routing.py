#!/usr/bin/env python3
"""Writes tests/golden/moe_routing.json: the routings that MindSpore Transformers made (../shared/golden/mindformers/moe_routing.*), as lists.

Usage: copy_moe_routing.py RECORDED_DIR tests/golden/moe_routing.json   (needs numpy, safetensors)

capacity: rows of [choices, tokens, capacity factor, experts, capacity]. cases: logits [T][E], where there are any bias [E]; taken: [token, expert] pairs that
an expert has a row for; weights: [T][k] in the order of the choices, or of the older router [T][E]; loss.
"""
import json
import os
import sys

import numpy as np
from safetensors.numpy import load_file

recorded = json.load(open(os.path.join(sys.argv[1], "moe_routing.json")))
tensors = load_file(os.path.join(sys.argv[1], "moe_routing.safetensors"))
cases = {}
for name, case in recorded["cases"].items():
    t = {k.split("/")[1]: v for k, v in tensors.items() if k.startswith(name + "/")}
    out = {"config": case["config"], "logits": t["logits"][0].tolist(), "loss": float((t["aux_loss"] if "aux_loss" in t else t["extra_loss"])[0])}
    if "bias" in t:
        out["bias"] = t["bias"].tolist()
    if "dispatch_index" in t:  # [E, C]: 1 + token, 0 where there is none
        out["taken"] = [[int(i) - 1, e] for e, row in enumerate(t["dispatch_index"][0]) for i in row if i > 0]
        out["weights"] = t["router_coeff"][0].tolist()
        at = t["combine_index"][0]  # expert * (C + 1) + place from 1 on
        out["experts"] = (at // (t["dispatch_index"].shape[2] + 1)).tolist()
    else:  # [T, E, C]
        out["taken"] = [[int(i), int(e)] for i, e in np.argwhere(t["dispatch_tensor"][0].any(-1))]
        out["weights"] = t["combine_tensor"][0].sum(-1).tolist()
    cases[name] = out
capacity = [row[:4] + [row[5]] for row in recorded["capacity"]]
json.dump({"capacity": capacity, "cases": cases}, open(sys.argv[2], "w"))
