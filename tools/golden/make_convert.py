"""Small checkpoints of one tiny Llama in every layout, written with torch and numpy alone, for tests of `ravine convert`.

    python make_convert.py --out tests/golden/convert

The cutting and joining here is written down independently of the program, from the layouts' descriptions: Megatron rows of q, k and v
per group and gate over up per tensor rank, ZeRO flat groups, MindFormers fused rows. Needs torch and safetensors.
"""
import argparse
import json
import os
import shutil
from collections import OrderedDict

import torch
from safetensors.torch import save_file

H, L, HEADS, KV, D, F, V = 16, 4, 4, 2, 4, 24, 50
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": H, "intermediate_size": F, "num_hidden_layers": L,
    "num_attention_heads": HEADS, "num_key_value_heads": KV, "vocab_size": V, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32"}


def weights():
    g = torch.Generator().manual_seed(11)
    shapes = {"model.embed_tokens.weight": (V, H), "lm_head.weight": (V, H), "model.norm.weight": (H,)}
    for i in range(L):
        p = f"model.layers.{i}."
        shapes |= {p + "input_layernorm.weight": (H,), p + "post_attention_layernorm.weight": (H,),
                   p + "self_attn.q_proj.weight": (HEADS * D, H), p + "self_attn.k_proj.weight": (KV * D, H),
                   p + "self_attn.v_proj.weight": (KV * D, H), p + "self_attn.o_proj.weight": (H, HEADS * D),
                   p + "mlp.gate_proj.weight": (F, H), p + "mlp.up_proj.weight": (F, H), p + "mlp.down_proj.weight": (H, F)}
    # Values that f16 and bf16 hold too.
    return OrderedDict((k, torch.randint(-127, 128, s, generator=g).float() / 64) for k, s in shapes.items())


