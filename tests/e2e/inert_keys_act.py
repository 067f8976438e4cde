"""Keys of other programs that were once called inert and act there: the end of a run by a signal, scalars of event files, checkpoints without the optimizer, masks, parts of stages; and what is no news is not said."""
import json
import re
import signal
import subprocess
import time

import ravine_run as r
from figures import events
from megatron_runs import documents, losses, megatron, named, steps
from mindformers import line, prepare
from mindformers_keys_act import EXPERTS, MODEL, first, save_tokens, token_flags
from ravine_run import check

MONITOR = '  - {type: CheckpointMonitor, prefix: llama_small, save_checkpoint_steps: 100000, keep_checkpoint_max: 3, integrated_save: False, async_save: False, checkpoint_format: safetensors}\n'


def callbacks(folder, name, *items):
    """The example with other callbacks, and so many epochs that it ends by a signal alone."""
    head, tail = (folder / "pretrain_llama.yaml").read_text().split("callbacks:\n")
    (folder / f"{name}.yaml").write_text(head.replace("epochs: 2", "epochs: 100000") + "callbacks:\n  - type: MFLossMonitor\n" + "".join(items) + tail[tail.index("\ncontext:"):])


def ended_by(folder, name, number):
    """Exit status and output of the job NAME.yaml, which gets a signal behind its first steps."""
    words = [r.PROGRAM, "mindformers", "--config", f"{name}.yaml", "--train_dataset_dir", "data.mindrecord", "--output_dir", name]
    job = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    metrics, until = folder / name / "metrics.jsonl", time.monotonic() + r.LIMIT
    while job.poll() is None and time.monotonic() < until and not (metrics.exists() and metrics.read_text().count("\n") > 2):
        time.sleep(0.02)
    job.send_signal(number)
    said = job.communicate(timeout=r.LIMIT)[1]
    return job.returncode, said


def saved(folder, name):
    return sorted(p.name for p in (folder / name).glob("checkpoint/rank_0/*.safetensors"))


def test_on_request_exit(folder):
    """The signal that `sig` names ends the run in good order; without save_ckpt nothing is saved, unless CheckpointMonitor saves the last step."""
    prepare(folder)
    for name, items, saves in (("kept", ["  - {type: OnRequestExit, sig: 12}\n"], True), ("none", ["  - {type: OnRequestExit, sig: 12, save_ckpt: False, save_mindir: False}\n"], False),
                               ("both", ["  - {type: OnRequestExit, sig: 12, save_ckpt: False}\n", MONITOR], True)):
        callbacks(folder, name, *items)
        status, said = ended_by(folder, name, signal.SIGUSR2)
        check(status == 130 and bool(saved(folder, name)) == saves, f"{name}: {status} {saved(folder, name)}\n{said[-800:]}")
        last = said.splitlines()[-1]
        check(("saved; " in last) == saves and ("not saved (checkpoint.on_stop=false)" in last) != saves, f"{name}: {last}")
    for sig in (9, 11, 0, 99):
        callbacks(folder, "bad", f"  - {{type: OnRequestExit, sig: {sig}}}\n")
        said = line(folder, config="bad.yaml", status=2).stderr
        check("sig" in said and str(sig) in said, said)


def test_the_file_of_an_earlier_stop(folder):
    """MindSpore would begin from it."""
    prepare(folder)
    callbacks(folder, "job", "  - {type: OnRequestExit, file_name: llama, directory: stops}\n")
    (folder / "stops/rank_0").mkdir(parents=True)
    (folder / "stops/rank_0/llama_train.ckpt").write_bytes(b"")
    said = line(folder, config="job.yaml", status=2).stderr
    check("llama_train.ckpt is there" in said and "set load_checkpoint to it" in said, said)
    callbacks(folder, "job", "  - {type: OnRequestExit, file_name: llama, directory: stops, config_file: exit.json}\n")
    check("ravine stop" in line(folder, config="job.yaml", status=2).stderr, "a file of GracefulExit")
    for kind, words in (("ColdHotExpertMonitor", "enable_cold_hot_expert"), ("StressTestModelMonitor", "ravine check")):
        callbacks(folder, "job", f"  - {{type: {kind}, interval_steps: 5}}\n")
        said = line(folder, config="job.yaml", status=2).stderr
        check(words in said, said)


