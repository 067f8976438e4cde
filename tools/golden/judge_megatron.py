"""megatron-core itself goes on from our checkpoints, and we go on from its: the next losses are those of the run that never stopped.

    python3 tools/golden/judge_megatron.py BUILD/ravine

Judged, 6 steps of AdamW of which 3 come after the checkpoint, a Llama of odd sizes with its local layers: 1 our whole run and its; 2 it goes on from our step 3, as
`ravine convert --to megatron-mcore --optimizer` writes it, with its plain optimizer and its DistributedOptimizer; 3 we go on from its step 3, by `ravine convert --to ravine`. On 1 rank, 2 tensor ranks,
2 data ranks and 2 stages, in f32, and on 1 and 2 data ranks in bf16; it goes on from the folder that a run of ours on these ranks left by itself (checkpoint.layout=megatron), and `ravine megatron --load DIR --save DIR` goes on
in place in the folder that it left. Controls: without the moments the losses must be beyond the bound. 4 files: what it saves again behind our step 3, without a step between, is
what we wrote. The form of 2023 is held against its description alone, since that Megatron needs Apex and GPUs. 5 models with
experts and latents: names, their order, and logits against Transformers' (its attention over latents is written out here, since that of its local layers takes no values of another width than keys).
What runs is megatron-core 0.16 of PyPI: GPTModel, DistributedDataParallel, get_megatron_optimizer, its load_state_dict and load_parameter_state. It has no program of its own, so that the calls around them (those of
load_checkpoint in megatron/training/checkpointing.py) are here. It wants GPUs: its tensors are asked for on "cuda", its DistributedOptimizer asks tensors whether they are torch.cuda.FloatTensor. Here OnCpu below
answers so on the CPU; no arithmetic of it is changed. Without Apex its load_parameter_state asks the file for 'step' too, which its save_parameter_state never writes, and in f32 it copies into parameters outside of
no_grad; its load_state_dict gives all parameters one tensor that counts their steps, so that each counts for all. with_step, a no_grad and clones below go around these three faults of it. Needs megatron-core, torch, transformers, safetensors. Exit status 1: a row is beyond.

Bounds, with u = 2^-24, the rounding unit of float32, relative to the loss:
  whole runs, theirs against ours      16 u, as in judge_deepspeed.py. going on: 16 u as well, since the states are equal bit for bit.
  bf16                                 0.1 of 2^-8, its rounding unit: 4e-4, as there.
  all else                             0. It counts tensors that differ."""
import contextlib, glob, json, os, shutil, socket, subprocess, sys, tempfile

