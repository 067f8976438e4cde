"""`ravine trainer`: flags of Transformers' Trainer and DeepSpeed configs lead to the options that they should, every key is explained, contradictions are said all at once, and a run is the
run of the config that is printed. What "auto" comes to is worked out here from the documentation of Transformers; real programs are compared with by `check_deepspeed.py` of tools/shared_checks.py."""
import json
import re
from pathlib import Path

import ravine_run as r
from ravine_run import check

SOURCES = Path(__file__).resolve().parents[2] / "src" / "dialects"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "deepspeed"
ADAM = {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}}


def prepare(folder):
    r.save_config(folder / "model" / "config.json")
    r.save_ids(folder / "ids.safetensors", 16, 16)


def line(folder, *flags):
    return ["trainer", "--model_name_or_path", folder / "model", "--output_dir", folder / "out", "--max_steps", "20", "--do_train", *flags]


def ask(folder, config, *flags, what="--print-config", status=0, ranks=2):
    words = list(flags)
    if config is not None:
        (folder / "ds.json").write_text(config if isinstance(config, str) else json.dumps(config, indent=1))
        words += ["--deepspeed", folder / "ds.json"]
    return r.run(*line(folder, *words, "--ranks", ranks, what), status=status)


def explained(folder, config, *flags, **more):
    done = ask(folder, config, *flags, what="--explain", **more)
    return {x["key"]: x for x in map(json.loads, done.stdout.splitlines())}, done


def option(done, name):
    section, key = name.split(".")
    inside = re.search(rf"^{section}:\n((?:  .*\n)*)", done.stdout, re.M)[1]
    return re.search(rf"^  {key}: (.*)$", inside, re.M)[1]


def put(config, key, value):
    """A copy with the dotted key set."""
    out = json.loads(json.dumps(config))
    at = out
    for part in key.split(".")[:-1]:
        at = at.setdefault(part, {})
    at[key.split(".")[-1]] = value
    return out


def test_auto_is_filled(folder):
    prepare(folder)
    config = {"fp16": {"enabled": "auto", "initial_scale_power": 10}, "optimizer": ADAM, "gradient_clipping": "auto", "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
              "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}},
              "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}}
    flags = ["--fp16", "--learning_rate", "3e-4", "--adam_beta2", "0.95", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "3", "--warmup_ratio", "0.3", "--max_grad_norm", "0.7"]
    lines, _ = explained(folder, config, *flags)
    hidden = r.TINY["hidden_size"]
    want = {"fp16.enabled": True, "optimizer.params.lr": 3e-4, "optimizer.params.betas": [0.9, 0.95], "optimizer.params.eps": 1e-8, "train_batch_size": 12, "gradient_clipping": 0.7, "scheduler.params.warmup_num_steps": 6,
            "scheduler.params.total_num_steps": 20, "scheduler.params.warmup_min_lr": 0, "scheduler.params.warmup_max_lr": 3e-4, "zero_optimization.reduce_bucket_size": hidden * hidden,
            "zero_optimization.stage3_prefetch_bucket_size": int(0.9 * hidden * hidden), "zero_optimization.stage3_param_persistence_threshold": 10 * hidden}
    for key, value in want.items():
        check(lines[key]["value"] == value, f"{key}: {lines[key]} instead of {value}")
    printed = ask(folder, config, *flags)
    for name, value in {"train.global_batch": "12", "train.micro_batch": "2", "optimizer.lr": "3e-4", "optimizer.decay": "all", "precision.compute": "f16", "precision.scale_initial": "1024", "parallel.zero": "3",
                        "schedule.type": "WarmupDecayLR", "schedule.warmup_num_steps": "6", "optimizer.clip_norm": "0.7", "train.steps": "20"}.items():
        got = option(printed, name)
        check(got == value or float(got) == float(value), f"{name}: {got} instead of {value}")


def test_versions_differ(folder):
    prepare(folder)
    config = {"optimizer": ADAM, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}}
    for version, steps, average in (("4.37", 0, "micro"), ("5.23", 1, "tokens")):
        lines, _ = explained(folder, config, "--transformers_version", version)
        check(lines["scheduler.params.warmup_num_steps"]["value"] == steps, f"{version}: {lines}")
        check(option(ask(folder, config, "--transformers_version", version), "train.loss_average") == average, version)


