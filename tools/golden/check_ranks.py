"""A run on 8 ranks (tensor 2 x pipeline 2 x data 2, ZeRO 1) is killed, goes on with 3 data ranks and another batch, and what it exports, by itself and
by `ravine convert`, loads in Transformers and gives there the logits that ravine gives, on one rank and on four.

python tools/golden/check_ranks.py build/release/ravine         (needs mpirun, numpy, torch, transformers, safetensors)
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

ravine = str(pathlib.Path(sys.argv[1]).resolve())
CONFIG = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
          "vocab_size": 257, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def ranks(n):
    return ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", str(n), ravine]


def trace(n, folder, out, *settings):
    subprocess.run([*ranks(n), "trace", "--model", folder, "--input", data, "--out", out, "--overwrite", *settings], check=True, stderr=subprocess.DEVNULL)
    return load_file(out)["logits"]


failed = 0
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    data, run = folder / "data.safetensors", folder / "run"
    (folder / "config.json").write_text(json.dumps(CONFIG))
    ids = np.random.default_rng(0).integers(3, 257, (24, 32))
    save_file({"input_ids": ids}, data)
    common = [f"model.config={folder}/config.json", f"data.train=[{data}]", "data.sequence_length=32", "train.micro_batch=1", "optimizer.lr=1e-2",
              "schedule.steps=1000", f"train.output={run}", "checkpoint.every=1", "log.tensorboard=false"]
    job = subprocess.Popen([*ranks(8), "train", *common, "train.steps=100000", "train.global_batch=8", "parallel.tensor=2", "parallel.pipeline=2", "parallel.zero=1"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(list(run.glob("checkpoints/step_*/manifest.json"))) < 2:
        assert job.poll() is None, "the first run ended by itself"
        time.sleep(0.05)
    job.kill()
    job.wait()
    for attempt in range(60):  # until the last of the eight has left the folder
        last = max(int(p.parent.name.split("_")[1]) for p in run.glob("checkpoints/step_*/manifest.json"))
        done = subprocess.run([*ranks(3), "train", *common, f"train.steps={last + 3}", "train.global_batch=12"], capture_output=True, text=True)
        if done.returncode == 0:
            break
        time.sleep(1)
    assert done.returncode == 0, done.stderr
    print(next(line for line in done.stderr.splitlines() if "resume" in line))
    subprocess.run([ravine, "convert", "--input", run, "--output", folder / "converted", "--to", "hf"], check=True, stderr=subprocess.DEVNULL)
    for kind, model in (("exported", run / "model"), ("converted", folder / "converted")):
        loaded, report = AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
        for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            assert not report[key], (key, report[key])
        with torch.no_grad():
            theirs = loaded(torch.from_numpy(ids)).logits.numpy()
            exact = loaded.double()(torch.from_numpy(ids)).logits.numpy()
        for how, n, settings in (("one rank", 1, []), ("tensor 2 x pipeline 2", 4, ["parallel.tensor=2", "parallel.pipeline=2"])):
            error, bound = np.linalg.norm(trace(n, model, folder / "out.safetensors", *settings) - exact), 4 * np.linalg.norm(theirs - exact)
            failed += not error <= bound
            print(f"{'ok  ' if error <= bound else 'FAIL'} {kind}, {how}: error {error:.2e}, bound {bound:.2e}")
sys.exit(failed > 0)
