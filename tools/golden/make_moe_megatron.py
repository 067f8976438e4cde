"""One tiny Qwen2-MoE in the forms in which megatron-core keeps experts, over tensor, pipeline and expert ranks, written with torch alone, for tests of `ravine convert`.

    python make_moe_megatron.py OUT_DIR

hf/            model.safetensors and config.json
grouped/       experts.linear_fc1.weightE, experts.linear_fc2.weightE (TEGroupedMLP); 2 tensor x 2 expert ranks
sequential/    experts.local_experts.E.linear_fc1.weight (SequentialMLP); 2 pipeline x 2 expert ranks
stacked/       experts.weight1, experts.weight2 (GroupedMLP, whose forward views them as [experts, in, out]); 2 tensor x 2 expert ranks

Written from the state dicts of megatron-core 0.16.1 (core/transformer/moe/experts.py, shared_experts.py, router.py) and from get_checkpoint_name (training/checkpointing.py),
independently of the program. Values are exact in 16 bits.
"""
import argparse
import json
import os
import shutil
import sys
from collections import OrderedDict

import torch
from safetensors.torch import save_file

H, L, HEADS, KV, D, I, S, E, K, V = 16, 2, 4, 2, 4, 12, 8, 4, 2, 40
CONFIG = {"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "hidden_size": H, "intermediate_size": 24, "num_hidden_layers": L,
          "num_attention_heads": HEADS, "num_key_value_heads": KV, "vocab_size": V, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "tie_word_embeddings": False, "num_experts": E, "num_experts_per_tok": K, "moe_intermediate_size": I, "shared_expert_intermediate_size": S,
          "norm_topk_prob": True, "decoder_sparse_step": 1, "torch_dtype": "float32"}
ARGS = {"num_layers": L, "hidden_size": H, "ffn_hidden_size": 24, "num_attention_heads": HEADS, "kv_channels": D, "group_query_attention": True, "num_query_groups": KV,
        "max_position_embeddings": 64, "seq_length": 64, "position_embedding_type": "rope", "rotary_base": 10000, "normalization": "RMSNorm", "norm_epsilon": 1e-5,
        "add_bias_linear": False, "add_qkv_bias": True, "swiglu": True, "untie_embeddings_and_output_weights": True, "make_vocab_size_divisible_by": 8,
        "true_vocab_size": V, "num_experts": E, "moe_router_topk": K, "moe_ffn_hidden_size": I, "moe_shared_expert_intermediate_size": S, "moe_router_pre_softmax": False,
        "moe_router_score_function": "softmax"}


def weights():
    g = torch.Generator().manual_seed(17)
    shapes = {"model.embed_tokens.weight": (V, H), "lm_head.weight": (V, H), "model.norm.weight": (H,)}
    for i in range(L):
        p = f"model.layers.{i}."
        shapes |= {p + "input_layernorm.weight": (H,), p + "post_attention_layernorm.weight": (H,), p + "self_attn.o_proj.weight": (H, HEADS * D),
                   p + "mlp.gate.weight": (E, H), p + "mlp.shared_expert_gate.weight": (1, H)}
        for x, heads in (("q", HEADS), ("k", KV), ("v", KV)):
            shapes |= {p + f"self_attn.{x}_proj.weight": (heads * D, H), p + f"self_attn.{x}_proj.bias": (heads * D,)}
        for mlp, width in [("shared_expert", S)] + [(f"experts.{e}", I) for e in range(E)]:
            q = f"{p}mlp.{mlp}."
            shapes |= {q + "gate_proj.weight": (width, H), q + "up_proj.weight": (width, H), q + "down_proj.weight": (H, width)}
    return OrderedDict((k, torch.randint(-127, 128, s, generator=g).float() / 64) for k, s in shapes.items())


def part(x, n, i, dim=0):
    return x.chunk(n, dim)[i]