def test_contradictions_come_all_at_once(folder):
    prepare(folder)
    config = {"train_batch_size": 3, "gradient_accumulation_steps": "2", "gradient_clipping": 0.5, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.8, 0.9]}}, "nonsense_key": 1, "fp16": {"initial_scale": 3}}
    said = ask(folder, config, "--learning_rat", "3", status=2).stderr
    for words in ("train_batch_size", "gradient_accumulation_steps", "gradient_clipping", "max_grad_norm", "optimizer.params.lr", "learning_rate", "0.001", "5e-5", "optimizer.params.betas", "nonsense_key", "fp16.initial_scale", "--learning_rat"):
        check(words in said, f"{words} is not named: {said}")
    check(said.count("error:") == 1, said)


def test_no_error_beside_its_cause(folder):
    """A flag that cannot be read is refused alone: what would follow from it is not missed too."""
    prepare(folder)
    flags = ["trainer", "--model_name_or_path", folder / "model", "--train_file", folder / "ids.safetensors", "--do_train"]
    for wrong, named in ((["--max_steps", "many", "--output_dir", "o"], "--max_steps"), (["--max_steps", "2", "--output_dri", "o"], "--output_dir"), (["--max_steps", "2", "--output_dir"], "--output_dir"),
                         (["--num_train_epochs", "0", "--output_dir", "o", "--warmup_ratio", "0.1"], "--num_train_epochs")):
        said = r.run(*flags, *wrong, status=2).stderr
        check(named in said and "keys are refused" not in said and "missing" not in said, said)
    said = r.run(*flags, "--max_steps", "many", "--do_train", "maybe", status=2).stderr
    check("2 keys are refused" in said and "--max_steps" in said and "--do_train" in said, said)


def test_what_ends_deepspeed_is_refused(folder):
    """A stage that is null, any other field of ZeRO that may not be, and a decay without its length."""
    prepare(folder)
    for key in ("reduce_bucket_size", "stage3_param_persistence_threshold", "contiguous_gradients", "offload_optimizer.device"):
        section, _, field = key.rpartition(".")
        zero = {"stage": 3, section: {field: None}} if section else {"stage": 3, field: None}
        said = ask(folder, {"zero_optimization": zero}, status=2).stderr
        check(f"zero_optimization.{key}" in said and "null" in said, said)
    ask(folder, {"zero_optimization": {"stage": 3, "offload_param": None, "offload_optimizer": None, "overlap_comm": None}})
    said = ask(folder, {"zero_optimization": {"stage": None}}, status=2).stderr
    check("zero_optimization.stage" in said and "null" in said, said)
    for kind in ("WarmupDecayLR", "WarmupCosineLR"):
        for params in ({"warmup_num_steps": 2}, {"warmup_num_steps": 2, "total_num_steps": None}):
            said = ask(folder, {"scheduler": {"type": kind, "params": params}}, "--warmup_steps", "2", status=2).stderr
            check("scheduler.params.total_num_steps" in said and kind in said, said)
        ask(folder, {"scheduler": {"type": kind, "params": {"warmup_num_steps": 2, "total_num_steps": "auto"}}}, "--warmup_steps", "2")
    said = ask(folder, {"checkpoint": {"use_node_local_storage": True}}, status=2).stderr
    check("use_node_local_storage" in said and "name an --output_dir that all nodes see" in said, said)


def test_optimizers_that_the_documentation_promises(folder):
    """Lamb and OneBitAdam under ZeRO are taken with one notice; those that it does not promise are refused."""
    prepare(folder)
    for kind, divided in (("Lamb", "2"), ("OneBitAdam", "0")):
        done = ask(folder, {"optimizer": {"type": kind, "params": {"lr": "auto"}}, "zero_optimization": {"stage": 2}})
        check(sum(kind in line and "ZeRO 2" in line for line in done.stderr.splitlines()) == 1, done.stderr)
        check(option(done, "parallel.zero") == divided, done.stdout)
    for kind in ("ZeroOneAdam", "OneBitLamb"):
        check(kind in ask(folder, {"optimizer": {"type": kind, "params": {"lr": "auto"}}, "zero_optimization": {"stage": 2}}, status=2).stderr, kind)


