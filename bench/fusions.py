"""What each fusion gives: training steps with all of them against steps with one of them off, alternating in one run.

    python bench/fusions.py build/release/ravine configs/llama-134m.json [--bf16] [--rounds 5]

Everything is measured from outside: the time of a step is the wall clock of a process of 6 steps less that of one of 2, divided by 4; peak
memory is ru_maxrss. A round has one such pair without fusion OP and one with all beside it; the ratio is the median over the rounds, with
the lowest and the highest. What lies within the spread of the same comparison of nothing with nothing ("none") is neutral."""
import argparse, statistics

from outside import process

OPS = "none", "attention", "add_rms_norm", "loss_head", "qkv", "gate_up", "rope", "swiglu"

p = argparse.ArgumentParser()
p.add_argument("ravine"), p.add_argument("config")
p.add_argument("--batch", type=int, default=1)
p.add_argument("--length", type=int, default=1024)
p.add_argument("--rounds", type=int, default=5)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--bf16", action="store_true", help="bf16 arithmetic, f32 master weights")
p.add_argument("--ops", default=",".join(OPS))
a = p.parse_args()


def run(steps, unfused):
    argv = [a.ravine, "bench", "train", "--model", a.config, "--sequence-length", a.length, "--micro-batch", a.batch, "--steps", steps, "--threads", a.threads,
            "--json", "precision.compute=" + ("bf16" if a.bf16 else "f32"), f"precision.unfused=[{unfused}]"]
    return process(argv)


def step(unfused):
    short, (long, peak) = run(2, unfused)[0], run(6, unfused)
    return (long - short) / 4, peak


noise = None
for op in a.ops.split(","):
    ratios, peaks = [], []
    for _ in range(a.rounds):
        whole, peak = step("")
        apart, more = step("" if op == "none" else op)
        ratios.append(apart / whole), peaks.append(more / peak)
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    if op == "none":
        noise = max(high - 1, 1 - low)
    said = "the noise" if op == "none" else "neutral" if noise is not None and abs(middle - 1) <= noise else "gives" if middle > 1 else "costs"
    print(f"{'bf16' if a.bf16 else 'f32'} batch {a.batch} length {a.length}  without {op:13} {middle:.3f} of the time ({low:.3f} to {high:.3f})  "
          f"{statistics.median(peaks):.2f} of the memory  {said}", flush=True)
