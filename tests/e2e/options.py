"""Every option is tried with twenty values, every flag with nine, and both at their bounds; what is taken and what is refused is known beforehand, by kind of option.

The tables below are the second statement of every range: an option without a row, or a row without an option, fails the test.
"""
import concurrent.futures
import json
import math
import re
import subprocess

import ravine_run as r

LONG = "x" * 100_000
FLAG_VALUES = ["", "-1", "1e300", "1e-300", "9223372036854775808", ".nan", "true", "[1, 2]", LONG]
VALUES = ["", "0", "-1", "1", "0.5", "1e300", "-1e300", "1e-300", "2147483648", "4294967297", "9223372036854775808", ".nan", ".inf", "true", "word",
          "[1, 2]", "[]", "{a: 1}", "{}", "~", LONG]


# ---- what a value is: the few forms of YAML that VALUES has ----

def parsed(text):
    """(kind, value): null, bool, int, real, list, map or text."""
    if text in ("", "~"):
        return "null", ""
    if text == "true":
        return "bool", True
    if text.startswith("["):
        return "list", [parsed(x.strip()) for x in text[1:-1].split(",") if x.strip()]
    if text.startswith("{"):
        return "map", text
    if re.fullmatch(r"-?\d+", text):
        return "int", int(text)
    if text in (".nan", ".inf"):
        return "real", float(text[1:])
    if re.fullmatch(r"-?\d*\.?\d*(e-?\d+)?", text):
        return "real", float(text)
    return "text", text


# ---- kinds of option: each says whether a parsed value is taken ----

class Kind:
    bounds = ()   # tried too and taken
    beyond = ()   # tried too and refused
    with_ = ()    # other settings that the last bound and what lies beyond need


class Bool(Kind):
    def takes(self, kind, value):
        return kind == "bool"


class Number(Kind):
    """whole: no fractions. zero: 0 is taken beside the range."""
    def __init__(self, low, high, *with_, whole=True, zero=False, below=False):
        self.low, self.high, self.whole, self.zero, self.below, self.with_ = low, high, whole, zero, below, with_
        step = 1 if whole else 1e-6
        self.bounds = [self.text(low)] + ([] if below or high == 2**63 - 1 else [self.text(high)])
        if zero:
            self.bounds.insert(0, "0")
        more = [low - 1, high + 1] if whole else [low - abs(low) * step if low else -1e-9, high * (1 + step)]
        self.beyond = [self.text(x) for x in more + ([high] if below else []) if not (zero and x == 0)]

    def text(self, x):
        return str(x) if self.whole else repr(float(x))

    def takes(self, kind, value):
        if kind not in ("int", "real") or not math.isfinite(value) or (kind == "int" and abs(value) > 2**63 - 1 and self.whole):
            return False
        if self.whole and kind == "real" and (value != math.floor(value) or abs(value) > 2**53):
            return False
        return (self.zero and value == 0) or (self.low <= value and (value < self.high if self.below else value <= self.high))


class Signal(Number):
    """The number of a signal that a run can wait for."""
    def takes(self, kind, value):
        return super().takes(kind, value) and value not in (4, 5, 6, 7, 8, 9, 11, 13, 17, 19, 31, 32, 33)


def real(low, high, *with_, **more):
    return Number(low, high, *with_, whole=False, **more)


class Maybe(Kind):
    """A number, or a word for none."""
    def __init__(self, of, word="none"):
        self.of, self.word, self.bounds, self.beyond, self.with_ = of, word, [word] + of.bounds, of.beyond, of.with_

    def takes(self, kind, value):
        return self.of.takes(kind, value)


class Text(Kind):
    def __init__(self, filled=False, choices=(), most=4096, example="", with_=()):
        self.filled, self.choices, self.most, self.with_ = filled, choices, most, with_
        self.bounds = [c for c in (*choices, example) if c]

    def takes(self, kind, value):
        if kind in ("list", "map") or (kind == "real" and not math.isfinite(value)):
            return False
        text = "" if kind == "null" else str(value)
        if self.choices:
            return text in self.choices
        return len(text) <= self.most and not (self.filled and not text)


class TextOrMap(Text):
    """A path, or the map that would stand in its file."""
    def takes(self, kind, value):
        return kind == "map" or super().takes(kind, value)


class Split(Kind):
    """Shares of train, valid and test."""
    bounds = ("969,30,1", "98/1/1", "1", "0,0,1")
    beyond = ("x", "1,x", "0,0,0", "1,1,1,1", "1,-1", "1;1")

    def takes(self, kind, value):
        return kind in ("int", "real") and 0 < value <= 1e15 and value != 1e-300


class ListOf(Kind):
    """One value stands for a list of one."""
    def __init__(self, of, count=None):
        self.of, self.count = of, count
        repeat = (lambda x: f"[{', '.join([x] * count)}]") if count and count > 1 else str
        self.bounds, self.beyond, self.with_ = list(map(repeat, of.bounds)), list(map(repeat, of.beyond)), of.with_

    def takes(self, kind, value):
        if kind == "null":
            return not self.count
        items = value if kind == "list" else [(kind, value)]
        return (self.count is None or len(items) == self.count) and all(self.of.takes(*item) for item in items)


class MapOf(Kind):
    """Names to numbers."""
    def __init__(self, of):
        self.of = of
        self.bounds, self.beyond = [f"{{x: {b}, y.z: {b}}}" for b in of.bounds], [f"{{x: {b}}}" for b in of.beyond]

    def takes(self, kind, value):
        if kind == "map":
            return all(self.of.takes(*parsed(pair.split(":")[1].strip())) for pair in value[1:-1].split(",") if pair.strip())
        return kind == "null"


class Ranges(Kind):
    """Numbers and ranges between bars; nothing stands for all."""
    bounds = ("0|5-8|100-120", "7")
    beyond = ("x", "5-3", "1|", "-1", "1,2")

    def takes(self, kind, value):
        return kind == "null" or (kind == "int" and 0 <= value < 2**63) or (kind == "text" and value in ("", *self.bounds))


class Records(Kind):
    """Maps; `bare`: a text stands for one of them."""
    def __init__(self, bare=False):
        self.bare = bare

    def takes(self, kind, value):
        if kind == "null":
            return True
        if kind == "list":
            return all(self.bare and k not in ("list", "map", "null") for k, _ in value)
        return self.bare and kind != "map" and Text(filled=True).takes(kind, value)


STEPS, RANKS, TOKENS = 10**9, 2**15, 2**24
FORMATS = ("auto", "text", "alpaca", "sharegpt", "messages")
TYPES = ("f32", "bf16", "f16", "f64")
NAME, FREE = Text(filled=True), Text()
CLASSES = ("LRRangeTest", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "ConstantWarmUpLR", "ConstantWithCoolDownLR", "LinearWithWarmUpLR", "CosineWithWarmUpLR",
           "CosineWithRestartsAndWarmUpLR", "PolynomialWithWarmUpLR")  # the others need an argument: schedules.py

