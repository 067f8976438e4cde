"""`ravine megatron`: every flag that is used changes the config that is printed, what cannot be is refused with its rule, all at once, and the scripts of examples/megatron are walked through:
texts, token files, a run that is the run of the printed config. Real scripts are compared with by `check_megatron.py` of tools/shared_checks.py."""
import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

ROOT = Path(__file__).resolve().parents[2]
SOURCES, EXAMPLES = ROOT / "src" / "dialects", ROOT / "examples" / "megatron"
TOKENIZER = ROOT / "tests" / "golden" / "tokenizer" / "llama"
BASE = {"--num-layers": "8", "--hidden-size": "512", "--ffn-hidden-size": "1376", "--num-attention-heads": "8", "--seq-length": "64", "--max-position-embeddings": "128", "--micro-batch-size": "2", "--global-batch-size": "16",
        "--train-iters": "100", "--lr": "1e-4", "--data-path": "a_document", "--position-embedding-type": "rope", "--normalization": "RMSNorm", "--swiglu": None, "--disable-bias-linear": None, "--vocab-size": "1000"}
RANKS = 8


def words_of(*parts):
    """Flags as words; a later part counts over an earlier one, and None in place of a dict's value is a switch, False no flag."""
    flags = {}
    for part in parts:
        flags.update(part)
    out = []
    for key, value in flags.items():
        if value is not False:
            out += [key] if value is None else [key, *str(value).split(" ")]
    return out


def ask(words, what="--print-config", ranks=RANKS):
    """Whatever the status."""
    words = ["megatron", *map(str, words), "--ranks", str(ranks), what]
    return r.SERVED.run(words, None, None) if r.SERVED else subprocess.run(r.command(*words), capture_output=True, text=True, timeout=r.LIMIT)


def lines_of(done):
    return {x["key"]: x for x in map(json.loads, done.stdout.splitlines())}


def option(text, name):
    section, key = name.split(".")
    inside = re.search(rf"^{section}:\n((?:  .*\n)*)", text, re.M)[1]
    return re.search(rf"^  {key}: (.*)$", inside, re.M)[1]


