"""`ravine check config`: each row of the precision checklist is red on a planted mismatch and silent on clean pairs. One training is written in five ways: Ravine's YAML,
Megatron's flags, a MindFormers YAML, TrainingArguments with a model folder, and the same with a DeepSpeed config."""
import json
import re

import ravine_run as r
from ravine_run import check

MODEL = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
         "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "initializer_range": 0.02, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
MEGATRON = {"--num-layers": 2, "--hidden-size": 64, "--ffn-hidden-size": 128, "--num-attention-heads": 4, "--group-query-attention": "", "--num-query-groups": 2, "--seq-length": 32,
            "--max-position-embeddings": 32, "--position-embedding-type": "rope", "--rotary-base": 10000, "--normalization": "RMSNorm", "--norm-epsilon": "1e-5", "--swiglu": "", "--disable-bias-linear": "",
            "--untie-embeddings-and-output-weights": "", "--attention-dropout": 0, "--hidden-dropout": 0, "--tokenizer-type": "NullTokenizer", "--vocab-size": 255, "--make-vocab-size-divisible-by": 8,
            "--micro-batch-size": 4, "--global-batch-size": 4, "--train-iters": 20, "--lr": "1e-3", "--min-lr": 0, "--lr-decay-style": "cosine", "--lr-warmup-iters": 2, "--lr-decay-iters": 20,
            "--weight-decay": 0.1, "--adam-beta1": 0.9, "--adam-beta2": 0.95, "--adam-eps": "1e-8", "--clip-grad": 1.0, "--seed": 42, "--init-method-std": 0.02, "--use-flash-attn": "",
            "--data-path": "data/books", "--split": "100,0,0", "--log-interval": 1}
MINDFORMERS = """seed: 42
run_mode: train
use_parallel: False
trainer: {type: CausalLanguageModelingTrainer, model_name: llama_small}
runner_config: {epochs: 1, batch_size: 4, sink_mode: False}
runner_wrapper: {type: MFTrainOneStepCell, scale_sense: 1.0, use_clip_grad: True, max_grad_norm: 1.0}
optimizer: {type: AdamW, betas: [0.9, 0.95], eps: 1.e-8, weight_decay: 0.1}
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-3, lr_end: 0.0, warmup_steps: 2, total_steps: 20}
train_dataset: &train_dataset
  data_loader: {type: MindDataset, dataset_dir: data/books.mindrecord, shuffle: True}
  input_columns: [input_ids]
  batch_size: 4
train_dataset_task: {type: CausalLanguageModelDataset, dataset_config: *train_dataset}
context: {mode: 0, device_target: Ascend}
parallel: {parallel_mode: 1, enable_parallel_optimizer: False}
parallel_config: {data_parallel: 1, model_parallel: 1, pipeline_stage: 1}
model:
  arch: {type: LlamaForCausalLM}
  model_config:
    type: LlamaConfig
    seq_length: 32
    hidden_size: 64
    num_layers: 2
    num_heads: 4
    n_kv_heads: 2
    vocab_size: 256
    intermediate_size: 128
    rms_norm_eps: 1.0e-5
    theta: 10000.0
    initializer_range: 0.02
    bos_token_id: 1
    eos_token_id: 2
    compute_dtype: float32
    param_init_type: float32
    use_flash_attention: True
    use_fused_rope: True
    use_fused_swiglu: True
"""
ARGUMENTS = {"output_dir": "out", "do_train": True, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "learning_rate": 1e-3, "lr_scheduler_type": "cosine", "warmup_steps": 2, "max_steps": 20,
             "adam_beta1": 0.9, "adam_beta2": 0.95, "adam_epsilon": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0, "seed": 42, "block_size": 32, "train_file": "data/books.jsonl"}
DEEPSPEED = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "zero_optimization": {"stage": 1}}
RAVINE = """model:
  config: config.json
data:
  train: [data/books.jsonl]
  sequence_length: 32
train: {steps: 20, global_batch: 4, micro_batch: 4, seed: 42, loss_average: micro}
optimizer: {lr: 0.001, betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.1, clip_norm: 1.0}
schedule: {type: cosine, warmup_steps: 2, min_lr_ratio: 0}
"""
ROWS = {}  # names of all rows by group, filled by the first answer


