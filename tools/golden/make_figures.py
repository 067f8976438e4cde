"""Figures of tensors as NumPy gives them, and the two checksums by their definition (src/probe/tensor_figures.h), for unit_probe_dump.

    python3 tools/golden/make_figures.py tests/golden/figures.safetensors
"""
import json
import sys

import numpy as np
import torch
from safetensors.torch import save_file

MASK = (1 << 64) - 1
C, G, K = 0x243F6A8885A308D3, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
BITS = {torch.float64: np.uint64, torch.float32: np.uint32, torch.bfloat16: np.uint16, torch.float16: np.uint16, torch.int32: np.uint32, torch.int64: np.uint64, torch.uint8: np.uint8}


def mix(x):
    for _ in range(2):
        x ^= x >> 32
        x = x * K & MASK
    return x ^ x >> 32


def figures(t):
    raw = t.contiguous().view(torch.uint8).numpy() if t.dtype != torch.uint8 else t.numpy()
    bits = [int(b) for b in raw.reshape(-1).view(BITS[t.dtype])]
    values = t.to(torch.float64).numpy().reshape(-1)
    x = values[np.isfinite(values)]
    return {"count": len(values), "finite": len(x), "nan": int(np.isnan(values).sum()), "plus_inf": int(np.isposinf(values).sum()),
            "minus_inf": int(np.isneginf(values).sum()), "zero": int((values == 0).sum()), "min": float(x.min(initial=np.inf)) if len(x) else 0, "max": float(x.max()) if len(x) else 0,
            "abs_max": float(np.abs(x).max()) if len(x) else 0, "mean": float(x.mean()) if len(x) else 0, "std": float(x.std()) if len(x) else 0, "l1": float(np.abs(x).sum()),
            "l2": float(np.sqrt((x * x).sum())), "order_free": f"{sum(mix(b + C & MASK) for b in bits) & MASK:016x}",
            "positional": f"{sum(mix(b + C + (i + 1) * G & MASK) for i, b in enumerate(bits)) & MASK:016x}"}


def main():
    draw = np.random.default_rng(7)
    normal = torch.from_numpy(draw.standard_normal((37, 53)))
    spoiled = normal.clone().float()
    spoiled[3, 5], spoiled[0, 0], spoiled[36, 52], spoiled[7, :9] = float("nan"), float("inf"), float("-inf"), 0
    tensors = {"f64": normal, "f32": normal.float(), "bf16": normal.bfloat16(), "f16": normal.half(), "spoiled": spoiled, "far": (normal * 1e-3 + 1000).float(),
               "nothing": torch.full((5,), float("nan")), "one": torch.tensor([-0.0]), "ids": torch.from_numpy(draw.integers(-5, 32000, 1025, dtype=np.int32)),
               "bytes": torch.from_numpy(draw.integers(0, 256, 600, dtype=np.uint8))}
    save_file(tensors, sys.argv[1], {name: json.dumps(figures(t)) for name, t in tensors.items()})


if __name__ == "__main__":
    main()