# Of every flag that a row calls used: its value, and what stands beside it with and without it. Where --print-config refuses the one with it by its name, that is an effect too.
GPT = {"--swiglu": False, "--normalization": "LayerNorm", "--disable-bias-linear": False}
SAMPLES = {"--train-iters": False, "--train-samples": 1600}
HALF = {"--fp16": None}
EXPERTS = {"--num-experts": 4, "--untie-embeddings-and-output-weights": None}
STAGES = {"--pipeline-model-parallel-size": 4}
LORA = {"--lora-target-modules": "query_key_value"}
SAVE = {"--save": "out", "--save-interval": 10}
LLAMA3 = {"--rope-scaling-type": "llama3", "--low-freq-factor": 1, "--high-freq-factor": 4, "--original-max-position-embeddings": 32}
YARN = {"--rope-scaling-type": "yarn", "--rope-scaling-original-max-position-embeddings": 32}
GEMMA = {"--swiglu": False, "--add-rmsnorm-offset": None, "--input-embeds-norm": None, "--gelu-tanh": None, "--post-norm": None}
QWEN = {**EXPERTS, "--add-qkv-bias": None, "--shared-expert-gate": None, "--moe-router-load-balancing-type": "softmax_topk", "--n-shared-experts": 2, "--moe-intermediate-size": 64}
LATENT = {**EXPERTS, "--multi-head-latent-attention": None, "--kv-lora-rank": 16, "--qk-rope-head-dim": 8, "--qk-nope-head-dim": 16, "--v-head-dim": 16, "--n-shared-experts": 2, "--moe-intermediate-size": 64}
GROUPS = {**LATENT, "--expert-model-parallel-size": 4, "--moe-router-load-balancing-type": "group_limited_greedy", "--topk-group": 2}
FULL = {**EXPERTS, "--moe-expert-capacity-factor": 1.5}
FLIPS = {
    "--rope-scaling-type": ("llama3", LLAMA3), "--rope-scaling-factor": (8, LLAMA3), "--low-freq-factor": (2, LLAMA3), "--high-freq-factor": (5, LLAMA3), "--original-max-position-embeddings": (64, LLAMA3),
    "--rope-scaling-original-max-position-embeddings": (64, YARN), "--rope-scaling-beta-fast": (16, YARN), "--rope-scaling-beta-slow": (2, YARN), "--rope-scaling-mscale": (0.7, {**LATENT, **YARN}),
    "--rope-scaling-mscale-all-dim": (0.7, {**LATENT, **YARN}), "--sliding-window": (16, {}), "--no-position-embedding": (None, {**GPT, "--position-embedding-type": "learned_absolute"}), "--qk-layernorm": (None, {}), "--multi-head-latent-attention": (None, LATENT), "--q-lora-rank": (32, LATENT), "--kv-lora-rank": (32, LATENT),
    "--v-head-dim": (32, LATENT), "--qk-rope-head-dim": (16, LATENT), "--qk-nope-head-dim": (32, LATENT), "--add-rmsnorm-offset": (None, GEMMA), "--input-embeds-norm": (None, GEMMA), "--gelu-tanh": (None, GEMMA), "--geglu": (None, GEMMA),
    "--post-norm": (None, GEMMA), "--query-pre-attn-scalar": (32, GEMMA), "--output-logit-softcapping": (30, GEMMA), "--attn-logit-softcapping": (50, GEMMA), "--interleave-sliding-window": (16, GEMMA),
    "--moe-router-load-balancing-type": ("none", {**EXPERTS, "--moe-aux-loss-coeff": 0.01}), "--moe-intermediate-size": (32, LATENT), "--n-shared-experts": (1, LATENT), "--shared-expert-gate": (None, QWEN), "--topk-group": (3, GROUPS),
    "--routed-scaling-factor": (16, LATENT), "--norm-topk-prob": (None, QWEN), "--first-k-dense-replace": (2, LATENT), "--moe-layer-freq": (2, LATENT), "--seq-aux": (None, {**LATENT, "--moe-aux-loss-coeff": 0.01}),
    "--moe-expert-capacity-factor": (1.5, EXPERTS), "--moe-pad-expert-input-to-capacity": (None, FULL), "--moe-token-drop-policy": ("position", FULL), "--moe-device-level-aux-loss-coeff": (0.05, LATENT), "--moe-comm-aux-loss-coeff": (0.02, LATENT),
    "--num-layers": (4, {}), "--encoder-num-layers": (8, {"--num-layers": False}), "--hidden-size": (256, {}), "--ffn-hidden-size": (2048, {}), "--num-attention-heads": (16, {}), "--kv-channels": (32, {}),
    "--group-query-attention": (None, {"--num-query-groups": 2}), "--num-query-groups": (2, {"--group-query-attention": None}), "--max-position-embeddings": (64, {}), "--position-embedding-type": ("learned_absolute", GPT),
    "--use-rotary-position-embeddings": (None, {**GPT, "--position-embedding-type": False}), "--rotary-percent": (0.5, GPT), "--rotary-base": (5000, {}), "--rotary-seq-len-interpolation-factor": (2, {}),
    "--normalization": ("LayerNorm", {"--swiglu": False, "--disable-bias-linear": False}), "--layernorm-epsilon": (1e-6, {}), "--norm-epsilon": (1e-6, {}), "--swiglu": (None, {"--ffn-hidden-size": False}),
    "--no-add-gate": None, "--add-bias-linear": None, "--disable-bias-linear": (None, {}), "--add-qkv-bias": (None, {}), "--add-dense-bias": (None, {"--add-qkv-bias": None}),
    "--embed-layernorm": (None, {**GPT, "--position-embedding-type": "alibi", "--ffn-hidden-size": 2048}), "--lm-norm-weight": (None, {}), "--untie-embeddings-and-output-weights": (None, {}),
    "--no-untie-embeddings-and-output-weights": None, "--make-vocab-size-divisible-by": (3000, {"--tokenizer-type": "NullTokenizer"}), "--pad-vocab-size-to": (2048, {}), "--padded-vocab-size": (2048, {}), "--vocab-size": (2000, {}),
    "--init-method-std": (0.01, {}), "--num-experts": (4, {}), "--moe-router-topk": (1, EXPERTS), "--moe-aux-loss-coeff": (0.01, EXPERTS), "--moe-z-loss-coeff": (0.01, EXPERTS), "--moe-train-capacity-factor": (1.5, EXPERTS),
    "--expert-interval": (2, EXPERTS), "--triangle-attn": "inert", "--z-loss-weight": (0.1, {}),
    "--micro-batch-size": (1, {}), "--global-batch-size": (32, {}), "--train-iters": (50, {}), "--train-samples": (3200, {"--train-iters": False}), "--lr": (1e-3, {}), "--min-lr": (1e-5, {}), "--lr-decay-style": ("cosine", {}),
    "--lr-decay-iters": (50, {}), "--lr-decay-samples": (800, SAMPLES), "--lr-warmup-fraction": (0.1, {}), "--lr-warmup-iters": (5, {}), "--lr-warmup-samples": (80, SAMPLES), "--lr-warmup-init": (1e-6, {}),
    "--log-interval": (7, {}), "--seed": (1, {}), "--attention-dropout": (0.2, {}), "--hidden-dropout": (0.2, {}), "--weight-decay": (0.3, {}), "--start-weight-decay": (0.2, {"--end-weight-decay": 0.2, "--weight-decay-incr-style": "linear"}),
    "--end-weight-decay": (0.2, {"--start-weight-decay": 0.2, "--weight-decay-incr-style": "linear"}), "--weight-decay-incr-style": "inert", "--clip-grad": (0.5, {}), "--adam-beta1": (0.8, {}), "--adam-beta2": (0.9, {}), "--adam-eps": (1e-6, {}),
    "--sgd-momentum": (0.5, {"--optimizer": "sgd"}), "--optimizer": ("sgd", {}), "--release-fp32-grad": (None, HALF), "--fp16": (None, {}), "--bf16": (None, {}), "--loss-scale": (128, HALF), "--initial-loss-scale": (65536, HALF),
    "--min-loss-scale": (2, HALF), "--loss-scale-window": (7, HALF), "--hysteresis": (3, HALF), "--lora-target-modules": ("query_key_value", {}), "--lora-load": ("there", LORA), "--lora-r": (4, LORA), "--lora-alpha": (8, LORA),
    "--lora-modules-to-save": ("word_embeddings", LORA),
    "--tensor-model-parallel-size": (2, {}), "--pipeline-model-parallel-size": (2, {}), "--sequence-parallel": (None, {"--tensor-model-parallel-size": 2}), "--num-layers-per-virtual-pipeline-stage": (1, STAGES),
    "--expert-model-parallel-size": (2, EXPERTS), "--context-parallel-size": (2, {}), "--use-distributed-optimizer": (None, {}), "--use-manual-layer-allocation": (None, {**STAGES, "--manual-layers": "1,2,2,3"}),
    "--manual-layers": ("1,2,2,3", {**STAGES, "--use-manual-layer-allocation": None}), "--num-layer-list": ("1,2,2,3", STAGES), "--checkpoint-activations": (None, {}), "--recompute-activations": (None, {"--checkpoint-activations": None}),
    "--recompute-granularity": ("full", {}), "--checkpoint-policy": ("block", {"--checkpoint_block_layer": 2}), "--checkpoint_block_layer": (2, {"--checkpoint-policy": "block"}),
    "--recompute-method": ("block", {"--recompute-granularity": "full"}), "--recompute-num-layers": (2, {"--recompute-granularity": "full", "--recompute-method": "block"}), "--recomputation-layer-num": ("1 2", {"--checkpoint-policy": "custom", "--pipeline-model-parallel-size": 2}), "--auto-recompute-device-size": (4096, {}), "--deepspeed": (None, {"--deepspeed_config": "ds.json"}), "--deepspeed_config": ("ds.json", {"--deepspeed": None}),
    "--zero-stage": (2, {"--deepspeed": None, "--deepspeed_config": "none.json"}), "--no-pipeline-parallel": (None, {"--pipeline-model-parallel-size": 2}), "--remote-device": ("cpu", {}),
    "--data-path": ("b_document", {}), "--train-data-path": ("b_document", {"--data-path": False}), "--valid-data-path": ("c_document", {}), "--split": ("90,5,5", {}), "--data-cache-path": ("there", {}), "--seq-length": (32, {}),
    "--reset-position-ids": (None, {}), "--reset-attention-mask": (None, {}), "--eod-mask-loss": (None, {}), "--variable-seq-lengths": "inert", "--is-instruction-dataset": "inert", "--dataloader-type": ("cyclic", {}),
    "--tokenizer-type": ("BertWordPieceCase", {}), "--tokenizer-name-or-path": ("tok", {}), "--tokenizer-model": ("tok.model", {}), "--vocab-file": ("tok/vocab.json", {}), "--eval-interval": (10, {}), "--eval-iters": (3, {}),
    "--save": ("out", {"--save-interval": 10}), "--save-interval": (5, SAVE), "--load": ("model", {"--use-checkpoint-args": None}), "--finetune": (None, {"--load": "ranks"}), "--no-load-optim": (None, {"--load": "ranks"}), "--use-checkpoint-args": "inert", "--override-opt_param-scheduler": "inert", "--override-lr-scheduler": "inert", "--use-checkpoint-opt_param-scheduler": "inert", "--use-checkpoint-lr-scheduler": "inert", "--exit-on-missing-checkpoint": (None, {"--load": "gone"}), "--tensorboard-dir": ("tb", {}),
    "--tensorboard-log-interval": (5, {"--tensorboard-dir": "tb"}), "--log-params-norm": (None, {}), "--log-num-zeros-in-grad": (None, {}), "--log-throughput": (None, {}), "--timing-log-level": (2, {}),
    "--exit-interval": (50, {}), "--exit-duration-in-mins": (60, {}), "--ignore-ramp": "inert", "--ckpt-format": ("torch_dist", SAVE), "--use-dist-ckpt": (None, SAVE), "--no-load-lr-state": (None, {"--load": "ranks"}), "--test-data-path": ("c_document", {}),
    "--no-save-optim": (None, SAVE), **{f"--{flag}-to-tensorboard": (None, {"--tensorboard-dir": "tb"}) for flag in ("log-timers", "log-batch-size", "no-log-learnig-rate", "no-log-loss-scale", "log-validation-ppl", "log-memory", "log-world-size")},
    "--vocab-extra-ids": (100, {}), "--pre-tockens": (16, {}), "--next-tockens": (-1, {}), "--enable-recompute-layers-per-pp-rank": (None, {**STAGES, "--num-layers-per-virtual-pipeline-stage": 1}),
    "--distribute-saved-activations": (None, {"--tensor-model-parallel-size": 2, "--recompute-granularity": "full", "--recompute-method": "uniform"}), "--distribute-checkpointed-activations": (None, {"--tensor-model-parallel-size": 2}),
    "--partition-activations": (None, {"--tensor-model-parallel-size": 2, "--deepspeed": None, "--deepspeed_config": "none.json", "--deepspeed-activation-checkpointing": None}),
}


