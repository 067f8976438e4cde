#!/usr/bin/env python3
"""Writes tests/golden/curves/: training curves of PyTorch and Transformers that tests/e2e/training_curves.py demands of `ravine train`.

Usage: make_curves.py OUT_DIR [--add]       (needs torch, transformers, safetensors; --add: only models and cases that are not there yet)

models/NAME/         config.json and model.safetensors (f32): what a run begins with
train, valid         .safetensors: fixed batch files, with labels of -100 and padding in unequal numbers per row
curves.json          per case: the options of `ravine train`, the numbers of each step computed wholly in double, and `distance`: how far single precision lay
                     from them at most, over DRAWS ways to order its sums. loss, grad_norm, valid_loss: relative. weights, each: |difference| / |tensor| (L2)
final/CASE.safetensors   the weights in the end, from double, rounded to f32

The loop is PyTorch's own: torch.optim, clip_grad_norm_, schedules of transformers.optimization. Case by case it is asserted that clipping acts in some
steps and does not in others.
"""
import copy
import fnmatch
import json
import math
import os
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForCausalLM
from transformers import optimization as schedules
from transformers.models.bloom import modeling_bloom
from transformers.models.llama import modeling_llama

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
V, H, COLUMNS, ROWS, VALID_ROWS = 48, 16, 14, 12, 5
STEPS, GLOBAL, MICRO, VALID_EVERY, DRAWS = 10, 4, 2, 3, 6
COMMON = {"vocab_size": V, "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {**COMMON, "hidden_size": H, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "hidden_act": "silu",
         "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}
GROUPED = {**LLAMA, "num_key_value_heads": 2}
NEOX = {**COMMON, "model_type": "gpt_neox", "hidden_size": H, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_act": "gelu",
        "max_position_embeddings": 32, "rotary_pct": 0.5, "rotary_emb_base": 10000, "layer_norm_eps": 1e-5, "tie_word_embeddings": False}
MODELS = {
    "llama": {"model_type": "llama", **LLAMA},
    "llama_bias": {"model_type": "llama", **LLAMA, "attention_bias": True},
    "mistral": {"model_type": "mistral", **GROUPED, "sliding_window": 5},
    "qwen2": {"model_type": "qwen2", **GROUPED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1, "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", **GROUPED, "head_dim": 8, "attention_bias": False},
    "gpt2": {"model_type": "gpt2", **COMMON, "n_embd": H, "n_layer": 2, "n_head": 4, "n_positions": 32, "n_inner": 24, "activation_function": "gelu_new",
             "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0},
    "bloom": {"model_type": "bloom", **COMMON, "n_embed": H, "n_layer": 2, "num_attention_heads": 4, "layer_norm_epsilon": 1e-5, "hidden_dropout": 0.0,
              "attention_dropout": 0.0},
    "pythia": {**NEOX, "use_parallel_residual": True},
    "pythia_serial": {**NEOX, "use_parallel_residual": False, "tie_word_embeddings": True},
    # Not in Transformers: Llama with ALiBi in place of rotation, and rows of the head at length 1 (baichuan-inc's modeling_baichuan.py of Baichuan2-13B).
    "baichuan2_13b": {"model_type": "baichuan", **{k: v for k, v in LLAMA.items() if k not in ("num_key_value_heads", "max_position_embeddings", "rope_theta")},
                      "model_max_length": 32, "z_loss_weight": 0},
    # Every row of a batch is as long as the batch to Transformers, padding too: so the factors for short sequences hold in none.
    "phi3": {"model_type": "phi3", **GROUPED, "sliding_window": 5, "pad_token_id": None, "original_max_position_embeddings": 1, "partial_rotary_factor": 0.5,
             "rope_scaling": {"type": "longrope", "factor": 4.0, "attention_factor": 1.1, "short_factor": [1.0], "long_factor": [2.5]}},
    "olmo2": {"model_type": "olmo2", **GROUPED, "pad_token_id": None},
    "deepseek_v3": {"model_type": "deepseek_v3", **LLAMA, "q_lora_rank": 10, "kv_lora_rank": 8, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 6,
                    "first_k_dense_replace": 2, "attention_bias": True, "pad_token_id": None},
    "gemma2": {"model_type": "gemma2", **{k: v for k, v in GROUPED.items() if k != "hidden_act"}, "head_dim": 8, "pad_token_id": None, "hidden_activation": "gelu_pytorch_tanh",
               "query_pre_attn_scalar": 6, "sliding_window": 5, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 4.0, "tie_word_embeddings": True},
}

FAMILY = {"optimizer.type": "adamw", "optimizer.lr": 0.02, "optimizer.betas": [0.8, 0.97], "optimizer.eps": 1e-6, "optimizer.weight_decay": 0.3,
          "schedule.type": "cosine", "schedule.warmup_steps": 3, "schedule.min_lr_ratio": 0.1}
# clip_norm is chosen below, between the norms that occur.
CASES = {**{name: (name, FAMILY) for name in MODELS},
    "adamw": ("llama", {"optimizer.type": "adamw", "optimizer.lr": 0.01, "optimizer.betas": [0.6, 0.9], "optimizer.eps": 1e-4, "optimizer.weight_decay": 0.5,
                        "schedule.type": "warmup_stable_decay", "schedule.warmup_steps": 2, "schedule.decay_steps": 4, "schedule.min_lr_ratio": 0.2}),
    "adam": ("llama", {"optimizer.type": "adam", "optimizer.lr": 0.015, "optimizer.betas": [0.7, 0.95], "optimizer.eps": 1e-5, "optimizer.weight_decay": 0.05,
                       "schedule.type": "linear", "schedule.warmup_steps": 0}),
    "sgd": ("llama", {"optimizer.type": "sgd", "optimizer.lr": 0.1, "optimizer.momentum": 0.0, "optimizer.weight_decay": 0.05, "schedule.type": "constant",
                      "schedule.warmup_steps": 1}),
    "momentum": ("llama", {"optimizer.type": "sgd", "optimizer.lr": 0.05, "optimizer.momentum": 0.8, "optimizer.dampening": 0.3, "optimizer.weight_decay": 0.05,
                           "schedule.type": "polynomial", "schedule.power": 2.0, "schedule.end_lr": 0.001, "schedule.warmup_steps": 2}),
    "nesterov": ("llama", {"optimizer.type": "sgd", "optimizer.lr": 0.03, "optimizer.momentum": 0.7, "optimizer.nesterov": True, "optimizer.weight_decay": 0.05,
                           "schedule.type": "inverse_sqrt", "schedule.warmup_steps": 3}),
    # Frozen members of joined products (q/k/v, gate/up), groups of which the first match counts.
    "groups": ("llama_bias", {**{k: v for k, v in FAMILY.items() if k != "schedule.min_lr_ratio"}, "schedule.type": "cosine_with_restarts", "schedule.cycles": 2.0, "schedule.warmup_steps": 1,
                              "train.freeze": ["*.0.self_attn.k_proj.*", "*.1.mlp.up_proj.weight", "model.norm.weight"],
                              "optimizer.groups": [{"match": "*.self_attn.*", "lr_mult": 0.5, "wd_mult": 0.0}, {"match": "*.mlp.*", "lr_mult": 2.0, "wd_mult": 0.5},
                                                   {"match": "model.layers.*", "lr_mult": 3.0, "wd_mult": 1.0}, {"match": "lm_head.*", "lr_mult": 0.0, "wd_mult": 1.0}]}),
    "groups_sgd": ("llama", {"optimizer.type": "sgd", "optimizer.lr": 0.05, "optimizer.momentum": 0.5, "optimizer.weight_decay": 0.2, "schedule.type": "cosine",
                             "schedule.warmup_steps": 0, "train.freeze": ["*.v_proj.weight", "*.gate_proj.weight"],
                             "optimizer.groups": [{"match": "*.q_proj.*", "lr_mult": 2.0, "wd_mult": 2.0}]}),
    # Parameters that begin to train later: a layer, one of joined products, a table; requires_grad is switched then.
    "unfreeze": ("llama", {**{k: v for k, v in FAMILY.items() if k != "schedule.min_lr_ratio"}, "schedule.type": "linear", "schedule.warmup_steps": 2,
                           "optimizer.groups": [{"match": "*.1.*", "from_step": 4}, {"match": "*.0.self_attn.k_proj.*", "lr_mult": 0.5, "wd_mult": 2.0, "from_step": 3},
                                                {"match": "model.embed_tokens.*", "lr_mult": 2.0, "wd_mult": 1.0, "from_step": 7}]}),
    "unfreeze_sgd": ("llama", {"optimizer.type": "sgd", "optimizer.lr": 0.05, "optimizer.momentum": 0.8, "optimizer.dampening": 0.3, "optimizer.weight_decay": 0.05,
                               "schedule.type": "constant", "schedule.warmup_steps": 1,
                               "optimizer.groups": [{"match": "*.mlp.*", "from_step": 5}, {"match": "model.norm.*", "from_step": 2}]}),
}


class ExactGelu(torch.nn.Module):
    """Bloom's, with sqrt(2/pi) in full, where its own code has eight digits."""

    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


modeling_bloom.BloomGelu = ExactGelu


def batches(rows, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, V, (rows, COLUMNS), generator=g)
    labels, mask = ids.clone(), torch.ones_like(ids)
    for r in range(rows):
        hidden = int(torch.randint(0, 8, (), generator=g))
        labels[r, :hidden] = -100
        if r % 3 == 1:  # padding on the right
            mask[r, COLUMNS - 2 - r % 4:] = 0
            labels[r][mask[r] == 0] = -100
        if r % 4 == 2:  # nothing counts but three tokens
            labels[r, :COLUMNS - 3] = -100
    return {"input_ids": ids.int(), "labels": labels.int(), "attention_mask": mask.int()}


class AllDouble(TorchFunctionMode):
    """Model code casts to float32 inside norms, softmax and RoPE: here these casts give double."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()
        swap = lambda v: torch.float64 if v is torch.float32 else v
        return func(*[swap(a) for a in args], **{k: swap(v) for k, v in (kwargs or {}).items()})


def in_type(config, weights, dtype):
    model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation="eager", dtype=dtype).to(dtype)
    with torch.no_grad():
        for n, p in model.named_parameters():
            p.copy_(weights[n].to(dtype))
    return model.eval()


def matches(pattern, name):
    return fnmatch.fnmatchcase(name, pattern)


def alibi(model, mask, dtype):
    heads = model.config.num_attention_heads
    slopes = torch.tensor([2.0 ** (-8.0 * (k + 1) / heads) for k in range(heads)], dtype=dtype)
    position = torch.arange(COLUMNS, dtype=dtype)
    scores = slopes[:, None, None] * (position[None, :] - position[:, None])
    later = torch.triu(torch.ones(COLUMNS, COLUMNS, dtype=torch.bool), 1)
    hidden = later[None, None] | (mask == 0)[:, None, None, :] & ~torch.eye(COLUMNS, dtype=torch.bool)
    return scores[None].expand(mask.shape[0], -1, -1, -1).masked_fill(hidden, torch.finfo(dtype).min)


class Run:
    def __init__(self, model, weights, dtype, options):
        self.name, self.dtype, self.options = model, dtype, options
        raw = MODELS[model]
        self.alike = raw["model_type"] == "baichuan"
        config = {**raw, "model_type": "llama", "max_position_embeddings": 32} if self.alike else raw
        self.model = in_type(AutoConfig.for_model(**config), weights, dtype)
        for n, p in self.model.named_parameters():
            p.requires_grad_(not any(matches(f, n) for f in options.get("train.freeze", [])))

    def losses(self, data, rows):
        """Sum of the cross-entropies of all labels that count, and their number."""
        ids, labels, mask = (data[k][rows].long() for k in ("input_ids", "labels", "attention_mask"))
        if not self.alike:
            logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        else:
            kept, modeling_llama.apply_rotary_pos_emb = modeling_llama.apply_rotary_pos_emb, lambda q, k, *a, **b: (q, k)
            try:
                hidden = self.model.model(input_ids=ids, attention_mask=alibi(self.model, mask, self.dtype), use_cache=False).last_hidden_state
            finally:
                modeling_llama.apply_rotary_pos_emb = kept
            logits = torch.nn.functional.linear(hidden, torch.nn.functional.normalize(self.model.lm_head.weight))
        want = labels[:, 1:].reshape(-1)
        return torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, V), want, ignore_index=-100, reduction="sum"), int((want != -100).sum())

    def rule(self, name):
        return next((g for g in self.options.get("optimizer.groups", []) if matches(g["match"], name)), {})

    def wake(self, step):
        """From its step on a parameter has gradients, and so its own first update."""
        for n, p in self.model.named_parameters():
            if self.rule(n).get("from_step", 1) > 1 and not any(matches(f, n) for f in self.options.get("train.freeze", [])):
                p.requires_grad_(step >= self.rule(n)["from_step"])

    def optimizer(self):
        o = self.options
        groups = {}
        for n, p in self.model.named_parameters():
            if not p.requires_grad:
                continue
            rule = {"lr_mult": 1.0, "wd_mult": 1.0, **self.rule(n)}
            exempt = n.endswith("bias") or "norm" in n or ".ln_" in n
            key = (rule["lr_mult"], 0.0 if exempt else rule["wd_mult"])
            groups.setdefault(key, []).append(p)
        lr, decay = o["optimizer.lr"], o["optimizer.weight_decay"]
        groups = [{"params": ps, "lr": lr * rate, "weight_decay": decay * share, "rate": rate} for (rate, share), ps in groups.items()]
        if o["optimizer.type"] == "sgd":
            return torch.optim.SGD(groups, lr=lr, momentum=o["optimizer.momentum"], dampening=o.get("optimizer.dampening", 0), nesterov=o.get("optimizer.nesterov", False),
                                   foreach=False)
        kind = torch.optim.AdamW if o["optimizer.type"] == "adamw" else torch.optim.Adam
        return kind(groups, lr=lr, betas=tuple(o["optimizer.betas"]), eps=o["optimizer.eps"], foreach=False)

    def schedule(self, optimizer):
        o = self.options
        warmup = o["schedule.warmup_steps"]
        kind = o["schedule.type"]
        if kind == "constant":
            return schedules.get_constant_schedule_with_warmup(optimizer, warmup)
        if kind == "linear":
            return schedules.get_linear_schedule_with_warmup(optimizer, warmup, STEPS)
        if kind == "cosine":
            return schedules.get_cosine_with_min_lr_schedule_with_warmup(optimizer, warmup, STEPS, min_lr_rate=o.get("schedule.min_lr_ratio", 0.1))
        if kind == "cosine_with_restarts":
            return schedules.get_cosine_with_hard_restarts_schedule_with_warmup(optimizer, warmup, STEPS, num_cycles=o["schedule.cycles"])
        if kind == "polynomial":
            return schedules.get_polynomial_decay_schedule_with_warmup(optimizer, warmup, STEPS, lr_end=o["schedule.end_lr"], power=o["schedule.power"])
        if kind == "inverse_sqrt":
            return schedules.get_inverse_sqrt_schedule(optimizer, warmup)
        assert kind == "warmup_stable_decay"
        decay = o["schedule.decay_steps"]
        return schedules.get_wsd_schedule(optimizer, warmup, decay, num_training_steps=STEPS, min_lr_ratio=o["schedule.min_lr_ratio"], num_cycles=0.5)

    def train(self, data, valid, clip, draw):
        """draw 0: the rows of a step at once, in order; others: in another order and in parts."""
        g = torch.Generator().manual_seed(draw)
        optimizer = self.optimizer()
        schedule = self.schedule(optimizer)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        curve = {"loss": [], "lr": [], "grad_norm": [], "valid_loss": {}}
        for step in range(STEPS):
            self.wake(step + 1)
            rows = torch.arange(step * GLOBAL, (step + 1) * GLOBAL) % ROWS
            if draw:
                rows = rows[torch.randperm(GLOBAL, generator=g)]
            parts = rows.split(GLOBAL if draw == 0 else 1 + draw % 3)
            count = sum(int((data["labels"][p][:, 1:] != -100).sum()) for p in parts)
            optimizer.zero_grad()
            total = 0.0
            for part in parts:
                loss, _ = self.losses(data, part)
                (loss / count).backward()
                total += loss.item()
            norm = torch.nn.utils.clip_grad_norm_(trained, clip if clip else math.inf, foreach=False)
            curve["loss"].append(total / count)
            curve["grad_norm"].append(norm.item())
            rated = next(x for x in optimizer.param_groups if x["rate"] != 0)
            curve["lr"].append(rated["lr"] / rated["rate"])
            optimizer.step()
            schedule.step()
            if (step + 1) % VALID_EVERY == 0 or step + 1 == STEPS:
                with torch.no_grad():
                    sums = [self.losses(valid, torch.tensor([r])) for r in range(VALID_ROWS)]
                curve["valid_loss"][str(step + 1)] = sum(s.item() for s, _ in sums) / sum(n for _, n in sums)
        return curve, {n: p.detach().clone() for n, p in self.model.named_parameters()}


def trained(model, weights, options, data, valid, clip, dtype, draw=0):
    def f():
        return Run(model, weights, dtype, options).train(data, valid, clip, draw)
    if dtype is torch.float32:
        return f()
    torch.set_default_dtype(torch.float64)
    try:
        with AllDouble():
            return f()
    finally:
        torch.set_default_dtype(torch.float32)


def flat(curve, key):
    return list(curve[key].values()) if isinstance(curve[key], dict) else curve[key]


def begin(name, out, seed):
    """Writes the folder and gives the weights by parameter name."""
    folder = os.path.join(out, "models", name)
    os.makedirs(folder)
    raw = MODELS[name]
    config = {**raw, "model_type": "llama", "max_position_embeddings": 32} if raw["model_type"] == "baichuan" else raw
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for n, p in sorted(model.named_parameters()):
            r = torch.randn(p.shape, generator=g)
            norm = "norm" in n or ".ln_" in n
            p.copy_((1 + 0.25 * r) if norm and not n.endswith("bias") else 0.1 * r if n.endswith("bias") else 0.25 * r)
    model.save_pretrained(folder)
    for file in os.listdir(folder):
        if file != "model.safetensors":
            os.remove(os.path.join(folder, file))
    if raw["model_type"] == "baichuan":
        save_file(joined(load_file(os.path.join(folder, "model.safetensors"))), os.path.join(folder, "model.safetensors"))
    json.dump(raw, open(os.path.join(folder, "config.json"), "w"), indent=1)
    return {n: p.detach().clone() for n, p in model.named_parameters()}


def joined(tensors):
    """q_proj, k_proj, v_proj as Baichuan stores them: W_pack."""
    out = {}
    for n, t in tensors.items():
        if "q_proj" in n:
            out[n.replace("q_proj", "W_pack")] = torch.cat([tensors[n.replace("q_proj", x)] for x in ("q_proj", "k_proj", "v_proj")])
        elif "k_proj" not in n and "v_proj" not in n:
            out[n] = t
    return out


def stored(name, weights, out):
    """The weights under the names that the model's file has: of tied ones the first."""
    if MODELS[name]["model_type"] == "baichuan":
        weights = joined(weights)
    names = load_file(os.path.join(out, "models", name, "model.safetensors")).keys()
    found = {n: weights[n.replace("embed_out", "lm_head")] for n in names}
    assert len(found) == len(weights), sorted(set(weights) ^ set(found))
    return found


def main(out, add):
    if not add:
        shutil.rmtree(out, ignore_errors=True)
    os.makedirs(os.path.join(out, "final"), exist_ok=True)
    data, valid = batches(ROWS, 1), batches(VALID_ROWS, 2)
    save_file(data, os.path.join(out, "train.safetensors"))
    save_file(valid, os.path.join(out, "valid.safetensors"))
    there = lambda name: os.path.join(out, "models", name, "model.safetensors")
    models = {name: load_file(there(name)) if os.path.exists(there(name)) else begin(name, out, 50 + i) for i, name in enumerate(MODELS)}
    record = {"steps": STEPS, "global_batch": GLOBAL, "micro_batch": MICRO, "columns": COLUMNS, "valid_every": VALID_EVERY, "torch": torch.__version__,
              "transformers": transformers.__version__, "cases": {}}
    if add:
        record = json.load(open(os.path.join(out, "curves.json")))
    for case, (model, options) in CASES.items():
        if case in record["cases"]:
            continue
        weights = models[model]
        free, _ = trained(model, weights, options, data, valid, 0, torch.float64)
        clip = float(f"{sorted(free['grad_norm'])[STEPS // 2] * 0.95:.2g}")
        curve, final = trained(model, weights, options, data, valid, clip, torch.float64)
        acts = sum(n > clip for n in curve["grad_norm"])
        assert 2 <= acts <= STEPS - 2, (case, clip, curve["grad_norm"])
        final = stored(model, final, out)
        distance = {"loss": 0.0, "grad_norm": 0.0, "valid_loss": 0.0, "weights": dict.fromkeys(final, 0.0)}
        for draw in range(DRAWS):
            single, ends = trained(model, weights, options, data, valid, clip, torch.float32, draw)
            for key in ("loss", "grad_norm", "valid_loss"):
                distance[key] = max([distance[key]] + [abs(a / b - 1) for a, b in zip(flat(single, key), flat(curve, key))])
            for n, t in stored(model, ends, out).items():
                distance["weights"][n] = max(distance["weights"][n], float((t.double() - final[n]).norm() / final[n].norm()))
        save_file({n: t.float().contiguous() for n, t in final.items()}, os.path.join(out, "final", case + ".safetensors"))
        distance = {k: float(f"{v:.2e}") if k != "weights" else {n: float(f"{x:.2e}") for n, x in v.items()} for k, v in distance.items()}
        record["cases"][case] = {"model": model, "options": {**options, "optimizer.clip_norm": clip}, **curve, "distance": distance}
        print(f"{case:14} clips {acts} of {STEPS}, loss {curve['loss'][0]:.3f} to {curve['loss'][-1]:.3f}, distance",
              " ".join(f"{k} {max(v.values()) if isinstance(v, dict) else v:.1e}" for k, v in distance.items()), flush=True)
    json.dump(record, open(os.path.join(out, "curves.json"), "w"))


main(sys.argv[1], "--add" in sys.argv)
