"""Peak memory of inference, measured from outside: every weight is held once, in the type that is computed in, whatever the file has."""
import array
import json
import os
import random
import struct
import subprocess
import sys

import ravine_run
from ravine_run import check, command, main

WIDE = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 8000, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
}
# Beside weights: cache, activations, the packed operands of one product, two pieces of a file on their way. All of the large model.
SLACK_MB = 40


def tensors(c):
    h, m, v = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    yield "model.embed_tokens.weight", [v, h]
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", [h]
        for name in "qkvo":
            yield layer + f"self_attn.{name}_proj.weight", [h, h]
        yield layer + "post_attention_layernorm.weight", [h]
        yield layer + "mlp.gate_proj.weight", [m, h]
        yield layer + "mlp.up_proj.weight", [m, h]
        yield layer + "mlp.down_proj.weight", [h, m]
    yield "model.norm.weight", [h]
    yield "lm_head.weight", [v, h]


def save_model(folder, config, kind):
    """Weights from one run of random numbers, again and again. Returns their number."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    draw = random.Random(1)
    run = array.array("f", (draw.gauss(0, 0.03) for _ in range(65521))).tobytes()
    if kind == "BF16":
        run = b"".join(run[i + 2:i + 4] for i in range(0, len(run), 4))
    header, sizes, at = {}, [], 0
    size = 2 if kind == "BF16" else 4
    for name, shape in tensors(config):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + count * size]}
        sizes.append(count * size)
        at += count * size
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for n in sizes:
            out.write(run * (n // len(run)) + run[:n % len(run)])
    return at // size


def peak_mb(*arguments):
    """Runs and returns ru_maxrss of that process alone."""
    with open(os.devnull) as nothing:
        process = subprocess.Popen(command(*arguments), stdin=nothing, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        text = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    check(process.returncode == 0, f"exit status {process.returncode}: {text}")
    return usage.ru_maxrss / 1024


def generate_peak(folder, model, compute):
    ids = folder / "ids.json"
    ids.write_text(json.dumps([list(range(24))]))
    return peak_mb("generate", "--model", model, "--prompt-ids", ids, "--max-new-tokens", 4, "--json", f"precision.compute={compute}")


def test_weights_are_held_once(folder):
    tiny = folder / "tiny"
    save_model(tiny, {**ravine_run.TINY, "num_key_value_heads": 4}, "F32")
    program = generate_peak(folder, tiny, "f32")
    for kind in ravine_run.rows(("F32", "BF16"), 1, "the files take turns"):
        count = save_model(folder / kind, WIDE, kind)
        for compute, size in (("f32", 4), ("bf16", 2)):
            peak, weights = generate_peak(folder, folder / kind, compute), count * size / 2**20
            print(f"{kind} file, {compute}: {peak:.0f} MB, of which weights {weights:.0f} MB and program {program:.0f} MB")
            check(peak - program < weights + SLACK_MB, f"{peak:.0f} MB resident for weights of {weights:.0f} MB")


def test_bench_decode_says_its_peak(folder):
    (folder / "config.json").write_text(json.dumps(WIDE))
    count = sum(s[0] * (s[1] if len(s) > 1 else 1) for _, s in tensors(WIDE))
    arguments = ["bench", "decode", "--model", folder, "--sequence-length", 16, "--steps", 3, "--json", "precision.compute=bf16"]
    done = ravine_run.run(*arguments)
    said = json.loads(done.stdout.splitlines()[-1])
    # What tests/e2e/figures.py recomputes is not looked at here. All weights are there, and hardly more.
    check(2 * count / 2**20 < said["peak_memory_mb"] < 2 * count / 2**20 + SLACK_MB + 40, f"{said['peak_memory_mb']} MB")
    peak = json.loads(ravine_run.run("bench", "prefill", *arguments[2:]).stdout.splitlines()[-1])["peak_memory_mb"]
    check(2 * count / 2**20 < peak < 2 * count / 2**20 + SLACK_MB + 40, f"prefill: {peak} MB")
    norms = (2 * WIDE["num_hidden_layers"] + 1) * WIDE["hidden_size"]  # these may be f32; of the table one row is read
    read = 2 * (count - (WIDE["vocab_size"] - 1) * WIDE["hidden_size"])
    check(0 <= said["weight_bytes"] - read <= 2 * norms, f"{said['weight_bytes']} bytes of {count} parameters, by their shapes {read}")


if __name__ == "__main__":
    sys.exit(main(globals()))