def used_flags():
    """Of the tables of training programs."""
    text = "".join((SOURCES / f"megatron_{part}.cpp").read_text() for part in ("network", "training", "layout", "files", "recent"))
    return set(re.findall(r'\b(?:used|renamed|copied)\(\s*"(--[\w-]+)"', text))


def test_every_used_flag_acts(folder):
    check(used_flags() == set(FLIPS), f"without a row here: {used_flags() - set(FLIPS)}; no longer there: {set(FLIPS) - used_flags()}")
    (folder / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 3}}))
    (folder / "none.json").write_text("{}")
    r.save_config(folder / "model" / "config.json")
    (folder / "ranks").mkdir()
    (folder / "ranks" / "latest_checkpointed_iteration.txt").write_text("4")
    idle = []
    for key, row in FLIPS.items():
        if row is None or row == "inert":
            continue
        value, beside = row
        put = lambda flags: {k: str(folder / v) if isinstance(v, str) and (folder / v).exists() else v for k, v in flags.items()}
        base = put({**BASE, **beside})
        without = {k: v for k, v in base.items() if k != key or key in BASE and key not in beside and BASE[key] is not None}
        plain, flipped = ask(words_of(without)), ask(words_of(base, put({key: value})))
        refused = flipped.returncode == 2 and key in flipped.stderr and "unknown" not in flipped.stderr
        needed = plain.returncode == 2 and flipped.returncode == 0  # without it there is no run
        same = re.sub(r"^#.*\n", "", plain.stdout, flags=re.M) == re.sub(r"^#.*\n", "", flipped.stdout, flags=re.M)
        if not (refused or needed or plain.returncode == flipped.returncode == 0 and not same):
            idle.append(f"{key} {value} changes nothing ({plain.returncode}, {flipped.returncode})\n{flipped.stderr}{plain.stderr}")
    check(not idle, "\n".join(idle))


