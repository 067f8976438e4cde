"""`ravine config --to PROGRAM`: what is written leads back to the same options, and what it cannot say is named.

Property: of random configs made of options that both programs can say, none is named as not said, and the way back gives every option again."""
import json
import random
import shlex
import subprocess

import ravine_run as r

LLAMA = dict(model_type="llama", hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, max_position_embeddings=64,
             rms_norm_eps=1e-5, rope_theta=20000, attention_bias=False, mlp_bias=False, initializer_range=0.01, tie_word_embeddings=False, vocab_size=256)
GPT2 = dict(model_type="gpt2", hidden_size=64, num_hidden_layers=4, num_attention_heads=4, n_inner=200, max_position_embeddings=64, layer_norm_epsilon=1e-6, initializer_range=0.02,
            tie_word_embeddings=True, vocab_size=256)
BLOOM = dict(model_type="bloom", hidden_size=64, num_hidden_layers=4, num_attention_heads=4, seq_length=64, layer_norm_epsilon=1e-5, initializer_range=0.02, tie_word_embeddings=True, vocab_size=256)
QWEN2 = {k: v for k, v in LLAMA.items() if k not in ("attention_bias", "mlp_bias")} | dict(model_type="qwen2")
MIXTRAL = QWEN2 | dict(model_type="mixtral", num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.02, output_router_logits=True)


def config(words, *more):
    return r.run("config", *words, *more)


def leaves(yaml):
    """Lines of the config without places where values came from."""
    return {line.split(":", 1)[0] + "/" + section: line for section, line in sections(yaml)}


def sections(yaml):
    section = ""
    for line in yaml.splitlines():
        line = line.split("  #")[0].rstrip()
        if line and not line.startswith((" ", "#")):
            section = line
        elif line and not line.startswith("#"):
            yield section, line