def megatron(folder, name="line.txt", **changes):
    """Flags in a file; a value None leaves a flag out. `_` in a keyword stands for `-`."""
    flags = dict(MEGATRON)
    for key, value in changes.items():
        key = "--" + key.replace("_", "-")
        if value is None:
            flags.pop(key)
        else:
            flags[key] = value
    (folder / name).write_text("\n".join(f"{k} {v}".strip() + " \\" for k, v in flags.items()))
    return folder / name


def mindformers(folder, name="run.yaml", *changes):
    text = MINDFORMERS
    for old, new in changes:
        check(old in text, old)
        text = text.replace(old, new)
    (folder / name).write_text(text)
    return folder / name


def trainer(folder, name="hf", model=None, arguments=None, deepspeed=None):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps({**MODEL, **(model or {})}))
    (folder / name / "training_args.json").write_text(json.dumps({**ARGUMENTS, **(arguments or {})}, indent=1))
    if deepspeed is not None:
        (folder / name / "ds.json").write_text(json.dumps({**DEEPSPEED, **deepspeed}, indent=1))
    return folder / name


def ravine(folder, name="own.yaml", *changes, model=None):
    text = RAVINE
    for old, new in changes:
        check(old in text, old)
        text = text.replace(old, new)
    file = folder / (name + ".config.json")
    file.write_text(json.dumps({**MODEL, **(model or {})}))
    (folder / name).write_text(text.replace("config.json", str(file)))
    return folder / name


def ask(a, b, *flags, status=None, samples=80):
    words = ["check", "config", a, b, "--samples", samples, "--json", *flags]
    done = r.subprocess.run(r.command(*words), capture_output=True, text=True) if status is None else r.run(*words, status=status)
    check(done.returncode in (0, 1), f"{words}: {done.stderr}")
    answer = json.loads(done.stdout)
    check(done.returncode == (0 if answer["agrees"] else 1), f"exit status {done.returncode}: {answer['agrees']}")
    rows = {row["row"]: row for row in answer["rows"]}
    check(len(rows) == len(answer["rows"]), "two rows have one name")
    ROWS.update({name: row["group"] for name, row in rows.items()})
    return answer, rows


def different(rows):
    return {name: (row["a"], row["b"]) for name, row in rows.items() if row["verdict"] == "different"}


def test_clean_pairs_are_silent(folder):
    sides = {"megatron": megatron(folder), "mindformers": mindformers(folder), "trainer": trainer(folder), "deepspeed": trainer(folder, "ds", deepspeed={}), "ravine": ravine(folder)}
    names = list(sides)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1:]]
    check(len(pairs) == 10, f"{pairs}")
    for a, b in pairs:
        answer, rows = ask(sides[a], sides[b])
        check(answer["agrees"] and not different(rows), f"{a}, {b}: {different(rows)}")
        told = [name for name, row in rows.items() if row["verdict"] == "equal"]
        check(len(told) > 50, f"{a}, {b}: only {len(told)} rows are told: {[n for n in rows if n not in told]}")


