"""Figures of a job of several ranks, each from its definition: metrics.jsonl, the log and TensorBoard's events. (Of one rank: tests/e2e/figures.py.)

python3 figures.py PATH_OF_ravine [FUNCTION ..]
"""
import importlib.util
import json
import os
import re
import struct
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from training import STEPS, launch, prepare, r
from ravine_run import check

spec = importlib.util.spec_from_file_location("figures_of_one", Path(__file__).resolve().parent.parent / "e2e" / "figures.py")
one = importlib.util.module_from_spec(spec)
spec.loader.exec_module(one)

RANK_TAGS = {"ranks/wait_most": "comm_wait", "ranks/wait_least": "comm_wait_least", "ranks/bubble": "bubble",
             **{f"ranks/{axis}_seconds": f"comm_{axis}_seconds" for axis in ("data", "tensor", "pipeline", "all")}}
AXES = {"comm_wait", "comm_wait_least", "slowest_rank", "comm_mb", "comm_all_mb", "comm_all_seconds"}
# Ranks, threads of each (in cores of this machine; 0: one thread), layout, what metrics.jsonl has beside AXES.
JOBS = [
    (2, 0, {}, {"comm_data_mb", "comm_data_seconds"}),
    (2, 1, {"pipeline": 2}, {"comm_pipeline_mb", "comm_pipeline_seconds", "bubble"}),  # each on all cores: they share the peak
]


def test_speed_of_a_job(folder):
    """The peak of a job is that of its ranks together, as far as they have cores of their own; all that is said of ranks is said alike everywhere."""
    fields = {"head_dim": 8}
    base = {**prepare(folder, **fields), "train.valid_every": 0, "log.tensorboard": True}
    config = {**r.TINY, "num_hidden_layers": 4, "vocab_size": 257, **fields}
    per_token, cores, step_tokens = one.training_flops(config, 17), len(os.sched_getaffinity(0)), 8 * 17
    for number, (ranks, times, layout, more) in enumerate(JOBS):
        out, threads, what = folder / str(number), max(1, times * cores), f"{ranks} ranks, {layout}"
        log = launch(ranks, ["train", *r.settings({**base, "train.output": str(out), "train.threads": threads, **{f"parallel.{k}": v for k, v in layout.items()}})]).stderr
        cache = json.loads((Path(os.environ["XDG_CACHE_HOME"]) / "ravine" / "machine.json").read_text())
        found = [v["f32_flops"] for k, v in cache.items() if k.endswith(f", {threads} threads") and isinstance(v, dict) and "f32_flops" in v]
        check(len(found) == 1, f"{cache}")
        peak = found[0] * ranks * min(1, cores / (ranks * threads))
        check(f"peak {peak / 1e9:.0f} GFLOP/s (sol 1)" in log, f"{what}: peak {peak / 1e9}\n{log}")
        rows = one.rows_of(out)
        check([m["step"] for m in rows] == list(range(1, STEPS + 1)), rows)
        lines = {int(m[1]): m for m in re.finditer(r"^step +(\d+)/\d+ .*? (\d+) tok/s  sol (\S+)  (\d+) ms  left .*?(?:  wait (\d+) %, (\d+) % on rank (\d+), the slowest)?(?:  bubble (\d+) %)?$", log, re.M)}
        for m in rows:
            one.near(m["tokens_per_second"], step_tokens / m["step_time"], 1e-12, f"{what}: tokens_per_second")
            one.near(m["sol"], m["tokens_per_second"] * per_token / round(peak), 1e-9, f"{what}: sol")
            check(m["tokens"] == m["step"] * step_tokens, f"{what}: {m}")
            want = [f"{m['tokens_per_second']:.0f}", f"{m['sol']:.2f}", f"{1000 * m['step_time']:.0f}"]
            want += [f"{100 * m['comm_wait']:.0f}", f"{100 * m['comm_wait_least']:.0f}", str(m["slowest_rank"])]
            want.append(f"{100 * m['bubble']:.0f}" if "bubble" in m else None)
            check(m["step"] in lines and list(lines[m["step"]].groups()[1:]) == want, f"{what}: the log says {m['step'] in lines and lines[m['step']].groups()}, metrics.jsonl {want}\n{log}")
            said = {k for k in m if k.startswith("comm_") or k in ("bubble", "slowest_rank")}
            check(said == AXES | more, f"{what}: {sorted(said)}")
            check(0 <= m["comm_wait_least"] <= m["comm_wait"] <= 1 and 0 <= m["slowest_rank"] < ranks and 0 <= m.get("bubble", 0) <= m["comm_wait"], f"{what}: {m}")
            check(0 < m["comm_mb"] <= (1 + 1e-9) * sum(v for k, v in m.items() if re.fullmatch("comm_.+_mb", k)), f"{what}: rank 0 has sent more than the most over each axis: {m}")
        tags = {**one.TAGS, **RANK_TAGS}
        given = {(tags.get(tag, tag), step): value for tag, step, value, _ in one.events(out / "tensorboard")}
        wanted = {(key, m["step"]): struct.unpack("<f", struct.pack("<f", m[key]))[0] for m in rows for key in tags.values() if key in m}
        check(given == wanted, f"{what}: TensorBoard differs: {[(k, given.get(k), wanted.get(k)) for k in given.keys() | wanted.keys() if given.get(k) != wanted.get(k)][:4]}")


def test_a_stage_waits_at_both_ends(folder):
    """One micro batch on two stages: one of them works at a time, so the bubble is half of a step or more, the more the busier the machine is. What the last stage waits
    at the end is a part of it: without that it would be a third."""
    fields = {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 64, "max_position_embeddings": 256}
    base = {**prepare(folder, **fields), "train.valid_every": 0, "data.valid": [], "data.train": [r.save_ids(folder / "long.safetensors", 40, 256, vocabulary=64)], "data.sequence_length": 256,
            "train.global_batch": 1, "parallel.sum_leaves": 1, "parallel.pipeline": 2, "train.threads": 1, "train.steps": 9, "train.output": str(folder / "out")}
    launch(2, ["train", *r.settings(base)])
    shares = sorted(m["bubble"] for m in one.rows_of(folder / "out"))
    check(0.4 < shares[4] < 1, f"{shares}")


if __name__ == "__main__":
    r.main(globals())