os.environ.update(CUDA_DEVICE_MAX_CONNECTIONS="1", TORCH_COMPILE_DISABLE="1", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
U, STEPS, SAVED, LR, COLUMNS, BATCH = 2.0**-24, 6, 3, 2e-3, 33, 4
BETAS, EPS, DECAY = (0.9, 0.95), 1e-8, 0.05

if len(sys.argv) < 2:
    sys.exit(__doc__)
if sys.argv[1] == "--train":  # RANK WORLD PORT JOBS: {"jobs": [..], "rows": .., "result": .., "tensor": .., "pipeline": ..}
    rank, world = int(sys.argv[2]), int(sys.argv[3])
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[4])
    import torch
    import torch.distributed as dist
    from torch.overrides import TorchFunctionMode
    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None

    class OnCpu(TorchFunctionMode):
        """What is asked for on a GPU is on the CPU, and says that it is on a GPU where its type is asked for."""
        def __torch_function__(self, function, types, args=(), words=None):
            words = dict(words or {})
            if str(words.get("device", "")).startswith("cuda"):
                words["device"] = "cpu"
            if function is torch.Tensor.cuda:
                return args[0]
            out = function(*args, **words)
            return out.replace("torch.", "torch.cuda.") if function is torch.Tensor.type and isinstance(out, str) else out

    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.transformer.module import Float16Module
    from megatron.core.transformer.transformer_config import TransformerConfig
    from safetensors.torch import load_file
    spec = json.load(open(sys.argv[5]))
    OnCpu().__enter__()
    dist.init_process_group("gloo", rank=rank, world_size=world)
    tensor, pipeline = spec["tensor"], spec["pipeline"]
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline)
    type(tensor_parallel.random.get_cuda_rng_tracker()).fork = lambda *_: contextlib.nullcontext()  # of dropout, which is off
    data, at = parallel_state.get_data_parallel_world_size(), parallel_state.get_data_parallel_rank()
    t, p = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank()
    folder = f"mp_rank_{t:02d}" + (f"_{p:03d}" if pipeline > 1 else "")
    rows, out = load_file(spec["rows"])["input_ids"].long(), []

    def run(job):
        file = lambda where, name: f"{where}/{folder}/{name}"
        state = torch.load(file(job["load"], "model_optim_rng.pt"), weights_only=False)
        a, bf16 = state["args"], job.get("bf16", False)
        kind = torch.bfloat16 if bf16 else torch.float32
        config = TransformerConfig(
            num_layers=a.num_layers, hidden_size=a.hidden_size, ffn_hidden_size=a.ffn_hidden_size, num_attention_heads=a.num_attention_heads, num_query_groups=a.num_query_groups, kv_channels=a.kv_channels,
            add_bias_linear=False, gated_linear_unit=True, activation_func=torch.nn.functional.silu, normalization="RMSNorm", layernorm_epsilon=a.norm_epsilon, hidden_dropout=0.0, attention_dropout=0.0,
            use_cpu_initialization=True, bias_activation_fusion=False, apply_rope_fusion=False, tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline, params_dtype=kind, pipeline_dtype=kind,
            bf16=bf16, gradient_accumulation_fusion=False, masked_softmax_fusion=False)
        model = GPTModel(config, get_gpt_layer_local_spec(normalization="RMSNorm"), vocab_size=a.padded_vocab_size, max_sequence_length=a.max_position_embeddings, position_embedding_type="rope", rotary_base=a.rotary_base,
                         share_embeddings_and_output_weights=not a.untie_embeddings_and_output_weights, pre_process=p == 0, post_process=p == pipeline - 1)
        names = [n for n, _ in model.named_parameters()]
        assert [k for k in state["model"] if k in set(names)] == names, "parameters lie in another order than the modules'"
        inner = Float16Module(config, model) if bf16 else model
        ddp = DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=job["distributed"], overlap_grad_reduce=False), inner)
        config.finalize_model_grads_func = finalize_model_grads
        optimizer = get_megatron_optimizer(OptimizerConfig(
            optimizer="adam", lr=LR, min_lr=0.0, weight_decay=DECAY, adam_beta1=BETAS[0], adam_beta2=BETAS[1], adam_eps=EPS, clip_grad=1.0, bf16=bf16, params_dtype=kind, use_distributed_optimizer=job["distributed"]), [ddp])
        scheduler = OptimizerParamScheduler(optimizer, init_lr=0.0, max_lr=LR, min_lr=0.0, lr_warmup_steps=0, lr_decay_steps=STEPS * BATCH, lr_decay_style="linear", start_wd=DECAY, end_wd=DECAY,
                                            wd_incr_steps=STEPS * BATCH, wd_incr_style="constant")
        model.load_state_dict(state["model"], strict=True)
        first = state["iteration"]
        if first:
            optimizer.load_state_dict(state["optimizer"])
            if job["distributed"]:
                one = optimizer.chained_optimizers[0] if hasattr(optimizer, "chained_optimizers") else optimizer
                set_states = one._set_main_param_and_optimizer_states

                def with_step(param, tensors):
                    group, order = one.model_param_group_index_map[param]
                    return set_states(param, {"step": one.optimizer.state[one.optimizer.param_groups[group]["params"][order]]["step"].clone(), **tensors})
                one._set_main_param_and_optimizer_states = with_step
                with torch.no_grad():
                    optimizer.load_parameter_state(file(job["load"], "distrib_optim.pt"))
                counts = [s["step"] for s in one.optimizer.state.values()]
                assert len({id(x) for x in counts}) == 1, "they are counted apart: leave this out"
                for own in one.optimizer.state.values():
                    own["step"] = own["step"].clone()
            scheduler.load_state_dict(state["opt_param_scheduler"])  # its numbers must be those of the flags
        else:
            optimizer.reload_model_params()

        def save(where, step):
            if at == 0:
                os.makedirs(f"{where}/{folder}", exist_ok=True)
                a.iteration, a.consumed_train_samples, a.global_batch_size, a.data_parallel_size = step, step * BATCH, BATCH, data
                torch.save({"args": a, "checkpoint_version": 3.0, "iteration": step, "model": model.state_dict_for_save_checkpoint(), "optimizer": optimizer.state_dict(),
                            "opt_param_scheduler": scheduler.state_dict()}, file(where, "model_optim_rng.pt"))
                open(f"{where}/../latest_checkpointed_iteration.txt", "w").write(str(step))
            if job["distributed"]:
                os.makedirs(f"{where}/{folder}", exist_ok=True)
                optimizer.save_parameter_state(file(where, "distrib_optim.pt"))
        if job.get("again"):
            save(job["again"], first)
        each = BATCH // data
        positions, mask = torch.arange(COLUMNS - 1).expand(each, -1), torch.triu(torch.ones(1, 1, COLUMNS - 1, COLUMNS - 1, dtype=torch.bool), 1)
        step_of = get_forward_backward_func()

        def forward(batches, chunk):
            ids = next(batches)
            result = chunk(ids[:, :-1].contiguous(), positions, mask, labels=ids[:, 1:].contiguous())
            return result, lambda x: (x.float().mean(), {"loss": x.float().mean().detach()})
        losses = {}
        for k in range(first, STEPS):
            ddp.zero_grad_buffer()
            optimizer.zero_grad()
            said = step_of(forward_step_func=forward, data_iterator=iter([rows[k * BATCH + at * each:][:each]]), model=[ddp], num_microbatches=1, seq_length=COLUMNS - 1, micro_batch_size=each, forward_only=False)
            done, _, _ = optimizer.step()
            assert done
            scheduler.step(increment=BATCH)
            whole = torch.stack([x["loss"] for x in said]).sum().reshape(1) if said else torch.zeros(1)
            dist.all_reduce(whole)
            losses[k + 1] = whole.item() / data / tensor
            if job.get("save") and k + 1 == SAVED:
                save(job["save"], SAVED)
        return losses
    for job in spec["jobs"]:
        try:
            out.append(run(job))
        except Exception as e:
            import traceback
            traceback.print_exc()
            out.append(f"{type(e).__name__}: {str(e)[:300]}")
        if rank == 0:
            json.dump(out, open(spec["result"], "w"))
    dist.barrier()
    sys.exit()