def qkv(w, p, kind, tp, t):
    rows = []
    for group in range(t * KV // tp, (t + 1) * KV // tp):
        per = HEADS // KV * D
        rows += [w[f"{p}self_attn.q_proj.{kind}"][group * per:(group + 1) * per], w[f"{p}self_attn.k_proj.{kind}"][group * D:(group + 1) * D],
                 w[f"{p}self_attn.v_proj.{kind}"][group * D:(group + 1) * D]]
    return torch.cat(rows)


def fc1(w, mlp, tp, t):
    return torch.cat([part(w[mlp + "gate_proj.weight"], tp, t), part(w[mlp + "up_proj.weight"], tp, t)])


def fc2(w, mlp, tp, t):
    return part(w[mlp + "down_proj.weight"], tp, t, 1)


def layer(w, p, form, tp, t, ep, e):
    out = {"input_layernorm.weight": w[p + "input_layernorm.weight"], "self_attention.linear_proj.weight": part(w[p + "self_attn.o_proj.weight"], tp, t, 1),
           "self_attention.linear_qkv.weight": qkv(w, p, "weight", tp, t), "self_attention.linear_qkv.bias": qkv(w, p, "bias", tp, t),
           "pre_mlp_layernorm.weight": w[p + "post_attention_layernorm.weight"], "mlp.router.weight": w[p + "mlp.gate.weight"]}
    mine = [f"{p}mlp.experts.{x}." for x in range(e * E // ep, (e + 1) * E // ep)]
    if form == "stacked":
        inner = torch.stack([fc1(w, m, tp, t).T for m in mine])  # [experts, H, 2 I / tp]
        outer = torch.stack([fc2(w, m, tp, t).T for m in mine])  # [experts, I / tp, H]
        out |= {"mlp.experts.weight1": inner.contiguous().view(H, -1), "mlp.experts.weight2": outer.contiguous().view(-1, H)}
    for i, m in enumerate(mine):
        if form == "grouped":
            out |= {f"mlp.experts.linear_fc1.weight{i}": fc1(w, m, tp, t), f"mlp.experts.linear_fc2.weight{i}": fc2(w, m, tp, t)}
        elif form == "sequential":
            out |= {f"mlp.experts.local_experts.{i}.linear_fc1.weight": fc1(w, m, tp, t), f"mlp.experts.local_experts.{i}.linear_fc2.weight": fc2(w, m, tp, t)}
    shared = p + "mlp.shared_expert."
    return out | {"mlp.shared_experts.linear_fc1.weight": fc1(w, shared, tp, t), "mlp.shared_experts.linear_fc2.weight": fc2(w, shared, tp, t),
                  "mlp.shared_experts.gate_weight": w[p + "mlp.shared_expert_gate.weight"]}


def megatron(w, out, form, tp, pp, ep):
    args = argparse.Namespace(**ARGS, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, expert_tensor_parallel_size=tp)
    for t in range(tp):
        for p in range(pp):
            for e in range(ep):
                model = OrderedDict()
                if p == 0:
                    model["embedding.word_embeddings.weight"] = part(w["model.embed_tokens.weight"], tp, t)
                for i in range(L // pp):
                    for name, x in layer(w, f"model.layers.{p * L // pp + i}.", form, tp, t, ep, e).items():
                        model[f"decoder.layers.{i}.{name}"] = x
                if p == pp - 1:
                    model["decoder.final_layernorm.weight"] = w["model.norm.weight"]
                    model["output_layer.weight"] = part(w["lm_head.weight"], tp, t)
                folder = os.path.join(out, "release", f"mp_rank_{t:02d}" + (f"_{p:03d}" if pp > 1 else "") + f"_{e:03d}")
                os.makedirs(folder)
                torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 0, "model": OrderedDict((k, x.clone().half()) for k, x in model.items())},
                           os.path.join(folder, "model_optim_rng.pt"))
    open(os.path.join(out, "latest_checkpointed_iteration.txt"), "w").write("release")


def main(out):
    shutil.rmtree(out, ignore_errors=True)
    w = weights()
    os.makedirs(os.path.join(out, "hf"))
    save_file({k: x.half() for k, x in w.items()}, os.path.join(out, "hf", "model.safetensors"), metadata={"format": "pt"})
    json.dump(CONFIG, open(os.path.join(out, "hf", "config.json"), "w"), indent=1)
    megatron(w, os.path.join(out, "grouped"), "grouped", 2, 1, 2)
    megatron(w, os.path.join(out, "sequential"), "sequential", 1, 2, 2)
    megatron(w, os.path.join(out, "stacked"), "stacked", 2, 1, 2)


main(sys.argv[1])
