"""The checkpoint of tests/golden/convert/hf as Megatron saves it with --ckpt-format torch_dist, and as FSDP does, written by torch's own torch.distributed.checkpoint.

    python make_torch_dist.py --out tests/golden/convert

Two processes hold the shards of two tensor ranks, as DTensors: of layers, which lie stacked in one tensor, rows or columns; of gate over up whole halves. Names and stacking are those of megatron-core's sharded_state_dict,
written down here once more. The moments of Adam lie beside the weights in the same shapes. Needs torch with gloo.
"""
import argparse
import json
import os
import shutil
import tempfile
from argparse import Namespace

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from make_convert import D, F, H, HEADS, KV, L, V, moments, pad, weights

RANKS = 2


def stacked(w, vocabulary):
    """Of Hugging Face's names and layout to megatron-core's; the dim that tensor ranks cut, None for what each has whole."""
    layer = lambda i, name: w[f"model.layers.{i}.{name}.weight"]

    def qkv(i):
        q, k, v = (layer(i, f"self_attn.{n}_proj") for n in "qkv")
        group = HEADS // KV * D
        return torch.cat([torch.cat([q[g * group:(g + 1) * group], k[g * D:(g + 1) * D], v[g * D:(g + 1) * D]]) for g in range(KV)])

    of_layers = {"input_layernorm": (lambda i: layer(i, "input_layernorm"), None), "pre_mlp_layernorm": (lambda i: layer(i, "post_attention_layernorm"), None),
                 "self_attention.linear_qkv": (qkv, 1), "self_attention.linear_proj": (lambda i: layer(i, "self_attn.o_proj"), 2),
                 "mlp.linear_fc1": (lambda i: torch.cat([layer(i, "mlp.gate_proj"), layer(i, "mlp.up_proj")]), 1), "mlp.linear_fc2": (lambda i: layer(i, "mlp.down_proj"), 2)}
    out = {f"decoder.layers.{name}.weight": (torch.stack([f(i) for i in range(L)]), dim) for name, (f, dim) in of_layers.items()}
    out["embedding.word_embeddings.weight"] = (vocabulary(w["model.embed_tokens.weight"]), 0)
    out["output_layer.weight"] = (vocabulary(w["lm_head.weight"]), 0)
    out["decoder.final_layernorm.weight"] = (w["model.norm.weight"], None)
    return out


ARGS = dict(num_layers=L, hidden_size=H, ffn_hidden_size=F, num_attention_heads=HEADS, group_query_attention=True, num_query_groups=KV, kv_channels=D, max_position_embeddings=64, seq_length=64,
            position_embedding_type="rope", rotary_base=10000, rotary_percent=1.0, normalization="RMSNorm", norm_epsilon=1e-5, swiglu=True, add_bias_linear=False, add_qkv_bias=False,
            untie_embeddings_and_output_weights=True, tensor_model_parallel_size=RANKS, pipeline_model_parallel_size=1, make_vocab_size_divisible_by=128, padded_vocab_size=256, fp16=False, bf16=False,
            consumed_train_samples=28, global_batch_size=4, seed=1234, train_iters=20, ckpt_format="torch_dist")
SCHEDULER = {"max_lr": 1e-3, "lr_warmup_steps": 0, "num_steps": 28, "lr_decay_style": "constant", "lr_decay_steps": 80, "min_lr": 0.0, "start_wd": 0.1, "end_wd": 0.1, "wd_incr_style": "constant", "wd_incr_steps": 80}


def save(rank, folder):
    os.chdir(folder)  # the files keep the name of their folder
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29519")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    shards = lambda tensors: {name: distribute_tensor(t.contiguous(), mesh, [Replicate() if dim is None else Shard(dim)]) for name, (t, dim) in tensors.items()}
    w = weights()
    first, second = moments(w)
    zeros = lambda t: torch.cat([t, torch.zeros(256 - V, H)])
    state = shards(stacked(w, lambda t: pad(t, RANKS)))
    for name, of in (("exp_avg", first), ("exp_avg_sq", second)):
        state |= {f"optimizer.state.{name}.{k}": v for k, v in shards(stacked(of, zeros)).items()}
    place = "torch_dist/iter_0000007"
    dcp.save(state, checkpoint_id=place)
    if rank == 0:
        group = {"wd_mult": 1.0, "lr_mult": 1.0, "lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, "step": 7, "params": []}
        torch.save({"args": Namespace(**ARGS), "checkpoint_version": 3.0, "iteration": 7, "opt_param_scheduler": SCHEDULER, "optimizer": {"optimizer": {"param_groups": [group]}}}, place + "/common.pt")
        with open(place + "/metadata.json", "w") as f:
            json.dump({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}, f)
        with open("torch_dist/latest_checkpointed_iteration.txt", "w") as f:
            f.write("7")
    dcp.save({"model": shards({k: (v.bfloat16(), 0) for k, v in w.items()})}, checkpoint_id="fsdp/pytorch_model_fsdp_0")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    out = p.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(save, args=(folder,), nprocs=RANKS)
        for name in ("torch_dist", "fsdp"):
            shutil.rmtree(f"{out}/{name}", ignore_errors=True)
            shutil.copytree(f"{folder}/{name}", f"{out}/{name}")