# Row, and the edit of a side against the clean one of the same program.
PLANTED_MEGATRON = {
    "num_layers": {"num_layers": 4}, "num_heads": {"num_attention_heads": 8}, "n_kv_heads": {"num_query_groups": 4}, "hidden_size": {"hidden_size": 128}, "intermediate_size": {"ffn_hidden_size": 256},
    "head_size": {"kv_channels": 32}, "normalization": {"normalization": "LayerNorm", "disable_bias_linear": None, "swiglu": None}, "hidden_act": {"swiglu": None, "normalization": "LayerNorm", "disable_bias_linear": None},
    "rms_norm_eps": {"norm_epsilon": "1e-6"}, "rotary_base": {"rotary_base": 500000}, "linear_bias": {"disable_bias_linear": None}, "tie_word_embeddings": {"untie_embeddings_and_output_weights": None},
    "max_position_embeddings": {"max_position_embeddings": 64}, "vocab_size": {"make_vocab_size_divisible_by": 128, "vocab_size": 256}, "attention_window": {"sliding_window": 8}, "dropout": {"hidden_dropout": 0.1}, "attention_dropout": {"attention_dropout": 0.1},
    "fused_attention": {"use_flash_attn": None}, "global_batch_size": {"global_batch_size": 8}, "seq_length": {"seq_length": 16}, "tokens_per_step": {"seq_length": 16}, "steps": {"train_iters": 30},
    "optimizer": {"optimizer": "sgd"}, "beta1": {"adam_beta1": 0.8}, "beta2": {"adam_beta2": 0.999}, "eps": {"adam_eps": "1e-6"}, "weight_decay": {"weight_decay": 0.01}, "clip_grad": {"clip_grad": 0.5},
    "lr": {"lr": "2e-3"}, "lr_first": {"lr_warmup_iters": 0}, "lr_second": {"lr_warmup_iters": 0}, "warmup": {"lr_warmup_iters": 4}, "lr_last": {"min_lr": "1e-4"}, "lr_schedule": {"lr_decay_style": "linear"},
    "parameters": {"num_layers": 4}, "init_method_std": {"init_method_std": 0.01}, "compute_dtype": {"bf16": ""}, "embedding": {"bf16": ""}, "lm_head": {"bf16": ""}, "residual_add": {"bf16": ""},
    "gradients": {"fp16": ""}, "loss_scale": {"fp16": ""}, "loss": {"fp16": "", "fp16_lm_cross_entropy": ""}, "micro_batch_size": {"micro_batch_size": 2}, "seed": {"seed": 1234}, "data": {"data_path": "data/other"},
    "attention_mask": {"reset_attention_mask": ""}, "position_ids": {"reset_position_ids": ""}, "eod_mask_loss": {"eod_mask_loss": ""},
}
EXPERTS = {"num_experts": 4, "moe_router_topk": 2, "moe_aux_loss_coeff": 0.01, "moe_expert_capacity_factor": 1.5, "moe_token_drop_policy": "position", "moe_pad_expert_input_to_capacity": ""}
PLANTED_EXPERTS = {
    "expert_num": {"num_experts": 8}, "num_experts_chosen": {"moe_router_topk": 1}, "expert_size": {"ffn_hidden_size": 256}, "capacity_factor": {"moe_expert_capacity_factor": 2.0}, "aux_loss_factor": {"moe_aux_loss_coeff": 0.02},
    "z_loss": {"moe_z_loss_coeff": 0.001}, "enable_sdrop": {"moe_token_drop_policy": "probs"},
}
PLANTED_MINDFORMERS = {
    "fused_rope": [("use_fused_rope: True", "use_fused_rope: False")], "fused_swiglu": [("use_fused_swiglu: True", "use_fused_swiglu: False")], "fused_attention": [("use_flash_attention: True", "use_flash_attention: False")],
    "bias_correction": [("type: AdamW,", "type: AdamWeightDecay,")], "param_init_type": [("param_init_type: float32", "param_init_type: bfloat16")], "embedding": [("param_init_type: float32", "param_init_type: float32\n    embedding_init_type: bfloat16")],
    "layernorm_compute_type": [("param_init_type: float32", "param_init_type: float32\n    layernorm_compute_type: bfloat16")], "rotary_dtype": [("param_init_type: float32", "param_init_type: float32\n    rotary_dtype: bfloat16")],
    "softmax_compute_type": [("use_flash_attention: True", "use_flash_attention: False\n    softmax_compute_type: float16")], "gradients": [("param_init_type: float32", "param_init_type: bfloat16")],
    "high_precision_mode": [("device_target: Ascend}", "device_target: Ascend, ascend_config: {precision_mode: must_keep_origin_dtype}}")], "graph_kernel_fusion": [("device_target: Ascend}", "device_target: Ascend, enable_graph_kernel: True}")],
    "deterministic": [("device_target: Ascend}", "device_target: Ascend, deterministic: 'ON'}")], "bos_id": [("bos_token_id: 1", "bos_token_id: 5")], "eos_id": [("eos_token_id: 2", "eos_token_id: 5")],
    "pad_id": [("bos_token_id: 1", "bos_token_id: 1\n    pad_token_id: 7")], "loss_average": [("seed: 42", "seed: 42\ncalculate_per_token_loss: True")], "data_order": [("shuffle: True", "shuffle: False")],
    "weights_from": [("seed: 42", "seed: 42\nload_checkpoint: weights/a.ckpt")], "unmodified_model": [("seed: 42", "seed: 42\nregister_path: ./mine")],
    "micro_batch_interleave_num": [("use_parallel: False", "use_parallel: True\nmicro_batch_interleave_num: 2"), ("parallel_mode: 1,", "parallel_mode: 1, full_batch: True,")],
    "model_parallel": [("use_parallel: False", "use_parallel: True"), ("parallel_mode: 1", "parallel_mode: semi_auto_parallel"), ("model_parallel: 1", "model_parallel: 2")],
    "data_parallel": [("use_parallel: False", "use_parallel: True"), ("parallel_mode: 1", "parallel_mode: semi_auto_parallel"), ("data_parallel: 1", "data_parallel: 2")],
    "pipeline_stage": [("use_parallel: False", "use_parallel: True"), ("parallel_mode: 1", "parallel_mode: semi_auto_parallel"), ("pipeline_stage: 1", "pipeline_stage: 2")],
    "use_seq_parallel": [("use_parallel: False", "use_parallel: True"), ("parallel_mode: 1", "parallel_mode: semi_auto_parallel"), ("model_parallel: 1", "model_parallel: 2, use_seq_parallel: True")],
    "enable_parallel_optimizer": [("use_parallel: False", "use_parallel: True"), ("parallel_mode: 1, enable_parallel_optimizer: False", "parallel_mode: semi_auto_parallel, enable_parallel_optimizer: True"), ("data_parallel: 1", "data_parallel: 2")],
}
PLANTED_RAVINE = {
    "decayed": [("optimizer: {", "optimizer: {decay: all, ")], "bias_add": [("schedule:", "precision: {recipes: [{op: matmul, compute: bf16}]}\nschedule:")], "fused_norm": [("schedule:", "precision: {unfused: [add_rms_norm]}\nschedule:")],
    "train_template": [("sequence_length: 32", "sequence_length: 32\n  chat_template: chatml")], "expert_parallel": [("schedule:", "parallel: {expert: 2}\nschedule:")], "parallel": [("schedule:", "parallel: {tensor: 2}\nschedule:")], "fused": [("schedule:", "precision: {unfused: [rope]}\nschedule:")],
    "recompute": [("micro_batch: 4,", "micro_batch: 4, recompute: full,")],
}