OPTIONS = {
    "model.path": FREE, "model.config": TextOrMap(most=65536), "model.weights": FREE, "model.tokenizer": FREE,
    "model.vocabulary": Number(-1, 2**30), "model.new_rows": Text(choices=("mean", "normal")), "model.tie": Text(choices=("stored", "tied", "untied")),
    "lora.rank": Number(0, 65536), "lora.alpha": real(1e-6, 1e9), "lora.dropout": real(0, 1, below=True), "lora.targets": ListOf(FREE), "lora.rslora": Bool(),
    "lora.rank_pattern": MapOf(Number(1, 65536)), "lora.alpha_pattern": MapOf(real(1e-6, 1e9)), "lora.layers": ListOf(Number(0, 10**9)), "lora.save": ListOf(FREE),
    "lora.path": FREE, "lora.merge": Bool(), "lora.base": Text(choices=("", "bf16", "nf4")),
    "moe.load_balance": Text(choices=("stored", "none", "aux", "seq_aux", "global_aux", "bias")), "moe.bias_update_rate": real(0, 1e6), "moe.aux_loss": Maybe(real(0, 1e6), "stored"), "moe.z_loss": Maybe(real(0, 1e6), "stored"),
    "moe.capacity_factor": real(0, 1e6, "moe.drop=position"), "moe.drop": Text(choices=("none", "position", "rank", "probs")), "moe.pad_to_capacity": Bool(),
    "moe.router_dtype": Text(choices=("f32",)), "moe.shared_gate": Text(choices=("stored", "gated", "plain")),
    "data.train": Records(bare=True), "data.valid": Records(bare=True),
    "data.valid_fraction": real(1e-6, 1, zero=True, below=True),
    "data.sequence_length": Number(2, TOKENS), "data.text_key": NAME, "data.format": Text(choices=FORMATS), "data.chat_template": FREE,
    "data.loss_on": Text(choices=("answers", "last", "all")), "data.too_long": Text(choices=("cut", "drop")), "data.pass_end": Text(choices=("go-on", "short", "drop")),
    "data.pack": Bool(), "data.predict_next_block": Bool(), "data.document_attention": Bool(), "data.append_eos": Bool(), "data.shuffle": Bool(), "data.cache": Bool(),
    "data.skip_steps": ListOf(Number(1, STEPS)), "data.prefetch": Number(0, 2**16),
    "data.order": Text(choices=("philox", "megatron", "megatron-2023", "mindspore", "mindspore-whole")), "data.labels": Bool(), "data.pad": Number(-1, 2**31 - 1), "data.samples": Number(0, 10**12), "data.seed": Number(-1, 2**63 - 1), "data.split": Split(), "data.index_cache": FREE,
    "data.reset_position_ids": Bool(), "data.reset_attention_mask": Bool(), "data.eod_mask_loss": Bool(), "data.eod": Number(-1, 2**31 - 1),
    "train.steps": Number(1, STEPS), "train.epochs": real(0, 1e6), "train.global_batch": Number(1, 2**20, "train.micro_batch=16"),
    "train.micro_batch": Number(1, 2**20, "train.global_batch=1048576", "data.sequence_length=16"), "train.seed": Number(0, 2**63 - 1),
    "train.output": NAME, "train.recompute": Text(choices=("none", "cheap", "full", "auto")), "train.memory_mb": Number(0, 10**9), "train.dropout": real(0, 0.99), "train.attention_dropout": real(0, 0.99),
    "train.valid_every": Number(0, STEPS), "train.valid_batches": Number(0, STEPS), "train.exit_every": Number(0, STEPS), "train.exit_minutes": real(1e-6, 1e7, zero=True), "train.find_nan": Bool(), "train.threads": Number(0, 4096),
    "train.freeze": ListOf(NAME), "train.loss_average": Text(choices=("tokens", "micro", "global-micro")), "train.objective": Text(choices=("causal", "dpo")),
    "dpo.loss": Text(choices=("sigmoid", "hinge", "ipo")), "dpo.beta": real(1e-6, 1e6), "dpo.label_smoothing": real(0, 0.5, below=True), "dpo.ftx": real(0, 1e6), "dpo.reference": FREE,
    "optimizer.type": Text(choices=("adamw", "adam", "sgd", "adagrad", "adafactor", "lamb", "lion", "muon", "came", "cadam", "onebit_adam", "zeroone_adam", "onebit_lamb")),
    "optimizer.lr": real(1e-12, 1e30, zero=True),
    "optimizer.betas": ListOf(real(0, 0.999999), 2), "optimizer.eps": ListOf(real(1e-20, 1), 1),
    "optimizer.weight_decay": real(1e-12, 1e4, "optimizer.lr=1e-5", zero=True), "optimizer.clip_norm": real(1e-8, 1e12, zero=True),
    "optimizer.momentum": real(0, 0.999999), "optimizer.nesterov": Bool(), "optimizer.dampening": real(0, 1), "optimizer.groups": Records(),
    "optimizer.decay": Text(choices=("matrices", "all")),
    "optimizer.lr_decay": real(1e-12, 1e6, zero=True), "optimizer.initial_accumulator_value": real(1e-30, 1e12, zero=True), "optimizer.beta1": real(0, 0.999999),
    "optimizer.beta3": real(0, 0.999999), "optimizer.clip_threshold": real(1e-6, 1e6), "optimizer.decay_rate": real(-1, 1), "optimizer.scale_parameter": Bool(),
    "optimizer.relative_step": Bool(), "optimizer.warmup_init": Bool(), "optimizer.bias_correction": Bool(), "optimizer.max_coeff": real(1e-12, 1e12),
    "optimizer.min_coeff": real(1e-12, 1e12, zero=True), "optimizer.ns_coefficients": ListOf(real(-100, 100), 3), "optimizer.ns_steps": Number(1, 99),
    "optimizer.adjust_lr_fn": Text(choices=("original", "match_rms_adamw")), "optimizer.freeze_step": Number(2, STEPS), "optimizer.var_freeze_step": Number(2, STEPS),
    "optimizer.var_update_scaler": Number(1, STEPS), "optimizer.local_step_scaler": Number(1, STEPS), "optimizer.local_step_clipper": Number(1, STEPS),
    "optimizer.coeff_beta": real(0, 0.999999), "optimizer.factor_max": real(1e-6, 1e6), "optimizer.factor_min": real(1e-6, 1e6), "optimizer.factor_threshold": real(1e-6, 1),
    "schedule.type": Text(choices=("constant", "linear", "cosine", "polynomial", "cosine_with_restarts", "inverse_sqrt", "warmup_stable_decay", "cosine_warmup_with_min_lr", *CLASSES)),  # two more follow a validation: plateau.py
    "schedule.warmup_steps": Number(0, STEPS), "schedule.min_lr_ratio": real(0, 1), "schedule.cycles": real(1e-3, 1e6, zero=True),
    "schedule.power": real(0.01, 100), "schedule.end_lr": real(0, 10, below=True), "schedule.timescale": Number(0, STEPS), "schedule.stable_steps": Number(-1, STEPS),
    "schedule.decay_steps": Number(0, STEPS), "schedule.warmup_type": Text(choices=("auto", "linear", "cosine", "1-sqrt")),
    "schedule.decay_type": Text(choices=("cosine", "linear", "1-sqrt")), "schedule.steps": Number(0, STEPS),
    "schedule.warmup_lr_ratio": real(1e-12, 1, zero=True), "schedule.factor": real(1e-6, 0.999999, zero=True), "schedule.patience": Number(0, STEPS),
    "schedule.threshold": real(1e-12, 1, zero=True), "schedule.threshold_mode": Text(choices=("auto", "rel", "abs")), "schedule.cooldown": Number(0, STEPS),
    "schedule.raise_cooldown": Number(0, STEPS), "schedule.lowest_lr": real(-1, 10), "schedule.highest_lr": real(1e-12, 10),
    "schedule.smooth_window": Number(0, 100000), "schedule.reset_after": Number(1, STEPS),
    "precision.compute": Text(choices=(*TYPES, "auto")), "precision.bf16_products": Text(choices=("auto", "dot", "widen")),
    "precision.gradients": Text(choices=("f32", "compute")), "precision.loss_scale": Maybe(real(1e-30, 3e38, zero=True), "auto"), "precision.scale_rule": Text(choices=("deepspeed", "deepspeed-0.13", "mindformers", "mindformers-adaptive")), "precision.scale_window_max": Number(2, STEPS, "precision.scale_window_min=1"), "precision.scale_window_min": Number(1, STEPS - 1),
    "precision.scale_initial": real(1e-30, 3e38), "precision.scale_window": Number(1, STEPS), "precision.scale_hysteresis": Number(1, STEPS),
    "precision.scale_factor": real(1.000001, 1e6), "precision.scale_min": real(1e-30, 3e38, "precision.scale_initial=3e38"), "precision.scale_consecutive_hysteresis": Bool(),
    "precision.recipes": Records(), "precision.unfused": ListOf(NAME),
    "parallel.data": Number(0, RANKS), "parallel.tensor": Number(1, RANKS), "parallel.pipeline": Number(1, RANKS), "parallel.expert": Number(1, RANKS), "parallel.sequence": Bool(),
    "parallel.zero": Number(0, 3), "parallel.sum_leaves": Number(0, 2**16), "parallel.virtual": Number(1, 4096),
    "parallel.split": Text(choices=("even", "cost")), "parallel.stage_layers": ListOf(Number(0, 4096)), "train.recompute_layers": ListOf(Number(0, 4096, "train.recompute=full")), "parallel.zero_threshold": Number(0, 10**12),
    "parallel.patience": real(2, 3600), "parallel.interface": FREE,
    "checkpoint.every": Number(0, STEPS), "checkpoint.keep": Number(0, 10**6), "checkpoint.resume": NAME, "checkpoint.shard_mb": Number(1, 10**6), "checkpoint.model_dtype": Text(choices=("auto", "f32", "bf16", "f16")),
    "checkpoint.layout": Text(choices=("ravine", "mindformers", "deepspeed", "megatron", "trainer")), "checkpoint.prefix": NAME, "checkpoint.format": Text(choices=("safetensors", "ckpt")), "checkpoint.copies": ListOf(Text(choices=("network", "trainable"))), "checkpoint.data_steps": Number(-1, STEPS),
    "checkpoint.verify": Bool(), "checkpoint.other_data": Bool(), "checkpoint.on_stop": Bool(), "checkpoint.optimizer": Bool(), "train.stop_signal": Signal(0, 64),
    "offload.optimizer": Text(choices=("none", "cpu", "disk"), with_=("offload.path=there",)), "offload.params": Text(choices=("none", "cpu", "disk"), with_=("offload.path=there",)), "offload.path": FREE,
    "offload.block_kb": Number(1, 2**20), "offload.queue_depth": Number(1, 4096), "offload.threads": Number(1, 256), "offload.buffers": Number(1, 1024), "offload.pin": Bool(),
    "log.every": Number(1, STEPS), "log.tensorboard": Bool(), "log.local_norms": Text(example="*"), "log.style": Text(choices=("ravine", "mindformers", "megatron")), "log.sink": Number(0, STEPS), "log.monitor": ListOf(Text(choices=("local_loss", "device_local_loss", "local_norm", "device_local_norm", "optimizer_state", "weight_state", "throughput", "drop_rate"))),
    "log.monitor_every": Number(1, STEPS), "log.monitor_target": FREE, "log.baseline": real(1e-9, 1e12, zero=True), "log.tensorboard_dir": FREE, "log.tensorboard_every": Number(0, STEPS), "log.figures": ListOf(Text(choices=("weight_norm", "gradient_zeros", "tflops"))), "probe.inject": Records(), "probe.dump": Records(), "train.given_gradients": Records(), "log.tensorboard_omit": ListOf(Text(choices=("learning-rate", "batch-size", "loss-scale", "world-size", "grad-norm", "iteration-time", "throughput", "B-samples-per-day", "mem-allocated-bytes", "lm-loss-validation-ppl", "expert_load"))), "log.tensorboard_monitor": ListOf(Text(choices=("local_loss", "device_local_loss", "local_norm", "device_local_norm", "optimizer_state", "weight_state", "throughput"))),
    "health.skip_norm": real(1e-12, 1e12, zero=True), "health.stop_norm": real(1e-12, 1e12, zero=True), "health.stop_not_finite": Bool(), "health.skip_count": Number(0, 10**9, "health.skip_norm=1"), "health.embedding_norm": real(1e-12, 1e18, zero=True),
}

