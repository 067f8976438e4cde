"""Alternates our causal attention (bench_kernels_attention) with PyTorch's scaled_dot_product_attention, forward and backward, on the
same shapes in one run: 12 heads, batch 1. Prints one JSON object per shape, medians over all rounds.

    python bench/attention_vs_torch.py build/release/bench/bench_kernels_attention [--rounds 3] [--threads 2]
Needs torch. FLOPs are the model's: 12 D per visible pair (4 forward, 8 backward). `of_peak`: of products of 64 x 64 x 64 in cache,
timed beside each of our runs."""
import argparse, json, os, statistics, subprocess, time

p = argparse.ArgumentParser()
p.add_argument("program")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--runs", type=int, default=4)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--tokens", type=int, nargs="*", default=[1024, 4096])
a = p.parse_args()

import torch

torch.set_num_threads(a.threads)
HEADS = 12


def theirs(tokens, size, dtype):
    q, k, v = (torch.randn(1, HEADS, tokens, size, dtype=dtype, requires_grad=True) for _ in range(3))
    grad, flops, speeds = torch.randn(1, HEADS, tokens, size, dtype=dtype), 12 * size * HEADS * tokens * (tokens + 1) / 2, []
    for _ in range(a.runs + 1):
        begin = time.perf_counter()
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.autograd.grad(out, (q, k, v), grad)
        speeds.append(flops / (time.perf_counter() - begin) * 1e-9)
    return speeds[1:]


def ours(tokens, size, name):
    env = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    argv = [a.program, tokens, HEADS, size, name, a.runs]
    return [float(x) for x in subprocess.run([str(x) for x in argv], capture_output=True, text=True, check=True, env=env).stdout.split()]


for tokens in a.tokens:
    for size in (64, 128):
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            us, them = [], []
            for _ in range(a.rounds):
                us.append(ours(tokens, size, name))
                them += theirs(tokens, size, dtype)
            median = [statistics.median(x) for x in zip(*us)]
            torch_speed = statistics.median(them)
            print(json.dumps({"tokens": tokens, "head_size": size, "type": name, "forward_gflops": median[0], "backward_gflops": median[1],
                              "both_gflops": median[2], "of_peak": median[5], "torch_gflops": round(torch_speed, 1),
                              "torch_best": round(max(them), 1), "ratio": round(median[2] / torch_speed, 2)}), flush=True)
