"""What a newcomer is told where the program used to be silent, or to propose what does not work: signals, passes, idle options, figures, misplaced paths, files that nobody knew."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import ravine_run as r
from ravine_run import check

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads


def text_run(folder, **more):
    """Options of a run on a text, with a tokenizer of its own."""
    text = folder / "book.txt"
    if not text.exists():
        r.save_text(text, 6000, 1)
        r.run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 300)
    base = {"data__train": [str(text)], "model__tokenizer": folder / "tok", "data__sequence_length": 32, "train__output": folder / "run", "checkpoint__every": 0}
    base.update(more)
    return r.options(folder, base.pop("train__output"), **base)


def seconds_until(job, words, limit=r.LIMIT):
    """How long until a line of the job's output holds these words; the line."""
    began = time.monotonic()
    for line in job.stdout:
        if words in line:
            return time.monotonic() - began, line
        check(time.monotonic() - began < limit, f"no '{words}'")
    raise AssertionError(f"the job ended without '{words}'")


def test_ctrl_c_is_answered_during_the_step(folder):
    """The first is answered before the step ends, however long that takes; the second says what is lost."""
    for every, saved in ((0, None), (1, "step_000001")):
        out = folder / f"run{every}"
        job = r.start("train", *r.options(folder, out, train__steps=1000000, train__global_batch=2, checkpoint__every=1, checkpoint__keep=2) if saved else
                      r.options(folder, out, train__global_batch=1 << 17, checkpoint__every=0))
        seconds_until(job, "saved    step_000002" if saved else "run  ")
        time.sleep(0 if saved else 0.5)
        if saved:
            job.send_signal(signal.SIGINT)
            line = seconds_until(job, "stopping: ")[1]
            check(re.search(r"stopping: step \d+ is finished and saved first \(a step takes .* 1 s\); Ctrl-C again ends at once and loses what came after step_\d+$", line.strip()), line)
            text = job.communicate(timeout=r.LIMIT)[0]
            check(job.returncode == 130 and "saved; the same command goes on from there" in text, text)
            continue
        job.send_signal(signal.SIGINT)
        line = seconds_until(job, "stopping: ")[1]
        check("stopping: step 1 is finished and saved first (a step takes about " in line and "loses the whole run: nothing is saved yet" in line, line)
        check(job.poll() is None, "the step of 131072 sequences is not over")
        job.send_signal(signal.SIGINT)
        text = job.communicate(timeout=r.LIMIT)[0]
        check(job.returncode == 130 and text.endswith("ended at once: nothing was saved, the same command begins again\n"), text)
        check(not (out / "checkpoints").exists() or not list((out / "checkpoints").glob("step_*")), "saved")


def test_passes_are_named(folder):
    log = r.run("train", *text_run(folder, train__steps=4)).stderr
    sequences = int(re.search(r"^data +(\d+) sequences of 32 tokens", log, re.M)[1])
    passes = f"{4 * 2 / sequences:.2f} passes over the data"
    check(passes in log, f"no '{passes}' in {log}")
    shown = r.run("data", "show", *[w for w in text_run(folder, train__steps=4) if not w.startswith(("schedule.", "checkpoint.", "log."))]).stderr
    check(f"{sequences} sequences of 32 tokens: a pass takes {sequences / 2:.0f} steps of 2, train.steps=4 are {4 * 2 / sequences:.2f} passes" in shown, shown)
    told = r.run("train", *text_run(folder), "--epochs", "3", status=2).stderr
    check("here it is train.epochs=3" in told, told)
    (folder / "hi.txt").write_text("hi\n")
    log = r.run("train", *text_run(folder, data__train=[str(folder / "hi.txt")], train__output=folder / "hi")).stderr
    check(re.search(r"warning: the data are \d tokens, less than one sequence of 32: the rest of it is padding", log), log)
    (folder / "few.txt").write_text((folder / "book.txt").read_text()[:300])
    log = r.run("train", *text_run(folder, data__train=[str(folder / "few.txt")], train__global_batch=64, train__output=folder / "few")).stderr
    check(re.search(r"warning: the data are \d+ sequences, a step takes 64 \(train.global_batch\): each step sees them [\d.]+ times", log), log)


