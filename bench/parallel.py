"""What ranks cost: speed of layouts against one rank in alternating runs, bytes that go through MPI counted from outside the program, and memory.

python3 bench/parallel.py PATH_OF_ravine [--only speed|bytes|memory] [--ways 'data 2;tensor 2'] [--steps 6] [--rounds 2] [--layers 4] [--hidden 256]
                                           [--config FILE] [--length 256]

speed: the median step of each layout, same global batch, threads times ranks = cores; ratios of tokens per second to one rank with all cores.
bytes: two runs that differ in their number of steps only; the difference per step against the formula, in elements of the model.
memory: weights, moments and gradients by ZeRO stage as the program plans them, and the peak resident memory that each run reads of itself.
"""
import argparse
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile

LAUNCH = ["mpirun", "--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def batches(path, rows, columns, vocabulary):
    draw = random.Random(1)
    body = struct.pack(f"<{rows * columns}i", *(draw.randrange(3, vocabulary) for _ in range(rows * columns)))
    head = json.dumps({"input_ids": {"dtype": "I32", "shape": [rows, columns], "data_offsets": [0, len(body)]}}).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + body)
    return path


def train(ravine, folder, ranks, threads, settings, preload=None):
    out = tempfile.mkdtemp(dir=folder)
    values = {"train.output": out, "checkpoint.every": 0, "log.tensorboard": "false", "schedule.warmup_steps": 1, **settings}
    command = [ravine, "train", "--threads", str(threads), *(f"{k}={v}" for k, v in values.items())]
    if ranks > 1:
        command = [*LAUNCH, "-n", str(ranks), *(["-x", f"LD_PRELOAD={preload}"] if preload else []), *command]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(done.stderr)
    return [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))], done.stderr


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("ravine")
    p.add_argument("--only", default="speed,bytes,memory")
    p.add_argument("--ways", default="", help="of speed: only these layouts, separated by ; and one rank")
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--config", help="of speed: a model instead of --layers and --hidden")
    p.add_argument("--length", type=int, default=256, help="of speed: tokens of a sequence")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shape = {"model_type": "llama", "hidden_size": a.hidden, "intermediate_size": a.hidden * 11 // 4, "num_hidden_layers": a.layers, "num_attention_heads": 4,
                 "num_key_value_heads": 4, "vocab_size": 4000, "max_position_embeddings": 1024}
        config = os.path.join(folder, "config.json")
        open(config, "w").write(json.dumps(shape))
        base = {"model.config": config, "data.train": f"[{batches(os.path.join(folder, 'ids.safetensors'), 64, 256, 4000)}]",
                "data.sequence_length": 256, "train.global_batch": 8, "train.micro_batch": 1, "train.steps": a.steps}
        if "speed" in a.only:
            ways = {"one rank, 2 threads": (1, 2, {}), "data 2": (2, 1, {}), "data 2, ZeRO 1": (2, 1, {"parallel.zero": 1}), "data 2, ZeRO 2": (2, 1, {"parallel.zero": 2}),
                    "data 2, ZeRO 3": (2, 1, {"parallel.zero": 3}), "tensor 2": (2, 1, {"parallel.tensor": 2}), "pipeline 2": (2, 1, {"parallel.pipeline": 2})}
            speeds = {name: [] for name in ways}
            shaped = {"data.train": f"[{batches(os.path.join(folder, 'long.safetensors'), 64, a.length, 4000)}]", "data.sequence_length": a.length}
            if a.config:
                shaped["model.config"] = a.config
            for _ in range(a.rounds):
                for name, (ranks, threads, settings) in ways.items():
                    if a.ways and name not in a.ways.split(";") and name != "one rank, 2 threads":
                        continue
                    rows, _ = train(a.ravine, folder, ranks, threads, {**base, **shaped, **settings})
                    speeds[name] += [row["tokens_per_second"] for row in rows[2:]]
            one = statistics.median(speeds["one rank, 2 threads"])
            for name, values in speeds.items():
                if not values:
                    continue
                print(f"{name:<22} {statistics.median(values):8.0f} tokens/s  {statistics.median(values) / one:5.2f} of one rank", flush=True)
        if "bytes" in a.only:
            base.update({"data.train": f"[{batches(os.path.join(folder, 'short.safetensors'), 64, 16, 4000)}]", "data.sequence_length": 16})  # bytes do not depend on it
            counter = os.path.join(folder, "count.so")
            subprocess.run(["mpicc", "-shared", "-fPIC", "-O1", "-o", counter, os.path.join(os.path.dirname(os.path.abspath(__file__)), "pmpi_count.c")], check=True)
            elements = json.loads(subprocess.run([a.ravine, "plan", "--json", *(f"{k}={v}" for k, v in base.items() if k != "data.train")], capture_output=True, text=True, check=True).stdout)["parameters"]
            for name, ranks, settings, formula in [("data 2", 2, {}, 2), ("data 2, ZeRO 1", 2, {"parallel.zero": 1}, 2), ("data 2, ZeRO 2", 2, {"parallel.zero": 2}, 4 + 1),
                                                   ("data 2, ZeRO 3", 2, {"parallel.zero": 3}, 3 * 4), ("data 4, ZeRO 3", 4, {"parallel.zero": 3}, 3 * 2)]:
                totals = []
                for steps in (2, 4):
                    _, text = train(a.ravine, folder, ranks, 1, {**base, **settings, "train.steps": steps, "schedule.steps": 4, "parallel.zero_threshold": 0}, counter)
                    totals.append({int(r): float(n) for r, n in re.findall(r"pmpi rank (\d+) .* total (\d+)", text)})
                per_step = max((totals[1][r] - totals[0][r]) / 2 for r in totals[0])
                want = formula * elements * 4 * (ranks - 1) / ranks
                print(f"{name:<22} {per_step * 1e-6:8.1f} MB per rank and step, formula {formula} x parameters x {ranks - 1}/{ranks}: {want * 1e-6:8.1f}, ratio {per_step / want:.3f}", flush=True)
        if "memory" in a.only:
            base.update({"data.train": f"[{os.path.join(folder, 'ids.safetensors')}]", "data.sequence_length": 256})
            for zero in (0, 1, 2, 3):
                rows, text = train(a.ravine, folder, 2, 1, {**base, "parallel.zero": zero, "train.steps": 3})
                planned = re.search(r"memory   (weights .*)", text).group(1)
                print(f"data 2, ZeRO {zero}: {rows[-1]['memory_mb']:.1f} MiB resident; {planned}", flush=True)
