"""The model folder that a run exports, loaded in Transformers, gives the logits of ravine: every family that it has, in shards, tied and not.

python tools/golden/check_export.py build/release/ravine         (needs numpy, torch, transformers, safetensors)
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

ravine = pathlib.Path(sys.argv[1]).resolve()
BASE = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
        "num_key_value_heads": 4, "vocab_size": 1024, "max_position_embeddings": 128, "rms_norm_eps": 1e-5}
LATENT = {"num_key_value_heads": 8, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 40, "first_k_dense_replace": 3}
CASES = [{"tie_word_embeddings": False}, {"tie_word_embeddings": True, "attention_bias": True},
         {"tie_word_embeddings": False, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
         {"model_type": "mistral", "sliding_window": 9},
         {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
         {"model_type": "qwen3", "head_dim": 40, "tie_word_embeddings": True},
         {"model_type": "phi3", "sliding_window": 50, "original_max_position_embeddings": 64, "partial_rotary_factor": 0.75, "pad_token_id": None,
          "rope_scaling": {"type": "longrope", "short_factor": [1 + i / 20 for i in range(12)], "long_factor": [1 + i for i in range(12)]}},
         {"model_type": "deepseek_v2", **LATENT, "q_lora_rank": None},
         {"model_type": "deepseek_v3", **LATENT, "q_lora_rank": 96, "attention_bias": True,
          "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 1.0}},
         {"model_type": "olmo2", "rope_theta": 500000.0},
         {"model_type": "gemma2", "head_dim": 64, "query_pre_attn_scalar": 40, "sliding_window": 9, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0, "pad_token_id": None}]
GPT = {"vocab_size": 1024}
CASES += [{"": {**GPT, "model_type": "bloom", "hidden_size": 256, "n_layer": 3, "n_head": 8, "layer_norm_epsilon": 1e-5}},
          {"": {**GPT, "model_type": "gpt2", "n_embd": 256, "n_layer": 3, "n_head": 8, "n_positions": 128, "bos_token_id": 1, "eos_token_id": 2}},
          {"": {**GPT, "model_type": "gpt_neox", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
                "rotary_pct": 0.25, "max_position_embeddings": 128}}]

failed = 0
for number, fields in enumerate(CASES):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text(json.dumps(fields.get("") or {**BASE, **fields}))
        ids = np.random.default_rng(number).integers(0, BASE["vocab_size"], (8, 96))
        save_file({"input_ids": ids}, folder / "data.safetensors")
        subprocess.run([ravine, "train", f"model.config={folder}/config.json", f"data.train=[{folder}/data.safetensors]", "data.sequence_length=96",
                        "train.steps=4", "train.global_batch=2", "optimizer.lr=1e-3", f"train.output={folder}/run", "checkpoint.shard_mb=2"],
                       check=True, stderr=subprocess.DEVNULL)
        model = folder / "run" / "model"
        assert (model / "model.safetensors.index.json").exists(), "expected shards"
        subprocess.run([ravine, "trace", "--model", model, "--input", folder / "data.safetensors", "--out", folder / "out.safetensors", "--overwrite"],
                       check=True, stderr=subprocess.DEVNULL)
        ours = load_file(folder / "out.safetensors")["logits"]
        loaded, report = AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            assert not report[kind], (kind, report[kind])
        with torch.no_grad():
            theirs = loaded(torch.from_numpy(ids)).logits.numpy()
            exact = loaded.double()(torch.from_numpy(ids)).logits.numpy()  # norms and softmax stay in f32 inside
        error, bound = np.linalg.norm(ours - exact), 4 * np.linalg.norm(theirs - exact)
        failed += not error <= bound
        print(f"{'ok  ' if error <= bound else 'FAIL'} {fields}: error {error:.2e}, bound {bound:.2e}")
sys.exit(failed > 0)