def test_errors_name_the_flag(folder):
    """Of the options that an error speaks of the keys that lead there."""
    prepare(folder)
    (folder / "file").write_text("")
    said = r.run("trainer", "--model_name_or_path", folder / "model", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", "2", "--output_dir", folder / "file", status=2).stderr
    check("--output_dir" in said, said)
    said = r.run(*line(folder, "--train_file", folder / "ids.safetensors"), "--resume_from_checkpoint", folder / "nowhere", status=2).stderr
    check("checkpoint.resume is --resume_from_checkpoint" in said, said)
    said = r.run("train", f"model.path={folder / 'model'}", f"data.train={folder / 'ids.safetensors'}", "train.steps=2", f"train.output={folder / 'file'}", status=2).stderr
    check("--output_dir" not in said, said)


def test_what_is_forgiven_is_said(folder):
    prepare(folder)
    text = '{"zero_optimization": {"stage": 2, "aio": {"block_size": 262144,},},}'
    lines, done = explained(folder, text)
    check("comma" in done.stderr and "aio" in done.stderr, done.stderr)
    check(lines["zero_optimization.aio.block_size"]["status"] == "used", f"{lines}")
    said = ask(folder, '{\n"a": 1,\n"a": 2}', status=2).stderr
    check("given twice" in said and "ds.json:3" in said, said)


def test_a_file_that_is_cut_short(folder):
    """Wherever it ends, the error speaks of what is missing at its end, and names the bracket that is open."""
    prepare(folder)
    whole = '{\n"zero_optimization": {\n"stage": 2,\n"offload_optimizer": {"device": "cpu"}\n},\n"betas": [1, 2]\n}'
    for end, wanted in ((len(whole) - 1, "add the } that closes the { of line 1"), (whole.index("]"), "add the ] that closes the [ of line 6"), (whole.index("2]"), "the [ of line 6"), (whole.index('"betas"'), "the { of line 1"), (whole.index("2,") + 2, "the { of line 2"),
                        (whole.index("2,"), "the { of line 2"), (whole.index(': "cpu"'), "the { of line 4"), (whole.index('"cpu"'), "the { of line 4"), (whole.index('"cpu"') + 3, "a text is not closed"), (1, "the { of line 1")):
        said = ask(folder, whole[:end], status=2).stderr
        check("ds.json:" in said and wanted in said and ("it ends in the middle" in said) == ("line" in wanted), f"{whole[:end]!r}: {said}")


# Of every key that deepspeed.cpp decides about: a value, and what has to stand beside it. The config printed differs from that of BASE, or the key is refused by name.
BASE = {"optimizer": ADAM, "zero_optimization": {"stage": 2}}
HALF = {"fp16": {"enabled": True}}
OFF = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}}
DISK = {"zero_optimization": {"stage": 3, **{s: {"device": "nvme", "nvme_path": "/there"} for s in ("offload_optimizer", "offload_param")}}}
FLIPS = {
    "train_batch_size": (9, {}, []), "train_micro_batch_size_per_gpu": (2, {}, []), "gradient_accumulation_steps": (3, {}, []), "gradient_clipping": (0.25, {}, []),
    "prescale_gradients": (True, {}, []), "gradient_predivide_factor": (2.0, {}, []),
    "data_types.grad_accum_dtype": ("bf16", {"bf16": {"enabled": True}}, ["--bf16"]),
    "fp16.enabled": (True, {}, []), "fp16.loss_scale": (128, HALF, ["--fp16"]), "fp16.initial_scale_power": (8, HALF, ["--fp16"]), "fp16.loss_scale_window": (7, HALF, ["--fp16"]), "fp16.hysteresis": (5, HALF, ["--fp16"]),
    "fp16.consecutive_hysteresis": (True, HALF, ["--fp16"]), "fp16.min_loss_scale": (4, HALF, ["--fp16"]), "bf16.enabled": (True, {}, []), "bf16.check_grad_overflow": (True, {"bf16": {"enabled": True}}, ["--bf16"]),
    "optimizer.type": ("Lion", {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}, []), "scheduler.type": ("OneCycle", {"scheduler": {"params": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3}}}, []), "zero_optimization": (True, {"zero_optimization": None}, []),
    "zero_optimization.stage": (1, {}, []), "zero_optimization.reduce_scatter": (False, {"prescale_gradients": True}, []), "zero_optimization.allgather_bucket_size": (3, {}, []),
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": (True, {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}, ["--bf16"]),
    "zero_optimization.stage3_gather_fp16_weights_on_model_save": (True, {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}, ["--bf16"]),
    "zero_optimization.stage3_param_persistence_threshold": (24576, {"zero_optimization": {"stage": 3}}, []),
    "zero_optimization.cpu_offload": (True, {}, []), "zero_optimization.cpu_offload_param": (True, {"zero_optimization": {"stage": 3}}, []), "zero_optimization.cpu_offload_params": (True, {"zero_optimization": {"stage": 3}}, []),
    "zero_optimization.cpu_offload_use_pin_memory": (False, OFF, []), "zero_optimization.offload_optimizer.device": ("cpu", {}, []), "zero_optimization.offload_optimizer.nvme_path": ("/here", DISK, []),
    "zero_optimization.offload_optimizer.buffer_count": (9, DISK, []), "zero_optimization.offload_optimizer.pin_memory": (False, OFF, []), "zero_optimization.offload_optimizer.ratio": (0.5, {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}, []),
    "zero_optimization.offload_param.device": ("cpu", {"zero_optimization": {"stage": 3}}, []), "zero_optimization.offload_param.nvme_path": ("/here", DISK, []), "zero_optimization.offload_param.buffer_count": (9, DISK, []),
    "zero_optimization.offload_param.pin_memory": (False, OFF, []), "aio.block_size": (8192, DISK, []), "aio.queue_depth": (3, DISK, []), "aio.thread_count": (3, DISK, []), "aio.intra_op_parallelism": (3, DISK, []),
    "tensorboard.enabled": (False, {}, []),
}
TYPED = {"Lamb": {"max_coeff": 5, "min_coeff": 0.1, "bias_correction": False}, "SGD": {"momentum": 0.5, "dampening": 0.1, "nesterov": False}, "Adagrad": {"lr_decay": 0.1, "initial_accumulator_value": 0.1}, "Adam": {"adam_w_mode": False, "bias_correction": False}, "AdamW": {"bias_correction": False},
         "OneBitAdam": {"freeze_step": 7}, "ZeroOneAdam": {"var_freeze_step": 7, "var_update_scaler": 7, "local_step_scaler": 7, "local_step_clipper": 7}, "OneBitLamb": {"coeff_beta": 0.5, "factor_max": 5, "factor_min": 0.1, "factor_threshold": 0.3}}