def test_scalars_of_mindformers(folder):
    """Event files have times, loss scale and loads of experts with their keys alone; what a format names goes there, and not to the log."""
    prepare(folder)
    moe, tags = ["--epochs", "1", *EXPERTS], {}
    switches = {"times": "log_timers_to_tensorboard", "scale": "log_loss_scale_to_tensorboard", "loads": "log_expert_load_to_tensorboard"}
    for name, key in {"plain": None, **switches}.items():
        line(folder, *moe, "--output_dir", name, "--tensorboard.tensorboard_dir", f"tb-{name}", *([f"--tensorboard.{key}", "True"] if key else []))
        tags[name] = {tag for tag, *_ in events(folder / f"tb-{name}" / "rank_0")}
    more = {name: found - tags["plain"] for name, found in tags.items()}
    check(more["times"] == {"iteration-time", "iteration-time_vs_samples", "throughput", "throughput_vs_samples", "B-samples-per-day"}, f"{more}")
    check(more["scale"] == {"loss-scale", "loss-scale_vs_samples"} and {"loss", "learning-rate", "batch-size", "grad-norm"} <= tags["plain"], f"{more} {tags['plain']}")
    check(more["loads"] == {f"expert_load/{layer}/ep_{i}" for layer in (0, 1) for i in range(4)}, f"{more}")
    shares = [(step, value) for tag, step, value, _ in events(folder / "tb-loads/rank_0") if tag.startswith("expert_load/0/")]
    check(all(abs(sum(v for s, v in shares if s == step) - 1) < 1e-5 for step in {s for s, _ in shares}), f"{shares}")
    formats = ["--monitor_config.monitor_on", "True", "--monitor_config.weight_state_format", "tensorboard", "--monitor_config.local_loss_format", '["log", "tensorboard"]', "--monitor_config.throughput_baseline", "1.0"]
    said = line(folder, "--epochs", "1", "--output_dir", "monitor", "--tensorboard.tensorboard_dir", "tb", *formats).stderr
    found = {tag for tag, *_ in events(folder / "tb/rank_0")}
    check({"weight_norm", "local_loss", "throughput_linearity"} <= found and "micro_local_loss" not in found, f"{found}")
    check("weight_norm: " not in said and said.count("micro_local_loss: ") == 8 and "throughput_linearity: " in said, said[-900:])


def test_scalars_of_megatron(folder):
    """Its switches: each adds scalars, and two remove some."""
    documents(folder)
    base, tags = ["--eval-interval", 2, "--eval-iters", 1, "--split", "90,10,0"], {}
    switches = {"plain": [], "times": ["--log-timers-to-tensorboard", "--log-throughput"], "batch": ["--log-batch-size-to-tensorboard"], "ppl": ["--log-validation-ppl-to-tensorboard"], "memory": ["--log-memory-to-tensorboard"],
                "world": ["--log-world-size-to-tensorboard"], "rate": ["--no-log-learnig-rate-to-tensorboard"], "scale": ["--no-log-loss-scale-to-tensorboard"]}
    for name, flags in switches.items():
        megatron(folder, "--save", folder / name, "--tensorboard-dir", folder / f"tb-{name}", *base, *flags, iters=2)
        tags[name] = {tag for tag, *_ in events(folder / f"tb-{name}")}
    both = lambda tag: {tag, tag + " vs samples"}
    check(tags["plain"] == both("learning-rate") | both("lm loss") | both("loss-scale") | both("grad-norm") | both("lm loss validation"), f"{tags['plain']}")
    for name, more in (("times", {"iteration-time", "throughput"}), ("batch", both("batch-size")), ("ppl", both("lm loss validation ppl")), ("memory", {"mem-allocated-bytes"}), ("world", both("world-size"))):
        check(tags[name] - tags["plain"] == more, f"{name}: {tags[name] - tags['plain']}")
    for name, less in (("rate", both("learning-rate")), ("scale", both("loss-scale"))):
        check(tags["plain"] - tags[name] == less, f"{name}: {tags['plain'] - tags[name]}")