def script(folder, program, *flags):
    """A launch script of these flags."""
    path = folder / "run.sh"
    path.write_text(f"torchrun --nproc_per_node {RANKS} {program} " + " ".join(words_of(BASE, *flags)) + "\n")
    return path


def test_flags_of_the_older_programs_act(folder):
    """Those with None for a row above, and what those with "inert" say."""
    older = {k: False for k in ("--swiglu", "--disable-bias-linear")}
    says = lambda flags: option(r.run("megatron", "--script", script(folder, "pretrain_llama.py", older, flags), "--print-config").stdout, "model.config")
    check("tie_word_embeddings: false" in says({}), says({}))
    check("tie_word_embeddings: true" in says({"--no-untie-embeddings-and-output-weights": None}), "the head of 2023 is untied unless a flag says otherwise")
    check("mlp_bias: false" in says({}) and "mlp_bias: true" in says({"--add-bias-linear": None}), "so are its linear layers without biases")
    for key, beside in (("--triangle-attn", {}), ("--weight-decay-incr-style", {}), ("--variable-seq-lengths", {"--is-instruction-dataset": None}), ("--use-checkpoint-args", {})):
        value = "constant" if key == "--weight-decay-incr-style" else None
        line = lines_of(ask(words_of(BASE, beside, {key: value}), "--explain"))[key]
        check(line["status"] == "inert" and line["reason"], f"{line}")
    done = r.run("megatron", "--script", script(folder, "pretrain_llama.py", older, {"--no-add-gate": None}), "--print-config", status=2)
    check("a plain MLP" in done.stderr, done.stderr)