def decided(file):
    """Keys or flags of a table that have an effect."""
    return set(re.findall(r'\{"([\w.]+)", \w+, (?:"[^"]*", )?(?:by_value|renamed)', (SOURCES / file).read_text()))


def test_every_key_of_a_config_acts(folder):
    prepare(folder)
    keys = decided("deepspeed_keys.cpp")
    check(keys == set(FLIPS), f"without a row here: {keys - set(FLIPS)}; no longer there: {set(FLIPS) - keys}")
    idle = []
    for key, (value, beside, flags) in FLIPS.items():
        base = {k: v for k, v in {**BASE, **beside}.items() if v is not None}
        (folder / "ds.json").write_text(json.dumps(put(base, key, value)))
        words = line(folder, *flags, "--deepspeed", folder / "ds.json", "--ranks", "1", "--print-config")
        flipped = r.subprocess.run(r.command(*words), capture_output=True, text=True)
        (folder / "ds.json").write_text(json.dumps(base))
        plain = r.subprocess.run(r.command(*words), capture_output=True, text=True)
        refused = flipped.returncode == 2 and key.split(".")[-1] in flipped.stderr
        lifted = plain.returncode == 2 and flipped.returncode == 0
        if not (refused or lifted or flipped.returncode == plain.returncode == 0 and flipped.stdout != plain.stdout):
            idle.append(f"{key}: {value} changes nothing\n{flipped.stderr}{plain.stderr}")
    check(not idle, "\n".join(idle))


def test_parameters_of_optimizers_act(folder):
    prepare(folder)
    for kind, params in TYPED.items():
        base = {"optimizer": {"type": kind, "params": {"lr": 5e-5, "weight_decay": 0}}, "zero_allow_untested_optimizer": True}
        plain = ask(folder, base).stdout
        for name, value in params.items():
            flipped = ask(folder, put(base, f"optimizer.params.{name}", value)).stdout
            check(flipped != plain or value is False and name == "nesterov", f"{kind}: {name} changes nothing")
        said = ask(folder, put(base, "optimizer.params.strange", 1), status=2).stderr
        check("strange" in said and kind in said, said)