# The arguments of other programs' schedules.
RATE = real(0, 10)
OPTIONS |= {f"schedule.{key}": kind for keys, kind in (
    ("total_steps total_num_steps decay_start_steps cycle_second_stair_count", Number(-1, STEPS)),
    ("keep_steps final_steps cycle_second_step_size cycle_first_stair_count decay_step_size", Number(0, STEPS)),
    ("warmup_num_steps cycle_first_step_size lr_range_test_step_size t_max t_0", Number(1, STEPS)), ("t_mult", Number(1, 1000)),
    ("warmup_ratio decay_ratio", Maybe(real(0, 1))), ("decay_start_ratio", Maybe(real(0, 1, below=True))), ("lr_end lr_end2 warmup_max_lr", Maybe(RATE)),
    ("num_cycles", Maybe(real(0, 1e6))), ("lr_scale decay_lr_rate lr_range_test_step_rate", real(0, 1e6)), ("decay_mom_rate warmup_min_ratio cos_min_ratio", real(0, 1)),
    ("warmup_lr_init lr_end1 eta_min warmup_min_lr lr_range_test_min_lr", RATE), ("cycle_min_lr cycle_max_lr", RATE), ("cycle_min_mom cycle_max_mom", real(0, 0.999999)),
    ("lr_decay_style", Text(choices=("constant", "linear", "cosine", "inverse-square-root"))), ("min_lr lr_warmup_init", RATE), ("lr_warmup_steps lr_decay_steps", real(0, STEPS)),
    ("cycle_momentum lr_range_test_staircase", Bool())) for key in keys.split()}

