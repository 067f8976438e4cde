"""Learning rates that follow a validation loss, from torch's ReduceLROnPlateau and Transformers' GreedyLR.

python tools/golden/make_plateau.py > tests/golden/plateau.json
"""
import json
import random

import torch
import transformers
from transformers.optimization import get_scheduler

LR = 0.02
CASES = [
    ("reduce_lr_on_plateau", {}),
    ("reduce_lr_on_plateau", {"factor": 0.5, "patience": 1}),
    ("reduce_lr_on_plateau", {"factor": 0.5, "patience": 0, "cooldown": 3, "min_lr": 1e-3}),
    ("reduce_lr_on_plateau", {"factor": 0.9, "patience": 0, "threshold": 0.05}),
    ("reduce_lr_on_plateau", {"factor": 0.7, "patience": 1, "threshold": 0.05, "threshold_mode": "abs"}),
    ("greedy", {}),
    ("greedy", {"patience": 0}),
    ("greedy", {"patience": 1, "factor": 0.5, "min_lr": 0.001, "max_lr": 0.05}),
    ("greedy", {"patience": 0, "factor": 0.8, "cooldown": 2, "warmup": 3, "min_lr": 0}),
    ("greedy", {"patience": 0, "factor": 0.5, "min_lr": 0.01, "reset_start": 4}),
    ("greedy", {"patience": 0, "factor": 0.9, "smooth": True, "window_size": 5, "threshold": 0.01, "threshold_mode": "rel"}),
    ("greedy", {"patience": 2, "factor": 0.9, "smooth": True, "window_size": 3, "reset_start": 2, "min_lr": 0.015}),
    # These lower at the floor, raise, and come to the floor again before a reset: a raise renews the wait for it.
    ("greedy", {"patience": 0, "factor": 0.5, "min_lr": 0.015, "reset_start": 3}),
    ("greedy", {"patience": 1, "factor": 0.5, "smooth": True, "window_size": 4, "reset_start": 2, "min_lr": 0.012}),
    ("greedy", {"patience": 1, "factor": 0.5, "warmup": 2, "reset_start": 2, "min_lr": 0.016}),
]


def losses(seed):
    """Falls, stays, rises, falls again, with noise."""
    r = random.Random(seed)
    level, out = 4.0, []
    for i in range(120):
        level += (-0.05, 0.0, 0.02, -0.03)[i // 30]
        out.append(round(level + r.gauss(0, 0.03 if seed else 0.0), 6))
    return out


def main():
    cases = []
    for kind, kwargs in CASES:
        for seed in (0, 1, 2):
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
            scheduler = get_scheduler(kind, optimizer, scheduler_specific_kwargs=kwargs)
            rates = []
            for loss in losses(seed):
                scheduler.step(loss)
                rates.append(optimizer.param_groups[0]["lr"])
            cases.append({"type": kind, "kwargs": kwargs, "seed": seed, "rates": rates})
    print(json.dumps({"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "base_lr": LR,
                      "losses": [losses(seed) for seed in (0, 1, 2)]}, indent=1)[:-2] + ",\n \"cases\": [")
    print(",\n".join("  " + json.dumps(c) for c in cases) + "\n ]\n}")


main()