# Of every flag that trainer.cpp decides about: words, and flags beside them.
FLAGS = {
    "model_name_or_path": None, "output_dir": None, "do_train": None, "max_steps": None, "deepspeed": None, "config_name": None, "dataset_name": None, "ignore_data_skip": None,  # `line` has them, or tests of their own
    "tokenizer_name": (["tok"], []), "train_file": (["ids.safetensors"], []), "validation_file": (["v.txt"], []), "max_eval_samples": (["4"], []), "block_size": (["32"], []), "overwrite_cache": ([], []),
    "validation_split_percentage": (["10"], []), "overwrite_output_dir": ([], []), "do_eval": ([], []), "resume_from_checkpoint": (["there"], []), "per_device_train_batch_size": (["4"], []), "gradient_accumulation_steps": (["4"], []),
    "num_train_epochs": None, "optim": (["sgd"], []), "adafactor": ([], []), "learning_rate": (["1e-3"], []), "weight_decay": (["0.1"], []), "adam_beta1": (["0.8"], []), "adam_beta2": (["0.8"], []), "adam_epsilon": (["1e-6"], []),
    "max_grad_norm": (["0.5"], []), "lr_scheduler_type": (["cosine"], []), "lr_scheduler_kwargs": (['{"num_cycles": 2}'], ["--lr_scheduler_type", "cosine"]), "warmup_ratio": (["0.2"], []), "warmup_steps": (["3"], []),
    "evaluation_strategy": (["steps"], []), "eval_steps": (["3"], ["--evaluation_strategy", "steps"]), "logging_strategy": (["no"], []), "logging_steps": (["3"], []), "report_to": (["none"], []), "save_strategy": (["no"], []),
    "save_steps": (["3"], []), "save_total_limit": (["2"], []), "dataloader_drop_last": ([], []), "bf16": ([], []), "fp16": ([], []), "bf16_full_eval": None, "fp16_full_eval": None, "half_precision_backend": (["apex"], ["--fp16", "--deepspeed", "fp16.json"]),
    "torch_dtype": (["bfloat16"], []), "dtype": (["float16"], []), "streaming": ([], ["--dataset_name", "model"]), "ddp_timeout": (["60"], []),
    "gradient_checkpointing": ([], []), "seed": (["1"], []), "data_seed": (["1"], []), "transformers_version": (["5.23"], []), "debug": (["underflow_overflow"], []),
}


def test_every_flag_acts(folder):
    prepare(folder)
    (folder / "fp16.json").write_text('{"fp16": {"enabled": "auto"}}')
    (folder / "v.txt").write_text("text")
    flags = decided("trainer_flags.cpp")
    check(flags == set(FLAGS), f"without a row here: {flags - set(FLAGS)}; no longer there: {set(FLAGS) - flags}")
    for flag, row in FLAGS.items():
        if row is None:
            continue
        words, beside = row
        plain = r.run(*line(folder, *beside, "--print-config"), cwd=folder)
        flipped = r.subprocess.run(r.command(*line(folder, *beside, f"--{flag}", *words, "--print-config")), capture_output=True, text=True, cwd=folder)
        acts = flipped.returncode == 0 and flipped.stdout != plain.stdout or flipped.returncode == 2 and flag in flipped.stderr
        check(acts, f"--{flag} {words} changes nothing: {flipped.stderr}")


def test_what_chooses_the_arithmetic(folder):
    """--torch_dtype chooses it where no other flag does; --bf16_full_eval where nothing is trained."""
    prepare(folder)
    r.run("train", *r.options(folder, folder / "first", train__steps=1))
    (folder / "first" / "model").rename(folder / "made")
    words = ["trainer", "--model_name_or_path", folder / "made", "--train_file", folder / "ids.safetensors", "--max_steps", "3", "--per_device_train_batch_size", "2", "--learning_rate", "1e-2", "--logging_steps", "1",
             "--save_strategy", "no", "--report_to", "none", "--threads", "1"]

    def trained(name, *flags):
        said = r.run(*words, "--do_train", "--output_dir", folder / name, *flags).stderr
        return [row["loss"] for row in r.metrics(folder / name).values()], said

    plain, half = trained("plain")[0], trained("half", "--bf16")[0]
    check(trained("full", "--bf16_full_eval")[0] == plain != half, "a training is not an evaluation")
    typed, said = trained("typed", "--torch_dtype", "bfloat16")
    check(typed == half and "weights and states stay f32" in said, said)
    check(trained("both", "--torch_dtype", "float32", "--bf16")[0] == half and trained("f32", "--torch_dtype", "float32")[0] == plain, "the flag counts")
    config = json.loads((folder / "made" / "config.json").read_text())
    for word, wanted in (("float32", plain), ("bfloat16", half)):
        (folder / "made" / "config.json").write_text(json.dumps({**config, "torch_dtype": word}))
        check(trained("auto-" + word, "--torch_dtype", "auto")[0] == wanted, f"auto of {word}")
    for flags, named in ((["--torch_dtype", "float16"], "--fp16"), (["--dtype", "int8"], "bfloat16")):
        said = r.run(*words, "--do_train", "--output_dir", folder / "no", *flags, status=2).stderr
        check(named in said and not (folder / "no").exists(), said)

    def evaluated(name, *flags):
        r.run("trainer", "--model_name_or_path", folder / "made", "--do_eval", "--validation_file", folder / "ids.safetensors", "--output_dir", folder / name, *flags)
        return json.loads((folder / name / "eval_results.json").read_text())["eval_loss"]

    check(evaluated("e", "--bf16_full_eval") == evaluated("f", "--bf16") != evaluated("g"), "an evaluation alone")