# What an option of the optimizer is given with: a type that takes it, and bounds of others that would be in its way.
BESIDE = {f"optimizer.{key}": [f"optimizer.{setting}" for setting in settings.split()] for keys, settings in {
    "momentum nesterov dampening": "type=sgd", "lr_decay initial_accumulator_value": "type=adagrad", "beta3": "type=came",
    "beta1 clip_threshold decay_rate scale_parameter relative_step warmup_init": "type=adafactor", "bias_correction": "type=lamb",
    "max_coeff": "type=lamb min_coeff=0", "min_coeff": "type=lamb max_coeff=1e12", "ns_coefficients ns_steps adjust_lr_fn": "type=muon",
    "freeze_step coeff_beta factor_threshold": "type=onebit_lamb", "factor_max": "type=onebit_lamb factor_min=1e-6", "factor_min": "type=onebit_lamb factor_max=1e6",
    "var_freeze_step var_update_scaler local_step_scaler local_step_clipper": "type=zeroone_adam"}.items() for key in keys.split()}
BESIDE |= {"data.split": ["data.order=megatron"], "moe.drop": ["moe.capacity_factor=2"], "moe.bias_update_rate": ["moe.load_balance=bias"], "moe.pad_to_capacity": ["moe.capacity_factor=2", "moe.drop=position"]}
DPO = {option: ["train.objective=dpo"] for option in OPTIONS if option.startswith("dpo.")}

# The same of the arguments of other programs' schedules.
BESIDE |= {f"schedule.{key}": [f"schedule.{setting}" for setting in settings.split()] for keys, settings in {
    "total_num_steps warmup_num_steps warmup_min_lr warmup_max_lr": "type=WarmupDecayLR", "warmup_min_ratio cos_min_ratio": "type=WarmupCosineLR",
    "cycle_first_step_size cycle_second_step_size cycle_first_stair_count cycle_second_stair_count decay_step_size decay_lr_rate cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate":
        "type=OneCycle cycle_min_lr=0 cycle_max_lr=1e-3", "cycle_min_lr": "type=OneCycle cycle_max_lr=10", "cycle_max_lr": "type=OneCycle cycle_min_lr=0",
    "lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase": "type=LRRangeTest",
    "total_steps warmup_ratio warmup_lr_init lr_end num_cycles decay_ratio": "type=CosineWithWarmUpLR", "keep_steps lr_end1 final_steps lr_end2": "type=ConstantWithCoolDownLR",
    "decay_start_steps": "type=WarmUpStableDecayLR decay_start_ratio=0.5", "decay_start_ratio": "type=WarmUpStableDecayLR decay_start_steps=1",
    "end_lr power": "type=polynomial", "cycles": "type=cosine_with_restarts", "timescale": "type=inverse_sqrt",
    "stable_steps decay_steps warmup_type decay_type": "type=warmup_stable_decay", "warmup_lr_ratio": "type=cosine_warmup_with_min_lr",
    "factor patience threshold threshold_mode cooldown lowest_lr": "type=reduce_lr_on_plateau", "raise_cooldown highest_lr smooth_window reset_after": "type=greedy lowest_lr=0",
    "t_max": "type=CosineAnnealingLR", "t_0": "type=CosineAnnealingWarmRestarts", "t_mult": "type=CosineAnnealingWarmRestarts t_0=1", "eta_min": "type=CosineAnnealingLR t_max=5",
    "min_lr": "type=OptimizerParamScheduler", "lr_warmup_init lr_decay_steps": "type=OptimizerParamScheduler", "lr_warmup_steps": "type=OptimizerParamScheduler lr_decay_steps=1e9",
    "lr_decay_style": "type=OptimizerParamScheduler lr_warmup_steps=1",
}.items() for key in keys.split()}
for key, others in BESIDE.items():
    if "schedule.type=reduce_lr_on_plateau" in others or "schedule.type=greedy" in others:
        others += ["train.valid_every=1", "optimizer.lr=1e-12"]
BESIDE["schedule.end_lr"].append("optimizer.lr=10")
BESIDE["schedule.min_lr"].append("optimizer.lr=10")
BESIDE["train.recompute"] = ["train.memory_mb=4000"]
BESIDE["precision.scale_window_min"] = [f"precision.scale_window_max={STEPS}"]
BESIDE["optimizer.lr"] = ["health.stop_not_finite=true"]  # else a rate is at most 10
BESIDE["precision.scale_window_max"] = ["precision.scale_window_min=1"]

# Fields of the elements of a list: the element around VALUE, and its kind.
SOURCE = {"weight": ("{path: x, weight: VALUE}", Maybe(real(1e-9, 1e15))), "path": ("{path: VALUE}", NAME),
          "format": ("{path: x, format: VALUE}", Text(choices=("", *FORMATS)))}
FIELDS = {
    "data.train": SOURCE, "data.valid": SOURCE,
    "optimizer.groups": {"match": ("{match: VALUE}", NAME), "lr_mult": ("{match: x, lr_mult: VALUE}", real(1e-6, 1e6, "optimizer.lr=1e-6", zero=True)),
                         "wd_mult": ("{match: x, wd_mult: VALUE}", real(1e-6, 1e6, "optimizer.lr=1e-6", zero=True)),
                         "from_step": ("{match: x, from_step: VALUE}", Number(1, STEPS))},
    "precision.recipes": {"path": ("{round: bf16, path: VALUE}", NAME), "op": ("{round: bf16, op: VALUE}", NAME),
                          "compute": ("{round: bf16, compute: VALUE}", Text(choices=("", *TYPES))),
                          "round": ("{compute: f32, round: VALUE}", Text(choices=("", "f32", "bf16", "f16"))),
                          "role": ("{round: bf16, role: VALUE}", Text(choices=("", "forward", "dx", "dw")))},
    "train.given_gradients": {"path": ("{path: VALUE}", NAME), "when": ("{path: x, when: VALUE}", Text(choices=("before_clip", "after_clip")))},
    "probe.inject": {"step": ("{step: VALUE}", Number(1, STEPS)), "path": ("{path: VALUE}", NAME), "op": ("{op: VALUE}", NAME),
                     "phase": ("{phase: VALUE}", Text(choices=("forward", "recompute", "backward", "update"))), "tensor": ("{tensor: VALUE}", NAME),
                     "value": ("{value: VALUE}", Text(choices=("nan", "inf", "-inf", "bad_alloc"))), "element": ("{element: VALUE}", Number(0, 10**15))},
    "probe.dump": {"dir": ("{dir: VALUE}", NAME), "steps": ("{dir: x, steps: VALUE}", Ranges()), "ranks": ("{dir: x, ranks: VALUE}", ListOf(Number(0, RANKS))),
                   "paths": ("{dir: x, paths: VALUE}", ListOf(NAME)), "phases": ("{dir: x, phases: VALUE}", ListOf(Text(choices=("forward", "backward", "update")))),
                   "what": ("{dir: x, what: VALUE}", Text(choices=("checksum", "statistics", "tensors"))),
                   "io": ("{dir: x, io: VALUE}", Text(choices=("both", "input", "output"))), "on": ("{dir: x, on: VALUE}", Text(choices=("always", "overflow", "nan"))),
                   "limit_mb": ("{dir: x, limit_mb: VALUE}", Number(0, 10**9))},
}

