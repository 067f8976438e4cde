"""What `ravine convert --to hf --upcycle` writes, loaded by Transformers: every weight is taken, and the logits are those of the dense model.

    python check_upcycle.py RAVINE

For tiny random models of every family that has one with experts. Needs torch and transformers; computes in double.
"""
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
COMMON = {"vocab_size": 48, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
DENSE = {"llama": {"tie_word_embeddings": True}, "mistral": {"sliding_window": 5}, "qwen2": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
         "qwen3": {"head_dim": 8}}


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"], report
    return model.eval()


def main(ravine):
    ids = torch.randint(3, 48, (2, 20), generator=torch.Generator().manual_seed(1))
    for family, fields in DENSE.items():
        with tempfile.TemporaryDirectory() as d:
            torch.manual_seed(5)
            AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **COMMON, **fields, initializer_range=0.2)).save_pretrained(d + "/dense")
            subprocess.run([ravine, "convert", "--input", d + "/dense", "--output", d + "/sparse", "--to", "hf", "--upcycle", "experts=4,top_k=2"], check=True, stderr=subprocess.DEVNULL)
            with torch.no_grad():
                dense, sparse = load(d + "/dense"), load(d + "/sparse")
                want, got = dense(ids).logits, sparse(ids).logits
        worst = (got - want).abs().max().item() / want.abs().max().item()
        print(f"{family:8} {sparse.config.model_type:10} largest difference {worst:.2e} of the largest logit")
        assert worst < 1e-6  # Transformers' routers and norms cast to single precision


main(sys.argv[1])
