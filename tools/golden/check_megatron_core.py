"""What `ravine convert --to megatron-mcore` writes, loaded by megatron-core's own GPTModel (strict) and compared with Transformers' logits.

    python check_megatron_core.py RAVINE HF_FOLDER

For every family that megatron-core computes: Llama and its like, Qwen2, Qwen3, GPT-2, GPT-NeoX without parallel residual (tests/golden/families
has one of each). Needs torch, transformers and megatron-core (0.16.1 was used); CPU, one process, so one tensor and pipeline rank.
"""
import argparse
import contextlib
import functools
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.tensor_parallel.random import get_cuda_rng_tracker
from megatron.core.transformer.transformer_config import TransformerConfig
from transformers import AutoModelForCausalLM


def plain(hf, folder):
    """The same weights without windows and without GPT-2's scale by layer, which megatron-core does not compute."""
    os.mkdir(folder)
    config = json.load(open(hf + "/config.json"))
    off = {"sliding_window": None, "use_sliding_window": False, "scale_attn_by_inverse_layer_idx": False, "layer_types": None}
    json.dump({k: off.get(k, v) for k, v in config.items()}, open(folder + "/config.json", "w"))
    for file in glob.glob(hf + "/model*.safetensors*"):
        shutil.copy(file, folder)
    return folder


def main():
    ravine, hf = sys.argv[1:]
    torch.serialization.add_safe_globals([argparse.Namespace])
    torch.cuda.current_device = lambda: torch.device("cpu")  # where the rotary table is made
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("gloo", rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    type(get_cuda_rng_tracker()).fork = lambda *_: contextlib.nullcontext()  # random states of GPUs, for dropout that is off
    with tempfile.TemporaryDirectory() as d:
        hf = plain(hf, d + "/hf")
        subprocess.run([ravine, "convert", "--input", hf, "--output", d + "/m", "--to", "megatron-mcore", "--dtype", "f32"], check=True)
        state = torch.load(d + "/m/release/mp_rank_00/model_optim_rng.pt", weights_only=True)
        reference = AutoModelForCausalLM.from_pretrained(hf, dtype=torch.float32, attn_implementation="eager").eval()
    a = state["args"]
    activation = torch.nn.functional.silu if a.swiglu else functools.partial(torch.nn.functional.gelu, approximate="tanh" if a.openai_gelu else "none")
    config = TransformerConfig(
        num_layers=a.num_layers, hidden_size=a.hidden_size, ffn_hidden_size=a.ffn_hidden_size, num_attention_heads=a.num_attention_heads,
        num_query_groups=a.num_query_groups, kv_channels=a.kv_channels, add_bias_linear=a.add_bias_linear, add_qkv_bias=a.add_qkv_bias,
        qk_layernorm=a.qk_layernorm, gated_linear_unit=a.swiglu, activation_func=activation, normalization=a.normalization,
        layernorm_epsilon=a.norm_epsilon, hidden_dropout=0.0, attention_dropout=0.0, use_cpu_initialization=True,
        perform_initialization=False, bias_activation_fusion=False, apply_rope_fusion=False)
    model = GPTModel(config, get_gpt_layer_local_spec(normalization=a.normalization, qk_layernorm=a.qk_layernorm), vocab_size=a.padded_vocab_size,
                     max_sequence_length=a.max_position_embeddings, position_embedding_type=a.position_embedding_type, rotary_base=a.rotary_base,
                     rotary_percent=a.rotary_percent, share_embeddings_and_output_weights=not a.untie_embeddings_and_output_weights).eval()
    keys = {k for k in model.state_dict() if not k.endswith("_extra_state")}
    assert keys == set(state["model"]), keys ^ set(state["model"])
    model.load_state_dict(state["model"], strict=False)
    ids = torch.randint(0, a.true_vocab_size, (2, min(24, a.max_position_embeddings)), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(ids.shape[1]).expand(2, -1)
    mask = torch.triu(torch.ones(1, 1, ids.shape[1], ids.shape[1], dtype=torch.bool), 1)
    with torch.no_grad():
        got = model(ids, positions, mask)[..., :a.true_vocab_size]
        want = reference(ids).logits
    worst = (got - want).abs().max().item()
    print(f"{len(keys)} tensors loaded by name; logits up to {want.abs().max().item():.3g}, largest difference {worst:.3g}")
    assert worst <= 1e-5 * want.abs().max().item()


if __name__ == "__main__":
    main()