# Flags: text flags take their word as it stands, lists one word for each element.
BACKEND = {"backend": Text(choices=("cpu", "ref"))}
THREADS = {"threads": Number(0, 4096)}
JSON = {"json": Bool()}
COMPUTE = {**BACKEND, **THREADS}
BENCH = {"model": FREE, "micro-batch": Number(1, 2**20), "steps": Number(1, 10**6), "sequence-length": Number(2, TOKENS), "profile": Bool(), "timeline": NAME, "overwrite": Bool(),
         **JSON, **COMPUTE}
SPEED = {**BENCH, "sequence-length": Number(0, TOKENS), "micro-batch": Number(1, 2**16), "batch": Number(0, 2**16), "steps": Number(0, 10**6)}
HANDLERS = ("text", "GeneralInstructionHandler", "BelleMultiTurnInstructionHandler", "MOSSInstructionHandler", "MOSSMultiTurnHandler",
            "LeetcodePythonInstructionHandler", "AlpacaPretrainHandler", "StackOverflowPythonPretrainHandler", "alpaca", "sharegpt", "messages")


def one(kind):
    return ListOf(kind, 1)


DIALECTS = ("megatron", "mindformers", "trainer")  # what stands beside their own flags is another program's, refused in one message (tests/unit/train/dialects.cpp)
SAMPLING = {"max-new-tokens": one(Number(1, TOKENS)), "stop": ListOf(NAME), "stop-tokens": ListOf(NAME), "stop-ids": ListOf(Number(0, 2**31 - 1)), "sample": Bool(), "temperature": one(real(1e-6, 1e6, zero=True)), "top-k": one(Number(0, 2**31 - 1)),
            "top-p": one(real(0, 1)), "min-p": one(real(0, 1)), "typical-p": one(real(0, 1)), "repetition-penalty": one(real(1e-6, 1e6)), "no-repeat-ngram-size": one(Number(0, TOKENS)),
            "frequency-penalty": real(-100, 100), "presence-penalty": real(-100, 100), "logit-bias": MapOf(real(-1e6, 1e6)), "seed": Number(0, 2**63 - 1)}
