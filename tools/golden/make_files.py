"""Writes tests/golden/files: small files of other people's writers for the readers of src/files.

python tools/golden/make_files.py          (needs numpy, torch, safetensors)
"""
import gzip
import json
import lzma
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

out = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/files"
out.mkdir(parents=True, exist_ok=True)

special = [0.0, -0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan"), 6e-8, 65504.0, 1e-3]
tensors = {
    "f64": torch.tensor(special, dtype=torch.float64),
    "f32": torch.tensor(special, dtype=torch.float32).reshape(2, 5),
    "bf16": torch.tensor(special, dtype=torch.bfloat16),
    "f16": torch.tensor(special, dtype=torch.float16),
    "i64": torch.tensor([-(2**63), 2**63 - 1, 0], dtype=torch.int64),
    "i32": torch.tensor([-(2**31), 2**31 - 1], dtype=torch.int32),
    "i16": torch.tensor([-(2**15), 2**15 - 1], dtype=torch.int16),
    "i8": torch.tensor([-128, 127], dtype=torch.int8),
    "u8": torch.tensor([0, 255, 7], dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "scalar": torch.tensor(3.25),
    "empty": torch.zeros(0, 4),
    "five": torch.arange(24, dtype=torch.float32).reshape(1, 2, 3, 4, 1),
    "odd name \u00fc \"quoted\"\n": torch.tensor([1.0]),
}
save_file(tensors, out / "all_types.safetensors", metadata={"format": "pt"})

for name in ("f32", "i64", "u8", "bool", "scalar"):
    np.save(out / f"{name}.npy", tensors[name].numpy())
np.save(out / "fortran.npy", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
np.save(out / "big_endian.npy", np.arange(3, dtype=">f4"))

text = "".join(f"line {i} of the text \u00e9\n" for i in range(2000)).encode()
half = len(text) // 2
(out / "text.gz").write_bytes(gzip.compress(text[:half], mtime=0) + gzip.compress(text[half:], mtime=0))
(out / "text.xz").write_bytes(lzma.compress(text[:half]) + lzma.compress(text[half:]))

# Conversions: f64 to f16 as NumPy rounds them (once), f32 to bf16 as PyTorch does; bit patterns.
rng = np.random.default_rng(7)
f64 = np.concatenate([
    rng.standard_normal(200) * np.exp2(rng.integers(-30, 20, 200)),
    (1 + rng.integers(0, 2048, 300) / 2048 + rng.integers(-1, 2, 300) * 2.0**-40) * np.exp2(rng.integers(-26, 17, 300)),
    [1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.99, 65520.0, 2.0**-25, 2.0**-25 * (1 + 2.0**-50), 2.0**-24, 1e300, -1e300],
])
f32 = np.concatenate([f64[:-2], [1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.3895e38, 3.4e38, 1e-40]]).astype(np.float32)
with np.errstate(over="ignore"):
    rows = {
        "f64": [v.hex() for v in f64.tolist()],
        "f16": f64.astype(np.float16).view(np.int16).tolist(),
        "f32": [v.hex() for v in f32.astype(np.float64).tolist()],
        "bf16": torch.from_numpy(f32).to(torch.bfloat16).view(torch.int16).tolist(),
    }
(out / "convert.json").write_text(json.dumps(rows))
for path in out.iterdir():
    path.chmod(0o644)

# Streams of torch.save, without an archive, by each protocol of pickle that has its own form.
for protocol in (3, 4, 5):
    torch.save({"w": tensors["f32"], "n": tensors["i64"]}, out / f"stream_{protocol}.bin", _use_new_zipfile_serialization=False, pickle_protocol=protocol)

# Views whose values are those of a storage with the other sign, as torch saves them, and what they hold.
grid = torch.arange(-6, 6, dtype=torch.float32).reshape(3, 4)
negated = {
    "f32": torch._neg_view(grid),
    "columns": torch._neg_view(grid)[:, 1:3],
    "transposed": torch._neg_view(grid.to(torch.bfloat16)).t(),
    "f16": torch._neg_view(tensors["f16"]),
    "i32": torch._neg_view(tensors["i16"].to(torch.int32)),
    "i8": torch._neg_view(torch.tensor([-128, 127, 0, 5], dtype=torch.int8)),
    "imaginary": torch.complex(grid, grid + 1).conj().imag,
    "plain": grid,
}
assert all(t.is_neg() == (name != "plain") for name, t in negated.items())
torch.save(negated, out / "negated.bin")
save_file({name: t.resolve_neg().contiguous().clone() for name, t in negated.items()}, out / "negated.safetensors")