def test_a_stream_has_its_own_order_and_no_length(folder):
    """--streaming is of a --dataset_name; of --train_file run_clm.py takes no notice of it."""
    prepare(folder)
    named = ["trainer", "--model_name_or_path", folder / "model", "--output_dir", folder / "out", "--do_train", "--dataset_name", folder / "model", "--streaming", "--print-config"]
    check(option(r.run(*named, "--max_steps", "2"), "data.shuffle") == "false", "the order of the files")
    check("--max_steps" in r.run(*named, status=2).stderr, "a stream does not end")
    done = r.run(*line(folder, "--train_file", folder / "ids.safetensors", "--streaming", "--explain"))
    check({x["key"]: x for x in map(json.loads, done.stdout.splitlines())}["--streaming"]["status"] == "inert", done.stdout)


def test_what_would_go_unheard_is_refused(folder):
    """Flags and keys that write files, lines or numbers of their own upstream, and that nothing here does."""
    prepare(folder)
    for flags in (["--skip_memory_metrics", "False"], ["--save_only_model"], ["--average_tokens_across_devices", "False", "--transformers_version", "5.23"],
                  ["--fp16_opt_level", "O2", "--fp16_backend", "apex", "--fp16"]):
        check(flags[0] in ask(folder, None, *flags, status=2).stderr, f"{flags}")
    ask(folder, None, "--average_tokens_across_devices", "False", "--transformers_version", "5.23", ranks=1)
    for key, value in (("memory_breakdown", True), ("managed_gradient_accumulation", False), ("data_types.param_dtype", "bf16"), ("data_types.buffer_dtype", "bf16"), ("zero_optimization.load_from_fp32_weights", False),
                       ("comms_logger.verbose", True)):
        base = {"zero_optimization": {"stage": 2}, "comms_logger": {"enabled": True}}
        ask(folder, base)
        check(key.split(".")[-1] in ask(folder, put(base, key, value), status=2).stderr, key)


def test_an_epoch_is_counted_in_the_data(folder):
    """Checkpoints, validation and lines by epochs, also of a run whose length is given in steps, and of a data set by its folder."""
    prepare(folder)
    (folder / "set").mkdir()
    (folder / "set" / "a.txt").write_text("The river is long.\n" * 200)
    r.save_ids(folder / "few.safetensors", 6, 16)
    for i, (flags, at) in enumerate(((["--max_steps", "7", "--save_strategy", "epoch"], [3, 6, 7]), (["--max_steps", "0", "--num_train_epochs", "2", "--save_strategy", "epoch"], [3, 6]))):
        out = folder / f"out{i}"
        r.run("trainer", "--config_name", folder / "model" / "config.json", "--train_file", folder / "few.safetensors", "--do_train", "--per_device_train_batch_size", "2", "--output_dir", out, *flags)
        found = sorted(int(p.name.split("_")[-1].split("-")[-1]) for p in [*(out / "checkpoints").glob("step_*"), *out.glob("checkpoint-*")])
        check(found == at, f"{flags}: {found}")
    # Another mistake beside it is named alone.
    said = ask(folder, None, "--train_file", folder / "few.safetensors", "--save_strategy", "epoch", "--resume_from_checkpoint", "True", what="--do_train", status=2, ranks=1).stderr
    check("name --train_file" not in said and "no valid checkpoint" in said, said)