if sys.argv[1] == "--experts":  # PORT RAVINE FOLDER RESULT: models with experts and latents, by name and by logits
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
    import torch
    from torch.overrides import TorchFunctionMode

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), words=None):
            words = dict(words or {})
            if str(words.get("device", "")).startswith("cuda"):
                words["device"] = "cpu"
            if function is torch.Tensor.to:
                args = tuple("cpu" if isinstance(x, (str, torch.device)) and str(x).startswith("cuda") else x for x in args)
            return args[0] if function is torch.Tensor.cuda else function(*args, **words)

    class Still:
        """A stream or an event, of which a CPU has none."""
        def __init__(self, *_, **__):
            pass

        def __getattr__(self, name):
            return lambda *_, **__: Still()

    class Attention(torch.nn.Module):
        """In the place of the local DotProductAttention, which takes no values of another width than keys."""
        def __init__(self, softmax_scale=None, **_):
            super().__init__()
            self.scale = softmax_scale

        def forward(self, q, k, v, mask, **_):
            scores = torch.einsum("qbhd,kbhd->bhqk", q, k) * (self.scale or q.shape[-1] ** -0.5)
            return torch.einsum("bhqk,kbhd->qbhd", scores.masked_fill(mask, float("-inf")).softmax(-1), v).flatten(2)
    OnCpu().__enter__()
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.Stream = torch.cuda.Event = Still
    torch.cuda.current_stream = torch.cuda.synchronize = lambda *_: Still()
    torch.cuda.stream = lambda *_: contextlib.nullcontext()
    import megatron.core.transformer.moe.moe_utils as moe_utils
    import megatron.core.transformer.multi_latent_attention as latent_attention
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
    from transformers import (DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)
    latent_attention.HAVE_TE = False  # it takes its stand-ins for Transformer Engine, which is not there, for classes
    moe_utils.te_general_gemm = getattr(moe_utils, "te_general_gemm", None)
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    type(tensor_parallel.random.get_cuda_rng_tracker()).fork = lambda *_: contextlib.nullcontext()
    torch.manual_seed(3)
    shape = dict(vocab_size=256, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64, tie_word_embeddings=False)
    latent = dict(kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=10, n_routed_experts=8, n_shared_experts=2, first_k_dense_replace=1, moe_intermediate_size=24, n_group=4, topk_group=2, num_key_value_heads=4)
    # Megatron scores a group by its top_k / topk_group best experts, V2 by the best one and V3 by the best two.
    models = {"Mixtral": MixtralForCausalLM(MixtralConfig(**shape, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)),
              "Qwen3-MoE": Qwen3MoeForCausalLM(Qwen3MoeConfig(**shape, num_key_value_heads=2, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True)),
              "DeepSeek-V2": DeepseekV2ForCausalLM(DeepseekV2Config(**shape, **latent, q_lora_rank=20, num_experts_per_tok=3, topk_method="group_limited_greedy", norm_topk_prob=False)),
              "DeepSeek-V2-Lite": DeepseekV2ForCausalLM(DeepseekV2Config(**shape, **{**latent, "n_group": 1, "topk_group": 1}, q_lora_rank=None, num_experts_per_tok=3, topk_method="greedy", norm_topk_prob=False)),
              "DeepSeek-V3": DeepseekV3ForCausalLM(DeepseekV3Config(**shape, **latent, q_lora_rank=20, num_experts_per_tok=4, routed_scaling_factor=2.5))}
    out = {}
    for name, reference in models.items():
        reference.eval()
        with torch.no_grad():
            for key, buffer in [*reference.named_buffers(), *reference.named_parameters()]:
                if key.endswith("correction_bias"):
                    buffer.copy_(torch.randn_like(buffer) * 0.1)
        where = f"{sys.argv[4]}/{name}"
        reference.save_pretrained(where)
        subprocess.run([sys.argv[3], "convert", "--input", where, "--output", where + "-m", "--to", "megatron-mcore", "--experts", "sequential"], check=True, capture_output=True)
        state = torch.load(where + "-m/release/mp_rank_00/model_optim_rng.pt", weights_only=False)
        a, said = state["args"], lambda key: getattr(state["args"], key, None)
        experts = [int(any(k.startswith(f"decoder.layers.{i}.mlp.router") for k in state["model"])) for i in range(a.num_layers)]
        more = {key: said(key) for key in ("moe_router_topk", "moe_ffn_hidden_size", "moe_router_pre_softmax", "moe_router_score_function", "moe_router_enable_expert_bias", "moe_router_topk_scaling_factor",
                                           "moe_router_num_groups", "moe_router_group_topk", "moe_shared_expert_intermediate_size", "qk_layernorm")}
        kind = TransformerConfig
        if a.multi_latent_attention:
            kind = MLATransformerConfig
            more.update({key: said(key) for key in ("multi_latent_attention", "q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim", "rotary_base")}, rope_type="rope", rotary_percent=1.0)
        else:
            more.update(num_query_groups=a.num_query_groups, kv_channels=a.kv_channels)
        config = kind(num_layers=a.num_layers, hidden_size=a.hidden_size, ffn_hidden_size=a.ffn_hidden_size, num_attention_heads=a.num_attention_heads, gated_linear_unit=True, activation_func=torch.nn.functional.silu,
                      normalization="RMSNorm", layernorm_epsilon=a.norm_epsilon, hidden_dropout=0.0, attention_dropout=0.0, use_cpu_initialization=True, perform_initialization=False, bias_activation_fusion=False,
                      apply_rope_fusion=False, masked_softmax_fusion=False, gradient_accumulation_fusion=False, add_bias_linear=False, num_moe_experts=a.num_experts, moe_layer_freq=experts, moe_token_dispatcher_type="alltoall",
                      moe_router_load_balancing_type="none", moe_grouped_gemm=False, **more)
        block = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization="RMSNorm")
        for layer in block.layer_specs if a.multi_latent_attention else []:
            layer.submodules.self_attention.submodules.core_attention = Attention
        model = GPTModel(config, block, vocab_size=a.padded_vocab_size, max_sequence_length=64, position_embedding_type="rope", rotary_base=a.rotary_base, share_embeddings_and_output_weights=False).eval()
        keys = [k for k in model.state_dict() if not k.endswith("_extra_state")]
        bad = len(set(keys) ^ set(state["model"])) or sum(x != y for x, y in zip(keys, state["model"]))
        model.load_state_dict(state["model"], strict=False)
        ids, mask = torch.randint(0, 256, (2, 24), generator=torch.Generator().manual_seed(1)), torch.triu(torch.ones(1, 1, 24, 24, dtype=torch.bool), 1)
        with torch.no_grad():
            got, want = model(ids, torch.arange(24).expand(2, -1), mask)[..., :256], reference(ids).logits
        out[name] = [bad, len(keys), ((got - want).abs().max() / want.abs().max()).item()]
        json.dump(out, open(sys.argv[5], "w"))
    sys.exit()

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