def test_what_would_change_a_run_is_refused(folder):
    """Flags that change numbers, files or lines there, and nothing here: refused with a way out, and taken where they change nothing there either."""
    for refused, words, taken in (({"--timing-log-level": 1}, "ravine bench train --profile", {"--timing-log-level": 0}), ({"--test-data-path": "t_document"}, "--valid-data-path", {"--test-data-path": "t_document", "--eval-iters": 0}),
                                  ({"--pre-tockens": 16}, "--sliding-window", {"--pre-tockens": 65536}), ({"--vocab-extra-ids": 100}, "sentinel", {"--vocab-extra-ids": 0}),
                                  ({**SAVE, "--ckpt-format": "torch_dist"}, "--ckpt-format torch", {**SAVE, "--ckpt-format": "torch", "--auto-detect-ckpt-format": None, "--manual-gc": None, "--manual-gc-interval": 100}), ({"--profile": None}, "ravine bench train --profile", {}), ({"--full-shuffle-instruction-dataset": None}, "order", {})):
        no, yes = ask(words_of(BASE, refused)), ask(words_of(BASE, taken))
        check(no.returncode == 2 and words in no.stderr and yes.returncode == 0, f"{refused}: exit {no.returncode}, then {yes.returncode}\n{no.stderr}{yes.stderr}")


def test_rules_are_named_all_at_once(folder):
    done = ask(words_of(BASE, {"--global-batch-size": 10, "--num-attention-heads": 7, "--min-lr": 1, "--seq-length": 256, "--fp16": None, "--bf16": None, "--train-samples": 7, "--save": "out", "--optimiser": "adam"}))
    check(done.returncode == 2 and done.stderr.count("error:") == 1 and done.stdout == "", done.stderr)
    for words in ("global batch size 10", "data parallel size (8)", "--num-attention-heads", "--min-lr", "--seq-length", "--bf16", "--train-samples", "--save-interval", "--optimiser", "did you mean '--optimizer'"):
        check(words in done.stderr, f"{words} is not named: {done.stderr}")
    for flags, words in (({"--tensor-model-parallel-size": 3}, ["8 ranks", "divisible"]), ({"--lr": False}, ["--lr is not given"]), ({"--lr-warmup-samples": 5}, ["--lr-warmup-samples", "iteration"]),
                         ({"--num-layers-per-virtual-pipeline-stage": 2, "--pipeline-model-parallel-size": 2}, ["greater than 2"]), ({"--deepspeed": None}, ["--deepspeed_config"]), ({"--train-tokens": 10}, ["--train-tokens", "--train-samples"]),
                         ({"--pipeline-model-parallel-size": 4, "--num-layer-list": "1,2,3"}, ["--num-layer-list", "4 stages"]), ({"--context-parallel-size": 2}, ["not cut over ranks"]), ({"--weight-decay": "heavy"}, ["--weight-decay", "heavy"])):
        done = ask(words_of(BASE, flags))
        check(done.returncode == 2 and all(w in done.stderr for w in words), f"{flags}: {words} in {done.stderr}")


