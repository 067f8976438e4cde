#!/usr/bin/env python3
"""Writes tests/golden/ops.safetensors: what PyTorch computes in f64 for the ops that tests/unit/kernels/torch_golden.cpp checks.

Usage: make_ops.py OUT.safetensors        (needs torch, transformers, safetensors)
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

torch.manual_seed(20240613)
torch.set_default_dtype(torch.float64)
out = {}


def keep(prefix, **tensors):
    for name, t in tensors.items():
        out[f"{prefix}.{name}"] = t.detach().clone().contiguous()


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def rms_norm():
    x, branch, weight = leaf(7, 24), leaf(7, 24), leaf(24)
    dout, dsum = torch.randn(7, 24), torch.randn(7, 24)
    total = x + branch
    y = F.rms_norm(total, (24,), weight, 1e-5)
    ((y * dout).sum() + (total * dsum).sum()).backward()
    keep("rms_norm", x=x, branch=branch, weight=weight, dout=dout, dsum=dsum, out=y, dx=x.grad, dweight=weight.grad)


# Rows 0..19 and 22..34 are two documents; the others are padding.
DOCUMENTS = [(0, 20), (22, 35)]


def attention(name, causal, window, rows=37, heads=4, kv_heads=2, d=8):
    q, k, v = leaf(rows, heads * d), leaf(rows, kv_heads * d), leaf(rows, kv_heads * d)
    dout = torch.randn(rows, heads * d)
    result = torch.zeros(rows, heads * d)
    lse = torch.full((heads, rows), -float("inf"))
    loss = 0
    for begin, end in DOCUMENTS:
        n = end - begin
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        mask = torch.ones(n, n, dtype=torch.bool)
        if causal:
            mask &= j <= i
        if window:
            mask &= i - j < window
        split = lambda t, h: t[begin:end].view(n, h, d).transpose(0, 1)[None]
        qs, ks, vs = split(q, heads), split(k, kv_heads), split(v, kv_heads)
        y = F.scaled_dot_product_attention(qs, ks, vs, attn_mask=mask, scale=0.3, enable_gqa=True)
        y = y[0].transpose(0, 1).reshape(n, heads * d)
        scores = qs @ ks.repeat_interleave(heads // kv_heads, 1).transpose(-1, -2) * 0.3
        lse[:, begin:end] = scores.masked_fill(~mask, -float("inf")).logsumexp(-1)[0].detach()
        result[begin:end] = y.detach()
        loss = loss + (y * dout[begin:end]).sum()
    loss.backward()
    keep(f"attention.{name}", q=q, k=k, v=v, dout=dout, out=result, lse=lse, dq=q.grad, dk=k.grad, dv=v.grad)


def swiglu():
    gate, up, dout = leaf(5, 17), leaf(5, 17), torch.randn(5, 17)
    y = F.silu(gate) * up
    (y * dout).sum().backward()
    keep("swiglu", gate=gate, up=up, dout=dout, out=y, dgate=gate.grad, dup=up.grad)


def loss_head():
    x, weight = leaf(11, 12), leaf(19, 12)
    labels = torch.randint(0, 19, (11,))
    labels[[2, 7]] = -100
    logits = x @ weight.T
    logits.retain_grad()
    losses = F.cross_entropy(logits, labels, ignore_index=-100, reduction="none")
    (losses.sum() / 9).backward()
    keep("loss", x=x, weight=weight, labels=labels.to(torch.int32), logits=logits, losses=losses, dlogits=logits.grad, dx=x.grad,
         dweight=weight.grad)


def rope():
    heads, d, n = 3, 10, 8
    x = leaf(n, heads * d)
    dout = torch.randn(n, heads * d)
    positions = torch.tensor([0, 1, 2, 3, 0, 1, 5, 9], dtype=torch.int32)
    angles = positions[:, None].double() * (10000.0 ** (-torch.arange(0, d, 2).double() / d))[None]
    both = torch.cat([angles, angles], -1)[None]
    xs = x.view(1, n, heads, d).transpose(1, 2)
    y, _ = apply_rotary_pos_emb(xs, xs, both.cos(), both.sin())
    y = y.transpose(1, 2).reshape(n, heads * d)
    (y * dout).sum().backward()
    every = torch.arange(10)[:, None].double() * (10000.0 ** (-torch.arange(0, d, 2).double() / d))[None]
    keep("rope", x=x, dout=dout, positions=positions, table=torch.cat([every.cos(), every.sin()], -1), out=y, dx=x.grad)


STEPS = 5


def optimizer(name, make):
    p = torch.randn(23, requires_grad=True)
    grads = torch.randn(STEPS, 23)
    start = p.detach().clone()
    opt = make([p])
    trail = []
    for g in grads:
        p.grad = g.clone()
        opt.step()
        trail.append(p.detach().clone())
    keep(f"optim.{name}", param=start, grads=grads, params=torch.stack(trail))


rms_norm()
attention("causal", True, 0)
attention("window", True, 6)
attention("full", False, 0)
swiglu()
loss_head()
rope()
optimizer("adamw", lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1))
optimizer("adam", lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1))
optimizer("sgd", lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.01))
optimizer("momentum", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.01))
optimizer("nesterov", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True))
save_file(out, sys.argv[1], metadata={"made_by": "tools/golden/make_ops.py", "torch": torch.__version__.split("+")[0]})
