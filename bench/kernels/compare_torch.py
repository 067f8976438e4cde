"""Runs bench_kernels_heavy and PyTorch in turns and prints both, best of all rounds, as fractions of the measured peak.
Usage: compare_torch.py PROGRAM [f32|bf16] [threads] [rounds]"""
import subprocess
import sys
import time

import torch

program, kind = sys.argv[1], (sys.argv[2:] + ["f32"])[0]
threads, rounds = int((sys.argv[3:] + ["2"])[0]), int((sys.argv[4:] + ["3"])[0])
torch.set_num_threads(threads)
dtype = torch.float32 if kind == "f32" else torch.bfloat16


def best(f, runs=5):
    f()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return min(times)


def products(tokens, result):
    for name, c_in, c_out in [("qkv", 768, 2304), ("o", 768, 768), ("gate_up", 768, 4096), ("down", 2048, 768)]:
        x, w, y = torch.randn(tokens, c_in, dtype=dtype), torch.randn(c_out, c_in, dtype=dtype), torch.randn(tokens, c_out, dtype=dtype)
        flops, tag = 2e-9 * tokens * c_in * c_out, f"{tokens}.{name}"
        dw = torch.zeros(c_out, c_in, dtype=dtype)
        result[f"forward.{tag}"] = flops / best(lambda: torch.nn.functional.linear(x, w))
        result[f"dx.{tag}"] = flops / best(lambda: y @ w)
        result[f"dw.{tag}"] = flops / best(lambda: dw.addmm_(y.T, x))


def attention(tokens, result):
    q, k, v = (torch.randn(1, 12, tokens, 64, dtype=dtype, requires_grad=True) for _ in range(3))
    grad = torch.randn(1, 12, tokens, 64, dtype=dtype)
    forward = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    pairs = 12 * 64 * tokens * (tokens + 1) / 2 * 1e-9
    out = forward()
    result[f"attention.{tokens}"] = 4 * pairs / best(forward)
    result[f"attention_backward.{tokens}"] = 8 * pairs / best(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))


def loss_head(tokens, result):
    x = torch.randn(tokens, 768, dtype=dtype, requires_grad=True)
    w = (torch.randn(32000, 768) * 0.03).to(dtype).requires_grad_()
    labels = torch.randint(0, 32000, (tokens,))

    def step():
        loss = torch.nn.functional.cross_entropy(torch.nn.functional.linear(x, w).float(), labels)
        torch.autograd.grad(loss, (x, w))

    result[f"loss_head.{tokens}"] = 6e-9 * tokens * 768 * 32000 / best(step, 3)


ours, theirs = {}, {}
for _ in range(rounds):
    for line in subprocess.run([program, kind, str(threads)], capture_output=True, text=True, check=True).stdout.splitlines():
        name, value = line.split()
        ours[name] = max(ours.get(name, 0), float(value))
    result = {}
    for tokens in (1024, 4096):
        products(tokens, result)
        attention(tokens, result)
    loss_head(1024, result)
    for name, value in result.items():
        theirs[name] = max(theirs.get(name, 0), value)
print(f"{kind}, {threads} threads, peak {ours['peak']:.0f} GFLOP/s, torch {torch.__version__}")
print(f"{'case':28} {'GFLOP/s':>8} {'of peak':>8} {'torch':>8} {'ratio':>6}")
for name, value in theirs.items():
    print(f"{name:28} {ours[name]:8.1f} {ours[name] / ours['peak']:8.2f} {value:8.1f} {ours[name] / value:6.2f}")