# What Megatron's own checks refuse, and what they let pass beside it.
TWO = {"--tensor-model-parallel-size": 2, "--sequence-parallel": None}
AGAINST_ITS_CHECKS = {
    "--sequence-parallel": ({**TWO, "--seq-length": 63}, {"--seq-length": 63}), "--expert-model-parallel-size": ({"--expert-model-parallel-size": 2}, {**EXPERTS, "--expert-model-parallel-size": 2}),
    "--num-experts": ({"--num-experts": 6, "--expert-model-parallel-size": 4}, {"--num-experts": 8, "--expert-model-parallel-size": 4}), "--expert-model-parallel-size 2 with --fp16": ({**EXPERTS, "--expert-model-parallel-size": 2, **HALF}, {**EXPERTS, **HALF}),
    "--use-distributed-optimizer with --no-contiguous-buffers-in-local-ddp": ({"--use-distributed-optimizer": None, "--no-contiguous-buffers-in-local-ddp": None}, {"--no-contiguous-buffers-in-local-ddp": None}),
    "--use-distributed-optimizer with --DDP-impl torch": ({"--use-distributed-optimizer": None, "--DDP-impl": "torch"}, {"--use-distributed-optimizer": None, "--DDP-impl": "local"}),
    "--accumulate-allreduce-grads-in-fp32 with --DDP-impl torch": ({"--accumulate-allreduce-grads-in-fp32": None, "--DDP-impl": "torch"}, {**HALF, "--DDP-impl": "torch"}),
    "--bf16 with --DDP-impl torch": ({"--bf16": None, "--DDP-impl": "torch"}, {"--bf16": None, "--initial-loss-scale": 65536, "--DDP-impl": "local"}), "--fp16-lm-cross-entropy": ({"--bf16": None, "--fp16-lm-cross-entropy": None}, {**HALF, "--fp16-lm-cross-entropy": None}),
    "--fp32-residual-connection": ({"--fp32-residual-connection": None}, {"--bf16": None, "--fp32-residual-connection": None}), "--overlap-param-gather": ({"--overlap-param-gather": None}, {"--overlap-param-gather": None, "--use-distributed-optimizer": None}),
    "--recompute-method": ({"--recompute-activations": None, "--recompute-method": "block"}, {"--recompute-activations": None}), "--start-weight-decay": ({"--start-weight-decay": 0.1, "--end-weight-decay": 0.1}, {"--start-weight-decay": 0.1, "--end-weight-decay": 0.1, "--weight-decay-incr-style": "cosine"}),
    "--recomputation-layer-num": ({"--checkpoint-policy": "custom"}, {"--checkpoint-policy": "custom", "--recomputation-layer-num": 2}), "--checkpoint-policy": ({"--checkpoint-policy": "some"}, {"--checkpoint-policy": "full"}),
    "bf16.enabled": ({"--deepspeed": None, "--deepspeed_config": "bf16.json"}, {"--deepspeed": None, "--deepspeed_config": "bf16.json", "--bf16": None}), "fp16.enabled": ({"--deepspeed": None, "--deepspeed_config": "bf16.json", **HALF}, {"--deepspeed": None, "--deepspeed_config": "fp16.json", **HALF}),
    "--rampup-batch-size has 2 numbers": ({**SAMPLES, "--rampup-batch-size": "16 32"}, {**SAMPLES, "--rampup-batch-size": "16 16 320", "--global-batch-size": 32}), "increments of 12": ({**SAMPLES, "--rampup-batch-size": "16 12 320", "--global-batch-size": 32}, {}),
    "of the ramp is divisible": ({**SAMPLES, "--rampup-batch-size": "8 8 320", "--global-batch-size": 32}, {}),
}