def test_what_is_trained_on_is_not_held_out(folder):
    text = str(folder / "book.txt")
    words = text_run(folder, data__valid=[text], train__valid_every=1)
    (folder / "link.txt").symlink_to(text)
    for number, valid in enumerate(r.rows((text, str(folder / "link.txt"), str(folder) + "/./book.txt"), 1, "one comparison of files")):
        for command in (["config"], ["train", f"train.output={folder / f'run{number}'}"]):
            said = r.run(command[0], *text_run(folder, data__valid=[valid], train__valid_every=1), *command[1:]).stderr
            check(f"data.valid names {text}, which data.train trains on" in said and "data.valid=[] data.valid_fraction=0.05" in said, f"{valid}: {said}")
            check("held out" not in re.sub("warning.*", "", said), said)
    done = r.run("train", *words, "data.valid=[]", "data.valid_fraction=0.05", f"train.output={folder / 'fixed'}").stderr
    check("held out for validation" in done and "which data.train trains on" not in done, done)


def test_options_without_effect(folder):
    for more, words in (({"parallel__zero": 2}, "parallel.zero=2 has no effect on one data rank"), ({"parallel__sequence": True}, "parallel.sequence=true has no effect"),
                        ({"parallel__virtual": 2}, "parallel.virtual=2 has no effect")):
        said = r.run("train", *r.options(folder, folder / words[:16], **more)).stderr
        check(f"warning: {words}" in said, f"{more}: {said}")
    check("train.threads=1000 on" in r.run("config", *r.options(folder, folder / "x", train__threads=1000)).stderr, "threads")
    said = r.run("config", *r.options(folder, folder / "x", train__threads=None), env={**os.environ, "OMP_NUM_THREADS": "abc"}).stderr
    check("OMP_NUM_THREADS='abc' is no number of threads" in said, said)
    said = r.run("config", *text_run(folder, data__train=[str(folder / "book.txt")] * 2)).stderr
    check("book.txt twice" in said and "weight: 2" in said, said)
    for name in "ab":
        (folder / f"{name}.yaml").write_text("train: {steps: 3}\n")
    said = r.run("config", "--config", folder / "a.yaml", "--config", folder / "b.yaml").stderr
    check(f"note: --config is given twice, {folder / 'a.yaml'} and {folder / 'b.yaml'}: the last counts" in said, said)
    said = r.run("config", *text_run(folder, model__config=r.save_config(folder / "wide.json", vocab_size=5000))).stderr
    check("the new model has a vocabulary of 5000, the tokenizer 300 ids" in said, said)
    (folder / "alpaca.json").write_text(json.dumps([{"instruction": "Say it.", "input": "", "output": "It."}] * 30))
    said = r.run("init", "sft", folder / "talk", "--data", folder / "alpaca.json", "--text-key", "q").stderr
    check("note: --text-key=q has no effect" in said, said)
    said = r.run("train", *r.options(folder, folder / "frozen", train__freeze=["*"]), status=2).stderr
    check("nothing is left to train" in said and not (folder / "frozen").exists(), said)


