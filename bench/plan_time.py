"""Predicted against measured: the time of a step, and the memory of a rank, of a handful of layouts.

python3 bench/plan_time.py PATH_OF_ravine [--ways 'one rank;data 2'] [--steps 5] [--rounds 2]

Measures the machine and the messages between two ranks first (bench machine, bench messages), then runs the layouts in turn, `rounds` times, and
prints per layout: the median step, the step that `ravine plan` predicts, their ratio; the largest resident memory that a rank's process
reached (read by the kernel, from outside), what was planned, and the difference. Within 20 % of time, and 5 % + 32 MB of memory, is what is promised.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from parallel import LAUNCH, batches

SHAPE = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 8,
         "vocab_size": 8000, "max_position_embeddings": 1024, "tie_word_embeddings": False}
WAYS = {"one rank": (1, {}), "one rank, recompute full": (1, {"train.recompute": "full"}), "one rank, bf16": (1, {"precision.compute": "bf16"}),
        "data 2": (2, {}), "data 2, 8 leaves": (2, {"parallel.sum_leaves": 8}), "data 2, ZeRO 1": (2, {"parallel.zero": 1}), "data 2, ZeRO 2": (2, {"parallel.zero": 2}),
        "data 2, ZeRO 3": (2, {"parallel.zero": 3}), "tensor 2": (2, {"parallel.tensor": 2}), "tensor 2, sequence": (2, {"parallel.tensor": 2, "parallel.sequence": "true"}),
        "pipeline 2": (2, {"parallel.pipeline": 2})}


def arguments(values):
    return [f"{k}={v}" for k, v in values.items()]


def json_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def measured(ravine, folder, ranks, values):
    """Seconds of the steps after the second, and the peak resident MiB of each rank."""
    out = tempfile.mkdtemp(dir=folder)
    cores = len(os.sched_getaffinity(0))
    run = [ravine, "train", "--threads", str(max(1, cores // ranks)), *arguments({"train.output": out, "checkpoint.every": 0, "log.tensorboard": "false", **values})]
    timed = ["/usr/bin/time", "-f", "peak %M", *run]
    done = subprocess.run([*LAUNCH, "-n", str(ranks), *timed] if ranks > 1 else timed, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(done.stderr)
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
    return [row["step_time"] for row in rows[2:]], [int(n) / 1024 for n in re.findall(r"peak (\d+)", done.stderr)]


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("ravine")
    p.add_argument("--ways", default="")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--rounds", type=int, default=2)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        subprocess.run([a.ravine, "bench", "machine"], check=True, stdout=sys.stderr)
        subprocess.run([*LAUNCH, "-n", "2", a.ravine, "bench", "messages"], check=True, stdout=sys.stderr)
        config = os.path.join(folder, "config.json")
        open(config, "w").write(json.dumps(SHAPE))
        data = {"data.train": f"[{batches(os.path.join(folder, 'ids.safetensors'), 64, 256, 8000)}]"}
        base = {"model.config": config, "data.sequence_length": 256, "train.global_batch": 16, "train.micro_batch": 1}
        ways = {name: WAYS[name] for name in (a.ways.split(";") if a.ways else WAYS)}
        times, peaks, plans = {n: [] for n in ways}, {n: 0 for n in ways}, {}
        for _ in range(a.rounds):
            for name, (ranks, settings) in ways.items():
                seconds, memory = measured(a.ravine, folder, ranks, {**base, **data, **settings, "train.steps": a.steps, "schedule.warmup_steps": 1})
                times[name] += seconds
                peaks[name] = max(peaks[name], *memory)
        for name, (ranks, settings) in ways.items():
            plan = json_of(a.ravine, "plan", "--json", "--ranks", str(ranks), *arguments({**base, **settings}))
            took, step = statistics.median(times[name]), plan["step"]
            planned = max(r["total"] for r in plan["ranks"]) / 2**20
            parts = ", ".join(f"{k} {1000 * step[k]:.0f}" for k in ("compute", "tensor", "pipeline", "data", "leaves", "update") if step[k] > 0)
            print(f"{name:<26} {1000 * took:7.0f} ms, predicted {1000 * step['seconds']:7.0f}: {step['seconds'] / took:.2f}  ({parts}); "
                  f"{peaks[name]:6.1f} MiB, planned {planned:6.1f}: {peaks[name] - planned:+6.1f} of {0.05 * peaks[name] + 32:.0f}", flush=True)