def test_what_contradicts_its_own_checks_is_refused(folder):
    for type in ("fp16", "bf16"):
        (folder / f"{type}.json").write_text(json.dumps({type: {"enabled": True}}))
    wrong = []
    for words, (refused, taken) in AGAINST_ITS_CHECKS.items():
        here = lambda flags: words_of(BASE, {k: str(folder / v) if str(v).endswith(".json") else v for k, v in flags.items()})
        no, yes = ask(here(refused)), ask(here(taken))
        if no.returncode != 2 or words not in no.stderr or yes.returncode != 0:
            wrong.append(f"{words}: exit {no.returncode}, then {yes.returncode}\n{no.stderr}{yes.stderr}")
    check(not wrong, "\n".join(wrong))


def test_a_ramp_is_no_run_without_a_word(folder):
    """The batch does not grow here, and the curve is another: who wants that says so."""
    env = walk_through(folder)
    r.run("megatron", "--script", "preprocess.sh", cwd=folder, env=env)
    small = {**BASE, "--num-layers": 2, "--hidden-size": 32, "--ffn-hidden-size": 64, "--num-attention-heads": 4, "--data-path": "data/books_text_document", "--train-iters": False, "--train-samples": 32, "--vocab-size": 32000, "--save": "out", "--save-interval": 2, "--log-interval": 1}
    words = ["megatron", *words_of(small, {"--rampup-batch-size": "4 4 8"})]
    said = r.run(*words, cwd=folder, status=2).stderr
    check("--rampup-batch-size" in said and "--ignore-ramp" in said and not (folder / "out").exists(), said)
    said = r.run(*words, "--ignore-ramp", cwd=folder).stderr
    check("--rampup-batch-size is not followed: every batch has 16 sequences, and the run 2 steps" in said and len(r.metrics(folder / "out")) == 2, said)
    for what in ("--explain", "--print-config"):
        check("is not followed" in r.run(*words, what, cwd=folder).stderr, f"{what} shows what a run would be")


def test_layers_that_are_recomputed(folder):
    """Of the parts of the pipeline: the first ones of each, or as many as its stage is given."""
    asked = lambda flags: option(ask(words_of(BASE, flags)).stdout, "train.recompute_layers")
    full, stages, split = {"--checkpoint-activations": None}, {"--pipeline-model-parallel-size": 2}, {"--pipeline-model-parallel-size": 4, "--num-layers-per-virtual-pipeline-stage": 1, "--global-batch-size": 32}
    for flags, layers in (({**full, "--checkpoint-policy": "block"}, "[]"), ({**stages, "--checkpoint-policy": "block", "--checkpoint_block_layer": 3}, "[3, 3]"), ({**stages, "--recompute-granularity": "full", "--recompute-method": "block"}, "[1, 1]"),
                          ({**full, **stages, "--recompute-method": "custom", "--recomputation-layer-num": "0 9"}, "[0, 4]"), ({"--checkpoint-policy": "full", "--recompute-num-layers": 2}, "[]"), ({**full, "--recompute-method": "uniform", "--recompute-num-layers": 2}, "[]"),
                          ({**split, "--checkpoint-policy": "custom", "--recomputation-layer-num": "1 0 1 0"}, "[1, 0, 1, 0, 1, 0, 1, 0]"), ({**full, "--pipeline-model-parallel-size": 2, "--num-layer-list": "3,5", "--recompute-method": "block", "--recompute-num-layers": 4}, "[3, 4]")):
        check(asked(flags) == layers, f"{flags}: {asked(flags)} instead of {layers}")


def test_every_flag_is_explained(folder):
    given = {**BASE, "--use-flash-attn": None, "--bf16": None, "--loss-scale": "12", "--lr-warmup-fraction": "0.1", "--lr-decay-style": "cosine", "--min-lr": "1e-5"}
    lines = lines_of(ask(words_of(given), "--explain"))
    check(set(given) <= set(lines), f"{set(given) - set(lines)}")
    check(lines["--bf16"]["status"] == "used" and lines["--bf16"]["option"] == "precision.compute", lines["--bf16"])
    for key in ("--use-flash-attn", "--loss-scale"):
        check(lines[key]["status"] == "inert" and lines[key]["reason"], lines[key])
    rates = lines["derived.lr"]["value"]  # 10 steps up from 0, then the cosine down to 1e-5 over 90
    last = 1e-5 + 9e-5 * (1 + math.cos(math.pi * 89 / 90)) / 2
    check(rates["1"] == 0 and abs(rates["2"] - 1e-5) < 1e-18 and rates["11"] == 1e-4 and abs(rates["100"] - last) < 1e-15, f"{rates}")