def random_megatron(draw):
    """Options that both can say."""
    model = draw.choice([LLAMA, GPT2, BLOOM, QWEN2, MIXTRAL])
    pipeline, tensor = draw.choice([1, 2, 4]), draw.choice([1, 2])
    lr = draw.choice([1e-4, 3e-4, 0.00123])
    words = {
        "model.config": json.dumps(model), "data.train": json.dumps(draw.choice([["corpus"], [{"path": "a", "weight": 0.25}, {"path": "b c", "weight": 3.5}]])), "data.order": "megatron",
        "data.split": draw.choice(["969, 30, 1", "90,10,0"]), "data.sequence_length": draw.choice([16, 64]), "data.eod_mask_loss": draw.choice(["true", "false"]), "data.reset_position_ids": draw.choice(["true", "false"]),
        "train.steps": draw.randint(10, 5000), "train.global_batch": 16, "train.micro_batch": draw.choice([1, 2]), "train.loss_average": "micro", "train.seed": draw.randint(0, 9999), "train.output": "out",
        "train.dropout": draw.choice([0, 0.1]), "train.attention_dropout": draw.choice([0, 0.05]), "train.recompute": draw.choice(["cheap", "full"]),
        "optimizer.type": draw.choice(["adamw", "sgd", "cadam"]), "optimizer.lr": lr, "optimizer.weight_decay": draw.choice([0, 0.01, 0.1]), "optimizer.clip_norm": draw.choice([0, 0.5, 1]),
        "schedule.type": "OptimizerParamScheduler", "schedule.lr_decay_style": draw.choice(["constant", "linear", "cosine", "inverse-square-root"]), "schedule.min_lr": draw.choice([0, lr / 16]),
        "schedule.lr_warmup_steps": draw.choice([0, 3, 7]), "schedule.lr_warmup_init": draw.choice([0, lr / 32]), "schedule.lr_decay_steps": draw.choice([9, 5000]),
        "parallel.tensor": tensor, "parallel.pipeline": pipeline, "parallel.sequence": draw.choice(["true", "false"]) if tensor > 1 else "false", "parallel.zero": draw.choice([0, 1]),
        "checkpoint.every": draw.choice([5, 100]), "log.every": draw.choice([1, 10]), "log.tensorboard": draw.choice(["true", "false"]), "precision.compute": draw.choice(["f32", "bf16", "f16"]),
    }
    if words["schedule.lr_decay_style"] == "inverse-square-root" and words["schedule.lr_warmup_steps"] == 0:
        words["schedule.lr_warmup_steps"] = 3
    if words["optimizer.type"] == "adamw":
        words |= {"optimizer.betas": "[0.9, 0.98]", "optimizer.eps": draw.choice([1e-8, 1e-6])}
    if words["optimizer.type"] == "sgd":
        words["optimizer.momentum"] = draw.choice([0, 0.8])
    if words["precision.compute"] == "f16":
        words |= {"precision.loss_scale": draw.choice([0, 128]), "precision.scale_initial": 65536}
        if words["precision.loss_scale"] == 0:
            words |= {"precision.scale_window": 500, "precision.scale_hysteresis": 3}
        else:
            del words["precision.scale_initial"]
    if model is MIXTRAL:
        words |= {"moe.load_balance": "aux", "moe.aux_loss": 0.02}
    if draw.random() < 0.5:
        words |= {"train.valid_every": draw.choice([5, 50]), "train.valid_batches": 16 // words["train.micro_batch"] * 3}
    return [f"{k}={v}" for k, v in words.items()]


def random_deepspeed(draw):
    kind = draw.choice(["adamw", "lion", "adagrad", "sgd"])
    words = {
        "optimizer.type": kind, "optimizer.decay": "all", "optimizer.lr": draw.choice([1e-4, 0.003]), "optimizer.weight_decay": draw.choice([0, 0.01]), "optimizer.clip_norm": draw.choice([0, 1, 0.3]),
        "train.global_batch": 16, "train.micro_batch": draw.choice([1, 2]), "precision.compute": draw.choice(["f32", "bf16", "f16"]), "parallel.zero": draw.choice([0, 1, 2, 3]),
        "schedule.type": draw.choice(["WarmupLR", "WarmupDecayLR"]), "schedule.warmup_num_steps": draw.choice([2, 50]), "schedule.warmup_type": draw.choice(["log", "linear"]),
    }
    words["schedule.warmup_max_lr"] = words["optimizer.lr"]
    if words["schedule.type"] == "WarmupDecayLR":
        words |= {"schedule.total_num_steps": 900, "train.steps": 900}  # the Trainer compares
    if kind in ("adamw", "lion"):
        words["optimizer.betas"] = "[0.85, 0.97]"
    if words["precision.compute"] == "f16":
        words |= {"precision.loss_scale": 0, "precision.scale_initial": 2.0 ** draw.randint(4, 20), "precision.scale_window": 77, "precision.scale_min": 2}
    if words["parallel.zero"] > 0:
        words["offload.optimizer"] = draw.choice(["none", "cpu"])
    return [f"{k}={v}" for k, v in words.items()]


def not_said(done):
    return [x for x in done.stderr.splitlines() if x.startswith(("not said:", "notice:"))]


def test_megatron_and_back(folder):
    draw = random.Random(1)
    for words in r.rows([random_megatron(draw) for _ in range(40)], 10, "random configs"):
        said = config(words, "--to", "megatron")
        r.check(not not_said(said), f"{words}\n{said.stdout}\n{said.stderr}")
        flags = subprocess.run(["xargs", "printf", "%s\\n"], input=said.stdout, capture_output=True, text=True, check=True).stdout.splitlines()
        back = leaves(r.run("megatron", "--print-config", *flags).stdout)
        there = leaves(config(words).stdout)
        for key, line in there.items():
            if "log.style" in key or key.startswith(("  style/log", "  keep/checkpoint", "  layout/checkpoint", "  config/model")):
                continue
            r.check(back.get(key) == line, f"{key}: {line}, and back {back.get(key)}\n{words}\n{said.stdout}")


def test_deepspeed_and_back(folder):
    draw = random.Random(2)
    model = f"model.config={r.save_config(folder / 'config.json')}"
    for words in r.rows([[*random_deepspeed(draw), model] for _ in range(30)], 10, "random configs"):
        said = config(words, "--to", "deepspeed")
        r.check(not not_said(said), f"{words}\n{said.stdout}\n{said.stderr}")
        j = json.loads(said.stdout)
        given = dict(x.split("=", 1) for x in words)
        r.check((j["train_batch_size"], j["train_micro_batch_size_per_gpu"], j["zero_optimization"]["stage"]) == (16, int(given["train.micro_batch"]), int(given["parallel.zero"])), j)
        (folder / "ds.json").write_text(said.stdout)
        flags = shlex.split(next(x for x in said.stderr.splitlines() if x.startswith("flags:"))[6:])
        back, there = (leaves(x.stdout) for x in (r.run("trainer", "--deepspeed", folder / "ds.json", *flags, "--print-config"), config(words)))
        for key, line in there.items():
            if key.startswith(("  type/", "  lr/", "  betas/", "  weight_decay/", "  global_batch/", "  micro_batch/", "  compute/", "  zero/", "  steps/", "  warmup", "  total_num", "  clip_norm/", "  optimizer/")):
                r.check(back.get(key) == line, f"{key}: {line}, and back {back.get(key)}\n{words}\n{said.stderr}")
        r.check(j["gradient_clipping"] == float(given["optimizer.clip_norm"]) and j["optimizer"]["params"]["lr"] == float(given["optimizer.lr"]), j)


def test_what_cannot_be_said_is_named(folder):
    base = [f"model.config={json.dumps(LLAMA)}", "data.train=[corpus]", "data.sequence_length=32"]
    cases = [("megatron", "optimizer.type=muon", "optimizer.type=muon"), ("megatron", "parallel.zero=3", "parallel.zero=3"), ("megatron", "optimizer.decay=all", "optimizer.decay=all"),
             ("megatron", "train.recompute=none", "train.recompute=none"), ("megatron", "schedule.type=cosine", "schedule.type=cosine"), ("megatron", "lora.rank=4", "lora.rank=4"),
             ("deepspeed", "train.dropout=0.1", "train.dropout=0.1"), ("deepspeed", "parallel.tensor=2", "parallel.tensor=2"), ("deepspeed", "precision.scale_factor=4", "precision.scale_factor=4.0"),
             ("deepspeed", "optimizer.type=came", "optimizer.type=came")]
    for program, word, named in cases:
        said = config([*base, word], "--to", program)
        r.check(any(x.startswith(f"not said: {named} ") for x in not_said(said)), f"{word}: {said.stderr}")
    said = config([*base, "train.steps=7", "optimizer.lr=0.002"], "--to", "deepspeed").stderr
    flags = next(x for x in said.splitlines() if x.startswith("flags:"))
    r.check("--max_steps 7" in flags and "--learning_rate 0.002" in flags and "--do_train" in flags, said)
    # A model that the flags have no words for: its fields are named, or the whole of it.
    said = config([f"model.config={json.dumps(LLAMA | dict(rope_scaling=dict(rope_type='llama3', factor=8.0)))}", *base[1:]], "--to", "megatron")
    r.check(any("model.config.rope_scaling" in x for x in not_said(said)), said.stderr)
    said = config(["data.train=[corpus]"], "--to", "megatron")
    r.check(any("names no model" in x for x in not_said(said)), said.stderr)
    r.check("megatron" in r.run("config", *base, "--to", "torch", status=2).stderr, "an unknown program")


if __name__ == "__main__":
    r.main(globals())