def test_checkpoints_without_the_optimizer(folder):
    """--no-save-optim: files of weights alone, which a run begins from with --finetune, and does not go on from."""
    documents(folder)
    megatron(folder, "--save", folder / "whole", iters=4)
    megatron(folder, "--save", folder / "a", "--no-save-optim", "--no-save-rng", iters=4)
    check(steps(folder / "a") == named(2, 4) and losses(folder / "a") == losses(folder / "whole"), f"{steps(folder / 'a')}")
    size = lambda name: (folder / name / "iter_0000004/mp_rank_00/model_optim_rng.pt").stat().st_size
    check(size("a") < 0.5 * size("whole"), f"{size('a')} {size('whole')}")
    for load in ("a", "a/iter_0000004"):
        said = megatron(folder, "--load", folder / load, "--save", folder / "on", status=2).stderr
        check("without the state of the optimizer" in said and "--finetune" in said and not (folder / "on").exists(), said)
    said = megatron(folder, "--load", folder / "a", "--save", folder / "a", "--no-save-optim", status=2).stderr
    check("without the state of the optimizer" in said, said)
    for name, flags in (("tuned", ["--finetune"]), ("fresh", ["--no-load-optim", "--no-load-rng"])):
        megatron(folder, "--load", folder / "a", *flags, "--save", folder / name, iters=1)
        megatron(folder, "--load", folder / "whole", *flags, "--save", folder / f"{name}-whole", iters=1)
        check(losses(folder / name) == losses(folder / f"{name}-whole"), f"{name}: {losses(folder / name)}")
    megatron(folder, "--save", folder / "shards", "--no-save-optim", "--use-distributed-optimizer", ranks=2, iters=2)
    check(not list((folder / "shards").rglob("distrib_optim.pt")) and steps(folder / "shards") == named(2), "the distributed optimizer's file")
    said = megatron(folder, "--save", folder / "early", "--no-save-optim", "--exit-interval", 3).stderr
    check("stopped after step 3, saved; nothing (checkpoints are weights alone) goes on from there" in said, said[-600:])


def test_what_agrees_with_the_model_is_no_news(folder):
    """Flags that a user of Megatron has to give, beside a model in --load that says the same."""
    documents(folder)
    megatron(folder, "--save", folder / "a", "checkpoint.layout=ravine", iters=2)
    model = folder / "a" / "model"
    rows = json.loads((model / "config.json").read_text())["vocab_size"]
    quiet = ["--init-method-std", 0.01, "--padded-vocab-size", rows]
    said = megatron(folder, "--load", model, *quiet, "--save", folder / "b", iters=1).stderr
    check("no effect" not in said, said)
    said = megatron(folder, "--load", model, "--padded-vocab-size", rows + 128, "--use-flash-attn", "--save", folder / "c", iters=1).stderr
    check(re.search(r"no effect: (--use-flash-attn, --padded-vocab-size|--padded-vocab-size, --use-flash-attn) \(", said), said)


