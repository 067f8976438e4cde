"""Seams between parts: what two of them have to agree on is one rule, used by both; and what ends a command in a corner is an error with words, never a silence or a crash."""
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

SOURCE = Path(__file__).resolve().parents[2]


def show(folder, *flags, status=0, **more):
    taken = ("model.", "data.", "train.", "parallel.")
    return r.run("data", "show", *[o for o in r.options(folder, folder / "out", **more) if o.startswith(taken)], "--step", 1, *flags, status=status)


def run_of(folder, name, **more):
    return r.run("train", *r.options(folder, folder / name, **more)).stderr


def test_the_version_stands_in_one_place(folder):
    version = re.search(r"project\(ravine VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
    check(r.run("--version").stdout == f"ravine {version}\n", "--version")
    spelled = [str(p.relative_to(SOURCE)) for p in sorted((SOURCE / "src").rglob("*")) if p.suffix in (".cpp", ".h") and version in p.read_text()]
    check(not spelled, f"{version} is spelled in {spelled}")


def test_train_takes_every_section(folder):
    """One option of each section, at its default: what the run needs besides is missing, and nothing else is said."""
    text, section, first = r.run("config").stdout, "", {}
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")) and line.rstrip().endswith(":"):
            section = line.rstrip()[:-1]
        elif (m := re.match(r"  (\w+): *([^#\n]*)", line)) and section not in first and m[2].strip() not in ("", '""', "''", "[]", "{}"):
            first[section] = f"{section}.{m[1]}={m[2].strip()}"
    check({"model", "train", "health", "probe"} - set(first) <= {"model", "probe"} and len(first) >= 9, f"{first}")
    said = r.run("train", *first.values(), "train.objective=dpo", status=2).stderr
    check("no model (" in said, said)
    said = r.run("plan", "health.embedding_norm=1", "log.local_norms='*'", status=2).stderr
    check("a plan needs one" in said, said)


def test_data_show_shows_what_a_rank_trains_on(folder):
    def samples(rank, zero):
        out = show(folder, "--rank", rank, "--ranks", 2, "--json", train__global_batch=8, train__micro_batch=2, parallel__zero=zero).stdout
        return [json.loads(line)["sequence"] for line in out.splitlines()]

    check([samples(rank, 0) for rank in (0, 1)] == [[0, 1, 2, 3], [4, 5, 6, 7]], "neighbours")
    check([samples(rank, 2) for rank in (0, 1)] == [[0, 1, 4, 5], [2, 3, 6, 7]], "turns")


def test_a_bench_of_more_tokens_than_a_batch_has_is_refused(folder):
    config = r.save_config(folder / "config.json")
    for kind, flag in (("train", "--micro-batch"), ("prefill", "--batch"), ("decode", "--batch")):
        said = r.run("bench", kind, "--model", config, flag, 65536, "--sequence-length", 1 << 20, status=2).stderr
        check("a batch has at most 16777216 tokens" in said and "16 sequences" in said, said)


def test_validation_beyond_counting_is_refused_where_an_index_is_made_of_it(folder):
    from_steps = {"train__steps": 10**9, "train__valid_every": 1, "train__valid_batches": 10**9}
    said = show(folder, status=2, data__order="megatron", **from_steps).stderr
    check("too many samples for validation" in said and "train.valid_batches" in said, said)
    show(folder, **from_steps)


def test_a_foreign_manifest_makes_no_checkpoint(folder):
    run_of(folder, "run")
    model = folder / "model"
    shutil.copytree(folder / "run" / "model", model)
    (model / "manifest.json").write_text('{"name": "an app", "version": 3}')
    (model / "step_by_step").mkdir()
    said = r.run("info", model).stdout
    check("checkpoint" not in said.splitlines()[0], said)
    r.run("convert", "--input", model, "--output", folder / "out", "--to", "hf")
    check((folder / "out" / "model.safetensors").exists(), "it is a Hugging Face folder")
    said = r.run("train", *r.options(folder, folder / "other", checkpoint__resume=model), status=2).stderr
    check("not a checkpoint of Ravine" in said, said)


def test_convert_says_that_the_newest_is_unhealthy(folder):
    run_of(folder, "run", health__embedding_norm=1e-9)
    file = folder / "run" / "health_ckpts.json"
    verdicts = json.loads(file.read_text())
    said = r.run("convert", "--input", folder / "run", "--output", folder / "good", "--to", "hf")
    check("judged it unhealthy" not in said.stdout + said.stderr, said.stderr)
    verdicts[-1]["is_health"] = 1
    file.write_text(json.dumps(verdicts))
    said = r.run("convert", "--input", folder / "run", "--output", folder / "bad", "--to", "hf")
    check("step_000002 is the newest, and the run judged it unhealthy" in said.stdout + said.stderr, said.stderr)


def test_stop_finds_a_run_that_has_no_config_yet(folder):
    """A run holds its folder long before it writes config.yaml."""
    run_of(folder, "run")
    run = folder / "run"
    (run / "config.yaml").unlink()
    said = r.run("stop", run, status=2).stderr
    check("no run is alive in this folder" in said, said)
    with open(run / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"ravine lock: process {os.getpid()} here\n")
        lock.flush()
        said = r.run("stop", run).stderr
        check("asked the run" in said and (run / "stop").exists(), said)
    said = r.run("stop", folder, status=2).stderr
    check("no run in this folder" in said, said)


def test_no_cache_in_the_working_folder(folder):
    here = folder / "here"
    here.mkdir()
    for cache in r.rows(("", "relative"), 1, "each has its peaks measured"):
        env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")} | {"XDG_CACHE_HOME": cache}
        r.run("train", *r.options(folder, folder / f"run-{cache}"), cwd=here, env=env)
        check(not list(here.iterdir()), f"{list(here.iterdir())}")


def test_a_copied_folder_of_init_is_told(folder):
    text = folder / "text.txt"
    text.write_text("a little text that says nothing much, again and again\n" * 200)
    r.run("init", "pretrain", "first", "--data", text, cwd=folder)
    few = ["train.steps=1", "train.global_batch=4", "checkpoint.every=0", "schedule.warmup_steps=0", "train.valid_every=0", "log.tensorboard=false"]
    said = r.run("train", "--config", "first/run.yaml", *few, cwd=folder).stderr
    check("was copied" not in said, said)
    shutil.rmtree(folder / "first" / "run")
    shutil.copytree(folder / "first", folder / "second")
    said = r.run("train", "--config", "second/run.yaml", *few, cwd=folder).stderr
    check("was copied" in said and "second/run.yaml" in said and str(folder / "first" / "run") in said, said)
    said = r.run("train", "--config", "second/run.yaml", *few, "train.output=second/run", cwd=folder).stderr
    check("was copied" not in said, said)


def test_preprocess_without_room_for_its_threads(folder):
    """Of many workers some cannot start: those that did do the work, or there is a message and status 1, and no abort."""
    (folder / "in.txt").write_text("some text\n" * 50)
    r.run("init", "pretrain", "first", "--data", folder / "in.txt", cwd=folder, status=0)
    words = ["preprocess", "--input", folder / "in.txt", "--tokenizer", folder / "first" / "tokenizer", "--output-prefix", folder / "out", "--workers"]
    r.run(*words, 1)
    if r.sanitized():
        raise r.Skipped("address space of a sanitizer")

    def status_with(megabytes):
        done = subprocess.run(r.command(*words, 64, "--overwrite"), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20)))
        check(done.returncode != -signal.SIGABRT and "terminate called" not in done.stderr, f"{megabytes} MiB: {done.returncode} {done.stderr}")
        return done

    ends = [status_with(megabytes) for megabytes in (200, 300, 400, 500)]  # stacks of 64 threads take 512 MiB
    check(all(d.returncode == 0 or (d.returncode == 1 and "error: " in d.stderr) for d in ends), f"{[(d.returncode, d.stderr) for d in ends]}")


if __name__ == "__main__":
    r.main(globals())