def pad(table, tp):
    rows = -(-V // (128 * tp)) * 128 * tp
    return torch.cat([table, table[-1:].expand(rows - V, H)])


def moments(w):
    """Adam's moments, made up: other numbers than the weights', exact in f32."""
    return OrderedDict((k, v.flip(0) / 2) for k, v in w.items()), OrderedDict((k, v * v) for k, v in w.items())


def torch_optimizer(model, parts, masters):
    """What a 16-bit Megatron run saves: matrices in group 0, vectors in group 1, in the order of the model."""
    groups = [[k for k, v in model.items() if v.dim() > 1], [k for k, v in model.items() if v.dim() == 1]]
    number, state, listed = 0, {}, []
    for g in groups:
        listed.append({"params": list(range(number, number + len(g))), "lr": 1e-3, "step": 5})
        for k in g:
            state[number] = {"exp_avg": parts[0][k].contiguous().clone(), "exp_avg_sq": parts[1][k].contiguous().clone()}
            number += 1
    return {"optimizer": {"state": state, "param_groups": listed},
            "fp32_from_fp16_params": [[masters[k].contiguous().clone() for k in g] for g in groups]}


def megatron(w, out, style, tp, pp, vp, dtype, tracker="1", optimizer=False):
    """style: legacy, mcore, te, classic, merged"""
    first, second = moments(w)
    masters = OrderedDict((k, x + 2.0**-20) for k, x in w.items())  # more than 16 bits hold
    core = style in ("mcore", "te")
    folder = os.path.join(out, "release" if tracker.strip() == "release" else f"iter_{int(tracker):07d}")
    groups = KV // tp

    def part(w, t, stage, per):
        """What tensor rank t of the stage holds."""
        d = OrderedDict()
        if stage == 0:
            d["embedding"] = pad(w["model.embed_tokens.weight"], tp).chunk(tp)[t]
        for l in range(per):
            s = f"model.layers.{stage * per + l}."
            q = w[s + "self_attn.q_proj.weight"].view(KV, HEADS // KV * D, H)
            k, v = (w[s + f"self_attn.{n}_proj.weight"].view(KV, D, H) for n in "kv")
            qkv = torch.cat([torch.cat([q[g], k[g], v[g]]) for g in range(t * groups, (t + 1) * groups)])
            gate, up = (w[s + f"mlp.{n}_proj.weight"].chunk(tp)[t] for n in ("gate", "up"))
            o, down = w[s + "self_attn.o_proj.weight"].chunk(tp, 1)[t], w[s + "mlp.down_proj.weight"].chunk(tp, 1)[t]
            n1, n2 = w[s + "input_layernorm.weight"], w[s + "post_attention_layernorm.weight"]
            names = {
                "mcore": ("input_layernorm.weight", "self_attention.linear_qkv.weight", "self_attention.linear_proj.weight",
                          "pre_mlp_layernorm.weight", "mlp.linear_fc1.weight", "mlp.linear_fc2.weight"),
                "te": ("self_attention.linear_qkv.layer_norm_weight", "self_attention.linear_qkv.weight", "self_attention.linear_proj.weight",
                       "mlp.linear_fc1.layer_norm_weight", "mlp.linear_fc1.weight", "mlp.linear_fc2.weight"),
                "legacy": ("input_norm.weight", "self_attention.query_key_value.weight", "self_attention.dense.weight",
                           "post_attention_norm.weight", "mlp.dense_h_to_4h.weight", "mlp.dense_4h_to_h.weight"),
                "classic": ("input_layernorm.weight", "self_attention.query_key_value.weight", "self_attention.dense.weight",
                            "post_attention_layernorm.weight", "mlp.dense_h_to_4h.weight", "mlp.dense_4h_to_h.weight"),
                "merged": ("input_layernorm.weight", "self_attention.query_key_value.weight", "self_attention.dense.weight",
                           "post_attention_layernorm.weight", "mlp.proj.weight", "mlp.dense_4h_to_h.weight")}[style]
            for name, value in zip(names, (n1, qkv, o, n2, torch.cat([gate, up]), down)):
                d[f"layers.{l}.{name}"] = value
            if style == "classic":
                d[f"layers.{l}.mlp.gate_proj.weight"], d[f"layers.{l}.mlp.dense_h_to_4h.weight"] = gate, up
            if style == "te":
                d[f"layers.{l}.mlp.linear_fc1._extra_state"] = None
        if stage == pp * vp - 1:
            d["final"] = w["model.norm.weight"]
            d["head"] = pad(w["lm_head.weight"], tp).chunk(tp)[t]
        return d

    for p in range(pp):
        for t in range(tp):
            chunks = []
            for c in range(vp):
                stage, per = c * pp + p, L // (pp * vp)
                d = part(w, t, stage, per)
                kept = [part(x, t, stage, per) for x in (first, second, masters)]
                d = OrderedDict((k, v if v is None else v.to(dtype).contiguous().clone()) for k, v in d.items())
                if core:
                    rename = {"embedding": "embedding.word_embeddings.weight", "final": "decoder.final_layernorm.weight", "head": "output_layer.weight"}
                    chunks.append(OrderedDict((rename.get(k, "decoder." + k), v) for k, v in d.items()))
                else:
                    final = "final_norm.weight" if style == "legacy" else "final_layernorm.weight"
                    m = {"encoder": OrderedDict((final if k == "final" else k, v) for k, v in d.items() if k not in ("embedding", "head"))}
                    if "embedding" in d:
                        m["embedding"] = {"word_embeddings": {"weight": d["embedding"]}}
                    if "head" in d:
                        m["output_layer"] = {"weight": d["head"]}
                    chunks.append({"language_model": m})
            state = {"checkpoint_version": 3.0}
            if style not in ("classic", "merged"):
                state["iteration"] = 1
                state["args"] = argparse.Namespace(
                    num_layers=L, hidden_size=H, ffn_hidden_size=F, num_attention_heads=HEADS, kv_channels=D, group_query_attention=True,
                    num_query_groups=KV, max_position_embeddings=64, norm_epsilon=1e-5, rotary_base=10000, params_dtype=dtype,
                    untie_embeddings_and_output_weights=True, make_vocab_size_divisible_by=128, tensor_model_parallel_size=tp,
                    pipeline_model_parallel_size=pp)
            if optimizer:
                names = OrderedDict((k, x) for k, x in kept[0].items() if x is not None)
                state["optimizer"] = torch_optimizer(names, kept[:2], kept[2])
                state["args"].global_batch_size, state["args"].consumed_train_samples, state["args"].seq_length = 4, 28, 16
                state["iteration"] = 7
            state |= {"model": chunks[0]} if vp == 1 else {f"model{c}": m for c, m in enumerate(chunks)}
            path = os.path.join(folder, f"mp_rank_{t:02d}" + (f"_{p:03d}" if pp > 1 else ""))
            os.makedirs(path)
            torch.save(state, os.path.join(path, "model_optim_rng.pt"))
    with open(os.path.join(out, "latest_checkpointed_iteration.txt"), "w") as f:
        f.write(tracker)


def zero(w, out, stage, ranks):
    folder = os.path.join(out, "global_step3")
    os.makedirs(folder)
    names = list(w)
    first, second = moments(w)
    groups = [names[::2], names[1::2]] if stage < 3 else [names]
    model = {"module": OrderedDict((k, (v if stage < 3 else v[:0]).bfloat16()) for k, v in w.items()), "buffer_names": [], "frozen_param_shapes": None,
             "frozen_param_fragments": None, "shared_params": {}, "global_steps": 3, "global_samples": 12, "skipped_steps": 0,
             "param_shapes": [OrderedDict((n, w[n].shape) for n in g) for g in groups]}
    for r in range(ranks if stage == 3 else 1):
        torch.save(model, os.path.join(folder, f"zero_pp_rank_{r}_mp_rank_00_model_states.pt" if stage == 3 else "mp_rank_00_model_states.pt"))

    def flat(w, r):
        """Stage 3: of each parameter this rank's part, one after the other; else of each group."""
        if stage == 3:
            parts = []
            for n in names:
                x = w[n].flatten()
                per = -(-x.numel() // ranks)
                parts.append(torch.cat([x, x.new_zeros(per * ranks - x.numel())])[r * per:(r + 1) * per])
            x = torch.cat(parts)
            return [x[:100].clone(), x[100:].clone()]  # sub-groups
        partitions = []
        for g in groups:
            x = torch.cat([w[n].flatten() for n in g])
            size = -(-x.numel() // (2 * ranks)) * 2 * ranks // ranks
            partitions.append(x[r * size:(r + 1) * size].clone())  # the last one without padding
        return partitions

    for r in range(ranks):
        state = {"zero_stage": stage, "partition_count": ranks if stage == 3 else [ranks] * len(groups)}
        state["fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"] = flat(w, r)
        adam = [{"step": torch.tensor(3.0), "exp_avg": a, "exp_avg_sq": b} for a, b in zip(flat(first, r), flat(second, r))]
        if stage == 2:
            state["base_optimizer_state"] = adam  # as elastic checkpoints have it
        else:
            state["optimizer_state_dict" if stage == 3 else "base_optimizer_state"] = {"state": dict(enumerate(adam)), "param_groups": []}
        torch.save({"optimizer_state_dict": state}, os.path.join(folder, f"zero_pp_rank_{r}_mp_rank_00_optim_states.pt"))
    with open(os.path.join(out, "latest"), "w") as f:
        f.write("global_step3")


def mindformers(w, fused):
    out = OrderedDict()
    for k, v in w.items():
        for a, b in (("embed_tokens.weight", "tok_embeddings.embedding_weight"), ("model.norm.", "model.norm_out."), ("input_layernorm", "attention_norm"),
                     ("post_attention_layernorm", "ffn_norm"), ("self_attn.q_proj", "attention.wq"), ("self_attn.k_proj", "attention.wk"),
                     ("self_attn.v_proj", "attention.wv"), ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"),
                     ("mlp.down_proj", "feed_forward.w2"), ("mlp.up_proj", "feed_forward.w3")):
            k = k.replace(a, b)
        out[k] = v
    if not fused:
        return out
    for i in range(L):
        p = f"model.layers.{i}."
        q, k, v = (out.pop(p + f"attention.w{n}.weight") for n in "qkv")
        q, k, v = q.view(KV, -1, H), k.view(KV, -1, H), v.view(KV, -1, H)
        out[p + "attention.w_qkv.weight"] = torch.cat([torch.cat([q[g], k[g], v[g]]) for g in range(KV)])
        gate, up = out.pop(p + "feed_forward.w1.weight"), out.pop(p + "feed_forward.w3.weight")
        out[p + "feed_forward.w_gate_hidden.weight"] = torch.stack([gate, up], 1).reshape(2 * F, H)
    return out


def ranked(m, first, second, out, tp):
    """One file per rank: columns of wo and w2, rows of the rest, norms whole; optimizer state and counters beside."""
    for r in range(tp):
        d = {}
        for k, v in m.items():
            if v.dim() == 1:
                d[k] = v
            else:
                d[k] = v.chunk(tp, 1 if ".wo." in k or ".w2." in k else 0)[r].contiguous()
            for key, state in zip(("adam_m.", "adam_v."), (first, second)):
                x = state[k]
                d[key + k] = x if x.dim() == 1 else x.chunk(tp, 1 if ".wo." in k or ".w2." in k else 0)[r].contiguous()
        d["global_step"] = torch.tensor(7)
        os.makedirs(os.path.join(out, f"rank_{r}"))
        save_file({k: v.clone() for k, v in d.items()}, os.path.join(out, f"rank_{r}", f"tiny_rank_{r}-1_7.safetensors"), {"format": "ms"})


def varint(n):
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def ckpt(m, path, split):
    """Protobuf by hand; the tensor named `split` in two pieces, as MindSpore cuts large ones."""
    out = b""
    for k, v in m.items():
        data = v.contiguous().numpy().tobytes()
        for piece in ((data[:40], data[40:]) if k == split else (data,)):
            t = b"".join(varint(8) + varint(n) for n in v.shape) + field(2, b"Float32") + field(3, piece)
            out += field(1, field(1, k.encode()) + field(2, t))
    with open(path, "wb") as f:
        f.write(out)


def torch_files(out):
    """Tensors of every kind in both formats of torch.save, and their values."""
    base = torch.arange(24, dtype=torch.float32)
    d = OrderedDict(
        f32=torch.tensor([[1.5, -2.0], [3.25, 0.0]]), f16=torch.tensor([1.0, 2.0]).half(), bf16=torch.tensor([[3.0, -4.0]]).bfloat16(),
        f64=torch.tensor([0.1], dtype=torch.float64), i64=torch.tensor([1 << 40, -1]), i32=torch.tensor([7], dtype=torch.int32),
        u8=torch.tensor([250, 3], dtype=torch.uint8), boolean=torch.tensor([True, False]), scalar=torch.tensor(5.5),
        empty=torch.zeros(0, 3), transposed=base.view(4, 6).t(), offset=base[10:14], shared=base.view(2, 12)[:, 3:7], strided=base[::5],
        expanded=torch.tensor([[2.0]]).expand(3, 4), parameter=torch.nn.Parameter(torch.tensor([9.0, 8.0])),
        attributes=torch.tensor([4.0, 5.0]), parameter_attributes=torch.nn.Parameter(torch.tensor([6.0])))
    d["attributes"].note = d["parameter_attributes"].note = "kept by torch, passed over by readers of weights"
    torch.save(d, os.path.join(out, "kinds.bin"))
    torch.save(d, os.path.join(out, "kinds_stream.bin"), _use_new_zipfile_serialization=False)
    save_file({k: v.detach().clone().contiguous() for k, v in d.items()}, os.path.join(out, "kinds.safetensors"))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True)
    out = p.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    w = weights()
    sub = lambda name: os.path.join(out, name)
    os.makedirs(sub("hf"))
    save_file(dict(w), sub("hf/model.safetensors"), {"format": "pt"})
    with open(sub("hf/config.json"), "w") as f:
        json.dump(CONFIG, f, indent=1)
    half = OrderedDict((k, v.half()) for k, v in w.items())
    os.makedirs(sub("hf_bin"))
    shutil.copy(sub("hf/config.json"), sub("hf_bin/config.json"))
    names, index = list(half), {}
    for i, part in enumerate((names[:9], names[9:])):
        file = f"pytorch_model-{i + 1:05d}-of-00002.bin"
        torch.save(OrderedDict((k, half[k].clone()) for k in part), sub("hf_bin/" + file))
        index |= {k: file for k in part}
    with open(sub("hf_bin/pytorch_model.bin.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": index}, f)
    megatron(w, sub("legacy"), "legacy", 2, 2, 1, torch.float16, "release")
    megatron(w, sub("mcore"), "mcore", 1, 2, 2, torch.bfloat16)
    megatron(w, sub("optim"), "mcore", 2, 2, 1, torch.float16, "7", optimizer=True)
    megatron(w, sub("te"), "te", 2, 1, 1, torch.float16)
    megatron(w, sub("classic"), "classic", 2, 1, 1, torch.float16, "release\n")
    megatron(w, sub("merged"), "merged", 1, 1, 1, torch.float16, "release\n")
    for stage, ranks in ((1, 3), (2, 2), (3, 3)):
        os.makedirs(sub(f"zero{stage}"))
        zero(w, sub(f"zero{stage}"), stage, ranks)
        shutil.copy(sub("hf/config.json"), sub(f"zero{stage}/config.json"))
    os.makedirs(sub("mf"))
    m = mindformers(w, False)
    half_names = list(m)[:10]
    for i, part in enumerate((half_names, [k for k in m if k not in half_names])):
        save_file({k: m[k] for k in part}, sub(f"mf/model-{i + 1:05d}-of-00002.safetensors"), {"format": "ms"})
    with open(sub("mf/param_name_map.json"), "w") as f:
        json.dump({k: f"model-{1 if k in half_names else 2:05d}-of-00002.safetensors" for k in m}, f)
    os.makedirs(sub("mf_ranks"))
    ranked(mindformers(w, True), *(mindformers(x, True) for x in moments(w)), sub("mf_ranks"), 2)
    ckpt(mindformers(w, True), sub("mf_fused.ckpt"), "lm_head.weight")
    torch_files(out)


if __name__ == "__main__":
    main()