FLAGS = {
    "chat": {"model": FREE, "adapter": FREE, "system": Text(most=2**30), "template": FREE, "modellink": FREE, **SAMPLING, **COMPUTE},
    "serve": {"model": FREE, "adapter": FREE, "host": Text(filled=True), "port": Number(0, 65535), "api-key": FREE, "api-key-file": FREE, "served-model-name": FREE, "cors": FREE, "max-batch": Number(1, 4096), "max-queue": Number(1, 10**6), "max-body": Number(1, 1024),
              "time-limit": Number(1, 10**6), "template": FREE, **COMPUTE},
    "train": {"model": FREE, **COMPUTE},
    "plan": {"model": FREE, "ranks": Number(0, RANKS), "layouts": Bool(), "decide": Bool(), "memory": real(0.001, 1e9, zero=True), "local": Number(0, 4096),
             "schedule": NAME, "svg": NAME, "procedure": Bool(), "deepspeed": NAME, "ds-config": NAME, "memory-mb": Number(0, 10**9), "overwrite": Bool(), **JSON, **COMPUTE},
    **{dialect: {"explain": Bool(), "keys": Bool(), "print-config": Bool(), "launches": Bool(), "launch": Number(0, 2**10), "ranks": Number(0, 2**15), "script": FREE, **COMPUTE} for dialect in DIALECTS},
    "stop": {}, "init": {"data": FREE, "text-key": NAME, "model": FREE}, "plot": {"keys": ListOf(FREE), "output": NAME, "log-scale": Bool(), "overwrite": Bool()}, "man": {"output": NAME, "overwrite": Bool()},
    "generate": {"model": FREE, "adapter": FREE, "use": Text(filled=True), "prompt": Text(most=2**30, filled=True), "chat": Bool(), "system": Text(most=2**30), "template": FREE, "prompts": FREE, "prompt-ids": FREE, **SAMPLING, **JSON,
                 "batch": Number(1, 2**16), "beams": one(Number(1, 4096)), "length-penalty": one(real(-100, 100)), "early-stopping": Bool(),
                 "num-return": one(Number(1, 4096)), "beam-rules": Text(choices=("transformers", "modellink")), **COMPUTE},
    "eval": {"model": FREE, "adapter": FREE, "tasks": Text(filled=True), "data": ListOf(NAME), "protocol": Text(choices=("generate", "likelihood")), "shots": one(Number(0, 1000)), "limit": Number(0, 2**63 - 1),
             "max-new-tokens": one(Number(1, TOKENS)), "batch": one(Number(1, 2**16)), "template": FREE, "split": Text(choices=("val", "test")), "completions": FREE, "allow-code": Bool(), "output": NAME,
             "overwrite": Bool(), "compare": FREE, **JSON, **COMPUTE},
    "tokenizer encode": {"tokenizer": FREE, "no-special": Bool(), "jsonl": Bool(), "npy": NAME, "overwrite": Bool()},
    "tokenizer decode": {"tokenizer": FREE, "skip-special": Bool(), "jsonl": Bool()},
    "tokenizer info": {"tokenizer": FREE, **JSON},
    "tokenizer train": {"input": ListOf(FREE), "output": NAME, "vocab-size": Number(1, 2**24), "type": Text(choices=("bpe", "unigram", "byte-bpe")),
                        "pattern": Text(choices=("gpt2", "llama3", "qwen2")), "min-frequency": Number(1, 2**31 - 1),
                        "normalization": Text(choices=("identity", "nmt_nfkc")), "character-coverage": real(0.98, 1), "byte-fallback": Bool(),
                        "split-digits": Bool(), "add-dummy-prefix": Bool(), "symbols": ListOf(FREE), "special-tokens": ListOf(FREE), "text-key": NAME, "max-bytes": Number(1, 10**15), "overwrite": Bool(),
                        **THREADS},
    "tokenizer render": {"tokenizer": FREE, "template": FREE, "bos-token": FREE, "eos-token": FREE, "jsonl": Bool()},
    "preprocess": {"input": ListOf(NAME), "load-dataset": FREE, "tokenizer": FREE, "output-prefix": NAME, "json-keys": ListOf(NAME), "append-eod": Bool(),
                   "handler": Text(choices=HANDLERS), "seq-length": Number(0, TOKENS), "template": FREE, "workers": Number(0, 4096),
                   "split-by-document": Bool(), "dtype": FREE, "strict": Bool(), "save-every": real(0, 1e6), "restart": Bool(), "overwrite": Bool()},
    "data show": {"model": FREE, "step": Number(1, STEPS), "rank": Number(0, RANKS), "ranks": Number(0, RANKS), "color": Text(choices=("auto", "always", "never")), **JSON},
    "data index": {"prefix": ListOf(NAME), "weights": ListOf(real(1e-9, 1e15)), "split": FREE, "sequence-length": Number(1, TOKENS),
                   "seed": Number(0, 2**32 - 1), "samples": FREE, "order": Text(choices=("megatron", "megatron-2023")), "first": Number(0, 10**9),
                   "reset-position-ids": Bool(), "reset-attention-mask": Bool(), "eod-mask-loss": Bool(), "eod": Number(0, 2**31 - 1),
                   "partial-validation": Bool(), "no-extra-token": Bool(), "tokenizer": FREE, "cache": NAME, "index-tokenizer": Text(most=2**20), "out": NAME, "overwrite": Bool()},
    "data merge": {"input": ListOf(NAME), "output-prefix": NAME, "overwrite": Bool()},
    "convert": {"input": FREE, "output": NAME, "to": Text(choices=("hf", "megatron-legacy", "megatron-mcore", "megatron-deepspeed", "mindformers", "deepspeed", "ravine", "peft")),
                "zero": ListOf(Number(0, 3), 1), "stage-layers": ListOf(Number(1, 100000)), "vocab-multiple": Number(0, 2**20), "ranks": Number(1, 100000), "universal": Bool(), "distributed-optimizer": Bool(),
                "from": Text(choices=("auto", "hf", "megatron", "deepspeed", "mindformers", "ravine")), "tensor": Number(1, 1000), "pipeline": Number(1, 1000),
                "virtual": Number(1, 1000), "fused": Bool(), "optimizer": Bool(), "dtype": Text(choices=("", "f32", "bf16", "f16")), "model-config": FREE, "adapter": FREE,
                "vocab-size": Number(0, 2**30), "resize-vocab": Number(0, 2**30), "experts": Text(choices=("grouped", "sequential")), "upcycle": Text(filled=True), "dry-run": Bool(), "allow-unknown": Bool(), **THREADS},
    "merge-lora": {"model": FREE, "adapter": FREE, "base": Text(choices=("", "bf16", "nf4")), "output": NAME, "dtype": Text(choices=("", "f32", "bf16", "f16")), **THREADS},
    "trace": {"model": FREE, "adapter": FREE, "input": FREE, "out": NAME, "overwrite": Bool(), "backward": Bool(), **COMPUTE},
    "replay optimizer": {"input": FREE, "out": NAME, "overwrite": Bool(), "identify": Bool(), "after": FREE, "json": Bool(), "gradients": FREE, "when": Text(choices=("before_clip", "after_clip")), **COMPUTE},
    "diff": {"only": FREE, "all": Bool(), **JSON}, "compare": {"report": NAME, "overwrite": Bool(), "from": NAME, "run": FREE, **JSON, **COMPUTE},
    "curves": {"band": FREE, "limit": real(1e-9, 1e6), "compute": Text(choices=("", "f32", "bf16", "f16", "f64")), "suggest-threshold": Bool(), "svg": NAME, "overwrite": Bool(), **JSON},
    "dump": {"from": FREE, "step": Number(0, STEPS), "out": NAME, "run": FREE, "steps": FREE, "ranks": ListOf(Number(0, RANKS)), "paths": ListOf(NAME),
             "phases": ListOf(Text(choices=("forward", "backward", "update"))), "what": Text(choices=("checksum", "statistics", "tensors")),
             "io": Text(choices=("both", "input", "output")), "limit-mb": Number(0, 10**9), **COMPUTE},
    "bench machine": {**JSON, **THREADS}, "bench messages": {**JSON},
    "bench train": BENCH, "bench prefill": SPEED, "bench decode": SPEED,
    "bisect": {"steps": Number(0, STEPS), "other-build": NAME, "features": NAME, "reference": NAME, "out": NAME, **JSON},
    "check config": {"allow": FREE, "samples": Number(0, 10**12), "ranks": Number(0, 2**20), "svg": NAME, "overwrite": Bool(), "all": Bool(), **JSON},
    "check data": {"tokenizer": FREE, "samples": Number(0, 1000), "seed": Number(0, 2**63 - 1), "rows": Number(0, 10**12), **JSON},
    "check shrink": {"layers": Number(1, 10**6), "steps": Number(1, 10**9), "out": NAME, "reference": FREE, "samples": Number(0, 10**12), **COMPUTE},
    "check step": {"compute": Text(choices=("", "f32", "bf16", "f16", "f64")), **JSON},
    "check lr0": {"model": FREE, "steps": Number(1, STEPS), "against": FREE, "loss-limit": real(1e-12, 1e6), "norm-limit": real(1e-12, 1e9), "out": NAME, "overwrite": Bool(), **JSON, **COMPUTE},
    "check baseline": {"model": FREE, "perturb": Bool(), "runs": Number(2, 100), "steps": Number(0, STEPS), "against": FREE, "out": NAME, "overwrite": Bool(), **JSON, **COMPUTE},
    "check determinism": {"model": FREE, "steps": Number(1, 10**6), "inject": FREE, **JSON, **COMPUTE},
    "check layouts": {"model": FREE, "steps": Number(1, 10**6), "inject": Text(choices=("", "sum", "cut", "mask")), **JSON, **COMPUTE},
    "config": {"model": FREE, "list": Bool(), "explain": FREE, "markdown": Bool(), "to": Text(choices=("", "megatron", "deepspeed"))},
    "info": {"tokenizer": FREE, "template": FREE, "samples": Number(0, 10**6), "tensors": Bool(), **JSON},
    "completion": {},
}


def literal(flag_kind, value):
    """What a flag is given: text flags and elements of lists are words, not YAML."""
    if isinstance(flag_kind, Text):
        return ("null", "") if value == "" else ("text", value)
    if isinstance(flag_kind, ListOf):
        word = ("text", value) if isinstance(flag_kind.of, Text) or value[:1] in ("[", "{") else parsed(value)
        return "list", [word]
    return parsed(value)