def test_masks_of_token_files(folder):
    """create_compressed_eod_mask keeps attention inside documents, as reset_attention_mask does; masks that undo it are refused."""
    prepare(folder)
    save_tokens(folder / "tokens", [[1 + (i * 31 + k * 17) % 200 for k in range(9)] + [250] for i in range(200)])
    token = lambda **config: token_flags(folder, eod=250, **config)
    plain = first(folder, "plain", *token())
    reset = first(folder, "reset", *token(reset_attention_mask=True))
    columns = ["--train_dataset.input_columns", '["input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len"]']
    check(first(folder, "compressed", *token(create_compressed_eod_mask=True), *columns) == reset != plain, f"{plain} {reset}")
    said = line(folder, *token(reset_attention_mask=True, create_attention_mask=False), status=2).stderr
    check("create_attention_mask off" in said and "set create_attention_mask: True" in said, said)
    four = ["--train_dataset.input_columns", '["input_ids", "labels", "loss_mask", "position_ids"]']
    check(first(folder, "four", *token(create_attention_mask=False), *four) == plain, "four columns")
    key, value = token_flags(folder)
    loader = json.loads(value)
    said = line(folder, key, json.dumps({**loader, "shuffle": True}), status=2).stderr
    check("shuffle" in said and "set it to False" in said, said)
    valid = {**loader, "config": {**loader["config"], "seed": 7, "split": "1,0,0"}}
    evals = ["--do_eval", "True", "--eval_dataset.data_loader"]
    said = line(folder, *token_flags(folder, split="90,10,0"), *evals, json.dumps(valid), status=2).stderr
    check("split is 90,10,0" in said and "seed is 7" in said and "write the same value in both" in said, said)


def test_parts_and_gradients_of_stages(folder):
    """pp_interleave_num counts with pipeline_interleave alone; gradient_accumulation_shard divides gradients over data ranks."""
    prepare(folder)
    stages = ["--use_parallel", "True", "--parallel_config.pipeline_stage", "2", "--parallel_config.micro_batch_num", "2", MODEL + "num_layers", "4", MODEL + "pp_interleave_num", "2"]
    virtual = lambda *flags: re.search(r"virtual: (\d)", line(folder, *stages, *flags, "--print-config", ranks=1).stdout)[1]
    check(virtual() == "1" and virtual("--parallel.pipeline_config.pipeline_interleave", "True") == "2", "parts of a stage")
    shards = ["--use_parallel", "True", "--parallel_config.data_parallel", "2", "--parallel.enable_parallel_optimizer", "True", "--runner_config.gradient_accumulation_steps", "2", "--epochs", "1", "--output_dir"]
    lost = {}
    for name, value in (("whole", "False"), ("cut", "True")):
        said = line(folder, *shards, name, "--parallel.parallel_optimizer_config.gradient_accumulation_shard", value, ranks=2).stderr
        lost[name] = [row["loss"] for row in map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines()) if "loss" in row]
        check(f"zero: {2 if value == 'True' else 1}" in (folder / name / "config.yaml").read_text(), said[-500:])
    check(len(lost["whole"]) == len(lost["cut"]) > 0 and all(abs(a - b) < 1e-6 * a for a, b in zip(lost["whole"], lost["cut"])), f"{lost}")  # sums in another order


def test_gradients_that_are_not_finite(folder):
    """bf16.check_grad_overflow of DeepSpeed leaves such a step out; without it the run ends there."""
    r.save_config(folder / "config.json")
    ids = r.save_ids(folder / "ids.safetensors", 16, 16)
    fault = "probe.inject=" + json.dumps([{"step": 2, "phase": "backward", "op": "matmul", "value": "nan"}])
    for checks, status in ((True, 0), (False, 1)):
        (folder / "ds.json").write_text(json.dumps({"bf16": {"enabled": True, "check_grad_overflow": checks}, "zero_optimization": {"stage": 1}}))
        words = ["trainer", "--config_name", folder / "config.json", "--train_file", ids, "--do_train", "--bf16", "--max_steps", "4", "--per_device_train_batch_size", "2", "--save_strategy", "no", "--report_to", "none",
                 "--output_dir", folder / str(checks), "--deepspeed", folder / "ds.json", "--ranks", "1", "train.threads=1", fault]
        said = r.run(*words, status=status).stderr
        check((4 in r.metrics(folder / str(checks))) == checks, said[-900:])


if __name__ == "__main__":
    r.main(globals())
