"""The bubble of a pipeline, measured: the share of a step in which a stage waits for another, as each run reads it of itself (metrics.jsonl), against
(p-1)/(v m) of the time in which stages work. Two ranks of one thread; stages of equal work (a small vocabulary).

    python3 bench/bubble.py build/release/ravine [--steps 8]
"""
import argparse, json, os, statistics, tempfile

from parallel import batches, train

p = argparse.ArgumentParser()
p.add_argument("ravine")
p.add_argument("--steps", type=int, default=8)
p.add_argument("--length", type=int, default=512)
a = p.parse_args()
with tempfile.TemporaryDirectory() as folder:
    config = os.path.join(folder, "config.json")
    json.dump({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8,
               "vocab_size": 64, "max_position_embeddings": a.length}, open(config, "w"))
    data = batches(os.path.join(folder, "ids.safetensors"), 64, a.length, 64)
    for chunks in (1, 2):
        for micros in (2, 4, 8):
            rows, _ = train(a.ravine, folder, 2, 1, {"model.config": config, "data.train": f"[{data}]", "data.sequence_length": a.length, "train.global_batch": micros,
                                                     "train.micro_batch": 1, "train.steps": a.steps, "parallel.pipeline": 2, "parallel.virtual": chunks})
            share = statistics.median(row["bubble"] for row in rows[2:])
            want = 1 / (chunks * micros)
            print(f"p 2  v {chunks}  m {micros}: bubble {100 * share:5.1f} % of the step, {100 * share / (1 - share):5.1f} % of the work; (p-1)/(v m) {100 * want:5.1f} %", flush=True)
