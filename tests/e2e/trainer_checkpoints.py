"""checkpoint-N of Transformers' Trainer without DeepSpeed: runs go on from recorded ones (tools/golden/make_trainer.py) with the Trainer's losses, and leave such folders, from which they go on bit for bit. What the Trainer makes of ours
is judged by tools/golden/judge_trainer.py."""
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "trainer"
LAUNCH = ["mpirun", "--oversubscribe", "-n", "2", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
LORA = ["lora.rank=2", "lora.alpha=8", "lora.targets=[q_proj,v_proj,down_proj]"]
U = 2.0**-24


def golden(folder, name):
    shutil.copytree(GOLDEN / name, folder / name)
    at = folder / name
    return at, {key: {int(k): x for k, x in of.items()} for key, of in json.loads((at / "losses.json").read_text()).items() if isinstance(of, dict)}


# Flags of the recorded run, but for those that its checkpoint brings back: they are wrong here.
def line(at, *flags, output="out", batch=4, steps=6):
    return ["trainer", "--model_name_or_path", at / "base", "--train_file", at / "rows.safetensors", "--do_train", "--max_steps", steps, "--learning_rate", "1e-9", "--weight_decay", 0, "--adam_beta1", 0.5, "--adam_beta2", 0.5, "--adam_epsilon", 1,
            "--lr_scheduler_type", "linear", "--warmup_steps", 2, "--per_device_train_batch_size", batch, "--logging_steps", 1, "--save_steps", 3, "--report_to", "none", "--output_dir", at.parent / output, *flags]


def losses(folder):
    return {step: row["loss"] for step, row in r.metrics(folder).items()}


def near(got, wanted, steps, what):
    check(sorted(got) == list(steps), f"{what}: steps {sorted(got)}")
    far = max(abs(got[i] - wanted[i]) / abs(wanted[i]) / U for i in steps)
    check(far <= 16, f"{what}: {far:.1f} u: {got} and {wanted}")


def names(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("checkpoint"))


def test_a_run_goes_on_from_the_trainers(folder):
    """With its losses: weights, moments, the order of parameters, rate, betas, eps, decay, the place in schedule and data. 4.37 lets the norms of Mistral decay."""
    for name, version in (("v5", "5.23"), ("v4", "4.37")):
        at, recorded = golden(folder, name)
        words = ["--transformers_version", version, "--resume_from_checkpoint", at / "checkpoint-3"]
        said = r.run(*line(at, *words, output=f"{name}-on"), cwd=folder).stderr
        near(losses(folder / f"{name}-on"), recorded["whole"], range(4, 7), name)
        for what in ("optimizer.lr is 0.004, that of the checkpoint", "1e-09 was asked for", "optimizer.betas[1] is 0.97", "optimizer.eps is 1e-07", "optimizer.weight_decay is 0.1", "training_args.bin is not read", "after step 3"):
            check(said.count(what) == 1, f"{name}: '{what}' in {said}")
        check(not list(folder.rglob("training_args_were_executed")) and names(folder / f"{name}-on") == ["checkpoint-6"], "what is left")
        r.run(*line(at, *words, "--ignore_data_skip", output=f"{name}-again"))
        near(losses(folder / f"{name}-again"), recorded["skipped"], range(4, 7), f"{name} --ignore_data_skip")


def test_a_state_with_nan_is_gone_on_from(folder):
    """Python writes NaN and Infinity into trainer_state.json, as of a step that overflowed."""
    at, recorded = golden(folder, "v5")
    file = at / "checkpoint-3" / "trainer_state.json"
    state = json.loads(file.read_text())
    state["log_history"] = [{"step": 1, "loss": 2.0, "grad_norm": float("nan")}, {"step": 2, "loss": float("inf")}]
    state["best_metric"] = float("-inf")
    file.write_text(json.dumps(state, indent=2))
    check("NaN" in file.read_text() and "-Infinity" in file.read_text(), "what is tried")
    r.run(*line(at, "--transformers_version", "5.23", "--resume_from_checkpoint", at / "checkpoint-3"))
    near(losses(folder / "out"), recorded["whole"], range(4, 7), "with NaN")
    check("checkpoint" in r.run("info", at / "checkpoint-3").stdout, "info")
    r.run("convert", "--input", at / "checkpoint-3", "--output", folder / "hf", "--to", "hf")
    check((folder / "hf" / "model.safetensors").exists(), "convert")


def test_in_the_trainers_own_folder(folder):
    """True, and nothing, take the newest of --output_dir; the Trainer's folder stays as it is, and the limit counts the run's own."""
    at, recorded = golden(folder, "v5")
    before = {p.name: p.read_bytes() for p in (at / "checkpoint-3").iterdir()}
    for words in (["--resume_from_checkpoint", "True"], []):
        out = folder / ("true" if words else "auto")
        shutil.copytree(at / "checkpoint-3", out / "checkpoint-3")
        r.run(*line(at, *words, "--transformers_version", "5.23", "--save_steps", 1, "--save_total_limit", 1, output=out.name))
        near(losses(out), recorded["whole"], range(4, 7), out.name)
        check(names(out) == ["checkpoint-3", "checkpoint-6"] and {p.name: p.read_bytes() for p in (out / "checkpoint-3").iterdir()} == before, f"{names(out)}")


def test_on_two_ranks_in_native_words_and_in_shards(folder):
    at, recorded = golden(folder, "v5")
    tensors, where = r.load_tensors(at / "checkpoint-3"), {}
    for i, part in enumerate((list(tensors)[:7], list(tensors)[7:])):
        r.save_tensors(at / "checkpoint-3" / f"model-{i}.safetensors", {n: tensors[n] for n in part})
        where.update({n: f"model-{i}.safetensors" for n in part})
    (at / "checkpoint-3" / "model.safetensors").unlink()
    (at / "checkpoint-3" / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    words = line(at, "--resume_from_checkpoint", at / "checkpoint-3", "--transformers_version", "5.23", output="two", batch=2)
    done = subprocess.run([*LAUNCH, r.PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == 0, done.stderr)
    near(losses(folder / "two"), recorded["whole"], range(4, 7), "two ranks")
    check("train.micro_batch (--per_device_train_batch_size) is 2, as was asked for; the checkpoint's run had 4" in done.stderr, done.stderr)
    check(sorted(p.name for p in (folder / "two" / "checkpoint-6").glob("rng_state*")) == ["rng_state_0.pth", "rng_state_1.pth"], "a state for each rank")
    values = {"model.path": str(at / "base"), "data.train": str(at / "rows.safetensors"), "data.sequence_length": 13, "data.predict_next_block": False, "train.steps": 6, "train.global_batch": 4, "train.output": str(folder / "native"), "optimizer.lr": 1,
              "optimizer.clip_norm": 1, "train.micro_batch": 4, "schedule.type": "linear", "schedule.warmup_steps": 2, "checkpoint.every": 3, "checkpoint.layout": "trainer", "checkpoint.resume": str(at / "checkpoint-3"), "log.every": 1, "precision.compute": "f32"}
    r.run("train", *r.settings(values))
    near(losses(folder / "native"), recorded["whole"], range(4, 7), "natively")
    del values["checkpoint.layout"]
    said = r.run("train", *r.settings({**values, "train.output": str(folder / "other")}), status=2).stderr
    check("a checkpoint of Transformers' Trainer" in said and "checkpoint.layout=trainer" in said, said)


def test_an_adapter_goes_on(folder):
    """Of PEFT: adapter_model.safetensors, and moments of A and B alone; ours go on bit for bit."""
    at, recorded = golden(folder, "lora")
    words = ["--transformers_version", "5.23", *LORA]
    r.run(*line(at, "--resume_from_checkpoint", at / "checkpoint-3", *words))
    near(losses(folder / "out"), recorded["whole"], range(4, 7), "lora")
    left = folder / "out" / "checkpoint-6"
    check({p.name for p in left.iterdir() if not p.name.startswith(".")} >= {"adapter_config.json", "adapter_model.safetensors", "optimizer.pt", "trainer_state.json"} and not (left / "model.safetensors").exists(), f"{list(left.iterdir())}")
    r.run(*line(at, *words, "--learning_rate", "4e-3", "--save_steps", 2, output="whole"))
    whole = losses(folder / "whole")
    for step in (4, 6):
        shutil.rmtree(folder / "whole" / f"checkpoint-{step}")
    shutil.rmtree(folder / "whole" / "adapter")
    r.run(*line(at, *words, "--learning_rate", "4e-3", "--save_steps", 2, output="whole"))
    check(losses(folder / "whole") == whole, f"{losses(folder / 'whole')} and {whole}")
    said = r.run(*line(at, "--resume_from_checkpoint", at / "checkpoint-3", output="no"), status=2).stderr
    check("an adapter in a checkpoint" in said and "lora.rank" in said, said)
    told = json.loads(r.run("info", at / "checkpoint-3", "--json").stdout)
    check(told["kind"] == "Trainer checkpoint of a PEFT adapter (LORA)" and told["global_step"] == 3, f"{told}")


def test_a_run_goes_on_from_what_it_left(folder):
    """To the last digit, in f32, with 16 bits and a moving scale, with dropout and an unlike batch, and with a schedule that follows the validation."""
    r.save_config(folder / "model" / "config.json")
    r.save_ids(folder / "ids.safetensors", 32, 16)
    r.save_ids(folder / "valid.safetensors", 8, 16, seed=3)
    plateau = ["--lr_scheduler_type", "reduce_lr_on_plateau", "--lr_scheduler_kwargs", '{"patience": 0, "threshold": 1.0}', "--do_eval", "--eval_strategy", "steps", "--eval_steps", 1, "--validation_file", folder / "valid.safetensors"]
    kinds = {"f32": [], "f16": ["--fp16"], "bf16": ["--bf16", "--gradient_accumulation_steps", 2, "train.dropout=0.1"], "plateau": plateau}
    for kind, flags in kinds.items():
        words = ["trainer", "--config_name", folder / "model" / "config.json", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", 6, "--learning_rate", "3e-3", "--weight_decay", 0.1, "--per_device_train_batch_size", 2, "--logging_steps", 3,
                 "--save_steps", 2, "--report_to", "none", "--output_dir", folder / kind, *flags]
        r.run(*words)
        out = folder / kind
        check(names(out) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"] and not (out / ".saving").exists() and not (out / "checkpoints").exists(), f"{names(out)}")
        state = json.loads((out / "checkpoint-4" / "trainer_state.json").read_text())
        check(state["global_step"] == 4 and state["max_steps"] == 6, f"{state}")
        wanted = {"config.json", "model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "training_args.json"} | ({"scaler.pt"} if kind == "f16" else set())
        there = {p.name for p in (out / "checkpoint-4").iterdir() if not p.name.startswith(".")}
        check(there - {"generation_config.json"} == wanted, f"{kind}: {there}")
        whole, model = r.metrics(out), r.load_tensors(out / "model")
        for gone in ("checkpoint-4", "checkpoint-6", "model"):
            shutil.rmtree(out / gone)
        said = r.run(*words).stderr
        again = r.metrics(out)
        check([[x[k] for k in ("loss", "lr")] for x in again.values()] == [[x[k] for k in ("loss", "lr")] for x in whole.values()], f"{kind}: {again} and {whole}")
        check(r.load_tensors(out / "model") == model and "was asked for" not in said, f"{kind}: other weights, or a line of what differs: {said}")


def test_a_family_with_names_of_its_own(folder):
    """GPT-2, whose modules have other names than Llama's, has such folders too, with DeepSpeed and without."""
    config = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto"}')
    r.save_ids(folder / "ids.safetensors", 16, 9, vocabulary=64)
    for kind, flags in {"plain": [], "zero": ["--deepspeed", folder / "ds.json"]}.items():
        words = ["trainer", *flags, "--config_name", folder / "config.json", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", 4, "--learning_rate", "3e-3", "--per_device_train_batch_size", 4, "--logging_steps", 1, "--save_steps", 2, "--output_dir", folder / kind]
        r.run(*words)
        whole = losses(folder / kind)
        check(names(folder / kind) == ["checkpoint-2", "checkpoint-4"], f"{kind}: {names(folder / kind)}")
        shutil.rmtree(folder / kind / "checkpoint-4"), shutil.rmtree(folder / kind / "model")
        r.run(*words)
        check(losses(folder / kind) == whole, f"{kind}: {losses(folder / kind)} and {whole}")


def test_leftovers_of_killed_runs_go(folder):
    """In each layout what a run was writing when it was killed goes at the next start, and only that: also where the next one writes no folder of that step."""
    r.save_config(folder / "model" / "config.json")
    r.save_ids(folder / "ids.safetensors", 32, 16)
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}')
    plain = ["trainer", "--config_name", folder / "model" / "config.json", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", 100000, "--per_device_train_batch_size", 4, "--save_steps", 1, "--report_to", "none", "--output_dir"]
    kinds = {"trainer": [*plain, folder / "trainer"], "deepspeed": [*plain, folder / "deepspeed", "--deepspeed", folder / "ds.json"]}
    kinds["megatron"] = ["train", *r.settings({"model.config": str(folder / "model" / "config.json"), "data.train": str(folder / "ids.safetensors"), "data.sequence_length": 16, "data.predict_next_block": False, "train.global_batch": 4, "train.output": str(folder / "megatron"), "checkpoint.every": 1,
                                               "checkpoint.layout": "megatron", "log.every": 1}), "train.steps=100000"]
    for kind, words in kinds.items():
        out, before, left = folder / kind, "iter_" if kind == "megatron" else "checkpoint-", False
        steps_of = lambda: [int(p.name[len(before):]) for p in out.iterdir() if p.name.startswith(before) and p.name[len(before):].isdigit()] if out.is_dir() else []
        halves = lambda: [p.name for p in out.iterdir() if p.name.startswith(before) and p.name.endswith(".tmp")] if out.is_dir() else []
        for _ in range(12):
            process = subprocess.Popen(r.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            began = time.monotonic()
            while process.poll() is None and not (steps_of() and halves()) and time.monotonic() - began < 20:
                time.sleep(0.0002)
            process.send_signal(signal.SIGKILL)
            process.wait()
            left = left or len(halves()) > 0
            if left and steps_of():
                break
        check(left, f"{kind}: no kill has left anything")
        half = out / halves()[0]
        mine = [out / f"{before}9.tmp", out / ("mine" + half.name[half.name.index("."):])]
        for at in mine:
            at.mkdir()
        last = max(steps_of())
        more = [f"train.steps={last + 3}", "checkpoint.every=0"] if kind == "megatron" else [last + 3, "--save_strategy", "no"]
        r.run(*[more[0] if x in (100000, "train.steps=100000") else x for x in words], *more[1:])
        rest = {p.name for p in out.iterdir() if p.name.endswith(".tmp")}
        check(rest == {at.name for at in mine}, f"{kind}: {rest}")


def test_limit_best_model_and_other_forms(folder):
    at, _ = golden(folder, "v5")
    valid = ["--do_eval", "--eval_strategy", "steps", "--eval_steps", 2, "--validation_file", at / "rows.safetensors", "--learning_rate", 0.5, "--save_steps", 2, "--metric_for_best_model", "loss"]
    r.run(*line(at, *valid, output="last"))
    seen = {step: row["valid_loss"] for step, row in r.metrics(folder / "last").items() if "valid_loss" in row}
    best, worst = min(seen, key=seen.get), max(seen, key=seen.get)
    state = json.loads((folder / "last" / "checkpoint-6" / "trainer_state.json").read_text())
    check(state["best_metric"] == seen[best] and state["best_model_checkpoint"].endswith(f"checkpoint-{best}") and best != worst, f"{state}")
    early, towards = (best, []) if best != 6 else (worst, ["--greater_is_better", "True"])
    r.run(*line(at, *valid, "--load_best_model_at_end", *towards, output="best"))
    check(r.load_tensors(folder / "best" / "model") == r.load_tensors(folder / "last" / f"checkpoint-{early}"), "the model of the best step")
    r.run(*line(at, "--save_steps", 2, "--save_total_limit", 1, output="limit"))
    check(names(folder / "limit") == ["checkpoint-6"], f"{names(folder / 'limit')}")
    said = r.run(*line(at, "--optim", "adafactor", output="adafactor")).stderr
    check("Ravine's own form" in said and (folder / "adafactor" / "checkpoints" / "latest").exists() and not names(folder / "adafactor")[1:], said)
    # A run of an earlier version, whose checkpoints have our own form, goes on in it.
    r.run(*line(at, "checkpoint.layout=ravine", output="old"))
    said = r.run(*line(at, output="old", steps=8)).stderr
    check("Ravine's own form" in said and max(losses(folder / "old")) == 8, said)


def test_figures_of_the_best_model(folder):
    """--load_best_model_at_end with --do_eval: eval_results.json is of the model that the run leaves, as run_clm.py evaluates it behind the training; so it is on two ranks and with DeepSpeed."""
    at, _ = golden(folder, "v5")
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto"}')
    for out, launch, more in (("plain", [], []), ("two", LAUNCH, ["--per_device_train_batch_size", 2]), ("zero", [], ["--deepspeed", folder / "ds.json"])):
        for towards in (False, True):
            words = line(at, "--do_eval", "--eval_strategy", "steps", "--eval_steps", 2, "--validation_file", at / "rows.safetensors", "--learning_rate", 0.5, "--save_steps", 2, "--load_best_model_at_end", "--greater_is_better", towards, *more, output=out + str(towards))
            done = subprocess.run([*launch, r.PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=r.LIMIT)
            check(done.returncode == 0, done.stderr)
            left = folder / (out + str(towards))
            seen = [row["valid_loss"] for row in r.metrics(left).values() if "valid_loss" in row]
            best = max(seen) if towards else min(seen)
            got = json.loads((left / "eval_results.json").read_text())["eval_loss"]
            check(len(seen) == 3 and min(seen) != max(seen) and abs(got - best) <= 2**-20 * best, f"{left.name}: {got} of {seen}")
            alone = r.run("trainer", "--model_name_or_path", left / "model", "--do_eval", "--validation_file", at / "rows.safetensors", "--output_dir", folder / "alone").stdout
            check(abs(json.loads(alone)["loss"] - got) <= 2**-20 * got, f"{left.name}: {alone} and {got}")


def test_an_own_checkpoint_with_another_batch(folder):
    """As one of the Trainer's: the batch is that of the flags, and the data go on behind as many steps of it, by the micro batch, by accumulation, and on two ranks."""
    at, _ = golden(folder, "v5")
    flags = ["--transformers_version", "5.23", "--learning_rate", 4e-3]
    for out, batch, more, launch in (("half", 2, [], []), ("twice", 4, ["--gradient_accumulation_steps", 2], []), ("ranks", 4, [], LAUNCH)):
        for first in (True, False):  # our own, then the same as the Trainer leaves it, without what we keep beside
            own = folder / "own" / "checkpoint-3"
            if not own.exists():
                r.run(*line(at, *flags, output="own"))
            left = folder / f"{out}-{first}"
            start = own
            if not first:
                start = folder / "bare" / "checkpoint-3"
                shutil.rmtree(start.parent, ignore_errors=True)
                shutil.copytree(own, start)
                with_pickle(start / "optimizer.pt", lambda p: p.replace(b"ravine", b"raffle"))
            words = line(at, *flags, *more, "--resume_from_checkpoint", start, output=left.name, batch=batch)
            done = subprocess.run([*launch, r.PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=r.LIMIT)
            check(done.returncode == 0, done.stderr)
            check(not first or "as the Trainer counts them" in done.stderr, done.stderr)
        check(losses(folder / f"{out}-True") == losses(folder / f"{out}-False") and min(losses(folder / f"{out}-True")) == 4, f"{out}: {losses(folder / f'{out}-True')} and {losses(folder / f'{out}-False')}")


def torch_file(path, value):
    """A file of torch.save without tensors."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        z.writestr(f"{path.stem}/data.pkl", pickle.dumps(value, protocol=2))
        z.writestr(f"{path.stem}/version", "3\n")


def with_pickle(path, change):
    """The same file with another pickle; storages stay."""
    with zipfile.ZipFile(path) as z:
        members = {n: z.read(n) for n in z.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for name, data in members.items():
            z.writestr(name, change(data) if name.endswith("data.pkl") else data)
    path.write_bytes(out.getvalue())


def test_what_is_no_checkpoint_of_this_run_is_refused(folder):
    at, _ = golden(folder, "v5")
    good = at / "checkpoint-3"

    def refused(change, *wanted, more=()):
        bad = folder / "bad" / "checkpoint-3"
        shutil.rmtree(bad.parent, ignore_errors=True)
        shutil.copytree(good, bad)
        change(bad)
        said = r.run(*line(at, "--resume_from_checkpoint", bad, *more, output="refused"), status=2).stderr
        check(all(x in said for x in wanted), f"{wanted} in {said}")

    refused(lambda bad: (bad / "optimizer.pt").unlink(), "without its optimizer", "--model_name_or_path")
    refused(lambda bad: with_pickle(bad / "optimizer.pt", lambda p: p.replace(b"exp_avg_sq", b"max_avg_sq")), "a state 'max_avg_sq'", "weights alone")
    refused(lambda bad: with_pickle(bad / "optimizer.pt", lambda p: p.replace(b"param_groups", b"param_grouqs")), "no optimizer of torch")
    refused(lambda bad: torch_file(bad / "optimizer.pt", {"state": {}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.9), "eps": 1e-8, "weight_decay": 0.0, "params": [0, 1, 2]}]}), "groups of 3 parameters", "16 and 5")
    refused(lambda bad: (bad / "trainer_state.json").write_text('{"global_step": -1}'), "global_step is -1")
    refused(lambda bad: None, "optimizer.type", "adamw", more=["--optim", "sgd", "checkpoint.layout=trainer"])
    zero = folder / "zero" / "checkpoint-3"
    (zero / "global_step3").mkdir(parents=True)
    (zero / "latest").write_text("global_step3")
    (zero / "global_step3" / "mp_rank_00_model_states.pt").write_text("")
    said = r.run(*line(at, "--resume_from_checkpoint", zero, output="refused"), status=2).stderr
    check("a checkpoint of DeepSpeed" in said and "--deepspeed" in said, said)
    said = r.run(*line(at, output="zero"), status=2).stderr
    check("is a checkpoint of the Trainer with DeepSpeed" in said and "give --deepspeed" in said, said)
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto"}')
    said = r.run(*line(at, "--deepspeed", folder / "ds.json", output="v5"), status=2).stderr
    check("is a checkpoint of the Trainer without DeepSpeed" in said and "leave --deepspeed out" in said, said)


def test_the_scaler_is_gone_on_with(folder):
    at, _ = golden(folder, "v5")
    for scale in (2.0**7, 2.0**9):
        torch_file(at / "checkpoint-3" / "scaler.pt", {"scale": scale, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 2})
        out = f"scale-{scale:g}"
        r.run(*line(at, "--fp16", "precision.scale_window=4", "--resume_from_checkpoint", at / "checkpoint-3", output=out))
        scales = [json.loads(row)["loss_scale"] for row in (folder / out / "metrics.jsonl").read_text().splitlines()]
        check(scales == [scale, 2 * scale, 2 * scale], f"{scales}")


def test_converted_with_its_moments(folder):
    """info says what it is; convert takes weights, and with --optimizer moments and step too, of whole and of tied and joined tensors alike."""
    at, recorded = golden(folder, "v5")
    told = json.loads(r.run("info", at / "checkpoint-3", "--json").stdout)
    check(told["kind"].startswith("Trainer checkpoint") and told["global_step"] == 3 and "--resume_from_checkpoint" in told["to_go_on"], f"{told}")
    r.run("convert", "--input", at / "checkpoint-3", "--output", folder / "on", "--to", "ravine", "--optimizer")
    values = {"model.config": str(folder / "on" / "config.json"), "data.train": str(at / "rows.safetensors"), "data.sequence_length": 13, "data.predict_next_block": False, "train.steps": 6, "train.global_batch": 4, "train.output": str(folder / "on"),
              "optimizer.lr": 4e-3, "optimizer.betas": [0.85, 0.97], "optimizer.eps": [1e-7], "optimizer.weight_decay": 0.1, "optimizer.clip_norm": 1, "train.micro_batch": 4, "schedule.type": "linear", "schedule.warmup_steps": 2, "log.every": 1, "precision.compute": "f32"}
    r.run("train", *r.settings(values))
    near(losses(folder / "on"), recorded["whole"], range(4, 7), "converted")
    r.run("convert", "--input", at / "checkpoint-3", "--output", folder / "hf", "--to", "hf")
    check(r.load_tensors(folder / "hf") == r.load_tensors(at / "checkpoint-3"), "weights")


if __name__ == "__main__":
    r.main(globals())
