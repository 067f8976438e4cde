#!/usr/bin/env python3
"""Writes tests/golden/families/NAME/: tiny models of the families that Transformers has, and what it computes from them.

Usage: make_families.py OUT_DIR [--io] [NAME ..]   (needs torch, transformers, safetensors; --io: only io.safetensors and distance.json, of the models that are
there; NAME: only these)

config.json (4.x spelling where they differ), config.v5.json, model.safetensors in f32, io.safetensors: input_ids, labels, logits, hidden.N, loss and
grad.NAME wholly in double, distance.json: the L2 distance of each of them in single precision, the largest over three ways to order the sums; beams.json: beam searches that
single and double precision agree on.
"""
import copy
import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from double import AllDouble
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

torch.set_num_threads(1)
V, C, POSITIONS = 29, 12, 40
COMMON = {"initializer_range": 0.02, "vocab_size": V, "use_cache": True}
LLAMA = {**COMMON, "hidden_size": C, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
         "head_dim": 4, "hidden_act": "silu", "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
         "tie_word_embeddings": False}
LATENT = {**{k: v for k, v in LLAMA.items() if k not in ("head_dim",)}, "num_key_value_heads": 3, "kv_lora_rank": 6, "qk_nope_head_dim": 4, "qk_rope_head_dim": 6,
          "v_head_dim": 5, "first_k_dense_replace": 2, "pad_token_id": None}
