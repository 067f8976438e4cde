"""checkpoint.layout=deepspeed: a run of `ravine trainer` with a DeepSpeed config leaves checkpoint-N as the Trainer and DeepSpeed do, and goes on from them, at any number of ranks. What DeepSpeed makes of
them is judged by tools/golden/judge_deepspeed.py."""
import collections
import io
import json
import math
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import time
import zipfile

import ravine_run as r
from ravine_run import check

STAGES = (0, 2, 3)
LAUNCH = ["mpirun", "--oversubscribe", "-n", "2", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


def prepare(folder, stage=2, **more):
    r.save_config(folder / "model" / "config.json")
    r.save_ids(folder / "ids.safetensors", 32, 16)
    (folder / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": stage}, "train_micro_batch_size_per_gpu": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, **more}))


def line(folder, *flags, output="out", batch=4, steps=6):
    return ["trainer", "--deepspeed", folder / "ds.json", "--config_name", folder / "model" / "config.json", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", steps, "--learning_rate", "3e-3",
            "--per_device_train_batch_size", batch, "--logging_steps", 1, "--save_steps", 2, "--output_dir", folder / output, *flags]


def losses(folder):
    return [row["loss"] for row in r.metrics(folder).values()]


def names(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("checkpoint"))


def test_a_run_goes_on_from_what_it_left(folder):
    for stage in STAGES:
        at = folder / str(stage)
        at.mkdir()
        prepare(at, stage)
        r.run(*line(at))
        out = at / "out"
        check(names(out) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"] and not (out / ".saving").exists(), f"{names(out)}")
        shards = sorted(p.name for p in (out / "checkpoint-4" / "global_step4").iterdir())
        wanted = {0: ["mp_rank_00_model_states.pt"], 2: ["mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"],
                  3: ["zero_pp_rank_0_mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"]}[stage]
        check(shards == wanted and (out / "checkpoint-4" / "latest").read_text() == "global_step4", f"{shards}")
        state = json.loads((out / "checkpoint-4" / "trainer_state.json").read_text())
        check(state["global_step"] == 4 and state["max_steps"] == 6 and [x["step"] for x in state["log_history"]] == [1, 2, 3, 4] and abs(state["epoch"] - 0.5) < 1e-9, f"{state}")
        check(json.loads((out / "checkpoint-4" / "training_args.json").read_text())["learning_rate"] == 3e-3, "arguments")
        whole = losses(out)
        shutil.rmtree(out / "checkpoint-6"), shutil.rmtree(out / "checkpoint-4"), shutil.rmtree(out / "model")
        r.run(*line(at))
        check(losses(out) == whole, f"stage {stage}: {losses(out)} and {whole}")
        check(names(out) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"], f"{names(out)}")


def test_rows_of_a_validation(folder):
    """--max_eval_samples counts rows, in a training as in an evaluation alone, whatever the batches are: the same weights have one loss."""
    prepare(folder)
    r.save_ids(folder / "valid.safetensors", 24, 16, seed=3)
    valid = ["--do_eval", "--validation_file", folder / "valid.safetensors", "--max_eval_samples", 20]
    for batch in (3, 4):
        out = folder / str(batch)
        r.run(*line(folder, *valid, output=str(batch), batch=batch, steps=2))
        first = results(out, "eval")
        for rows in ([], ["--per_device_eval_batch_size", 7]):
            for launch in ([], LAUNCH):
                done = subprocess.run([*launch, r.PROGRAM, "trainer", "--model_name_or_path", str(out / "model"), *map(str, valid + rows), "--output_dir", str(folder / "alone")], capture_output=True, text=True, timeout=r.LIMIT)
                check(done.returncode == 0, done.stderr)
                alone = results(folder / "alone", "eval")
                check(first["eval_samples"] == alone["eval_samples"] == 20 and abs(first["eval_loss"] - alone["eval_loss"]) < 1e-6, f"{batch} {rows} {launch}: {first} and {alone}")
    r.run(*line(folder, *valid, "--max_eval_samples", 30, output="all", steps=2))
    check(results(folder / "all", "eval")["eval_samples"] == 24, "there are no more rows")


def test_what_holds_no_states_of_deepspeed(folder):
    """The error says what is there: states whose `latest` is gone, a checkpoint without DeepSpeed, a folder of checkpoints."""
    prepare(folder)
    r.run(*line(folder))
    out, plain = folder / "out", folder / "plain"
    shutil.copytree(out / "checkpoint-4", folder / "no" / "checkpoint-4")
    (folder / "no" / "checkpoint-4" / "latest").unlink()
    r.run(*[x for x in line(folder, output="plain") if x not in ("--deepspeed", folder / "ds.json")])
    for there, words in ((folder / "no" / "checkpoint-4", ("no file 'latest'", "checkpoint-4/global_step4")), (plain / "checkpoint-4", ("of the Trainer without DeepSpeed", "leave --deepspeed out")), (out, ("a folder of checkpoints", "checkpoint-6"))):
        said = r.run(*line(folder, "--resume_from_checkpoint", there, output="on"), status=2).stderr
        check(all(x in said for x in words) and not (folder / "on").exists(), said)
    r.run(*line(folder, "--resume_from_checkpoint", folder / "no" / "checkpoint-4" / "global_step4", output="on"))
    check(len(losses(folder / "on")) == 2, "what the error names is gone on from")


def test_limit_and_inference(folder):
    prepare(folder, 3)
    r.run(*line(folder, "--save_total_limit", 1))
    check(names(folder / "out") == ["checkpoint-6"], f"{names(folder / 'out')}")
    for weights in (folder / "out" / "checkpoint-6").glob("*.safetensors*"):
        weights.unlink()  # they lie in the shards alone
    (folder / "ids.json").write_text("[[1, 2, 3, 4]]")
    ids = ["--prompt-ids", folder / "ids.json", "--max-new-tokens", 8, "--json"]
    said = [r.run("generate", "--model", folder / "out" / where, *ids).stdout for where in ("checkpoint-6", "model")]
    check(said[0] == said[1] and said[0], f"{said}")


def test_a_folder_with_notes_stays(folder):
    """The limit takes folders of the run as it made them; one in which somebody has put a file is kept."""
    prepare(folder)
    r.run(*line(folder, "--save_total_limit", 1, steps=4))
    check(names(folder / "out") == ["checkpoint-4"], f"{names(folder / 'out')}")
    (folder / "out" / "checkpoint-4" / "notes.txt").write_text("mine")
    r.run(*line(folder, "--save_total_limit", 1, steps=8))
    check(names(folder / "out") == ["checkpoint-4", "checkpoint-8"] and (folder / "out" / "checkpoint-4" / "notes.txt").exists(), f"{names(folder / 'out')}")


def test_another_rank_count_goes_on(folder):
    prepare(folder, 2)
    r.run(*line(folder))
    whole = losses(folder / "out")
    again = folder / "again"
    words = line(folder, "--resume_from_checkpoint", folder / "out" / "checkpoint-2", output="again", batch=2)
    done = subprocess.run([*LAUNCH, r.PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == 0, done.stderr)
    rest = losses(again)
    check(len(rest) == 4 and all(abs(a - b) <= 2**-20 * abs(b) for a, b in zip(rest, whole[2:])), f"{rest} and {whole}")
    check((again / "checkpoint-4" / "global_step4" / "zero_pp_rank_1_mp_rank_00_optim_states.pt").exists(), "a shard for each rank")


def test_what_is_not_the_runs_own_stays(folder):
    prepare(folder)
    mine = folder / "out" / "checkpoint-4"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("mine")
    said = r.run(*line(folder), status=2).stderr
    check("checkpoint-4" in said and (mine / "notes.txt").read_text() == "mine" and names(folder / "out") == ["checkpoint-4"], said)
    shutil.rmtree(folder / "out")
    r.run(*line(folder))
    shutil.copytree(folder / "out" / "checkpoint-6", folder / "out" / "checkpoint-8")
    (folder / "out" / "checkpoint-8" / "latest").unlink()
    said = r.run(*line(folder, steps=8), status=2).stderr
    check("checkpoint-8" in said and "not this run's own" in said, said)
    shutil.rmtree(folder / "out" / "checkpoint-8")
    said = r.run(*line(folder, "--overwrite_output_dir"), status=2).stderr
    check("already holds checkpoints" in said and len(names(folder / "out")) == 3, said)
    said = r.run(*line(folder, "--resume_from_checkpoint", "True", output="typo"), status=2).stderr
    check("no valid checkpoint is in" in said and not (folder / "typo").exists(), said)
    plain = folder / "plain" / "checkpoint-3"
    plain.mkdir(parents=True)
    (plain / "optimizer.pt").write_text("")
    (plain / "trainer_state.json").write_text("{}")
    check("leave --deepspeed out" in r.run(*line(folder, output="plain"), status=2).stderr and len(list((folder / "plain").iterdir())) == 1, "nothing is written beside")


def test_history_is_the_trainers(folder):
    """A mean since the line before, the rate of the next update, and validations as entries of their own, also between two lines."""
    prepare(folder)
    r.run(*line(folder, "--logging_steps", 4, "--do_eval", "--eval_strategy", "steps", "--eval_steps", 3, "--validation_file", folder / "ids.safetensors", "--lr_scheduler_type", "linear", "--warmup_steps", 2))
    r.run(*line(folder, "--lr_scheduler_type", "linear", "--warmup_steps", 2, output="each"))
    rows = [json.loads(text) for text in (folder / "each" / "metrics.jsonl").read_text().splitlines()]
    state = json.loads((folder / "out" / "checkpoint-6" / "trainer_state.json").read_text())
    losses = [x for x in state["log_history"] if "loss" in x]
    check([x["step"] for x in losses] == [4] and abs(losses[0]["loss"] - sum(x["loss"] for x in rows[:4]) / 4) < 1e-6, f"{losses}")
    check(abs(losses[0]["learning_rate"] - rows[4]["lr"]) < 1e-12, f"{losses} and {rows[4]['lr']}")
    check([x["step"] for x in state["log_history"] if "eval_loss" in x] == [3, 6] and "TrainerControl" in state["stateful_callbacks"], f"{state}")
    check(json.loads((folder / "out" / "checkpoint-6" / "training_args.json").read_text())["warmup_steps"] == 2, "the warm-up")


def test_the_first_line_and_the_tokens(folder):
    """--logging_first_step: a line, a row and an entry of step 1; tokens in the history and in the figures of the end."""
    prepare(folder)
    for name, flags in (("plain", []), ("first", ["--logging_first_step", "--include_num_input_tokens_seen", "true", "--include_tokens_per_second", "true"])):
        said = r.run(*line(folder, "--logging_steps", 4, *flags, output=name)).stderr
        state = json.loads((folder / name / "checkpoint-6" / "trainer_state.json").read_text())
        entries = [x for x in state["log_history"] if "loss" in x]
        first = [1] if flags else []
        check([x["step"] for x in entries] == [*first, 4], f"{name}: {entries}")
        check(("step 1/6" in said) == bool(flags) and sorted(r.metrics(folder / name)) == [*first, 4, 6], f"{name}: {said}")
        check([x.get("num_input_tokens_seen") for x in entries] == ([64, 256] if flags else [None]), f"{name}: {entries}")
        figures = results(folder, f"{name}/train")
        per_second = figures.get("train_tokens_per_second")
        check((per_second is None) if not flags else abs(per_second - 16 * figures["train_samples_per_second"]) < 1 + 0.02 * per_second, f"{name}: {figures}")
    each = [row["loss"] for row in map(json.loads, (r.run(*line(folder, output="each")) and folder / "each" / "metrics.jsonl").read_text().splitlines())]
    check(abs(entries[0]["loss"] - each[0]) < 1e-6 and abs(entries[1]["loss"] - sum(each[1:4]) / 3) < 1e-6, f"{entries} and {each}")
    said = r.run(*line(folder, "--include_num_input_tokens_seen", "some", output="no"), status=2).stderr
    check("include_num_input_tokens_seen" in said and "non_padding" in said, said)


def test_a_bar_is_shown_unless_told_otherwise(folder):
    prepare(folder)
    for flags, shown in (([], True), (["--disable_tqdm", "false"], True), (["--disable_tqdm", "true"], False)):
        status, said = r.on_terminal(line(folder, *flags, output=f"bar{len(flags)}{shown}"), [])
        check(status == 0 and ("6/6  loss" in said.replace("step 6/6", "")) == shown and "step 6/6" in said, f"{flags}: {said[-600:]!r}")


class Names(pickle.Unpickler):
    """A torch file without its tensors."""
    def find_class(self, module, name):
        return collections.OrderedDict if name == "OrderedDict" else lambda *args: args
    def persistent_load(self, pid):
        return pid


def shapes_of(path):
    """The parameters of each group of a checkpoint of ZeRO, in the order of its flat vector."""
    with zipfile.ZipFile(path) as z:
        state = Names(io.BytesIO(z.read(next(n for n in z.namelist() if n.endswith("data.pkl"))))).load()
    return [list(group) for group in state["param_shapes"]]


def on_two(*words):
    done = subprocess.run([*LAUNCH, *r.command(*words)], capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == 0, done.stderr[-2000:])


def test_files_have_the_form_of_their_keys(folder):
    """round_robin_gradients orders parameters of ZeRO 1 and 2 by turns, sub_group_size closes groups of ZeRO 3; a run goes on from either with the bits of one without."""
    for stage, key, value in ((2, "round_robin_gradients", True), (3, "sub_group_size", 100)):
        prepare(folder, stage)
        on_two(*line(folder, output=f"plain{stage}", batch=2))
        prepare(folder, stage, zero_optimization={"stage": stage, key: value})
        on_two(*line(folder, output=f"out{stage}", batch=2))
        names = {}
        for name, step in ((f"plain{stage}", 6), (f"out{stage}", 4)):
            model = next((folder / name / f"checkpoint-{step}" / f"global_step{step}").glob("*rank_00_model_states.pt"))
            names[name] = shapes_of(model)
        plain, other = names.values()
        hands = [x for group in plain for hand in (0, 1) for x in group[hand::2]]
        if stage == 2:
            check([x for group in other for x in group] == hands != [x for group in plain for x in group], f"{names}")
        else:
            check(len(other) > len(plain) and [x for group in other for x in group] == [x for group in plain for x in group], f"{names}")
        shutil.rmtree(folder / f"out{stage}" / "checkpoint-6"), shutil.rmtree(folder / f"out{stage}" / "model")
        on_two(*line(folder, output=f"out{stage}", batch=2))
        check(losses(folder / f"out{stage}") == losses(folder / f"plain{stage}"), f"stage {stage}: it goes on")


def csv(path):
    """Rows of a CSV file under its first line."""
    head, *lines = path.read_bytes().decode().split("\r\n")[:-1]
    return head, [(int(at), float(value)) for at, value in (x.split(",") for x in lines)]


def test_monitors_leave_deepspeeds_files(folder):
    """A CSV file per tag and event files, at samples: losses before their step, rates and scales behind it; a run that goes on adds the rows that a whole run has."""
    on = {name: {"enabled": True, "output_path": str(folder / name), "job_name": "tiny"} for name in ("csv_monitor", "tensorboard")}
    prepare(folder, fp16={"enabled": True}, **on)
    flags = ["--fp16", "--lr_scheduler_type", "linear", "--report_to", "none"]
    r.run(*line(folder, *flags))
    rows = [json.loads(text) for text in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
    tags = {"train_loss": [(4 * i, x["loss"]) for i, x in enumerate(rows)], "lr": [(4 * i + 4, x["lr"]) for i, x in enumerate(rows[1:])], "loss_scale": [(4 * i + 4, x["loss_scale"]) for i, x in enumerate(rows)]}
    files = {p.name: csv(p) for p in (folder / "csv_monitor" / "tiny").iterdir()}
    check(sorted(files) == sorted(f"Train_Samples_{tag}.csv" for tag in tags), f"{sorted(files)}")
    for tag, wanted in tags.items():
        head, got = files[f"Train_Samples_{tag}.csv"]
        check(head == f"step,{tag}" and got[:len(wanted)] == wanted and len(got) == 6, f"{tag}: {head} {got} instead of {wanted}")
    events = b"".join(p.read_bytes() for p in (folder / "tensorboard" / "tiny").glob("events.out.tfevents.*"))
    check(all(f"Train/Samples/{tag}".encode() in events for tag in tags), "tags of the event files")
    shutil.rmtree(folder / "out" / "checkpoint-6"), shutil.rmtree(folder / "out" / "checkpoint-4"), shutil.rmtree(folder / "out" / "model")
    r.run(*line(folder, *flags))
    check({p.name: csv(p) for p in (folder / "csv_monitor" / "tiny").iterdir()} == files, "a run that goes on leaves other rows")
    for name in on:
        prepare(folder, **{name: {**on[name], "enabled": False, "output_path": str(folder / "off")}})
        r.run(*line(folder, "--report_to", "none", output=f"off-{name}"))
    check(not (folder / "off").exists(), "a monitor that is off writes files")


def test_logging_dir_is_where_event_files_lie(folder):
    prepare(folder)
    for asked in ("tensorboard", "none"):
        r.run(*line(folder, "--report_to", asked, "--logging_dir", folder / "logs" / asked, output=asked))
        check(bool(list((folder / "logs" / asked).glob("events.out.tfevents.*"))) == (asked == "tensorboard"), asked)
        check(not (folder / asked / "tensorboard").exists(), f"{asked}: event files in the folder of the run")


def test_the_end_of_a_pass(folder):
    """Rows that fill no step are a step of their own under 5.x, fall under --dataloader_drop_last, and go on into the next pass where 4.37 accumulates. The same rows by hand, with rows of no labels where a step is short, have the same losses."""
    r.save_config(folder / "model" / "config.json")
    draw = random.Random(5)
    rows = [[draw.randrange(3, 256) for _ in range(16)] for _ in range(11)]
    save_rows(folder / "rows.safetensors", rows)
    common = ["--config_name", folder / "model" / "config.json", "--train_file", folder / "rows.safetensors", "--do_train", "--learning_rate", "1e-3", "--num_train_epochs", 2, "--logging_steps", 1, "--save_strategy", "no",
              "--report_to", "none", "--threads", 1, "data.shuffle=false"]

    def by_hand(name, batch, steps):
        save_rows(folder / f"{name}.safetensors", [rows[i] if i is not None else None for step in steps for i in (step + [None] * batch)[:batch]])
        hand = [x if x != folder / "rows.safetensors" else folder / f"{name}.safetensors" for x in common]
        hand[hand.index("--num_train_epochs") + 1] = 1
        r.run("trainer", *hand, "--transformers_version", "5.23", "--per_device_train_batch_size", batch, "--output_dir", folder / name)
        return losses(folder / name)

    first, rest, whole = list(range(8)), [8, 9, 10], list(range(11))
    cases = {
        "windows": (["--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 4], 8, [first, rest, first, rest], 1),
        "short": (["--per_device_train_batch_size", 4], 4, [whole[:4], whole[4:8], rest] * 2, 1),
        "dropped": (["--per_device_train_batch_size", 4, "--dataloader_drop_last"], 4, [whole[:4], whole[4:8]] * 2, 1),
        "two": (["--per_device_train_batch_size", 2], 4, [whole[:4], whole[4:8], [8, 9, 10, 0]] * 2, 2),
        "two-dropped": (["--per_device_train_batch_size", 2, "--dataloader_drop_last"], 4, [whole[:4], whole[4:8]] * 2, 2),
    }
    for name, (flags, batch, steps, ranks) in cases.items():
        words = ["trainer", *common, "--transformers_version", "5.23", *flags, "--output_dir", folder / name]
        launch = LAUNCH if ranks == 2 else []
        done = subprocess.run([*launch, *r.command(*words)], capture_output=True, text=True, timeout=r.LIMIT)
        check(done.returncode == 0, f"{name}: {done.stderr[-1500:]}")
        rates = [row["lr"] for row in r.metrics(folder / name).values()]
        check(all(abs(x - 1e-3 * (1 - k / len(steps))) < 1e-12 for k, x in enumerate(rates)) and len(rates) == len(steps), f"{name}: {rates}")
        given, wanted = losses(folder / name), by_hand(name + "-hand", batch, steps)
        check(all(abs(a - b) < 1e-5 * b for a, b in zip(given, wanted)) and len(given) == len(wanted), f"{name}: {given}, by hand {wanted}")
    r.run("trainer", *common, *cases["windows"][0], "--output_dir", folder / "old")
    check(len(losses(folder / "old")) == 2, "4.37 makes two updates of eight rows")
    said = r.run("trainer", *common, "--transformers_version", "5.23", "--per_device_train_batch_size", 16, "--dataloader_drop_last", "--output_dir", folder / "none", status=2).stderr
    check("11 rows" in said and not (folder / "none").exists(), said)


def save_rows(path, rows):
    """None: a row that predicts nothing."""
    ids = [x for row in rows for x in (row or [1] * 16)]
    labels = [x for row in rows for x in (row or [-100] * 16)]
    r.save_tensors(path, {"input_ids": ("I32", (len(rows), 16), ids), "labels": ("I32", (len(rows), 16), labels)})


def test_times_and_flops_of_a_step(folder):
    """wall_clock_breakdown prints the times of each step; flops_profiler leaves its report of one step. The sums are compared with those of the step and with counts by hand."""
    prepare(folder, wall_clock_breakdown=True)
    said = r.run(*line(folder, "--gradient_accumulation_steps", 2, steps=3)).stderr
    word = r"(fwd|bwd|bwd_inner|bwd_allreduce|step)%s: (\d+\.\d\d)"
    lines = [x for x in said.splitlines() if "[Rank 0] time (ms) | " in x]
    micro = [dict(re.findall(word % "_microstep", x)) for x in lines if "fwd_microstep" in x]
    whole = [dict(re.findall(word % "", x)) for x in lines if "| fwd: " in x]
    check(len(lines) == 9 and len(micro) == 6 and len(whole) == 3 and all(len(x) == 5 for x in micro + whole), said)
    for step, row in enumerate(map(json.loads, (folder / "out" / "metrics.jsonl").read_text().splitlines()), 1):
        of = [{k: float(v) for k, v in x.items()} for x in (*micro[2 * step - 2:2 * step], whole[step - 1])]
        check(all(abs(of[0][k] + of[1][k] - of[2][k]) < 0.03 for k in of[2]), f"step {step}: {of}")
        total = of[2]["fwd"] + of[2]["bwd"] + of[2]["step"]
        check(of[2]["fwd"] > 0 and of[2]["bwd_inner"] > 0 and of[2]["step"] > 0 and total <= 1000 * row["step_time"] + 0.05, f"step {step}: {of[2]} of {row['step_time']} s")
    prepare(folder, flops_profiler={"enabled": True, "profile_step": 2, "top_modules": 2, "output_file": str(folder / "new" / "flops.txt")})
    for steps, there in ((2, False), (3, True)):
        said = r.run(*line(folder, steps=steps, output=f"flops{steps}")).stderr
        check((folder / "new" / "flops.txt").exists() == there and "fwd_microstep" not in said and said.count("time (ms) | fwd: ") == steps, said)
    report = (folder / "new" / "flops.txt").read_text()
    at = dict(re.findall(r"^(.*?): +(\S.*?) *$", report, re.M))
    c = json.loads((folder / "model" / "config.json").read_text())
    width, inner, heads, layers = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], c["num_hidden_layers"]
    kept = width // heads * c["num_key_value_heads"]
    matrices = layers * (2 * width * width + 2 * width * kept + 3 * width * inner)
    params = matrices + (2 * layers + 1) * width + c["vocab_size"] * width * (1 if c.get("tie_word_embeddings") else 2)
    check("Profile Summary at step 3:" in report and at["params per GPU"] == short(params), f"{at['params per GPU']}, by hand {short(params)}")
    tokens = 4 * 16
    attention = layers * 4 * width * 16 * 17  # 4 rows: scores and values of 136 pairs each
    macs = tokens * (matrices + c["vocab_size"] * width) + attention
    given = number(at["fwd MACs per GPU"])
    check(abs(given / macs - 1) < 0.05, f"MACs: {given}, by hand {macs}")
    check(number(at["fwd flops per GPU"]) > 2 * given and number(at["iter latency"]) > number(at["bwd latency"]) > 0, f"{at}")
    top = re.search(r"depth 0:\n    params      - \{'Model': '(.*)'\}", report)
    check(top and top[1] == short(params) and "(q_proj): (" in report and "depth 3:" in report and report.count(" = 100% latency") == 1, report)
    prepare(folder, flops_profiler={"enabled": True, "profile_step": 0, "module_depth": 1, "detailed": False, "recompute_fwd_factor": 1})
    said = r.run(*line(folder, steps=1, output="shown")).stderr
    check("Profile Summary at step 1:" in said and "bwd FLOPS per GPU = 3 * fwd" in said and "depth 1" not in said and "q_proj" not in said, said)


def number(text):
    value, unit = re.match(r"([\d.]+) ?([TGMKmu]?)", text).groups()
    return float(value) * {"T": 1e12, "G": 1e9, "M": 1e6, "K": 1e3, "": 1, "m": 1e-3, "u": 1e-6}[unit]


def short(n):
    unit, name = next((u, x) for u, x in ((1e9, "B"), (1e6, "M"), (1e3, "K")) if n >= u)
    return f"{round(n / unit, 2):g} {name}"


def test_the_best_model_is_loaded_at_the_end(folder):
    """The model is that of the checkpoint whose validation is best, which trainer_state.json names; with DeepSpeed's files, with our own, on two ranks, and by a run that goes on."""
    prepare(folder)
    r.save_ids(folder / "valid.safetensors", 8, 16, seed=3)
    flags = ["--do_eval", "--eval_strategy", "steps", "--eval_steps", 2, "--validation_file", folder / "valid.safetensors", "--report_to", "none", "--learning_rate", "0.3", "--metric_for_best_model", "loss"]
    model = lambda out: r.load_tensors(out / "model")
    r.run(*line(folder, *flags, output="last"))
    seen = {step: row["valid_loss"] for step, row in r.metrics(folder / "last").items() if "valid_loss" in row}
    best, worst = min(seen, key=seen.get), max(seen, key=seen.get)
    check(sorted(seen) == [2, 4, 6] and best != worst, f"no test of anything: {seen}")
    early, towards = (best, []) if best != 6 else (worst, ["--greater_is_better", "True"])
    state = json.loads((folder / "last" / "checkpoint-6" / "trainer_state.json").read_text())
    check(state["best_metric"] == seen[best] and state["best_model_checkpoint"].endswith(f"checkpoint-{best}"), f"{state['best_metric']} {state['best_model_checkpoint']}")
    at = {step: r.load_tensors(folder / "last" / f"checkpoint-{step}") for step in seen}
    check(model(folder / "last") == at[6], "without the flag it is the last one")
    for output, step, more in (("best", best, []), ("worst", worst, ["--greater_is_better", "True"]), ("kept", best, ["--save_total_limit", 1])):
        said = r.run(*line(folder, *flags, "--load_best_model_at_end", *more, output=output)).stderr
        check(model(folder / output) == at[step] and f"checkpoint-{step} (score: " in said, f"{output}: {said}")
        there = sorted(int(p.name.split("-")[1]) for p in (folder / output).glob("checkpoint-*"))
        check(there == (sorted({best, 6}) if output == "kept" else [2, 4, 6]), f"{output}: checkpoints {there}, the best is {step}")
    plain = [x for x in line(folder, *flags, "--load_best_model_at_end", "--save_total_limit", 1, *towards, output="own") if x not in ("--deepspeed", folder / "ds.json")]
    r.run(*plain)
    last = [x for x in line(folder, *flags, output="own-last") if x not in ("--deepspeed", folder / "ds.json")]
    r.run(*last)
    check(model(folder / "own") != model(folder / "own-last"), "our own checkpoints: it is the last model")
    there = sorted(int(p.name.split("-")[1]) for p in (folder / "own").glob("checkpoint-*"))
    check(there == [early, 6], f"checkpoints of the Trainer: {there}, the best is {early}")
    r.run(*[x if x != folder / "own" else folder / "ours" for x in plain], "checkpoint.layout=ravine")
    there = sorted(int(p.name[5:]) for p in (folder / "ours" / "checkpoints").glob("step_*"))
    check(there == [early, 6] and model(folder / "ours") == model(folder / "own"), f"our own checkpoints: {there}, the best is {early}")
    done = subprocess.run([*LAUNCH, *r.command(*line(folder, *flags, "--load_best_model_at_end", *towards, output="two", batch=2))], capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == 0 and model(folder / "two") == r.load_tensors(folder / "two" / f"checkpoint-{early}"), done.stderr[-1500:])
    for wrong, named in ((["--save_steps", 3], "--eval_steps"), (["--eval_strategy", "no"], "--save_strategy"), (["--metric_for_best_model", "accuracy"], "accuracy")):
        said = r.run(*line(folder, *flags, "--load_best_model_at_end", *wrong, output="refused"), status=2).stderr
        check(named in said and not (folder / "refused").exists(), said)


def results(folder, name):
    return json.loads((folder / f"{name}_results.json").read_text())


def test_figures_of_the_end(folder):
    """run_clm.py's files of results, of a training and of an evaluation alone: of a model, of a checkpoint, on two ranks."""
    prepare(folder)
    valid = ["--validation_file", folder / "valid.safetensors"]
    r.save_ids(folder / "valid.safetensors", 12, 16, seed=3)
    out = folder / "out"
    r.run(*line(folder))
    train = results(out, "train")
    check(abs(train["train_loss"] - sum(losses(out)) / 6) < 1e-9 and train["epoch"] == 0.75 and train["train_samples"] == 32 and train["train_runtime"] > 0, f"{train}")
    check(abs(train["train_samples_per_second"] / train["train_steps_per_second"] - 4) < 0.1 and results(out, "all") == train and not (out / "eval_results.json").exists(), f"{train}")
    said = r.run(*line(folder, "--do_eval", *valid, output="both")).stderr
    both = folder / "both"
    ended = results(both, "eval")
    check("***** eval metrics *****" in said and results(both, "all") == {**results(both, "train"), **ended}, said)
    check(ended["eval_loss"] == list(r.metrics(both).values())[-1]["valid_loss"] and abs(ended["perplexity"] - math.exp(ended["eval_loss"])) < 1e-9 and ended["eval_samples"] == 12 and ended["epoch"] == 0.75, f"{ended}")
    there = names(both)
    for model in (both / "model", both / "checkpoint-6"):
        words = ["trainer", "--model_name_or_path", model, "--do_eval", *valid, "--per_device_eval_batch_size", 5]
        for at, launch in (("one", []), ("two", LAUNCH)):
            done = subprocess.run([*launch, r.PROGRAM, *map(str, words), "--output_dir", folder / at], capture_output=True, text=True, timeout=r.LIMIT)
            check(done.returncode == 0, done.stderr)
            alone = results(folder / at, "eval")
            check(abs(alone["eval_loss"] - ended["eval_loss"]) < 1e-6 and alone["eval_samples"] == 12 and "epoch" not in alone and results(folder / at, "all") == alone, f"{alone} and {ended}")
            kept = ["all_results.json.before", "eval_results.json.before"] if model != both / "model" else []
            check(sorted(p.name for p in (folder / at).iterdir()) == sorted(["all_results.json", "eval_results.json", *kept]), "nothing else is written")
            check(not kept or ("kept  " in done.stderr and json.loads((folder / at / kept[1]).read_text())["eval_samples"] == 12), done.stderr)
    # into the folder of the run: its own stays, figures join those of the training
    r.run("trainer", "--deepspeed", folder / "ds.json", "--model_name_or_path", both / "model", "--do_eval", *valid, "--train_file", folder / "ids.safetensors", "--output_dir", both, "--max_eval_samples", 8)
    check(not list(both.glob("*.before")), "the run's own are replaced")
    check(results(both, "eval")["eval_samples"] == 8 and results(both, "all")["train_loss"] == results(both, "train")["train_loss"] and names(both) == there, f"{results(both, 'all')}")
    (both / "all_results.json").write_text("[1]")
    said = r.run("trainer", "--model_name_or_path", both / "model", "--do_eval", *valid, "--output_dir", both, status=2).stderr
    check("all_results.json" in said and (both / "all_results.json").read_text() == "[1]", said)
    (both / "all_results.json").unlink()
    os.mkfifo(both / "all_results.json")
    said = r.run("trainer", "--model_name_or_path", both / "model", "--do_eval", *valid, "--output_dir", both, status=2).stderr
    check("it is a plain file" in said and (both / "all_results.json").is_fifo(), said)
    said = r.run("trainer", "--model_name_or_path", both / "model", "--do_eval", "--output_dir", both, status=2).stderr
    check("--validation_file" in said, said)
    said = r.run("trainer", "--model_name_or_path", both / "model", "--output_dir", both, *valid, status=2).stderr
    check("--do_train" in said and "--do_eval" in said, said)


def test_shards_of_two_steps_are_refused(folder):
    prepare(folder, 2)
    words = line(folder, output="two", batch=2)
    done = subprocess.run([*LAUNCH, r.PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == 0, done.stderr)
    shard = "zero_pp_rank_1_mp_rank_00_optim_states.pt"
    shutil.copy(folder / "two/checkpoint-2/global_step2" / shard, folder / "two/checkpoint-4/global_step4" / shard)
    said = r.run(*line(folder, "--resume_from_checkpoint", folder / "two/checkpoint-4", output="on"), status=2).stderr
    check("ranks of different steps" in said and shard in said, said)


def test_a_stop_is_not_held_by_a_reader(folder):
    """Nobody reads the pipe: the run is asked to stop, saves, and ends."""
    prepare(folder, 0)
    words = [r.PROGRAM, *map(str, line(folder, steps=10**6))]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        metrics = folder / "out" / "metrics.jsonl"
        while not metrics.exists():
            check(run.poll() is None, "it runs")
            time.sleep(0.05)
        size = -1
        while size != metrics.stat().st_size:  # the pipe is full: nothing goes on
            size = metrics.stat().st_size
            time.sleep(0.5)
        run.send_signal(signal.SIGTERM)
        check(run.wait(r.LIMIT) == 130, f"exit {run.returncode}")
        check(names(folder / "out"), "the last step is saved")
    finally:
        run.kill()
        run.stderr.close()


def test_a_tokenizer_that_is_not_there(folder):
    """Ids need none, and the model at the end gets it."""
    prepare(folder)
    said = r.run(*line(folder, "--tokenizer_name", folder / "gone"), status=2).stderr
    check("no such tokenizer" in said and "gone" in said and not (folder / "out").exists(), said)


def test_a_script_is_read(folder):
    prepare(folder)
    words = " ".join(map(str, line(folder)[1:]))
    (folder / "run.sh").write_text(f"#!/bin/bash\nSTEPS=3\ndeepspeed --num_gpus=1 run_clm.py {words} --max_steps $STEPS\n".replace("--max_steps 6 ", ""))
    r.run("trainer", "--script", folder / "run.sh")
    check(len(losses(folder / "out")) == 3, "the steps of the script")


def test_other_optimizers_keep_our_form(folder):
    prepare(folder, 0, optimizer={"type": "Adagrad", "params": {"lr": "auto"}})
    said = r.run(*line(folder)).stderr
    check("Ravine's own form" in said and (folder / "out" / "checkpoints" / "latest").exists() and not names(folder / "out")[1:], said)


def test_a_run_stands_for_its_newest(folder):
    """Of a run that was stopped, and has no model yet: its checkpoints are found by whoever asks for its weights."""
    prepare(folder)
    out = folder / "out"
    r.run(*line(folder))
    shutil.rmtree(out / "model")
    (out / "checkpoint-6" / "latest").unlink()  # it was not finished
    told = json.loads(r.run("info", out, "--json").stdout)
    check(told["checkpoints"] == ["checkpoint-2", "checkpoint-4"] and told["latest"] == "checkpoint-4" and "ravine convert" in told["to_use_it"], f"{told}")
    for source, target in ((out, "of-run"), (out / "checkpoint-4", "of-step")):
        r.run("convert", "--input", source, "--output", folder / target, "--to", "hf")
    check((folder / "of-run/model.safetensors").read_bytes() == (folder / "of-step/model.safetensors").read_bytes(), "the newest one")
    said = r.run("generate", "--model", out, "--prompt", "x", status=2).stderr
    check("a run without a model" in said and f"ravine convert --input {out}" in said, said)


def test_two_runs_do_not_share_a_folder(folder):
    prepare(folder)
    out = folder / "out"
    r.run(*line(folder))
    rows = (out / "metrics.jsonl").read_text()
    said = r.run(*line(folder, "checkpoint.layout=ravine", "--overwrite_output_dir"), status=2).stderr
    check("checkpoint.layout=deepspeed" in said and "train.output is --output_dir" in said and (out / "metrics.jsonl").read_text() == rows and not (out / "checkpoints").exists(), said)


def test_a_step_of_our_form_is_told_apart(folder):
    prepare(folder)
    r.run(*line(folder, "checkpoint.layout=ravine"))
    said = r.run(*line(folder, "--resume_from_checkpoint", folder / "out" / "checkpoints" / "step_000002", output="other"), status=2).stderr
    check("checkpoint.layout=ravine" in said, said)


if __name__ == "__main__":
    r.main(globals())