def planted(table, clean, make):
    for row, changes in r.rows(table.items(), 12, "one row is as another"):
        answer, rows = ask(clean, make(changes))
        check(not answer["agrees"] and rows[row]["verdict"] == "different", f"{row} with {changes} is {rows[row]}: {different(rows)}")
        check(rows[row]["effect"] and rows[row]["a_where"] and rows[row]["b_where"], f"{row}: {rows[row]}")


def test_mismatches_of_megatron(folder):
    planted(PLANTED_MEGATRON, megatron(folder, "clean.txt"), lambda changes: megatron(folder, "changed.txt", **changes))


def test_mismatches_of_experts(folder):
    planted(PLANTED_EXPERTS, megatron(folder, "clean.txt", **EXPERTS), lambda changes: megatron(folder, "changed.txt", **{**EXPERTS, **changes}))


def test_mismatches_of_mindformers(folder):
    planted(PLANTED_MINDFORMERS, mindformers(folder, "clean.yaml"), lambda changes: mindformers(folder, "changed.yaml", *changes))


def test_rows_that_may_differ(folder):
    """--allow takes rows and groups, several by commas."""
    a, b = ravine(folder, "a.yaml"), ravine(folder, "b.yaml", ("eps: 1.0e-8", "eps: 1.0e-6"), ("clip_norm: 1.0", "clip_norm: 0.5"))
    answer, rows = ask(a, b, "--allow", "eps,clip_grad", status=0)
    check(rows["eps"]["verdict"] == rows["clip_grad"]["verdict"] == "allowed" and rows["eps"]["a"] == "1e-08", f"{rows['eps']}")


def test_mismatches_of_ravine(folder):
    planted(PLANTED_RAVINE, ravine(folder, "clean.yaml"), lambda changes: ravine(folder, "changed.yaml", *changes))