def test_flags_alone(folder):
    """The Trainer's own optimizer decays matrices only and follows the linear schedule; epochs are counted in the data."""
    prepare(folder)
    words = ["trainer", "--model_name_or_path", folder / "model", "--output_dir", folder / "out", "--do_train", "--train_file", folder / "ids.safetensors", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2"]
    printed = r.run(*words, "--num_train_epochs", "2.5", "--warmup_ratio", "0.25", "--print-config")
    for name, value in {"train.steps": "10", "schedule.warmup_steps": "3", "optimizer.decay": "matrices", "schedule.type": "linear", "data.sequence_length": "16", "optimizer.lr": "5e-5"}.items():
        got = option(printed, name)
        check(got == value or float(got) == float(value), f"{name}: {got} instead of {value}")
    lines, _ = explained(folder, None, "--learning_rate", "1e-3", "--warmup_steps", "4", ranks=1)
    rates = lines["derived.lr"]["value"]
    check(rates["1"] == 0 and abs(rates["2"] - 1e-3 / 4) < 1e-12 and rates["5"] == 1e-3 and abs(rates["20"] - 1e-3 / 16) < 1e-12, f"{rates}")


def test_a_run_is_that_of_the_printed_config(folder):
    prepare(folder)
    model = folder / "made"
    r.run("train", *r.options(folder, folder / "first", train__steps=1))
    (folder / "first" / "model").rename(model)
    config = {"bf16": {"enabled": "auto"}, "optimizer": ADAM, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "gradient_clipping": "auto",
              "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3, "warmup_type": "linear"}}}
    (folder / "ds.json").write_text(json.dumps(config))
    words = ["trainer", "--deepspeed", folder / "ds.json", "--model_name_or_path", model, "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", "5", "--per_device_train_batch_size", "2", "--bf16", "--warmup_steps", "3",
             "--learning_rate", "1e-2", "--logging_steps", "1", "--save_strategy", "no", "--report_to", "none", "--threads", "1"]
    r.run(*words, "--output_dir", folder / "out")
    (folder / "printed.yaml").write_text(r.run(*words, "--output_dir", folder / "again", "--print-config").stdout)
    r.run("train", "--config", folder / "printed.yaml")
    different = r.same_run(folder / "out", folder / "again")
    check(not different, different)
    losses = [row["loss"] for row in r.metrics(folder / "out").values()]
    check(len(losses) == 5 and len(set(losses)) == 5, f"{losses}")  # each step has other sequences


def test_nvme_is_a_disk(folder):
    """A run with states and weights on nvme is the run without."""
    r.run("train", *r.options(folder, folder / "first", train__steps=1))
    (folder / "first" / "model").rename(folder / "made")
    for device in ("none", "nvme"):
        section = {"device": device, "nvme_path": str(folder / "disk"), "buffer_count": 6}
        config = {"optimizer": ADAM, "zero_optimization": {"stage": 3, "offload_optimizer": section, "offload_param": section}}
        (folder / "ds.json").write_text(json.dumps(config))
        said = r.run("trainer", "--deepspeed", folder / "ds.json", "--model_name_or_path", folder / "made", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", "3", "--per_device_train_batch_size", "2",
                     "--learning_rate", "1e-2", "--logging_steps", "1", "--save_strategy", "no", "--report_to", "none", "--output_dir", folder / device).stderr
        check((f"of them in {folder / 'disk'}" in said) == (device == "nvme"), said)
    different = r.same_run(folder / "none", folder / "nvme")
    check(not different and not any((folder / "disk").iterdir()), different or "files are left behind")


def test_examples(folder):
    """Those beside the howto explain themselves without a contradiction, with the flags that their first line of README names."""
    prepare(folder)
    flags = {"zero2.json": ["--bf16"], "zero3_offload.json": ["--fp16"], "by_hand.json": ["--learning_rate", "3e-5", "--weight_decay", "0.01", "--warmup_steps", "10", "--bf16"]}
    check({p.name for p in EXAMPLES.glob("*.json")} == set(flags), f"{sorted(EXAMPLES.glob('*.json'))}")
    for name, words in flags.items():
        lines, done = explained(folder, (EXAMPLES / name).read_text(), *words)
        check(not done.stderr and all(x["status"] in ("used", "inert", "derived") for x in lines.values()), f"{name}: {done.stderr}")


if __name__ == "__main__":
    r.main(globals())