YARN = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 10, "beta_fast": 32, "beta_slow": 1}
EXPERTS = {"first_k_dense_replace": 1, "moe_layer_freq": 1, "n_routed_experts": 6, "n_group": 3, "topk_group": 2, "moe_intermediate_size": 8}
MODELS = {
    "llama": {"model_type": "llama", **LLAMA, "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", **LLAMA, "sliding_window": 5},
    "qwen2": {"model_type": "qwen2", **{k: v for k, v in LLAMA.items() if k != "head_dim"}, "use_sliding_window": True, "sliding_window": 4,
              "max_window_layers": 1, "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", **LLAMA, "head_dim": 8, "attention_bias": False},
    "bloom": {"model_type": "bloom", **COMMON, "n_embed": C, "n_layer": 2, "num_attention_heads": 3, "layer_norm_epsilon": 1e-5,
              "hidden_dropout": 0.0, "attention_dropout": 0.0},
    "gpt2": {"model_type": "gpt2", **COMMON, "n_embd": C, "n_layer": 2, "n_head": 3, "n_positions": POSITIONS, "n_inner": 20,
             "activation_function": "gelu_new", "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
             "scale_attn_by_inverse_layer_idx": True},
    "gpt_neox": {"model_type": "gpt_neox", **COMMON, "hidden_size": C, "intermediate_size": 20, "num_hidden_layers": 2,
                 "num_attention_heads": 2, "hidden_act": "gelu", "max_position_embeddings": POSITIONS, "rotary_pct": 0.7,
                 "rotary_emb_base": 10000, "layer_norm_eps": 1e-5, "use_parallel_residual": True, "tie_word_embeddings": False},
    "gpt_neox_serial": {"model_type": "gpt_neox", **COMMON, "hidden_size": C, "intermediate_size": 20, "num_hidden_layers": 2,
                        "num_attention_heads": 3, "hidden_act": "gelu_fast", "max_position_embeddings": POSITIONS, "rotary_pct": 1.0,
                        "rotary_emb_base": 500, "layer_norm_eps": 1e-5, "use_parallel_residual": False, "tie_word_embeddings": True},
    # Sequences of more than 10 tokens take the long factors; searches grow past that.
    "phi3": {"model_type": "phi3", **{k: v for k, v in LLAMA.items() if k != "head_dim"}, "num_attention_heads": 2, "sliding_window": 7, "pad_token_id": None,
             "original_max_position_embeddings": 10, "partial_rotary_factor": 0.7,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.3], "long_factor": [2.5, 6.0]}},
    "olmo2": {"model_type": "olmo2", **LLAMA, "pad_token_id": None, "attention_bias": True},
    # Caps low enough to bend what so small a model gives.
    "gemma2": {"model_type": "gemma2", **{k: v for k, v in LLAMA.items() if k != "hidden_act"}, "head_dim": 8, "pad_token_id": None, "hidden_activation": "gelu_pytorch_tanh",
               "query_pre_attn_scalar": 5, "sliding_window": 4, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0, "tie_word_embeddings": True},
    # All layers dense: latent attention alone. Values are wider than a head's own keys and narrower than the rotated ones with them.
    "deepseek_v2": {"model_type": "deepseek_v2", **LATENT, "q_lora_rank": None, "rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.7}, "mlp_bias": True},
    "deepseek_v3": {"model_type": "deepseek_v3", **LATENT, "q_lora_rank": 7, "attention_bias": True, "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.6}},
    "deepseek_v3_halves": {"model_type": "deepseek_v3", **LATENT, "q_lora_rank": 7, "rope_interleave": False},
    "deepseek_v2_experts": {"model_type": "deepseek_v2", **LATENT, **EXPERTS, "q_lora_rank": 7, "num_experts_per_tok": 2, "n_shared_experts": 2, "topk_method": "group_limited_greedy",
                            "scoring_func": "softmax", "norm_topk_prob": False, "routed_scaling_factor": 1.5},
    "deepseek_v3_experts": {"model_type": "deepseek_v3", **LATENT, **EXPERTS, "q_lora_rank": None, "num_experts_per_tok": 3, "n_shared_experts": 1, "topk_method": "noaux_tc",
                            "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5},
    "mixtral": {"model_type": "mixtral", **LLAMA, "intermediate_size": 10, "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None},
    # Of four layers the second alone has experts: others are no multiples of the step, the fourth is named.
    "qwen2_moe": {"model_type": "qwen2_moe", **{k: v for k, v in LLAMA.items() if k != "head_dim"}, "num_experts": 6, "num_experts_per_tok": 3,
                  "moe_intermediate_size": 7, "shared_expert_intermediate_size": 9, "norm_topk_prob": False, "decoder_sparse_step": 2, "num_hidden_layers": 4,
                  "mlp_only_layers": [3], "use_sliding_window": False},
    "qwen3_moe": {"model_type": "qwen3_moe", **LLAMA, "head_dim": 8, "attention_bias": False, "num_experts": 7, "num_experts_per_tok": 3,
                  "moe_intermediate_size": 6, "norm_topk_prob": True},
}
PROMPTS = [[3, 7, 11], [5, 5, 9, 2, 17, 20], [25]]
SEARCHES = [dict(num_beams=b, length_penalty=p, early_stopping=e, **more)
            for b, p, e, more in [(4, 1.0, False, {}), (4, 1.0, True, {}), (3, 0.4, False, {}), (3, 2.0, "never", {}), (5, -0.5, False, {}),
                                  (4, 1.0, "never", {"repetition_penalty": 1.3}), (4, 1.2, False, {"no_repeat_ngram_size": 2})]]
NEW = 14


def named(model):
    """Parameters, and what is kept beside weights without a gradient."""
    return sorted([*model.named_parameters(), *((n, b) for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))])


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for n, p in named(model):
            r = torch.randn(p.shape, generator=g)
            norm = "norm" in n or ".ln_" in n
            p.copy_((1 + 0.25 * r) if norm and not n.endswith("bias") else 0.2 * r if norm or n.endswith("bias") else 0.3 * r)


def in_double(config, weights):
    torch.set_default_dtype(torch.float64)
    with AllDouble():
        model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation="eager", experts_implementation="eager", dtype=torch.float64).double()
        with torch.no_grad():
            for (n, p), (m, w) in zip(named(model), weights):
                assert n == m
                p.copy_(w.double())
    torch.set_default_dtype(torch.float32)
    return model.eval()


def double(f):
    torch.set_default_dtype(torch.float64)
    try:
        with AllDouble():
            return f()
    finally:
        torch.set_default_dtype(torch.float32)


def search(model, prompt, eos, settings):
    ids = torch.tensor([prompt])
    with torch.no_grad():
        r = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=GenerationConfig(
            max_new_tokens=NEW, do_sample=False, eos_token_id=eos, pad_token_id=0, bos_token_id=1, num_return_sequences=settings["num_beams"],
            return_dict_in_generate=True, output_scores=True, **settings))
    beams = []
    for s in r.sequences.tolist():
        new = s[len(prompt):]
        beams.append(new[:next((i + 1 for i, t in enumerate(new) if t in eos), len(new))])
    return beams, r.sequences_scores.tolist()


def published(model, folder):
    model.save_pretrained(folder)
    for name in os.listdir(folder):
        if name not in ("config.json", "model.safetensors"):
            os.remove(os.path.join(folder, name))
    return load_file(os.path.join(folder, "model.safetensors"))


