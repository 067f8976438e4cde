"""A checkpoint of the shape of Llama-2-70B through `ravine convert`: memory measured from outside, and rate against the disk.

    python3 bench/convert_70b.py build/release/ravine [--layers 8] [--to megatron-mcore] [--rounds 3] [--folder DIR]

The source has all 80 layers (138 GB) but is sparse: its files are headers and holes, so it takes no disk and reads as zeros at the speed of
memory. The target is real. What is converted is a model of --layers of them (1.7 GB each, widths of 70B), since few disks hold 138 GB; the
full one is planned (--dry-run), which reads every header. Each round: dd writes as many zeros as the conversion will (oflag=direct), then the
conversion runs, then dd again. Peak memory is ru_maxrss of the process; the page cache it leaves is not its own.
Must: at most 4 GiB of memory, and 0.8 of the disk's rate."""
import argparse
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path

p = argparse.ArgumentParser()
p.add_argument("ravine")
p.add_argument("--layers", type=int, default=8)
p.add_argument("--to", default="megatron-mcore", choices=["hf", "megatron-mcore", "megatron-legacy", "mindformers"])
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--folder", help="a folder on the disk to measure")
a = p.parse_args()
program = os.path.abspath(a.ravine)
H, F, HEADS, KV, V, LAYERS = 8192, 28672, 64, 8, 32000, 80


def tensors(layers):
    yield "model.embed_tokens.weight", (V, H)
    for i in range(layers):
        s = f"model.layers.{i}."
        yield s + "input_layernorm.weight", (H,)
        yield s + "post_attention_layernorm.weight", (H,)
        for n, rows in (("q", H), ("k", H // HEADS * KV), ("v", H // HEADS * KV), ("o", H)):
            yield s + f"self_attn.{n}_proj.weight", (rows, H)
        for n, shape in (("gate", (F, H)), ("up", (F, H)), ("down", (H, F))):
            yield s + f"mlp.{n}_proj.weight", shape
    yield "model.norm.weight", (H,)
    yield "lm_head.weight", (V, H)


def sparse_model(folder, layers):
    """A Hugging Face folder in bf16 whose shards of about 10 GB are holes behind their headers."""
    folder.mkdir()
    shards, at = [[]], 0
    for name, shape in tensors(layers):
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        if at + size > 10e9:
            shards.append([])
            at = 0
        shards[-1].append((name, shape, at, at + size))
        at += size
    index, total = {}, 0
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        header = json.dumps({n: {"dtype": "BF16", "shape": s, "data_offsets": [b, e]} for n, s, b, e in shard}).encode()
        header += b" " * (-len(header) % 8)
        with open(folder / file, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header)
            f.truncate(8 + len(header) + shard[-1][3])
        index |= {n: file for n, *_ in shard}
        total += shard[-1][3]
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "hidden_size": H, "intermediate_size": F, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "num_key_value_heads": KV, "vocab_size": V, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"}))
    return total


def measured(*command):
    """Seconds and peak memory in bytes."""
    began = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{command}: status {status}")
    return time.monotonic() - began, usage.ru_maxrss * 1024


def dd(folder, size):
    """Bytes per second of writing zeros straight to the disk."""
    blocks = size >> 22
    seconds, _ = measured(shutil.which("dd"), "if=/dev/zero", f"of={folder / 'dd'}", "bs=4M", f"count={blocks}", "oflag=direct", "conv=fsync", "status=none")
    (folder / "dd").unlink()
    return (blocks << 22) / seconds


folder = Path(tempfile.mkdtemp(prefix="ravine-convert-", dir=a.folder))
try:
    whole = sparse_model(folder / "whole", LAYERS)
    ranks = ["--tensor", "8", "--pipeline", "4"] if a.to.startswith("megatron") else []
    seconds, memory = measured(program, "convert", "--input", str(folder / "whole"), "--to", a.to, "--dry-run", *ranks)
    print(f"70B planned: {whole / 1e9:.1f} GB in {LAYERS} layers, {seconds:.2f} s, peak {memory / 2**20:.0f} MiB", flush=True)
    size = sparse_model(folder / "part", a.layers)
    used = sum(f.stat().st_blocks * 512 for f in (folder / "part").iterdir())
    print(f"converted: {a.layers} layers, {size / 1e9:.2f} GB, which take {used / 2**10:.0f} KiB of disk; to {a.to}", flush=True)
    for r in range(a.rounds):
        before = dd(folder, size)
        seconds, memory = measured(program, "convert", "--input", str(folder / "part"), "--output", str(folder / "out"), "--to", a.to)
        rate = size / seconds
        shutil.rmtree(folder / "out")
        after = dd(folder, size)
        disk = (before + after) / 2
        print(f"round {r + 1}: convert {seconds:.2f} s, {rate * 1e-9:.2f} GB/s; dd {before * 1e-9:.2f} and {after * 1e-9:.2f} GB/s; ratio {rate / disk:.2f}; "
              f"peak memory {memory / 2**20:.0f} MiB", flush=True)
finally:
    shutil.rmtree(folder, ignore_errors=True)