def test_a_script_is_read_and_never_run(folder):
    path = folder / "run.sh"
    path.write_text(f"touch {folder / 'executed'}\nN=8\nLR=1e-4\npython -m torch.distributed.launch --nproc_per_node $N pretrain_gpt.py {' '.join(words_of({**BASE, '--lr': '$LR'}))} --save out/$(make) --save-interval 5\n")
    done = r.run("megatron", "--script", path, "--print-config", status=2)
    check("run.sh:4" in done.stderr and "needs a shell" in done.stderr, done.stderr)
    path.write_text(path.read_text().replace("$(make)", "here"))
    done = r.run("megatron", "--script", path, "--lr", "2e-4", "--print-config")
    check(re.search(r"mpirun -n 8 ravine megatron --script \S*run.sh", done.stdout), done.stdout[:200])
    check(float(option(done.stdout, "optimizer.lr")) == 2e-4, "what is typed counts over the script")
    check(not (folder / "executed").exists(), "the script was executed")


def walk_through(folder):
    """The folder in which the scripts of the examples are started."""
    (folder / "data").mkdir()
    rows = [{"text": f"Book {i}: " + " ".join(f"the word {j * i % 17} stands here" for j in range(40))} for i in range(40)]
    (folder / "data" / "books.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows))
    for path in EXAMPLES.glob("*.sh"):
        shutil.copy(path, folder)
    return {**os.environ, "TOKENIZER": str(TOKENIZER)}


def test_the_examples_from_text_to_model(folder):
    env = walk_through(folder)
    check({p.name for p in EXAMPLES.iterdir()} == {"preprocess.sh", "pretrain_llama.sh", "convert_llama.sh", "preprocess_alpaca.sh", "finetune_lora.sh", "generate_llama.sh", "evaluate_llama.sh", "make_data.py"}, f"{list(EXAMPLES.iterdir())}")
    explained = lines_of(r.run("megatron", "--script", "preprocess.sh", "--explain", cwd=folder, env=env))
    check(explained["--json-keys"]["value"] == "text" and not list((folder / "data").glob("*.bin")), f"{explained}")
    r.run("megatron", "--script", "preprocess.sh", cwd=folder, env=env)
    check((folder / "data" / "books_text_document.idx").exists(), f"{list((folder / 'data').iterdir())}")
    words = ["megatron", "--script", "pretrain_llama.sh", "train.threads=1"]
    printed = r.run(*words, "train.output=again", "--print-config", cwd=folder, env=env).stdout
    for name, value in {"train.steps": "6", "train.global_batch": "4", "schedule.type": "OptimizerParamScheduler", "data.order": "megatron", "precision.compute": "bf16", "parallel.zero": "1", "log.style": "megatron"}.items():
        check(option(printed, name) == value, f"{name}: {option(printed, name)}")
    said = r.run(*words, cwd=folder, env=env)
    log = said.stdout + said.stderr
    check(re.search(r" iteration        6/       6 \| consumed samples:           24 \|", log) and "validation loss at iteration 3" in log, log)
    (folder / "printed.yaml").write_text(printed)
    r.run("train", "--config", "printed.yaml", cwd=folder)
    different = r.same_run(folder / "runs" / "small-llama", folder / "again")
    check(not different, different)
    losses = [x["loss"] for x in r.metrics(folder / "again").values() if "loss" in x]
    check(losses[-1] < losses[0], f"{losses}")
    # The script for two ranks says so.
    two = r.run("megatron", "--script", "pretrain_llama.sh", "--print-config", cwd=folder, env={**env, "GPUS_PER_NODE": "2", "TP": "2"}).stdout
    check("mpirun -n 2 ravine megatron --script" in two and option(two, "parallel.tensor") == "2", two[:300])


if __name__ == "__main__":
    r.main(globals())