def several(jobs):
    """Calls each of `jobs`; what they found wrong, in words."""
    with concurrent.futures.ThreadPoolExecutor(1 if r.SERVED else 4) as pool:  # one process runs all commands, one after the other
        wrong = [text for text in pool.map(lambda job: job(), jobs) if text]
    r.check(not wrong, f"{len(wrong)} of {len(jobs)}:\n" + "\n".join(wrong[:60]))


def call(*arguments, **more):
    if r.SERVED:
        return r.SERVED.run([str(x) for x in arguments], more.get("cwd"), more.get("env"))
    return subprocess.run(r.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT, **more)


def short(text):
    return text if len(text) <= 60 else f"{text[:40]}.. ({len(text)} characters)"


def options_there():
    return re.findall(r"^\| `([a-z0-9_.\[\]]+)`", r.run("config", "--markdown").stdout, re.M)


def commands_there(prefix=()):
    """Every command, or action of one."""
    text = r.run(*prefix, "--help").stdout
    if prefix and "\nActions:\n" not in text:
        return [" ".join(prefix)]
    listed = text.split("\nActions:\n" if prefix else "\nUsage:", 1)[1]
    return [name for word in re.findall(r"^  ([a-z0-9-]+) {2,}", listed, re.M) for name in commands_there((*prefix, word))]


def flags_there(command):
    text = r.run(*command.split(), "--help-all").stdout
    names = re.findall(r"^  --([a-z-]+)", text.split("\nFlags:\n")[1].split("\n\n")[0], re.M)
    return set(names) - {"config", "help", "help-all"}


def test_every_option_has_a_verdict(folder):
    known = list(OPTIONS) + [f"{option}[].{field}" for option, fields in FIELDS.items() for field in fields]
    there = options_there()
    r.check(set(known) == set(there), f"without a verdict: {sorted(set(there) - set(known))}; not there: {sorted(set(known) - set(there))}")
    commands = commands_there()
    r.check(set(commands) == set(FLAGS), f"commands: {sorted(set(commands) ^ set(FLAGS))}")
    for command, flags in FLAGS.items():
        r.check(flags_there(command) == set(flags), f"flags of {command}: {sorted(flags_there(command) ^ set(flags))}")


def verdict(done, name, taken, what):
    """What is wrong with how the program took or refused a value, "" if nothing is."""
    lines = done.stderr.splitlines()
    if taken:
        return "" if done.returncode == 0 else f"{what} should be taken: {done.returncode} {short(done.stderr)}\n  {done.stderr[:300]}"
    if done.returncode != 2 or len(lines) != 1:
        return f"{what} should be refused: {done.returncode}\n  {done.stderr[:300]}"
    if name not in lines[0] or not re.fullmatch(r"error: .+ \(.+\): .+; .+", lines[0]):
        return f"{what} is refused, but not by `error: what (where): rule; fix` that names {name}:\n  {lines[0][:300]}"
    return ""


def option_cases():
    for option, kind in OPTIONS.items():
        yield option, option, "VALUE", kind
        for field, (around, of) in FIELDS.get(option, {}).items():
            yield f"{option}[].{field}", option, around, of


def test_options(folder):
    """What is refused has a process of its own; what is taken goes through one, where the last of equal keys counts."""
    jobs = []
    cases = [case for case in option_cases() if not case[0].startswith("data.valid[]")]  # the same declaration as data.train[]
    for name, option, around, kind in r.rows(cases, 1 / 8, "kinds of option have one reader (tests/unit/config); test_every_option_has_a_verdict has them all"):

        def job(values, taken, others=(), option=option, around=around):
            words = [f"{option}={around.replace('VALUE', value)}" for value in values]
            others = [*BESIDE.get(option, DPO.get(option, [])), *others]
            jobs.append(lambda: verdict(call("config", *others, *words, cwd=folder), option, taken, short(" ".join(words))))

        takes = {value: kind.takes(*parsed(value)) and not (around != "VALUE" and value == LONG) for value in VALUES}
        job([value for value in VALUES if takes[value]] + list(kind.bounds[:-1]), True)
        if kind.bounds:
            job(kind.bounds[-1:], True, kind.with_)
        for value in [v for v in VALUES if not takes[v]]:
            job([value], False)
        for value in kind.beyond:
            job([value], False, kind.with_)
    several(jobs)


def test_rules_between_options(folder):
    """What is good alone and bad together; the error names what was given."""
    bad = {
        "schedule.end_lr": ["schedule.type=polynomial", "schedule.end_lr=3e-4"],
        "optimizer.lr": ["schedule.type=polynomial", "optimizer.lr=1e-8"],
        "optimizer.weight_decay": ["optimizer.lr=0.1", "optimizer.weight_decay=100"],
        "optimizer.groups": ["optimizer.groups={match: x, lr_mult: 1e6}"],
        "optimizer.nesterov": ["optimizer.type=sgd", "optimizer.nesterov=true", "optimizer.momentum=0"],
        "optimizer.momentum": ["optimizer.momentum=0.5"],
        "optimizer.lr_decay": ["optimizer.type=lion", "optimizer.lr_decay=1"],
        "optimizer.relative_step": ["optimizer.type=adafactor", "optimizer.lr=1e-3"],
        "optimizer.max_coeff": ["optimizer.type=lamb", "optimizer.max_coeff=1e-3"],
        "dpo.beta": ["dpo.beta=0.5"],
        "dpo.label_smoothing": ["train.objective=dpo", "dpo.loss=ipo", "dpo.label_smoothing=0.1"],
        "data.loss_on": ["train.objective=dpo", "data.loss_on=all"],
        "data.order": ["train.objective=dpo", "data.order=megatron"],
        "data.split": ["data.split=969,30,1"],
        "data.format": ["train.objective=dpo", "data.format=alpaca"],
        "train.global_batch": ["train.global_batch=131072"],
        "train.micro_batch": ["train.micro_batch=1048576", "train.global_batch=1048576"],
        "parallel.data": ["parallel.data=1024", "parallel.tensor=1024"],
        "data.valid_fraction": ["data.valid=x", "data.valid_fraction=0.5"],
        "model.config": ["model.path=x", "model.config=y"],
        "parallel.stage_layers": ["parallel.split=cost", "parallel.stage_layers=[1, 2]"],
        "precision.recipes": ["precision.recipes={path: x}"],
        "moe.capacity_factor": ["moe.capacity_factor=2"],
        "moe.drop": ["moe.drop=position"],
        "moe.bias_update_rate": ["moe.bias_update_rate=0.1"],
        "moe.load_balance": ["moe.load_balance=bias", "lora.rank=2"],
        "moe.pad_to_capacity": ["moe.pad_to_capacity=true"],
    }
    several([lambda n=name, a=arguments: verdict(call("config", *a), n, False, " ".join(a)) for name, arguments in bad.items()])
    # Adam adds the decay to the gradient, which it scales to one.
    r.run("config", "optimizer.type=adam", "optimizer.lr=0.1", "optimizer.weight_decay=100")