def test_across_dialects(folder):
    """The guide's case: an embedding in bf16 and a decay on everything, between two programs; and a DeepSpeed config that overrides the arguments."""
    _, rows = ask(megatron(folder, bf16=""), mindformers(folder, "bf16.yaml", ("compute_dtype: float32", "compute_dtype: bfloat16")))
    check(rows["embedding"]["verdict"] == "different" and rows["embedding"]["a"] == "bf16" and rows["embedding"]["b"] == "f32", f"{rows['embedding']}")
    check("run.yaml" not in rows["embedding"]["b_where"] and re.search(r"bf16.yaml:\d+, model.model_config.param_init_type", rows["embedding"]["b_where"]), f"{rows['embedding']}")
    adam = {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}
    _, rows = ask(megatron(folder), trainer(folder, "all", deepspeed={"optimizer": adam}))
    found = rows["decayed"]
    check(found["verdict"] == "different" and "model.layers.*.input_layernorm.weight" in found["b"] and "ds.json" in found["b_where"], f"{found}")
    _, rows = ask(megatron(folder), trainer(folder, arguments={"lr_scheduler_type": "linear"}))
    check({"lr_schedule", "lr_last"} == set(different(rows)), f"{different(rows)}")
    check("training_args.json" in rows["lr_schedule"]["b_where"], f"{rows['lr_schedule']}")


def test_kinds_of_sides(folder):
    """A launch script, a run's folder, files joined by commas; bad ones are refused with a reason."""
    line = megatron(folder).read_text()
    (folder / "train.sh").write_text("#!/bin/bash\nexport MS_ASCEND_CHECK_OVERFLOW_MODE=SATURATION_MODE HCCL_DETERMINISTIC=true\ntorchrun --nproc_per_node 1 pretrain_gpt.py \\\n" + line.rstrip("\\ "))
    answer, rows = ask(folder / "train.sh", megatron(folder))
    check(answer["a"]["kind"] == "launch script of Megatron" and set(different(rows)) == {"overflow_mode", "deterministic"}, f"{different(rows)}")
    hf = trainer(folder)
    (folder / "loose").mkdir()
    (hf / "training_args.json").rename(folder / "loose" / "training_args.json")
    answer, rows = ask(f"{hf},{folder / 'loose' / 'training_args.json'}", megatron(folder), status=0)
    check(answer["a"]["program"] == "Transformers", f"{answer['a']}")
    for given, words in ((folder / "none.yaml", "not there"), (folder / "loose", "without a config")):
        done = r.run("check", "config", given, megatron(folder), status=2)
        check(words in done.stderr, done.stderr)


def test_allow_pictures_and_text(folder):
    a, b = megatron(folder), megatron(folder, "b.txt", seed=1, lr="2e-3", micro_batch_size=2)
    _, rows = ask(a, b, status=1)
    _, rows = ask(a, b, "--allow", "seed", "--allow", "learning rate", "--allow", "micro_batch_size", status=0)
    check(rows["seed"]["verdict"] == rows["lr"]["verdict"] == "allowed", f"{rows['seed']}")
    check("did you mean 'seed'" in r.run("check", "config", a, b, "--allow", "sed", status=2).stderr, "no name is proposed")
    done = r.run("check", "config", a, b, "--svg", folder / "rates.svg", status=1)
    check("<svg" in (folder / "rates.svg").read_text() and "line.txt" in (folder / "rates.svg").read_text(), "no picture")
    for words in ("DIFFERENT      seed (data)", "line.txt:", "--seed", "the sides DIFFER", "cannot be told tokenizer", "A 42"):
        check(words in done.stdout, f"{words}: {done.stdout}")
    both = megatron(folder, "c.txt", hidden_dropout=0.1)
    check("advice: two programs draw other masks" in r.run("check", "config", both, both).stdout, "no advice")


def test_every_row_is_planted(folder):
    """No row is without a planted mismatch but those that no config tells."""
    ask(megatron(folder), mindformers(folder))
    seen = {*PLANTED_MEGATRON, *PLANTED_EXPERTS, *PLANTED_MINDFORMERS, *PLANTED_RAVINE, "overflow_mode"}
    not_told = {"initial_weights", "label_shift", "tokenizer", "versions", "untranslated", "fused_qkv", "router_dense_type", "use_shared_expert_gating", "use_fused_ops_topkrouter"}
    check(set(ROWS) - seen - not_told == set(), f"{set(ROWS) - seen - not_told}")
    check(seen - set(ROWS) == set(), f"{seen - set(ROWS)}")


if __name__ == "__main__":
    r.main(globals())
