"""Makes tests/golden/megatron_lora: checkpoints of LoRA as ModelLink saves them, of adapters beside tests/golden/lora/llama/base, and the logits of the merged models.

    python tools/golden/make_megatron_lora.py tests/golden/megatron_lora

Needs torch, numpy, transformers and safetensors. Cutting, interleaving and merging are written down here from ModelLink's code (modellink/model/lora_utils.py,
tools/lora/merge_lora.py), not from this program: each rank adds alpha / r * B A to its own part of the base, as merge_lora.py does, and the parts are then put together.

    joined     names of 2024 (gate over up in dense_h_to_4h), 2 tensor x 2 pipeline ranks; tables trained whole, with rows of padding
    apart      classic names (gate_proj beside dense_h_to_4h), 2 tensor ranks, no adapter beside the attention's output

golden.safetensors of each: input_ids [2,7], logits [2,7,V] in f64, merged.NAME: the merged matrices in f64."""
import argparse, os, shutil, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np, torch, transformers as tf
from safetensors.numpy import load_file
from safetensors.torch import save_file
from double import AllDouble

here = os.path.dirname(os.path.abspath(__file__))
base = os.path.join(here, "..", "..", "tests", "golden", "lora", "llama", "base")
out = sys.argv[1]
config = tf.AutoConfig.from_pretrained(base)
H, F, D, KV, REP, L, V = config.hidden_size, config.intermediate_size, config.head_dim, config.num_key_value_heads, 2, config.num_hidden_layers, config.vocab_size
W = {n: w.astype(np.float64) for n, w in load_file(os.path.join(base, "model.safetensors")).items()}
PADDED = 40  # rows of the tables, a multiple of 4 * 2 tensor ranks


def qkv_rows(t, tp):
    """Which row of q, k or v is each row of tensor rank t's query_key_value: per group its query heads, its key, its value."""
    rows = []
    for g in range(KV // tp * t, KV // tp * (t + 1)):
        rows += [("q_proj", (g * REP + h) * D + d) for h in range(REP) for d in range(D)]
        rows += [(n, g * D + d) for n in ("k_proj", "v_proj") for d in range(D)]
    return rows


def shard(i, module, t, tp):
    """The base's part of a module of layer i on tensor rank t, as a list of (name, index of the part in the whole)."""
    a, m = f"model.layers.{i}.self_attn.", f"model.layers.{i}.mlp."
    part = lambda n: slice(n // tp * t, n // tp * (t + 1))
    if module == "query_key_value":
        return [(a + n + ".weight", (slice(r, r + 1), slice(None))) for n, r in qkv_rows(t, tp)]
    if module == "dense":
        return [(a + "o_proj.weight", (slice(None), part(H)))]
    if module == "dense_4h_to_h":
        return [(m + "down_proj.weight", (slice(None), part(F)))]
    names = {"gate_proj": ["gate_proj"], "up": ["up_proj"], "joined": ["gate_proj", "up_proj"]}[module]
    return [(m + n + ".weight", (part(F), slice(None))) for n in names]


def make(case, tp, pp, rank, alpha, targets, saved, seed):
    """targets: Megatron's name -> kind of shard."""
    draw = np.random.default_rng(seed)
    folder = os.path.join(out, case)
    shutil.rmtree(folder, ignore_errors=True)
    merged = {n: w.copy() for n, w in W.items()}
    tables = {n: np.float32(draw.normal(0, 0.3, (PADDED, H))) for n in ("word_embeddings", "output_layer")} if saved else {}
    states = {(t, p): {"embedding": {}, "encoder": {}, "output_layer": {}} for t in range(tp) for p in range(pp)}
    for i in range(L):
        p, local = i // (L // pp), i % (L // pp)
        for name, kind in targets.items():
            whole = {}  # what all tensor ranks hold alike
            for t in range(tp):
                parts = shard(i, kind, t, tp)
                rows = sum(merged[n][at].shape[0] for n, at in parts)
                columns = merged[parts[0][0]][parts[0][1]].shape[1]
                draws = {"lora_A": np.float32(draw.uniform(-0.3, 0.3, (rank, columns))), "lora_B": np.float32(draw.normal(0, 0.3, (rows, rank)))}
                whole_one = "lora_B" if kind in ("dense", "dense_4h_to_h") else "lora_A"
                draws[whole_one] = whole.setdefault(whole_one, draws[whole_one])
                delta, at_row = alpha / rank * (draws["lora_B"].astype(np.float64) @ draws["lora_A"].astype(np.float64)), 0
                for n, at in parts:
                    count = merged[n][at].shape[0]
                    merged[n][at] += delta[at_row:at_row + count]
                    at_row += count
                module = f"layers.{local}.{'self_attention' if kind in ('query_key_value', 'dense') else 'mlp'}.{name}"
                for x, values in draws.items():
                    states[t, p]["encoder"][f"{module}.{x}.default.weight"] = torch.from_numpy(values)
    for n, table in tables.items():
        for t in range(tp):
            rows = torch.from_numpy(table[PADDED // tp * t:PADDED // tp * (t + 1)].copy())
            if n == "word_embeddings":
                states[t, 0]["embedding"] = {n: {"original_module.weight": torch.zeros(1), "modules_to_save.default.weight": rows}}
            else:
                states[t, pp - 1]["output_layer"] = {"original_module.weight": torch.zeros(1), "modules_to_save.default.weight": rows}
        merged["model.embed_tokens.weight" if n == "word_embeddings" else "lm_head.weight"] = table[:V].astype(np.float64)
    for (t, p), state in states.items():
        args = argparse.Namespace(num_layers=L, hidden_size=H, ffn_hidden_size=F, num_attention_heads=KV * REP, num_query_groups=KV, group_query_attention=True,
                                  tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, lora_r=rank, lora_alpha=alpha, lora_target_modules=list(targets),
                                  lora_modules_to_save=list(tables) or None, iteration=10)
        at = os.path.join(folder, "iter_0000010", f"mp_rank_{t:02}" + (f"_{p:03}" if pp > 1 else ""))
        os.makedirs(at)
        torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 10, "model": {"language_model": {k: v for k, v in state.items() if v}}}, os.path.join(at, "model_optim_rng.pt"))
    with open(os.path.join(folder, "latest_checkpointed_iteration.txt"), "w") as f:
        f.write("10")
    ids = torch.from_numpy(draw.integers(3, V, (2, 7)))
    torch.set_default_dtype(torch.float64)
    with AllDouble(), torch.no_grad():  # the tables of RoPE too, which are made with the model
        model = tf.AutoModelForCausalLM.from_config(config, dtype=torch.float64).double().eval()
        model.load_state_dict({n: torch.from_numpy(w) for n, w in merged.items()})
        logits = model(ids).logits
    torch.set_default_dtype(torch.float32)
    save_file({"input_ids": ids, "logits": logits.contiguous(), **{f"merged.{n}": torch.from_numpy(w) for n, w in merged.items() if not np.array_equal(w, W[n])}},
              os.path.join(folder, "golden.safetensors"))


make("joined", 2, 2, 3, 12, {"query_key_value": "query_key_value", "dense": "dense", "dense_h_to_4h": "joined", "dense_4h_to_h": "dense_4h_to_h"}, True, 1)
make("apart", 2, 1, 2, 5, {"query_key_value": "query_key_value", "gate_proj": "gate_proj", "dense_h_to_4h": "up", "dense_4h_to_h": "dense_4h_to_h"}, False, 2)