def outputs(model, folder, ids, labels, parts):
    """logits, hidden states, loss and gradients by the names of files; rows in so many parts, each scaled by its share of the labels that count."""
    model.zero_grad()
    count = (labels[:, 1:] != -100).sum()
    found = []
    for rows in torch.arange(len(ids)).chunk(parts):
        r = model(input_ids=ids[rows], use_cache=False, output_hidden_states=True)
        loss = torch.nn.functional.cross_entropy(r.logits[:, :-1].reshape(-1, V), labels[rows][:, 1:].reshape(-1), ignore_index=-100, reduction="sum") / count
        loss.backward()
        found.append((r.logits.detach(), [h.detach() for h in r.hidden_states], loss.detach()))
    grads = copy.deepcopy(model)
    with torch.no_grad():
        for p, q in zip(grads.parameters(), model.parameters()):
            p.copy_(q.grad)
    scratch = os.path.join(folder, "scratch")
    files = published(grads, scratch)
    for f in os.listdir(scratch):
        os.remove(os.path.join(scratch, f))
    os.rmdir(scratch)
    out = {"logits": torch.cat([f[0] for f in found]), "loss": sum(f[2] for f in found)}
    for i in range(len(found[0][1])):
        out[f"hidden.{i}"] = torch.cat([f[1][i] for f in found])
    return {**out, **{f"grad.{n}": t for n, t in files.items() if not n.endswith("e_score_correction_bias")}}


def record(folder, config, weights, big, ids, labels):
    want = {n: t.double().contiguous() for n, t in double(lambda: outputs(big, folder, ids, labels, 1)).items()}
    save_file({"input_ids": ids, "labels": labels, **want}, os.path.join(folder, "io.safetensors"))
    far = dict.fromkeys(want, 0.0)
    for attention, parts in (("eager", 1), ("eager", 2), ("sdpa" if config.model_type not in ("bloom", "gemma2") else "eager", 1)):
        model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=attention, experts_implementation="eager", dtype=torch.float32).eval()
        with torch.no_grad():
            for n, p in named(model):
                p.copy_(dict(weights)[n])
        for n, t in outputs(model, folder, ids, labels, parts).items():
            far[n] = max(far[n], float((t.double() - want[n]).norm()))
    json.dump({n: float(f"{x:.2e}") for n, x in far.items()}, open(os.path.join(folder, "distance.json"), "w"))
    return float(want["loss"])


def again(name, out):
    """io.safetensors of a folder that is there, with the same weights, ids and labels."""
    folder = os.path.join(out, name)
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32).eval()
    weights = [(n, p.detach().clone()) for n, p in named(model)]
    was = load_file(os.path.join(folder, "io.safetensors"))
    record(folder, config, weights, in_double(config, weights), was["input_ids"], was["labels"])
    now = load_file(os.path.join(folder, "io.safetensors"))
    print(name, "largest change of what was there:", max(float((was[n].double() - now[n].double()).norm() / was[n].double().norm()) for n in ("logits", "loss")))


def make(name, raw, out, seed):
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    settings = {**raw, "bos_token_id": 1, "eos_token_id": 2}
    json.dump(settings, open(os.path.join(folder, "config.json"), "w"))
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation="eager", experts_implementation="eager", dtype=torch.float32).eval()
    fill(model, seed)
    weights = [(n, p.detach().clone()) for n, p in named(model)]
    published(model, folder)
    os.rename(os.path.join(folder, "config.json"), os.path.join(folder, "config.v5.json"))
    json.dump(settings, open(os.path.join(folder, "config.json"), "w"), indent=1)

    g = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(3, V, (2, 11), generator=g)
    labels = ids.clone()
    labels[0, :4] = -100
    big = in_double(config, weights)
    loss = record(folder, config, weights, big, ids, labels)

    # Ends that occur: tokens of greedy continuations.
    seen = [t for p in PROMPTS for t in search(model, p, [V - 1], dict(num_beams=2, length_penalty=1.0, early_stopping=False))[0][0][2:6]]
    for eos in [[seen[0]]] + [[a, b] for a in seen for b in seen if a < b]:
        cases = []
        for s in SEARCHES:
            for prompt in PROMPTS:
                single, scores = search(model, prompt, eos, s)
                both, again = double(lambda: search(big, prompt, eos, s))
                near = min([abs(a - b) for i, a in enumerate(again) for b in again[:i]], default=1)
                if single == both and near > 1e-4:
                    cases.append({"prompt": prompt, "eos": eos, **s, "sequences": both, "scores": again})
        if len(cases) >= 18:
            break
    json.dump({"max_new_tokens": NEW, "cases": cases}, open(os.path.join(folder, "beams.json"), "w"))
    print(name, sum(w.numel() for _, w in weights), "parameters,", len(cases), "searches, eos", eos, "loss", loss)


wanted = [a for a in sys.argv[2:] if a != "--io"]
for i, (name, raw) in enumerate(MODELS.items()):
    if wanted and name not in wanted:
        continue
    again(name, sys.argv[1]) if "--io" in sys.argv else make(name, raw, sys.argv[1], 100 + i)
