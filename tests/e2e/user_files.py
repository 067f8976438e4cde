"""Nothing of a user's is lost: inputs are never written to, and nothing that the program has not made is replaced or removed."""
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import ravine_run as r
from ravine_run import check, options, run


def content(folder):
    """Every name below the folder with what it holds."""
    out = {}
    for path in sorted(Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        out[name] = os.readlink(path) if path.is_symlink() else "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return out


def refused(words, *arguments, kept=(), **more):
    """Ends with status 2 and these words, and nothing under `kept` has changed."""
    before = [content(k) for k in kept]
    done = run(*arguments, status=2, **more)
    for word in words:
        check(str(word) in done.stderr, f"'{word}' is not in: {done.stderr}")
    for k, had in zip(kept, before):
        now = content(k)
        check(now == had, f"{k} changed: {sorted(set(had.items()) ^ set(now.items()))}")
    return done


def make_model(folder):
    """A model folder of the user's, with notes beside the weights."""
    run("train", *options(folder, folder / "made", train__steps=1, checkpoint__every=0))
    shutil.copytree(folder / "made" / "model", folder / "base")
    (folder / "base" / ".ravine").unlink(missing_ok=True)
    (folder / "base" / "notes.txt").write_text("dear")
    return folder / "base"


def save_words(folder, name="text.txt", seed=1):
    return r.save_text(folder / name, 3000, seed)


def make_tokenizer(folder):
    run("tokenizer", "train", "--input", save_words(folder, "words.txt"), "--output", folder / "tok", "--vocab-size", 300, "--type", "byte-bpe")
    return folder / "tok"


def test_a_base_model_is_never_the_output(folder):
    base = make_model(folder)
    (folder / "P").mkdir()
    shutil.move(base, folder / "P" / "model")
    model = folder / "P" / "model"
    (folder / "linked").symlink_to(folder / "P")
    (folder / "to_model").symlink_to(model)
    (folder / "elsewhere").mkdir()
    inside = {"cwd": folder}
    for path, output in ((model, folder / "P"), ("P/model", "P"), ("./P/../P/model/", "P/."), (model, folder / "linked"), (folder / "to_model", folder / "P"),
                         (model, model), (model, model / "run"), ("linked/model", model / "deep" / "run"), (folder / "to_model", model)):
        refused(["train.output", "is not written to"], "train", *options(folder, output, model__config=None, model__path=path), kept=[folder / "P"], **inside)
    # A model that this run neither made nor reads is not replaced either, and that is known before the first step.
    done = refused(["model", "train.output"], "train", *options(folder, folder / "P"), kept=[folder / "P"])
    check("step" not in done.stdout, done.stdout)
    # Data in the place of what the run writes.
    (folder / "Q" / "tokens").mkdir(parents=True)
    data = r.save_ids(folder / "Q" / "tokens" / "ids.safetensors", 16, 16)
    refused(["data.train", "is not written to"], "train", *options(folder, folder / "Q", data__train=[data]), kept=[folder / "Q"])
    # Texts in a folder: a run inside it would read its own log the next time.
    (folder / "corpus").mkdir()
    r.save_text(folder / "corpus" / "a.txt", 100, 1)
    refused(["inside data.train"], "train", *options(folder, folder / "corpus" / "run", data__train=[str(folder / "corpus")]), kept=[folder / "corpus"])


def test_only_the_runs_own_model_is_replaced(folder):
    out = folder / "P"
    run("train", *options(folder, out))
    first = content(out / "model")
    (out / "notes.txt").write_text("dear")
    run("train", *options(folder, out, train__steps=3))
    check(content(out / "model") != first and (out / "notes.txt").read_text() == "dear", "the run's own model is replaced, notes beside it stay")
    for name, text in (("README.md", "dear"), ("generation_config.json", '{"temperature": 0.5}')):
        had = (out / "model" / name).read_bytes() if (out / "model" / name).exists() else None
        (out / "model" / name).write_text(text)
        refused([out / "model" / name, "lost"], "train", *options(folder, out, train__steps=4), kept=[out])
        (out / "model" / name).unlink() if had is None else (out / "model" / name).write_bytes(had)
    run("train", *options(folder, out, train__steps=4))
    # A model of another run, though it has a mark.
    run("train", *options(folder, folder / "other", train__steps=1))
    shutil.rmtree(folder / "other" / "model")
    shutil.copytree(out / "model", folder / "other" / "model")
    refused(["was not written by this run"], "train", *options(folder, folder / "other"), kept=[folder / "other"])


def test_names_that_are_taken(folder):
    for name in ("config.yaml", "exported", "log.txt", "metrics.jsonl", "checkpoints", "tokens", "tensorboard", "stop"):
        out = folder / f"has-{name}"
        out.mkdir()
        if "." in name or name in ("exported", "stop"):
            (out / name).write_text("# dear\n")
        else:
            (out / name).mkdir()
            (out / name / "dear.tmp").write_text("dear")
        refused([out / name, "move it away"], "train", *options(folder, out), kept=[out])
    out = folder / "project"
    (out / "docs").mkdir(parents=True)
    (out / "docs" / "text").write_text("dear")
    before = content(out)
    run("train", *options(folder, out))
    after = content(out)
    check(all(after.get(k) == v for k, v in before.items()), "what lay in the folder is as it was")
    # What versions before marks left is a run too: it goes on; its model must be moved by hand.
    (out / ".ravine").unlink()
    (out / "model" / ".ravine").unlink()
    refused([out / "model", "move it away"], "train", *options(folder, out, train__steps=3), kept=[out])
    (out / "model").rename(out / "docs" / "model")
    log = run("train", *options(folder, out, train__steps=3)).stderr
    check("after step 2" in log and (out / "model" / "config.json").exists(), log)


def test_a_config_that_was_edited_stays(folder):
    out = folder / "P"
    run("train", *options(folder, out))
    config = out / "config.yaml"
    edited = "# my notes\n" + config.read_text().replace("steps: 2\n", "steps: 3\n", 1)
    config.write_text(edited)
    run("train", "--config", config)
    check("# my notes" not in config.read_text() and "steps: 3" in config.read_text(), config.read_text())
    check((out / "config.edited-1.yaml").read_text() == edited, "the text that was edited is kept")
    run("train", "--config", config)
    check(not (out / "config.edited-2.yaml").exists(), "what the program wrote itself is not kept twice")


def test_caches_remove_only_what_they_wrote(folder):
    tokenizer, text = make_tokenizer(folder), save_words(folder)
    out = folder / "P"
    config = r.save_config(folder / "wide.json", vocab_size=512)
    arguments = dict(model__config=config, model__tokenizer=tokenizer, train__steps=1)
    run("train", *options(folder, out, data__train=[text], **arguments))
    own = list((out / "tokens").iterdir())
    check(len(own) == 1, own)
    theirs = {"dear.safetensors": own[0].read_bytes(), "0123456789abcdef.safetensors": own[0].read_bytes(), "fedcba9876543210.safetensors": b"dear",
              "dear.tmp": b"dear", "x.safetensors.tmp-1": b"dear"}
    for name, data in theirs.items():
        (out / "tokens" / name).write_bytes(data)
    (out / "tokens" / "kept.tmp").mkdir()
    other = save_words(folder, "other.txt", 2)
    run("train", *options(folder, out, data__train=[other], train__steps=2, checkpoint__other_data=True, **{k: v for k, v in arguments.items() if k != "train__steps"}))
    for name, data in theirs.items():
        check((out / "tokens" / name).read_bytes() == data, name)
    check((out / "tokens" / "kept.tmp").is_dir() and not own[0].exists(), "the entry of the other text is gone, and nothing else")


def test_ranks_touch_nothing_before_they_have_the_lock(folder):
    launcher = shutil.which("mpirun")
    if not launcher:
        return print("        skipped: no mpirun")
    tokenizer, text, other = make_tokenizer(folder), save_words(folder), save_words(folder, "other.txt", 2)
    out = folder / "P"
    more = dict(model__config=r.save_config(folder / "wide.json", vocab_size=512), model__tokenizer=tokenizer, train__steps=1, train__global_batch=4, parallel__data=2)
    launch = [launcher, "--oversubscribe", "-n", "2", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    def job(data):
        arguments = r.command("train", *options(folder, out, data__train=[data], **more))
        return subprocess.run([*launch, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    # Short: the folder is that of one rank.
    done = job(text) if r.FULL else r.run("train", *options(folder, out, data__train=[text], **{**more, "parallel__data": 1}))
    if "has no MPI" in done.stderr:
        return print("        skipped: a build without MPI")
    check(done.returncode == 0, done.stdout + done.stderr)
    with open(out / ".lock", "w") as lock:  # a run of somebody's is under way
        lock.write(f"ravine lock: process {os.getpid()} {os.uname().nodename}\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = content(out)
        done = job(other)
        check(done.returncode != 0 and "in use" in done.stderr, done.stdout + done.stderr)
        check(content(out) == before, "it changed what another run holds")


def test_temporaries_of_others_stay(folder):
    out = folder / "P"
    run("train", *options(folder, out))
    names = ["model.tmp", "checkpoints/mine.tmp", "checkpoints/step_000003.tmp", "checkpoints/step_000003.parts.tmp", "checkpoints/step_000001.old.tmp", "model.old"]
    for name in names:
        (out / name).mkdir()
        (out / name / "dear").write_text(name)
    (out / "checkpoints" / "latest.tmp-1").write_text("dear")
    run("train", *options(folder, out, train__steps=3, checkpoint__keep=1))
    for name in names:
        check((out / name / "dear").read_text() == name, f"{name} is gone")
    check((out / "checkpoints" / "latest.tmp-1").exists(), "latest.tmp-1 is gone")
    check(r.checkpoints(out) == ["step_000003"], r.checkpoints(out))

    Path(f"{folder}/hf.tmp").mkdir()
    Path(f"{folder}/hf.tmp/dear").write_text("dear")
    run("convert", "--input", out / "model", "--output", folder / "hf", "--to", "hf")
    check(Path(f"{folder}/hf.tmp/dear").read_text() == "dear" and (folder / "hf" / "config.json").exists(), "hf.tmp")

    tokenizer, text = make_tokenizer(folder), save_words(folder)
    preprocess = ("preprocess", "--input", text, "--tokenizer", tokenizer, "--output-prefix")
    (folder / "p.preprocess").mkdir()
    (folder / "p.preprocess" / "dear").write_text("dear")
    for more in ((), ("--restart",), ("--restart", "--overwrite")):
        refused([folder / "p.preprocess" / "dear"], *preprocess, folder / "p", *more, kept=[folder / "p.preprocess"])
    (folder / "p.preprocess" / "dear").unlink()
    run(*preprocess, folder / "p")
    check(not os.listdir(folder / "p.preprocess"), "the work is gone; the folder was there before")
    work = Path(f"{folder}/all.merge.tmp")
    work.mkdir()
    (work / "dear").write_text("dear")
    run("data", "merge", "--input", folder / "p_text_document", folder / "p_text_document", "--output-prefix", folder / "all")
    check((work / "dear").read_text() == "dear", "all.merge.tmp")
    left = [p for p in folder.rglob("*") if ".ravine-" in p.name]
    check(not left, f"left behind: {left}")


def test_leftovers_of_killed_runs_go(folder):
    """Kills at many moments; what they leave goes at the next start, and only that."""
    out = folder / "P"
    arguments = options(folder, out, train__steps=100000)
    left = 0
    saving = lambda: r.checkpoints(out) and any(".ravine-" in p.name for p in (out / "checkpoints").iterdir())
    for attempt in range(12):
        process = subprocess.Popen(r.command("train", *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        while process.poll() is None and not saving() and time.monotonic() - began < 20:
            time.sleep(0.0002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        left += any(".ravine-" in p.name for p in out.rglob("*"))
        if left >= 2:
            break
    check(left >= 2, f"{left} kills left something")
    last = int(r.checkpoints(out)[-1].split("_")[1])
    run("train", *options(folder, out, train__steps=last + 1))
    rest = [p for p in out.rglob("*") if ".ravine-" in p.name]
    check(not rest, f"left behind: {rest}")


def test_keep_is_not_narrowed(folder):
    """4294967297 is not 1."""
    done = subprocess.run(r.command("train", *options(folder, folder / "P", train__steps=4, checkpoint__keep=4294967297)), capture_output=True, text=True)
    check(done.returncode == 2 or len(r.checkpoints(folder / "P")) == 4, f"{done.returncode}, {r.checkpoints(folder / 'P')}")


def test_links_are_not_followed(folder):
    theirs = folder / "theirs"
    theirs.write_text("dear")
    for name in ("log.txt", ".lock"):
        out = folder / f"run{name}"
        run("train", *options(folder, out, train__steps=1))
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(theirs)
        refused([out / name], "train", *options(folder, out))
        check(theirs.read_text() == "dear" and (out / name).is_symlink(), name)
    out = folder / "swapped"
    run("train", *options(folder, out, train__steps=1))
    for name in ("metrics.jsonl", "config.yaml", "checkpoints/latest"):
        text = (out / name).read_text()
        (out / name).unlink()
        theirs.write_text(text)
        (out / name).symlink_to(theirs)
        run("train", *options(folder, out, train__steps=2))
        check(theirs.read_text() == text, name)


def test_tokenizers_are_not_replaced(folder):
    base = make_model(folder)
    text = save_words(folder)
    train = ("tokenizer", "train", "--input", text, "--vocab-size", 300)
    for kind in ("byte-bpe", "bpe"):
        target = folder / f"m-{kind}"
        shutil.copytree(base, target)
        run(*train, "--type", kind, "--output", target)  # a model without one gets one
        check((target / "notes.txt").read_text() == "dear", "notes")
        for other in ("byte-bpe", "bpe"):
            refused([target, "--overwrite"], *train, "--type", other, "--output", target, kept=[target])
    run(*train, "--type", "byte-bpe", "--output", folder / "m-byte-bpe", "--overwrite")


def test_outputs_are_not_inputs(folder):
    base = make_model(folder)
    ids = r.save_ids(folder / "trace-ids.safetensors", 2, 8)
    trace = ("trace", "--model", base, "--input", ids, "--out")
    refused(["--out is --input"], *trace, ids, kept=[base])
    refused(["--out is inside --model"], *trace, base / "model.safetensors", kept=[base])
    refused(["--out is inside --model"], *trace, base / "new" / "x.safetensors", kept=[base])
    run(*trace, folder / "trace.safetensors")
    for output in (base, base / "sub", f"{base}/../base/x"):
        refused(["--output is", "--input"], "convert", "--input", base, "--output", output, "--to", "hf", kept=[base])
    (folder / "taken").mkdir()
    (folder / "taken" / "dear").write_text("dear")
    refused([folder / "taken", "exists"], "convert", "--input", base, "--output", folder / "taken", "--to", "hf", kept=[folder / "taken"])
    tokenizer, text = make_tokenizer(folder), save_words(folder)
    run("preprocess", "--input", text, "--tokenizer", tokenizer, "--output-prefix", folder / "d" / "p")
    prefix = folder / "d" / "p_text_document"
    (folder / "e").symlink_to(folder / "d")
    for same in (prefix, folder / "d" / ".." / "d" / "p_text_document", folder / "e" / "p_text_document"):
        refused(["input"], "data", "merge", "--input", prefix, prefix, "--output-prefix", same, "--overwrite", kept=[folder / "d"])
    refused(["inside --input"], "tokenizer", "train", "--input", folder / "d", "--output", folder / "d" / "tok", kept=[folder / "d"])
    (folder / "run.yaml").write_text(f"model:\n  path: {base}\n")
    plan = ("plan", "--config", folder / "run.yaml", "--schedule")
    refused(["--schedule is --config"], *plan, folder / "run.yaml")
    refused(["--schedule is inside model.path"], *plan, base / "config.json", kept=[base])
    timeline = base / "config.json"
    refused(["--timeline is"], "bench", "train", "--model", timeline, "--profile", "--timeline", timeline, kept=[base])


def test_ids_are_not_written_into_the_tokenizer(folder):
    text = r.save_text(folder / "book.txt", 3000, 1)
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 300)
    for name in ("tokenizer.json", "tokenizer.model", "ids.npy"):
        before = {p.name: p.read_bytes() for p in (folder / "tok").iterdir()}
        said = r.run("tokenizer", "encode", "--tokenizer", folder / "tok", "--npy", folder / "tok" / name, status=2).stderr
        r.check("--npy" in said and before == {p.name: p.read_bytes() for p in (folder / "tok").iterdir()}, said)


def test_devices_and_pipes_are_not_replaced(folder):
    """What a file is renamed over is gone: of all commands that write files, none takes a device or a pipe for one."""
    run = folder / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    for make in (lambda p: os.mkfifo(p), lambda p: p.symlink_to("/dev/null"), lambda p: os.mknod(p, 0o20666, os.makedev(1, 3)) if os.geteuid() == 0 else os.mkfifo(p)):
        target = folder / "target.svg"
        make(target)
        before = os.lstat(target)
        said = r.run("plot", run, "--output", target, status=2).stderr
        r.check("target.svg" in said and "name a file" in said, said)
        after = os.lstat(target)
        r.check((before.st_ino, before.st_mode) == (after.st_ino, after.st_mode), "it was replaced")
        target.unlink()


def test_home(folder):
    home = folder / "home"
    home.mkdir()
    at = {"cwd": folder, "env": {**os.environ, "HOME": str(home)}}
    run("train", *options(folder, "~/runs/x", train__steps=1), **at)
    check((home / "runs" / "x" / "model" / "config.json").exists() and not (folder / "~").exists(), "~ is the home folder")
    arguments = [a for a in options(folder, "x") if not re.match(r"train\.(output|steps)=", a)]
    (home / "run.yaml").write_text("train:\n  output: ~/runs/y\n  steps: 1\n")
    run("train", "--config=~/run.yaml", *arguments, **at)
    check(f"output: {home}/runs/y" in (home / "runs" / "y" / "config.yaml").read_text(), "config.yaml says where it is")
    run("convert", "--input", "~/runs/x/model", "--output=~/hf", "--to", "hf", **at)
    run("info", "~/hf", **at)
    run("train", *options(folder, "~/runs/z", model__config=None, model__path="~/hf", train__steps=1), **at)
    done = refused(["~nobody-has-this-name", "./~"], "train", *options(folder, "~nobody-has-this-name/x"), **at)
    check("train.output" in done.stderr, done.stderr)
    run("train", *options(folder, "./~/x", train__steps=1), **at)
    check((folder / "~" / "x" / "model").exists(), "./~ is a name like others")


def test_a_section_twice(folder):
    config = folder / "run.yaml"
    config.write_text("train:\n  steps: 1\nlog:\n  every: 1\ntrain:\n  seed: 3\n")
    refused(["'train' a second time", f"{config}:5", "line 1"], "train", "--config", config, *options(folder, folder / "P"))
    check(not (folder / "P").exists(), "nothing is written")
    config.write_text("train: {seed: 1, seed: 2}\n")
    refused(["'seed' a second time"], "train", "--config", config, *options(folder, folder / "P"))
    run("train", *options(folder, folder / "P", train__steps=5), "train.steps=1")
    check(r.checkpoints(folder / "P") == ["step_000001"], "on the command line the last one wins")


if __name__ == "__main__":
    r.main(dict(globals()))
