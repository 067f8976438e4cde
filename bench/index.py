"""Megatron's indices: building the sample index of many samples against its own C++ helper, and opening the .idx of many documents.

    python3 bench/index.py build/release/bench/bench_index [--megatron FOLDER] [--samples 100000000] [--documents 40000000] [--length 64] [--open 100000000]
Documents of 1 to 320 tokens in shuffled order. FOLDER is an unpacked megatron-core wheel; its compiled helpers_cpp is called. The two sides in turn, seconds."""
import argparse, glob, importlib.util, json, os, struct, subprocess, sys, tempfile, time
from pathlib import Path

import numpy as np

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("bench")
p.add_argument("--megatron")
p.add_argument("--samples", type=int, default=100_000_000)
p.add_argument("--documents", type=int, default=40_000_000)
p.add_argument("--length", type=int, default=64)
p.add_argument("--open", type=int, default=100_000_000)
p.add_argument("--rounds", type=int, default=2)
p.add_argument("--folder")
p.add_argument("--made", help="folder that an earlier --make filled")
p.add_argument("--make", help="only write the inputs into this folder")
a = p.parse_args()


def ours(*words):
    done = subprocess.run([a.bench, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def make(folder):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 321, size=a.documents, dtype=np.int32)
    order = rng.permutation(a.documents).astype(np.int32)
    lengths.tofile(folder / "lengths")
    order.tofile(folder / "documents")
    # An index with holes: lengths and places 0, so it takes no disk.
    n = a.open
    with open(folder / "big.idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, n, n + 1))
        f.truncate(34 + 12 * n + 8 * (n + 1))
        f.seek(-8, 2)
        f.write(struct.pack("<Q", n))
    (folder / "big.bin").write_bytes(b"")


def measure(folder):
    lengths, order = (np.fromfile(folder / name, dtype=np.int32) for name in ("lengths", "documents"))
    tokens = int(lengths.sum(dtype=np.int64))
    n = (tokens - 1) // a.length
    print(f"{a.documents} documents of {tokens / a.documents:.1f} tokens on average, samples of {a.length}: {n} samples", flush=True)
    helper = None
    if a.megatron:
        path = glob.glob(os.path.join(a.megatron, "megatron/core/datasets/helpers_cpp*.so"))[0]
        spec = importlib.util.spec_from_file_location("helpers_cpp", path)
        helper = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(helper)
    for _ in range(a.rounds):
        mine = ours("sample", folder / "lengths", folder / "documents", n, a.length)
        line = f"sample index: ours {mine['seconds']:.2f} s"
        if helper:
            began = time.monotonic()
            index = helper.build_sample_idx_int32(lengths, order, a.length, 1, tokens, True, 1)
            theirs = time.monotonic() - began
            line += f", helper {theirs:.2f} s, ratio {theirs / mine['seconds']:.2f}"
            np.asarray(index).tofile(folder / "theirs")
            del index
            same = ours("checksum", folder / "theirs")["checksum"] == mine["checksum"]
            (folder / "theirs").unlink()
            line += f", same index: {same}"
        print(line, flush=True)
    for _ in range(a.rounds):
        print("open", json.dumps(ours("open", folder / "big")), flush=True)


if a.make:
    make(Path(a.make))
elif a.made:
    measure(Path(a.made))
else:
    with tempfile.TemporaryDirectory(prefix="ravine-index-", dir=a.folder) as folder:
        make(Path(folder))
        measure(Path(folder))