def test_flags(folder):
    """A flag that comes last and that nobody has is refused once all before it were taken; so nothing runs."""
    def tried(command, flag, value, taken):
        done = call(*command.split(), f"--{flag}={value}", "--no-such-flag", cwd=folder)
        line = done.stderr.strip()
        what = short(f"{command} --{flag}={value}")
        if done.returncode != 2 or "\n" in line:
            return f"{what}: {done.returncode} {line[:300]}"
        passed = "unknown flag '--no-such-flag'" in line
        if passed != taken:
            return f"{what} should be {'taken' if taken else 'refused'}:\n  {line[:300]}"
        return "" if passed or f"--{flag}" in line else f"{what} is refused without its name:\n  {line[:300]}"

    jobs, seen = [], set()
    cases = [(command, flag, kind) for command, flags in FLAGS.items() if command not in DIALECTS for flag, kind in flags.items()]
    for command, flag, kind in r.rows(cases, 1 / 6, "kinds of flag have one reader; test_every_option_has_a_verdict has them all"):
        tries = [(value, kind.takes(*literal(kind, value))) for value in FLAG_VALUES]
        tries += [(value, True) for value in kind.bounds if not isinstance(kind, ListOf) or kind.count == 1] + [(value, False) for value in kind.beyond]
        # A declaration that several commands share is tried whole once, then with two values.
        whole = flag not in ("threads", "backend", "json", "model", "tokenizer", "template") or flag not in seen
        seen.add(flag)
        jobs += [lambda c=command, f=flag, v=value, t=taken: tried(c, f, v, t) for value, taken in dict.fromkeys(tries if whole else tries[:2])]
    several(jobs)


# Options whose bounds and choices are run: two steps of a tiny model. Left out are those that only a larger run, other data or other ranks give a meaning, and
# those that ask for more memory or time than a test has. The first few leave the update alone and are tried together.
TOGETHER = ["data.append_eos", "data.prefetch", "data.shuffle", "data.skip_steps", "train.seed", "train.recompute", "train.dropout", "train.valid_every",
            "train.valid_batches", "train.find_nan", "parallel.zero", "parallel.zero_threshold", "parallel.patience", "checkpoint.keep", "checkpoint.shard_mb", "checkpoint.model_dtype",
            "checkpoint.verify", "log.every", "log.local_norms", "health.embedding_norm"]
STABLE = ["schedule.type=warmup_stable_decay"]
ALONE = {"train.loss_average": [], "optimizer.decay": [], "health.skip_norm": [], "optimizer.type": [], "optimizer.lr": [], "optimizer.betas": [], "optimizer.eps": [], "optimizer.clip_norm": [], "optimizer.weight_decay": ["optimizer.lr=1e-5"],
         **{option: others for option, others in BESIDE.items() if option.startswith("optimizer.") and option not in ("optimizer.clip_threshold", "optimizer.max_coeff", "optimizer.min_coeff", "optimizer.ns_coefficients")}, "schedule.type": [], "schedule.warmup_steps": [],
         "schedule.min_lr_ratio": [], "schedule.steps": [], "schedule.cycles": ["schedule.type=cosine_with_restarts"],
         "schedule.power": ["schedule.type=polynomial"], "schedule.timescale": ["schedule.type=inverse_sqrt"],
         "schedule.end_lr": ["schedule.type=polynomial"], "schedule.stable_steps": STABLE, "schedule.decay_steps": STABLE, "schedule.warmup_type": STABLE, "schedule.decay_type": STABLE,
         "schedule.warmup_lr_ratio": ["schedule.type=cosine_warmup_with_min_lr"]}


def test_taken_values_train(folder):
    """What is taken runs, and ends with finite numbers."""
    base = ["model.config=" + r.save_config(folder / "m.json", num_hidden_layers=1), f"data.train={r.save_ids(folder / 'ids.safetensors', 8, 16)}",
            "data.sequence_length=16", "train.steps=2", "train.global_batch=2", "schedule.warmup_steps=0", "log.tensorboard=false", "checkpoint.every=0",
            "train.threads=1"]
    r.run("train", *base, f"train.output={folder / 'first'}")

    def tried(number, words):
        output = folder / str(number)
        done = call("train", *base, *words, f"train.output={output}")
        if "optimizer.lr=1e+30" in words:  # such a step is what the rule is for
            return "" if done.returncode == 1 and "health.stop_not_finite" in done.stderr else f"{' '.join(words)}: {done.returncode} {done.stderr[-300:]}"
        if done.returncode != 0:
            return f"{' '.join(words)}: {done.returncode} {done.stderr[-300:]}"
        rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()] if (output / "metrics.jsonl").exists() else []
        numbers = [row[key] for row in rows for key in ("loss", "grad_norm", "lr") if key in row]
        weights = [x for _, _, body in r.load_tensors(output / "model").values() for x in memoryview(body).cast("f")]
        return "" if all(map(math.isfinite, numbers + weights)) else f"{' '.join(words)} ends in NaN: {numbers}"

    def values(option):
        return list(OPTIONS[option].bounds) or ["'*'" if option == "log.local_norms" else "true"]  # a pattern has to match

    runs = [[f"{option}={values(option)[i % len(values(option))]}" for option in TOGETHER] for i in range(3)]
    runs += [[*others, f"{option}={value}"] for option, others in ALONE.items() for value in values(option)]
    several([lambda n=n, w=words: tried(n, w) for n, words in enumerate(r.rows(runs, 1 / 6, "each option has a test of what it does"))])


def test_plans_end(folder):
    """The largest batches, lengths and numbers of ranks that are taken are planned, not waited for; what would have to be one rank's is refused."""
    model = "model.config=" + r.save_config(folder / "m.json", max_position_embeddings=1 << 20)
    largest = [["data.sequence_length=1048576"], ["train.global_batch=65536", "data.sequence_length=16"], ["--ranks=32768", "train.global_batch=65536", "data.sequence_length=16"],
               ["train.global_batch=1048576", "train.micro_batch=1048576", "data.sequence_length=2"]]

    def tried(arguments):
        done = call("plan", model, *arguments, "--json")
        if done.returncode != 0:
            return f"plan {arguments}: {done.returncode} {done.stderr[:300]}"
        plan = json.loads(done.stdout)
        return "" if plan["total"] > 0 and math.isfinite(plan["seconds_per_step_at_peak"]) else f"plan {arguments}: {plan['total']}"

    several([lambda a=arguments: tried(a) for arguments in r.rows(largest, 1, "each is the largest of its kind")])
    leaves = r.run("plan", model, "train.global_batch=65536", "data.sequence_length=16", "parallel.sum_leaves=65536", status=2).stderr
    r.check("parallel.sum_leaves" in leaves and "256" in leaves, leaves)


if __name__ == "__main__":
    r.main(globals())
