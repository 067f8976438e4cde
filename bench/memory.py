"""Peak resident memory of whole training runs, measured from outside (ru_maxrss), against the plan that the run prints at its start.

    python3 bench/memory.py build/release/ravine [NAME ..]      # all cases, or those whose name holds one of the words
Must: within 5 % + 32 MB of the plan; exit status 1 otherwise. Two steps each, export of the model included. Standard library only."""
import array, json, os, random, re, struct, subprocess, sys, tempfile
from pathlib import Path

program, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
LLAMA = json.loads((Path(__file__).parent.parent / "configs" / "llama-134m.json").read_text())
SMALL = {**LLAMA, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
         "vocab_size": 2048, "max_position_embeddings": 32768}
VOCABULARY = {**SMALL, "hidden_size": 128, "intermediate_size": 344, "vocab_size": 128256}
TIED = {**VOCABULARY, "tie_word_embeddings": True}
BF16 = {"precision.compute": "bf16"}
# name, config, sequence length, micro batch, micro batches per step, further options
CASES = [
    ("134m b1 f32", LLAMA, 1024, 1, 1, {}),
    ("134m b1 f32 none", LLAMA, 1024, 1, 1, {"train.recompute": "none"}),
    ("134m b1 f32 full", LLAMA, 1024, 1, 1, {"train.recompute": "full"}),
    ("134m b1 f32 x2", LLAMA, 1024, 1, 2, {}),
    ("134m b1 f32 saving", LLAMA, 1024, 1, 1, {"checkpoint.every": 1}),
    ("134m b1 bf16", LLAMA, 1024, 1, 1, BF16),
    ("134m b1 bf16 saving", LLAMA, 1024, 1, 1, {**BF16, "checkpoint.every": 1}),
    ("134m b4 f32", LLAMA, 1024, 4, 1, {}),
    ("134m b4 f32 none", LLAMA, 1024, 4, 1, {"train.recompute": "none"}),
    ("134m b4 f32 full", LLAMA, 1024, 4, 1, {"train.recompute": "full"}),
    ("134m b4 bf16", LLAMA, 1024, 4, 1, BF16),
    ("134m b4 bf16 full", LLAMA, 1024, 4, 1, {**BF16, "train.recompute": "full"}),
    ("small t1024 sgd", SMALL, 1024, 1, 1, {"optimizer.type": "sgd"}),
    ("small t8192", SMALL, 8192, 1, 1, {}),
    ("small t8192 full", SMALL, 8192, 1, 1, {"train.recompute": "full"}),
    ("small t16384", SMALL, 16384, 1, 1, {}),
    ("small t32768", SMALL, 32768, 1, 1, {}),
    ("small t32768 bf16 full", SMALL, 32768, 1, 1, {**BF16, "train.recompute": "full"}),
    ("vocabulary 128k", VOCABULARY, 512, 2, 2, {}),
    ("vocabulary 128k bf16", VOCABULARY, 512, 2, 2, BF16),
    ("vocabulary 128k tied", TIED, 512, 2, 2, {}),
    ("vocabulary 128k tied saving", TIED, 512, 2, 2, {"checkpoint.every": 1}),
]


def save_ids(path, rows, columns, vocabulary):
    draw = random.Random(1)
    data = array.array("i", (draw.randrange(vocabulary) for _ in range(rows * columns))).tobytes()
    header = json.dumps({"input_ids": {"dtype": "I32", "shape": [rows, columns], "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def measure(folder, config, length, rows, micros, more):
    (folder / "config.json").write_text(json.dumps(config))
    save_ids(folder / "ids.safetensors", rows * micros, length, config["vocab_size"])
    options = {"model.config": folder / "config.json", "data.train": f"[{folder / 'ids.safetensors'}]", "data.sequence_length": length,
               "train.steps": 2, "train.micro_batch": rows, "train.global_batch": rows * micros, "checkpoint.every": 0, "checkpoint.keep": 1,
               "log.tensorboard": "false", "train.output": folder / "run", **more}
    run = subprocess.Popen([program, "train", *(f"{k}={v}" for k, v in options.items())], stderr=subprocess.PIPE, text=True)
    text = run.stderr.read()
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(r"([\d.]+) MiB in all", text)
    if run.returncode or not found:
        sys.exit(text)
    parts = re.search(r"gradients (\S+ \S+), activations (\S+ \S+), workspace (\S+ \S+)", text).groups()
    return float(found[1]), usage.ru_maxrss / 1024, parts


failed = False
print(f"{'case':<30} {'planned MB':>10} {'measured':>9} {'ratio':>6}   gradients / activations / workspace at the fullest moment")
for name, *case in CASES:
    if words and not any(w in name for w in words):
        continue
    with tempfile.TemporaryDirectory(prefix="ravine-memory-") as folder:
        planned, measured, parts = measure(Path(folder), *case)
    fits = abs(measured - planned) <= 0.05 * planned + 32
    failed = failed or not fits
    print(f"{name:<30} {planned:10.1f} {measured:9.1f} {measured / planned:6.3f}{' ' if fits else '!'}  {' / '.join(parts)}", flush=True)
print("FAILED: beyond 5 % + 32 MB" if failed else "all within 5 % + 32 MB of the plan")
sys.exit(failed)