ravine = os.path.abspath(sys.argv[1])
room, beyond = tempfile.TemporaryDirectory(), 0
work = room.name
torch.manual_seed(5)
# Sizes of which few are multiples of 64; a vocabulary that no tensor rank pads, since Megatron's loss counts padding.
LlamaForCausalLM(LlamaConfig(vocab_size=256, hidden_size=40, intermediate_size=88, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5,
                             tie_word_embeddings=False)).save_pretrained(work + "/model")
MODEL = work + "/model"
rng = np.random.default_rng(7)
start, hop = rng.integers(0, 256, (STEPS * BATCH, 1)), rng.integers(1, 4, (STEPS * BATCH, 1))  # something to learn: numbers that count up
save_file({"input_ids": ((start + hop * np.arange(COLUMNS)) % 256).astype("i4")}, work + "/rows.safetensors")


def row(what, measured, bound, unit="", control=False):
    global beyond
    good = bound < measured < float("inf") if control else measured <= bound
    beyond += not good
    print(f"{'ok' if good else 'BEYOND':7}{what:112}{measured:>12.4g}{'  >' if control else ' <='}{bound:>10.4g} {unit}".rstrip(), flush=True)


def said(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        print(f"       exit {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-400:].replace(work + '/', '')}")
    return done.stdout if done.returncode == 0 else None


def theirs(world, tensor, pipeline, jobs):
    """Losses by step of each job, or what went wrong."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    spec = tempfile.mktemp(dir=work)
    json.dump({"jobs": jobs, "rows": work + "/rows.safetensors", "result": spec + ".out", "tensor": tensor, "pipeline": pipeline}, open(spec, "w"))
    all = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--train", str(r), str(world), port, spec], stdout=subprocess.DEVNULL, stderr=open(f"{spec}.{r}", "w")) for r in range(world)]
    for p in all:
        try:
            p.wait(timeout=400)
        except subprocess.TimeoutExpired:
            p.kill()
    out = json.load(open(spec + ".out")) if os.path.exists(spec + ".out") else []
    if len(out) < len(jobs) or any(isinstance(x, str) for x in out):
        print("       " + open(spec + ".0").read()[-1500:])
    out = [{int(k): v for k, v in x.items()} if isinstance(x, dict) else print("       " + x) for x in out]
    return out + [None] * (len(jobs) - len(out))


def launched(ranks):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--oversubscribe", *root, "-n", ranks, ravine] if ranks > 1 else [ravine]


def losses_in(folder):
    return {x["step"]: x["loss"] for x in map(json.loads, open(folder + "/metrics.jsonl")) if "loss" in x}


def ours(folder, ranks=1, **more):
    values = {"model.path": MODEL, "data.train": [work + "/rows.safetensors"], "data.sequence_length": COLUMNS, "train.steps": STEPS, "train.global_batch": BATCH, "train.micro_batch": 2, "train.threads": 1,
              "precision.compute": "f32", "optimizer.type": "adamw", "optimizer.lr": LR, "optimizer.betas": list(BETAS), "optimizer.eps": [EPS], "optimizer.weight_decay": DECAY, "optimizer.decay": "matrices",
              "optimizer.clip_norm": 1, "schedule.type": "OptimizerParamScheduler", "schedule.lr_decay_style": "linear", "schedule.lr_warmup_steps": 0, "checkpoint.every": SAVED, "log.tensorboard": False,
              "train.output": folder, **more}
    if said(*launched(ranks), "train", *(f"{k}={json.dumps(v) if not isinstance(v, str) else v}" for k, v in values.items() if v is not None)) is None:
        return None
    return losses_in(folder)


def in_place(folder, world, tensor, pipeline, distributed):
    """The config that `ravine megatron` makes of the flags of the job, which goes on in its folder."""
    flags = {"num-layers": 4, "hidden-size": 40, "ffn-hidden-size": 88, "num-attention-heads": 4, "group-query-attention": None, "num-query-groups": 2, "seq-length": COLUMNS - 1, "max-position-embeddings": 64,
             "position-embedding-type": "rope", "normalization": "RMSNorm", "norm-epsilon": 1e-5, "swiglu": None, "disable-bias-linear": None, "untie-embeddings-and-output-weights": None, "vocab-size": 256,
             "attention-dropout": 0, "hidden-dropout": 0, "padded-vocab-size": 256, "tokenizer-type": "NullTokenizer", "micro-batch-size": 2, "global-batch-size": BATCH, "train-iters": STEPS, "lr": LR, "lr-decay-style": "linear",
             "weight-decay": DECAY, "adam-beta1": BETAS[0], "adam-beta2": BETAS[1], "adam-eps": EPS, "clip-grad": 1.0, "data-path": "none", "split": "1,0,0", "log-interval": 1, "save-interval": SAVED, "load": folder,
             "save": folder, "tensor-model-parallel-size": tensor, "pipeline-model-parallel-size": pipeline, **({"use-distributed-optimizer": None} if distributed else {})}
    words = [w for key, v in flags.items() for w in (f"--{key}", v)[: 1 if v is None else 2]]
    printed = said(ravine, "megatron", *words, "--ranks", world, "--print-config")
    # Rows of fixed batches, which no prefix of an index holds and no split divides.
    data = [f'data.train=["{work}/rows.safetensors"]', "data.order=philox", f"data.sequence_length={COLUMNS}", "train.threads=1"]
    open(folder + ".yaml", "w").write("".join(line + "\n" for line in (printed or "").splitlines() if not line.startswith("  split: ")))
    return None if said(*launched(world), "train", "--config", folder + ".yaml", *data) is None else losses_in(folder)


def losses(what, a, b, steps, bound=16, unit=U, control=False):
    far = [abs(a[i] - b[i]) / abs(b[i]) / unit if a and b and i in a and i in b else float("inf") for i in steps]
    row(f"{what}: loss, steps {steps[0]}-{steps[-1]}", max(far), bound, "u" if unit == U else "u of bf16", control)


def each_tensor(x, name=""):
    if torch.is_tensor(x):
        yield name, x
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, (list, tuple)) else ():
        yield from each_tensor(v, f"{name}/{k}")


def changed(folder, change):
    """A copy in which `change` was called with each file's content and name."""
    to = folder + "-" + change.__name__
    shutil.copytree(folder, to)
    for file in glob.glob(to + "/iter_*/*/*.pt"):
        x = torch.load(file, weights_only=False)
        torch.save(change(x, os.path.basename(file)) or x, file)
    return to


def lost(x, file):
    for name, value in each_tensor(x):
        if name.endswith(("exp_avg", "exp_avg_sq")):
            value.zero_()


def different(a, b):
    """Tensors of two folders of ranks that are not the same."""
    bad = count = 0
    for file in sorted(glob.glob(a + "/*/*.pt")):
        x, y = (dict(each_tensor(torch.load(f, weights_only=False))) if os.path.exists(f) else {} for f in (file, b + file[len(a):]))
        names = {k for k in x.keys() | y.keys() if not k.endswith("_extra_state")}
        bad += sum(k not in x or k not in y or not torch.equal(x[k], y[k]) for k in names)
        count += len(names)
    return bad, count


WHOLE, AFTER, ITER = range(1, STEPS + 1), range(SAVED + 1, STEPS + 1), f"/iter_{SAVED:07}"
import megatron.core, transformers
print(f"megatron-core {megatron.core.__version__}, torch {torch.__version__}, transformers {transformers.__version__}, CPU; {said(ravine, '--version').strip()}")
base, bf16 = ours(work + "/ours"), ours(work + "/ours_bf16", **{"precision.compute": "bf16"})
STEP = f"/checkpoints/step_{SAVED:06}"
for tensor, pipeline, data in ((1, 1, 1), (2, 1, 1), (1, 1, 2), (1, 2, 1)):
    world = tensor * pipeline * data
    print(f"\n{tensor} tensor x {pipeline} pipeline x {data} data {'rank' if world == 1 else 'ranks'}")
    tag = f"{tensor}{pipeline}{data}"
    begin = f"{work}/begin_{tag}"
    ranks = ("--tensor", tensor, "--pipeline", pipeline)
    said(ravine, "convert", "--input", MODEL, "--output", begin, "--to", "megatron-mcore", "--dtype", "f32", *ranks)
    jobs, what = [], []
    def add(name, **job):
        jobs.append(job), what.append(name)
    for distributed in (False, True):
        more = ("--distributed-optimizer", "--ranks", data) if distributed else ()
        to = f"{work}/to_{tag}_{distributed}"
        said(ravine, "convert", "--input", work + "/ours" + STEP, "--output", to, "--to", "megatron-mcore", "--optimizer", *ranks, *more)
        add(("whole", distributed), load=begin + "/release", distributed=distributed, save=f"{work}/theirs_{tag}_{distributed}{ITER}")
        add(("on", distributed), load=to + ITER, distributed=distributed, again=f"{work}/again_{tag}_{distributed}{ITER}")
        add(("lost", distributed), load=changed(to, lost) + ITER, distributed=distributed)
        run = f"{work}/run_{tag}_{distributed}"
        ours(run, world, **{"checkpoint.layout": "megatron", "parallel.tensor": tensor, "parallel.pipeline": pipeline, "parallel.zero": int(distributed)})
        add(("run", distributed), load=run + ITER, distributed=distributed, again=f"{work}/again_run_{tag}_{distributed}{ITER}")
        if tensor * pipeline == 1:
            to = f"{work}/bf16_{tag}_{distributed}"
            said(ravine, "convert", "--input", work + "/ours_bf16" + STEP, "--output", to, "--to", "megatron-mcore", "--optimizer", *ranks, *more)
            add(("bf16", distributed), load=to + ITER, distributed=distributed, bf16=True, again=f"{work}/again_bf16_{tag}_{distributed}{ITER}")
            add(("bf16 lost", distributed), load=changed(to, lost) + ITER, distributed=distributed, bf16=True)
    done = dict(zip(what, theirs(world, tensor, pipeline, jobs)))
    for distributed in (False, True):
        name = "DistributedOptimizer" if distributed else "plain optimizer"
        losses(f"{name}: megatron-core's whole run against ours", done["whole", distributed], base, WHOLE)
        losses(f"{name}: megatron-core from our step {SAVED} against our whole run", done["on", distributed], base, AFTER)
        losses(f"{name}, control: with moments 0", done["lost", distributed], base, AFTER, control=True)
        losses(f"{name}: megatron-core from step {SAVED} of the folder of a run against our whole run", done["run", distributed], base, AFTER)
        bad, count = different(f"{work}/run_{tag}_{distributed}{ITER}", f"{work}/again_run_{tag}_{distributed}{ITER}")
        row(f"{name}: tensors that megatron-core saves of the run's step {SAVED} that are not as it wrote them", bad if count else float("inf"), 0, f"of {count}")
        bad, count = different(f"{work}/to_{tag}_{distributed}{ITER}", f"{work}/again_{tag}_{distributed}{ITER}")
        row(f"{name}: tensors that megatron-core saves of our step {SAVED} that are not as we wrote them", bad if count else float("inf"), 0, f"of {count}")
        if tensor * pipeline == 1:
            losses(f"{name}, bf16: megatron-core from our step {SAVED} against our whole run", done["bf16", distributed], bf16, AFTER, 0.1, 2.0**-8)
            losses(f"{name}, bf16, control: with moments 0", done["bf16 lost", distributed], bf16, AFTER, 0.1, 2.0**-8, control=True)
            bad, count = different(f"{work}/bf16_{tag}_{distributed}{ITER}", f"{work}/again_bf16_{tag}_{distributed}{ITER}")
            row(f"{name}, bf16: tensors that megatron-core saves of our step {SAVED} that are not as we wrote them", bad if count else float("inf"), 0, f"of {count}")
        saved, back = f"{work}/theirs_{tag}_{distributed}", f"{work}/back_{tag}_{distributed}"
        shutil.copytree(saved, saved + "-on")
        losses(f"{name}: ours in place, --load of megatron-core's folder, against its whole run", in_place(saved + "-on", world, tensor, pipeline, distributed), done["whole", distributed], AFTER)
        said(ravine, "convert", "--input", saved, "--output", back, "--to", "ravine", "--optimizer", "--model-config", MODEL + "/config.json")
        losses(f"{name}: ours from megatron-core's step {SAVED} against its whole run", ours(back, **{"model.path": None, "model.config": back + "/config.json"}), done["whole", distributed], AFTER)
print("\ndistrib_optim.pt of Megatron of 2023, by its description alone: from the last parameter to the first, padded to a multiple of 3 data ranks")
to = work + "/legacy"
said(ravine, "convert", "--input", work + "/ours" + STEP, "--output", to, "--to", "megatron-legacy", "--optimizer", "--distributed-optimizer", "--ranks", 3)
rank = glob.glob(to + ITER + "/mp_rank_00")[0]
model = [x.reshape(-1) for _, x in each_tensor(torch.load(rank + "/model_optim_rng.pt", weights_only=False)["model"])]
flat, state = torch.cat(model[::-1]), torch.load(rank + "/distrib_optim.pt", weights_only=False)
size = -(-len(flat) // 3) * 3
row("masters that are not the weights, and sizes that are not theirs", (state[0][torch.float32]["param"][0] != torch.nn.functional.pad(flat, (0, size - len(flat)))).sum().item() + (state["per_bucket_numel"] != [{torch.float32: [size]}]), 0, f"of {size}")
print("\nmodels with experts and latents, 1 rank")
with socket.socket() as held:
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
said(sys.executable, os.path.abspath(__file__), "--experts", port, ravine, work, work + "/experts.json")
found = json.load(open(work + "/experts.json")) if os.path.exists(work + "/experts.json") else {}
for name in ("Mixtral", "Qwen3-MoE", "DeepSeek-V2", "DeepSeek-V2-Lite", "DeepSeek-V3"):
    bad, count, far = found.get(name, (float("inf"), 0, float("inf")))
    row(f"{name}: names that are not those of megatron-core's modules, or lie in another order", bad, 0, f"of {count}")
    row(f"{name}: megatron-core's logits against Transformers', relative to the largest", far / U, 16, "u")
print(f"\n{beyond} beyond")
sys.exit(beyond > 0)
