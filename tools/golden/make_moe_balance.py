#!/usr/bin/env python3
"""Writes tests/golden/moe_balance/: runs of PyTorch and Transformers whose experts are kept even by a correction or by a loss over the step; tests/e2e/experts.py
demands them of `ravine train`.

Usage: make_moe_balance.py OUT_DIR       (needs torch, transformers, safetensors; reads OUT_DIR/../curves/train.safetensors)

models/NAME/    config.json and model.safetensors (f32): what a run begins with
balance.json    per case the options of `ravine train` and, computed wholly in double, of each step loss, norm of the gradients, loss of the balance and load
                (choices of the expert that has most over the mean, per layer); corrections in the end

bias: after each update bias += rate * sign(mean - load), load being the choices of an expert over all tokens of the step that are not padding (DeepSeek-V3, section
2.1.2; Megatron-core's get_updated_expert_bias). global_aux: in each layer E / k sum_e f_e P_e, f_e the choices per token over the micro batches of the step so far, P_e
the mean score of this micro batch; the mean over micro batches is added, times its factor (Megatron-core's _apply_global_aux_loss); with data ranks, f_e is over those that they compute side by side too. Each case is
run once more without what it is about, and must then differ.
"""
import json
import os
import shutil
import sys

import torch
from double import AllDouble
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

torch.set_num_threads(1)
V, STEPS, GLOBAL, LR = 48, 8, 4, 0.3
COMMON = {"vocab_size": V, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
          "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}
MODELS = {
    "deepseek_v3": {"model_type": "deepseek_v3", **COMMON, "q_lora_rank": 10, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 6,
                    "first_k_dense_replace": 1, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2, "moe_intermediate_size": 12,
                    "n_shared_experts": 1, "routed_scaling_factor": 1.5, "norm_topk_prob": True},
    "mixtral": {"model_type": "mixtral", **COMMON, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
}
RUN = {"optimizer.type": "sgd", "optimizer.lr": LR, "optimizer.momentum": 0.0, "optimizer.weight_decay": 0.0, "optimizer.clip_norm": 0.0, "schedule.type": "constant",
       "schedule.warmup_steps": 0, "train.micro_batch": 2}
CASES = {"bias": ("deepseek_v3", {"moe.load_balance": "bias", "moe.bias_update_rate": 0.03}),
         "global_aux": ("mixtral", {"moe.load_balance": "global_aux", "moe.aux_loss": 0.5}),
         "global_aux_ranks": ("mixtral", {"moe.load_balance": "global_aux", "moe.aux_loss": 0.5, "parallel.data": 2, "train.micro_batch": 1})}


def begin(name, out, seed):
    folder = os.path.join(out, "models", name)
    os.makedirs(folder)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**MODELS[name]), dtype=torch.float32).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for n, p in sorted(model.named_parameters()):
            r = torch.randn(p.shape, generator=g)
            p.copy_(1 + 0.25 * r if "norm" in n else 0.25 * r)
    model.save_pretrained(folder)
    for file in os.listdir(folder):
        if file != "model.safetensors":
            os.remove(os.path.join(folder, file))
    json.dump(MODELS[name], open(os.path.join(folder, "config.json"), "w"), indent=1)
    return model.state_dict()


def train(name, weights, data, rate, factor, ranks, micro):
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**MODELS[name]), attn_implementation="eager", experts_implementation="eager", dtype=torch.float64).to(torch.float64).eval()
    model.load_state_dict({n: t.double() for n, t in weights.items()})
    gates = [m for n, m in model.named_modules() if n.endswith("mlp.gate")]
    seen = {}
    for i, gate in enumerate(gates):
        gate.register_forward_hook(lambda m, _, out, i=i: seen.__setitem__(i, out))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, foreach=False)
    record = {"loss": [], "grad_norm": [], "aux_loss": [], "expert_load": []}
    for step in range(STEPS):
        rows = torch.arange(step * GLOBAL, (step + 1) * GLOBAL) % len(data["input_ids"])
        count = int((data["labels"][rows][:, 1:] != -100).sum())
        optimizer.zero_grad()
        total, aux_total, loads = 0.0, 0.0, [0] * len(gates)
        of_ranks = [of_rank.split(micro) for of_rank in rows.split(GLOBAL // ranks)]
        for parts in zip(*of_ranks):  # one of each data rank, side by side
            side = []
            for part in parts:
                ids, labels, mask = (data[k][part].long() for k in ("input_ids", "labels", "attention_mask"))
                logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
                want = labels[:, 1:].reshape(-1)
                loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, V), want, ignore_index=-100, reduction="sum") / count
                kept = mask.reshape(-1) == 1
                for i, (scores, _, chosen) in seen.items():
                    loads[i] = loads[i] + torch.nn.functional.one_hot(chosen[kept], scores.shape[-1]).sum((0, 1))
                side.append((loss, [(scores[kept].softmax(-1).mean(0), chosen.shape[-1]) for scores, _, chosen in seen.values()]))
            for loss, means in side:
                aux = torch.zeros(())
                for load, (mean, k) in zip(loads, means):
                    aux = aux + len(load) / k * (load.double() / (load.sum() / k) * mean).sum()
                aux = aux * micro / GLOBAL
                (loss + factor * aux).backward()
                total += loss.item()
                aux_total += aux.item()
        record["loss"].append(total)
        record["grad_norm"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf"), foreach=False).item())
        record["aux_loss"].append(aux_total)
        record["expert_load"].append([float(x.max() / x.double().mean()) for x in loads])
        optimizer.step()
        for gate, load in zip(gates, loads):
            if rate:
                gate.e_score_correction_bias += rate * torch.sign(load.double().mean() - load.double())
    record["corrections"] = {n: b.tolist() for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")} if rate else {}
    return record


def main(out):
    shutil.rmtree(out, ignore_errors=True)
    data = load_file(os.path.join(os.path.dirname(os.path.abspath(out)), "curves", "train.safetensors"))
    models = {name: begin(name, out, 70 + i) for i, name in enumerate(MODELS)}
    record = {"steps": STEPS, "global_batch": GLOBAL, "columns": int(data["input_ids"].shape[1]), "cases": {}}
    for case, (name, options) in CASES.items():
        rate, factor = options.get("moe.bias_update_rate", 0.0), options.get("moe.aux_loss", 0.0)
        torch.set_default_dtype(torch.float64)
        with AllDouble():
            layout = options.get("parallel.data", 1), options.get("train.micro_batch", 2)
            run, plain = train(name, models[name], data, rate, factor, *layout), train(name, models[name], data, 0.0, 0.0, *layout)
        torch.set_default_dtype(torch.float32)
        assert run["loss"][0] == plain["loss"][0] and abs(run["loss"][-1] / plain["loss"][-1] - 1) > 1e-3, case
        record["cases"][case] = {"model": name, "options": {**RUN, **options}, **run}
        print(f"{case:12} loss {run['loss'][0]:.4f} to {run['loss'][-1]:.4f}, without {plain['loss'][-1]:.4f}; load {run['expert_load'][-1]}, without {plain['expert_load'][-1]}")
    json.dump(record, open(os.path.join(out, "balance.json"), "w"))


main(sys.argv[1])
