#!/usr/bin/env python3
"""What a dump costs: steps of the 134M shape that are dumped against those beside them that are not, in one run; and two dumps compared.

    python3 bench/dump_cost.py BUILD/ravine [FOLDER]

Two steps of four are dumped, with checksums and with statistics of all ops, so what else the machine does meets both alike; printed are medians and their ratio. Then two dumps with
tensors are compared: seconds, bytes per second beside what reading the same files takes (their pages dropped before where that is allowed), and the most memory that was resident."""
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHAPE = {"model_type": "llama", "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12, "vocab_size": 32000,
         "max_position_embeddings": 1024, "rms_norm_eps": 1e-5}
TOKENS, ROWS = 1024, 4


def inputs(folder):
    (folder / "config.json").write_text(json.dumps(SHAPE))
    draw, rows = random.Random(1), 64
    data = struct.pack(f"<{rows * TOKENS}i", *(draw.randrange(3, 32000) for _ in range(rows * TOKENS)))
    header = json.dumps({"input_ids": {"dtype": "I32", "shape": [rows, TOKENS], "data_offsets": [0, len(data)]}}).encode()
    (folder / "ids.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)


def train(program, folder, name, dump, steps, *more):
    subprocess.run([program, "train", f"model.config={folder}/config.json", f"data.train=[{folder}/ids.safetensors]", f"data.sequence_length={TOKENS}", f"train.steps={steps}",
                    f"train.global_batch={ROWS}", f"train.micro_batch={ROWS}", "train.valid_every=0", "checkpoint.every=0", "log.tensorboard=false", "precision.compute=f32",
                    f"train.output={folder}/{name}", *more, "probe.dump=" + json.dumps({"dir": f"{folder}/{name}.dump", **dump})], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]


def main():
    program, place = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    print(next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "?"), os.cpu_count(), "cores")
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        inputs(folder)
        for what in ("checksum", "statistics"):
            kept = (3, 4, 7, 8)
            seen = train(program, folder, what, {"what": what, "steps": "3-4|7-8"}, 10)
            dumped = statistics.median(m["step_time"] for m in seen if m["step"] in kept)
            plain = statistics.median(m["step_time"] for m in seen if m["step"] > 1 and m["step"] not in kept)
            print(f"{what}: {dumped:.2f} against {plain:.2f} s, {dumped / plain:.2f} times the step", flush=True)
        for side in ("a", "b"):
            train(program, folder, side, {"what": "tensors", "steps": "1", "io": "output", "paths": ["model.layers.*"], "phases": ["forward", "backward"]}, 1, f"train.seed={42 + (side == 'b')}")
        files = [f for side in ("a", "b") for f in (folder / f"{side}.dump").rglob("*") if f.is_file()]
        size = sum(f.stat().st_size for f in files)

        def timed(command):
            for f in files:
                with open(f, "rb") as opened:
                    os.fsync(opened.fileno())
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            begin = time.monotonic()
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            used = os.wait4(child.pid, 0)[2]
            return time.monotonic() - begin, used
        read, _ = timed(["cat", *map(str, files)])
        compared, used = timed([program, "compare", f"{folder}/a.dump", f"{folder}/b.dump", "--json"])
        print(f"compare: {size / 1e9:.2f} GB in {compared:.1f} s, {size / compared / 1e9:.2f} GB/s; cat of the same files {size / read / 1e9:.2f} GB/s; "
              f"{used.ru_utime:.1f} s of user time, most resident {used.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
