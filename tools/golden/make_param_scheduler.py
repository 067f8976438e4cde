"""Learning rates of megatron-core's OptimizerParamScheduler, for tests/unit/optim/schedule.cpp.

    python make_param_scheduler.py > tests/golden/param_scheduler.json

Needs torch and megatron-core (0.16.1 was used). The scheduler counts here in updates; `lr[t]` is the rate of update t + 1, behind t updates.
"""
import json
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler  # noqa: E402

STEPS, LR = 60, 3e-4
CURVES = [{"lr_decay_style": style, "min_lr": least, "lr_warmup_init": begin, "lr_warmup_steps": warmup, "lr_decay_steps": decay}
          for style in ("constant", "linear", "cosine", "inverse-square-root")
          for least, begin, warmup, decay in ((0.0, 0.0, 0, 60), (3e-5, 0.0, 6, 60), (3e-5, 1e-6, 7, 40), (0.0, 1e-5, 1, 30), (2.9e-4, 0.0, 10, 50))
          if style != "inverse-square-root" or warmup > 0]


def rates(curve):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    scheduler = OptimizerParamScheduler(optimizer, init_lr=curve["lr_warmup_init"], max_lr=LR, min_lr=curve["min_lr"], lr_warmup_steps=curve["lr_warmup_steps"], lr_decay_steps=curve["lr_decay_steps"],
                                        lr_decay_style=curve["lr_decay_style"], start_wd=0.0, end_wd=0.0, wd_incr_steps=STEPS, wd_incr_style="constant")
    out = []
    for _ in range(STEPS):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(1)
    return out


if __name__ == "__main__":
    lines = ",\n  ".join(json.dumps({**c, "lr": rates(c)}) for c in CURVES)
    print(f'{{\n "megatron_core": "0.16.1", "base_lr": {LR}, "steps": {STEPS},\n "curves": [\n  {lines}\n ]\n}}')
