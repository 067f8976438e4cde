"""What is not the program's own stays: weights edited in place, files in work folders, longer models, runs beside a copy; and what was not saved is said."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess

import ravine_run as r
from ravine_run import check, options, run
from user_files import content, refused, save_words

WIDE = {"hidden_size": 128, "intermediate_size": 512}  # weights of more than 1 MiB


def test_weights_edited_in_place(folder):
    """A merge, a surgery: other bytes of the same size. A copy of the whole folder is no edit."""
    out, copy = folder / "P", folder / "copy"
    more = dict(model__config=r.save_config(folder / "wide.json", **WIDE), train__steps=2)
    run("train", *options(folder, out, **more))
    weights = out / "model" / "model.safetensors"
    check(weights.stat().st_size > 1 << 20, "a large file")
    shutil.copytree(out, copy)
    data = weights.read_bytes()
    with open(weights, "r+b") as f:
        f.seek(len(data) // 2)
        f.write(b"USERSOWNWEIGHTS")
    more["train__steps"] = 3
    log = refused([weights, "lost"], "train", *options(folder, out, **more), kept=[out]).stderr
    check("step 3" not in log, log)
    run("train", *options(folder, copy, **more))
    check((copy / "model" / "model.safetensors").read_bytes() != data, "the model of a copied run is replaced by that run")
    weights.write_bytes(data)
    run("train", *options(folder, out, **more))
    check(weights.read_bytes() == (copy / "model" / "model.safetensors").read_bytes(), "the same run")


def stopped_work(folder):
    """A preprocess that stands at a record which cannot be read. Returns its words and its work folder."""
    run("tokenizer", "train", "--input", save_words(folder, "words.txt"), "--output", folder / "tok", "--vocab-size", 300, "--type", "byte-bpe")
    lines = [json.dumps({"text": f"record {i} " + "of a ravine " * 40}) for i in range(2000)]
    (folder / "a.jsonl").write_text("\n".join(lines[:1900] + ["{"] + lines[1900:]))
    words = ("preprocess", "--input", folder / "a.jsonl", "--tokenizer", folder / "tok", "--output-prefix", folder / "p")
    run(*words, status=2)
    check((folder / "p.preprocess" / "state.json").exists(), "a state to go on from")
    return words, folder / "p.preprocess"


def test_only_its_lists_are_its_work(folder):
    words, work = stopped_work(folder)
    for name in ("mine.bin", "mine.idx", "features.lengths", "x.documents", "text_2.modes"):
        (work / name).write_text("dear")
        for more in ((), ("--restart",)):
            refused([work / name], *words, *more, kept=[work])
        (work / name).unlink()
    (folder / "a.jsonl").write_text("\n".join(json.dumps({"content": "another key"}) for _ in range(20)))
    run(*words, "--restart", "--json-keys", "content")  # the files of other lists are those of the work before
    check(not work.exists() and (folder / "p_content_document.idx").exists(), "the work before has gone")


def test_a_state_of_somebody_else(folder):
    words, _ = stopped_work(folder)
    work = folder / "d.preprocess"
    for text in ('{"my":"state"}', "dear", '{"version":1,"settings":"mine","files":[],"lists":[]}'):
        work.mkdir()
        for name in ("state.json", "text.idx", "features.bin"):  # alone, then beside names that the work could have
            (work / name).write_text(text)
            for more in ((), ("--restart", "--overwrite")):
                refused([work, "files that preprocess did not write"], *words[:-1], folder / "d", *more, kept=[work])
        shutil.rmtree(work)


def test_nothing_but_a_model_was_saved(folder):
    """Every checkpoint fails: the run ends with its model, says that it was not saved, and what it advises works."""
    run("train", *options(folder, folder / "alone"))
    state, model = ((folder / "alone" / name).stat().st_size for name in ("checkpoints/step_000002/state-00000.safetensors", "model/model.safetensors"))
    limit = (state + model) // 2

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    out = folder / "P"
    last = run("train", *options(folder, out), status=1, preexec_fn=little_room).stderr.splitlines()[-1]
    check("was not saved" in last and str(out / "model") in last and "checkpoint.resume=none" in last and "limit on file sizes" in last, last)
    check(r.weights(out) == r.weights(folder / "alone"), "the model is whole")
    refused(["checkpoint.resume=none"], "train", *options(folder, out), kept=[out / "model"])
    run("train", *options(folder, out, checkpoint__resume="none"))
    check(r.checkpoints(out) == ["step_000001", "step_000002"] and r.same_run(out, folder / "alone") == "", "begun anew")


def test_a_model_of_more_steps_stays(folder):
    """What could be gone on from would give a model of fewer steps than the one that is there."""
    more = dict(checkpoint__every=2)
    run("train", *options(folder, folder / "Q", train__steps=8, **more))
    for gone in (False, True):
        out = folder / f"P{gone}"
        shutil.copytree(folder / "Q", out)
        newest = out / "checkpoints" / "step_000008"
        if gone:
            shutil.rmtree(newest)
        else:
            data = bytearray((newest / "state-00000.safetensors").read_bytes())
            data[-100] ^= 1
            (newest / "state-00000.safetensors").write_bytes(data)
        for steps in (6, 7):
            refused(["a finished model of 8 steps", out / "model", "train.steps=8"], "train", *options(folder, out, train__steps=steps, **more), kept=[out / "model", out / "checkpoints"])
        run("train", *options(folder, out, train__steps=8, **more))  # as it advises
        check(r.weights(out) == r.weights(folder / "Q"), "the same steps again")
    shutil.rmtree(out / "checkpoints" / "step_000008")
    shutil.move(out / "model", folder / "moved")
    run("train", *options(folder, out, train__steps=6, **more))  # as it advises, too
    check((out / "model" / "config.json").exists(), "a model of 6 steps")


def command_of(path):
    return re.search(r"(ravine train --config \S+.*?) \(goes on", json.loads(run("info", path, "--json").stdout)["to_use_it"])[1]


def test_a_copy_of_a_run_goes_on_by_itself(folder):
    out, copy = folder / "P", folder / "copy"
    run("train", *options(folder, out))
    shutil.copytree(out, copy)
    before = content(out)
    done = refused([copy, "train.output"], "train", "--config", copy / "config.yaml", "train.steps=4", kept=[out, copy])
    check(f"train.output={copy}" in done.stderr and f"train.output={out}" in done.stderr, done.stderr)
    named = command_of(copy).split()[1:]
    run(*named, "train.steps=4")
    check(r.checkpoints(copy)[-1] == "step_000004" and content(out) == before, "the copy went on, the other is as it was")
    named = command_of(out)
    check("train.output" not in named, "a run in its place needs no more words")
    out.rename(folder / "moved")
    refused([folder / "moved"], "train", "--config", folder / "moved" / "config.yaml", "train.steps=4", kept=[folder / "moved"])


def test_a_copy_of_a_prepared_folder(folder):
    text, a, b = save_words(folder), folder / "a", folder / "b"
    short = ("train.steps=2", "schedule.warmup_steps=1", "log.tensorboard=false", "data.sequence_length=16", "train.valid_every=0")
    run("init", "pretrain", a, "--data", text)
    run("train", "--config", a / "run.yaml", *short)
    shutil.copytree(a, b)
    (b / "run" / "model" / "notes.txt").write_text("of b")
    before = content(a)
    check(json.loads(run("info", b, "--json").stdout)["path"] == str(b / "run"), "the run in the folder that was named")
    check(json.loads(run("info", a, "--json").stdout)["path"] == str(a / "run"), "as before")
    refused([f"train.output={b / 'run'}"], "train", "--config", b / "run.yaml", *short, kept=[a, b])
    (b / "run" / "model" / "notes.txt").unlink()
    run("train", "--config", b / "run.yaml", *short, "train.steps=3", f"train.output={b / 'run'}")
    check(content(a) == before and "step_000003" in r.checkpoints(b / "run"), "b went on, a is as it was")


def test_convert_says_of_which_step(folder):
    out = folder / "P"
    run("train", *options(folder, out))
    check("after step 2" in run("convert", "--input", out, "--output", folder / "hf", "--to", "hf").stderr, "the newest")
    (out / "checkpoints" / "step_000002" / "manifest.json").write_text("{}")
    log = run("convert", "--input", out, "--output", folder / "older", "--to", "hf").stderr
    check("after step 1" in log and "step_000002" in log, log)


def test_a_pattern_that_finds_what_the_run_writes(folder):
    out = folder / "P"
    out.mkdir()
    save_words(out, "words.txt")
    run("tokenizer", "train", "--input", out / "words.txt", "--output", folder / "tok", "--vocab-size", 300, "--type", "byte-bpe")
    more = dict(data__train=[f"{out}/*.txt"], model__tokenizer=folder / "tok", model__config=r.save_config(folder / "wide.json", vocab_size=512))
    run("train", *options(folder, out, **more))
    refused(["data.train", "log.txt"], "train", *options(folder, out, **{**more, "train__steps": 3}), kept=[out])


def test_memory_ends_in_a_thread_of_a_library(folder):
    if r.sanitized():
        raise r.Skipped("AddressSanitizer takes an address space that no limit allows")
    text = (folder / "words.txt")
    text.write_text((save_words(folder, "few.txt") and (folder / "few.txt").read_text()) * 1200)
    for limit in r.rows((180, 220), 1, "memory ends at another place"):
        words = r.command("tokenizer", "train", "--input", text, "--output", folder / f"tok-{limit}", "--vocab-size", 300, "--type", "bpe", "--threads", 2)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit << 20, limit << 20)))
        check(done.returncode in (0, 1, 2) and (done.returncode == 0 or "error: " in done.stderr), f"{limit} MiB: {done.returncode}: {done.stderr[-500:]}")


def test_fewer_threads_than_workers(folder):
    """Where the system gives no more threads, fewer do the work. (As another user, whose processes can be counted.)"""
    if os.geteuid() != 0:
        raise r.Skipped("needs root, to become another user")
    run("tokenizer", "train", "--input", save_words(folder, "words.txt"), "--output", folder / "tok", "--vocab-size", 300, "--type", "byte-bpe")
    for path in (folder.parent, folder, *folder.rglob("*")):
        path.chmod(0o777)

    def nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (3, 3))

    words = r.command("preprocess", "--input", folder / "words.txt", "--tokenizer", folder / "tok", "--output-prefix", folder / "p", "--workers", 16)
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT, preexec_fn=nobody)
    except PermissionError:
        raise r.Skipped("another user cannot reach the program: its folder is private")
    check(done.returncode in (0, 1), f"{done.returncode}: {done.stderr}")  # 1: not even one, which is said
    check(done.returncode == 0 or "threads" in done.stderr, done.stderr)


if __name__ == "__main__":
    r.main(dict(globals()))
