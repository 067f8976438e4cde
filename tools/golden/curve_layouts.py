"""How far the f32 training curve recorded from PyTorch is from its f64 run under many layouts of ours, so that one draw is not taken for a result.

    python3 tools/golden/curve_layouts.py RAVINE GOLDEN_TRAINING CHECKS     (folders golden/training and checks of the shared material)

Prints, for each layout, the difference of the gradient norm at step 32 (where rounding shows most) and the worst quotient of any step by the
bound of check_training.py. Needs numpy and mpirun."""
import os
import re
import subprocess
import sys

ravine, golden, checks = sys.argv[1:4]
MPIRUN = "mpirun --oversubscribe --bind-to none" + (" --allow-run-as-root" if os.geteuid() == 0 else "")
LAYOUTS = [(1, ""), (1, "train.micro_batch=1"), (1, "train.micro_batch=2"), (1, "parallel.sum_leaves=2"), (1, "parallel.sum_leaves=4 train.micro_batch=1"),
           (1, "parallel.sum_leaves=8 train.micro_batch=1"), (2, "parallel.tensor=2"), (2, "parallel.tensor=2 train.micro_batch=2"),
           (2, "parallel.tensor=2 parallel.sequence=true"), (8, "parallel.tensor=2 parallel.pipeline=2"),
           (8, "parallel.tensor=2 parallel.pipeline=2 train.micro_batch=1"), (8, "parallel.tensor=2 train.micro_batch=1 parallel.zero=1"),
           (8, "parallel.pipeline=2 train.micro_batch=1 parallel.zero=1"), (8, "train.micro_batch=1 parallel.zero=3")]
for ranks, extra in LAYOUTS:
    command = [sys.executable, os.path.join(checks, "check_training.py"), "--ravine", ravine, "--set", golden, "--only", "pretrain"]
    command += ["--launch", f"{MPIRUN} -n {ranks}"] * (ranks > 1) + [f"--extra={extra}"] * bool(extra)
    text = subprocess.run(command, capture_output=True, text=True).stdout
    worst = re.findall(r"pretrain (loss|grad_norm) \(worst at step (\d+)\)\s+(\S+) \(bound (\S+), (\S+)\)", text)
    print(f"{ranks} {extra or 'as recorded':64}", "  ".join(f"{k} {e} of {b} at step {s}: {q}" for k, s, e, b, q in worst) or "failed to run", flush=True)