def test_a_run_without_room_leaves_nothing(folder):
    """Where the disk has no room the run is refused before anything is written."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise r.Skipped("no disk of its own can be made here")
    disk = folder / "disk"
    disk.mkdir()
    words = r.command("train", *r.options(folder, disk / "run", model__config=r.save_config(folder / "large.json", hidden_size=256, intermediate_size=1024, num_hidden_layers=4)))
    script = f'mount -t tmpfs -o size=1m none "{disk}" && "$@"; status=$?; ls -A "{disk}"; exit $status'
    done = subprocess.run(["unshare", "-m", "bash", "-c", script, "-", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check("no room for the run" in done.stderr and done.returncode == 1, done.stderr)
    check(done.stdout == "", f"left there: {done.stdout}")


def test_paths_of_a_config_elsewhere(folder):
    there, other = folder / "there", folder / "other"
    there.mkdir(), other.mkdir()
    r.save_config(there / "tiny.json")
    r.save_ids(there / "ids.safetensors", 16, 16)
    (there / "run.yaml").write_text("model:\n  config: tiny.json\ndata:\n  train: [ids.safetensors]\n  sequence_length: 16\ntrain: {steps: 2, micro_batch: 2, threads: 1, output: run}\n"
                                    "schedule: {warmup_steps: 0}\n")
    told = r.run("train", "--config", "../there/run.yaml", status=2, cwd=other).stderr
    check("../there/run.yaml:2: model.config=tiny.json" in told and "the folder in which the command is typed" in told and "`cd ../there` first, or write ../there/tiny.json" in told, told)
    told = r.run("train", "--config", "../there/run.yaml", "model.config=../there/tiny.json", status=2, cwd=other).stderr
    check("../there/run.yaml:4: data.train=ids.safetensors" in told, told)
    check("tiny.json" in r.run("config", "--config", "../there/run.yaml", cwd=other).stdout, "config shows it as it is")
    r.run("train", "--config", "run.yaml", cwd=there)
    check(not (other / "run").exists(), "begun elsewhere")
    # The config of a run names the model that it began with; generate takes the one that it is given.
    shutil.copytree(there / "run", folder / "moved")
    done = r.run("trace", "--model", there / "run", "--input", there / "ids.safetensors", "--out", folder / "t.safetensors")
    check(done.stderr.endswith(f"saved    {folder / 't.safetensors'}\n"), done.stderr)
    (folder / "ids.json").write_text("[[1, 2, 3]]")
    for words in (["--model", there / "run"], [f"model.path={there / 'run' / 'model'}"]):
        r.run("generate", "--config", there / "run" / "config.yaml", *words, "--prompt-ids", folder / "ids.json", "--max-new-tokens", 2)


def test_folders_in_place_of_files(folder):
    """What is proposed in place of a folder is taken."""
    r.save_text(folder / "book.txt", 3000, 1)
    said = r.run("init", "first", "--data", "book.txt", cwd=folder).stdout
    check(f"\n  {r.PROGRAM} train --config first/run.yaml\n" in said, f"the program as it was called: {said}")
    for words, want in ((["train", "first"], "--config first/run.yaml"), (["plan", "first"], "--config first/run.yaml"), (["train", "--config", "first"], "write --config first/run.yaml"),
                        (["generate", "first", "--prompt", "x"], "--model first"), (["train", "--config", "first/run.yaml", "model.config=first"], "model.config=first/model.json"),
                        (["tokenizer", "info", "--tokenizer", "first"], "its tokenizer is first/tokenizer"),
                        (["train", "--config", "first/run.yaml", "model.tokenizer=first"], "its tokenizer is first/tokenizer")):
        told = r.run(*words, status=2, cwd=folder).stderr
        check(want in told, f"{words}: {told}")
    short = ["train.steps=2", "schedule.warmup_steps=1", "log.tensorboard=false"]
    r.run("plan", "--config", "first/run.yaml", "model.config=first/model.json", "model.tokenizer=first/tokenizer", cwd=folder)
    said = r.run("train", "--config", "first/run.yaml", *short, cwd=folder).stderr
    check(f"next     {r.PROGRAM} generate" in said, said)
    r.run("generate", "--model", "first", "--prompt", "x", "--max-new-tokens", 2, cwd=folder)
    # Whoever finds the program by its name is given the name.
    (folder / "bin").mkdir()
    (folder / "bin" / "ravine").symlink_to(r.PROGRAM)
    said = subprocess.run(["ravine", "init", "second", "--data", "book.txt"], cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}).stdout
    check("\n  ravine train --config second/run.yaml\n" in said, said)


def test_info_of_what_is_no_model(folder):
    def info(path):
        return json.loads(r.run("info", path, "--json").stdout)
    r.run("train", *text_run(folder, checkpoint__every=2, model__config=r.save_config(folder / "small.json", vocab_size=300)))
    run = folder / "run"
    model = info(run / "model")["parameters"]
    saved = info(run / "checkpoints" / "step_000002")
    check(saved["parameters"] == model and saved["elements"] > 2 * model, f"{saved['parameters']} of {model}")
    r.run(*saved["to_use_it"].split(";")[0].replace("DIR", str(folder / "made")).split()[1:])
    tokens = info(run / "tokens")
    check("tokens" in tokens["kind"] and "model.path" not in json.dumps(tokens), tokens)
    file = info(next((run / "tokens").glob("*.safetensors")))
    check("tokens" in file["kind"] and "parameters" not in file, file)
    check("run" in info(run / "exported")["kind"], "RUN/exported")
    batches = info(r.save_ids(folder / "ids.safetensors", 2, 4))
    check("parameters" not in batches and batches["elements"] == 8, batches)
    r.run("trace", "--model", run / "model", "--input", folder / "ids.safetensors", "--out", folder / "t.safetensors")
    traced = info(folder / "t.safetensors")
    check("trace" in traced["kind"] and "parameters" not in traced, traced)
    r.run("preprocess", "--input", folder / "book.txt", "--tokenizer", folder / "tok", "--output-prefix", folder / "pp" / "x")
    prefix = str(folder / "pp" / "x_text_document")
    check(info(folder / "pp")["prefixes"] == [prefix], info(folder / "pp"))
    told = r.run("train", *text_run(folder, data__train=[str(folder / "pp")], train__output=folder / "z"), status=2).stderr
    check(f"name {prefix}" in told, told)
    special = folder / "special_tokens_map.json"
    special.write_text(json.dumps({"eos_token": {"content": "</s>", "lstrip": False}, "additional_special_tokens": ["<|im_end|>"]}))
    settings = info(special)["settings"]
    check(settings["eos_token"] == "</s>" and settings["additional_special_tokens"] == ["<|im_end|>"], settings)


def test_figures_of_plan_and_log_agree(folder):
    """The parts that a line names add up to its sum, and the time is that which `plan` reckons for as many steps."""
    words = r.options(folder, folder / "run", train__steps=4)
    log = r.run("train", *words).stderr
    line = re.search(r"^memory .*$", log, re.M)[0]
    scale = {"B": 1 / 2**20, "KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
    def part(name):
        m = re.search(rf"{name} ([\d.]+) (B|KiB|MiB|GiB)", line)
        return float(m[1]) * scale[m[2]]
    parts = [part(n) for n in ("weights", "optimizer", "arena", "batches", "with its data")]
    total = float(re.search(r": ([\d.]+) MiB in all", line)[1])
    check(abs(sum(parts) - total) <= 0.05 * (len(parts) + 1), f"{parts}, {total}")
    plan = json.loads(r.run("plan", *words, "--json").stdout)
    said = re.search(r"^run .* in all, .*, (about .*|less than 1 s)$", log, re.M)[1]
    check(said == "less than 1 s" and plan["step"]["seconds"] * 4 < 1, f"{said}: {plan['step']}")
    shown = r.run("plan", *words).stdout
    check("0.00 TFLOP" not in shown and " 0.0 s" not in shown and "(sol 1)" in shown, shown)


def test_ends_that_cannot_come_are_refused(folder):
    told = r.run("train", *r.options(folder, folder / "run", model__config=r.save_config(folder / "end.json", eos_token_id=99999)), status=2).stderr
    check("eos_token_id" in told and "vocab_size = 256" in told and "end.json" in told, told)
    r.run("train", *r.options(folder, folder / "run", model__config=r.save_config(folder / "end.json", eos_token_id=[2, 255])))


def test_readings_that_surprise(folder):
    for text, words in (("train: {steps: 010}", "write 10, or 8"), ("optimizer: {lr: 007}", "write 7, or 7"), ('train: {output: "C:\\runs\\a"}', "single quotes"), ("train: {output: $HOME/runs/x}", "~ is the home folder"),
                        ("train: {output: “runs”}", "typographic quote"), ("model: {path: '${HOME}/m'}", "~ is the home folder")):
        (folder / "a.yaml").write_text(text + "\n")
        told = r.run("config", "--config", folder / "a.yaml", status=2).stderr
        check(words in told and "a.yaml:1" in told and told.count("\n") == 1, f"{text}: {told}")
    check("write 10, or 8" in r.run("config", "train.steps=010", status=2).stderr, "on the command line")
    for text in ("train: {steps: 0}", "train: {steps: 10, output: 'C:/runs/a'}", "train: {output: ~/runs/x}", "train: {output: cost$}", "train: {output: 010}"):
        (folder / "a.yaml").write_text(text + "\n")
        r.run("config", "--config", folder / "a.yaml", status=2 if "steps: 0}" in text else 0)


def test_pictures_say_where_they_lie(folder):
    words = r.options(folder, folder / "run")
    r.run("train", *words)
    for command in (["plot", folder / "run", "--output"], ["plan", *words, "--svg"], ["plan", *words, "--schedule"]):
        picture = folder / f"{command[0]}{len(command)}{command[-1]}.svg"
        check(r.run(*command, picture).stderr.endswith(f"saved    {picture}\n"), command)
    for command in (["plot", folder / "run"], ["info", folder / "run"]):
        told = r.run(*command, status=2, env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"})
        check("run it without mpirun" in told.stderr and not told.stdout, told.stderr)
    check("did you mean" not in r.run("man", "nosuch", status=2).stderr, "a name that is near none")


if __name__ == "__main__":
    r.main(globals())
