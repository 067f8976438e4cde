"""What commands write: files that are there are replaced only where the user said so; sets of files are replaced together; what was cut short is
gone on with; pipes and devices in the place of files, signals, links and limits are answered by a word."""
import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import ravine_run as r
from ravine_run import check, options, run


def refused(words, *arguments, **more):
    done = run(*arguments, status=2, **more)
    for word in words:
        check(str(word) in done.stderr, f"'{word}' is not in: {done.stderr}")
    return done


def make_run(folder):
    run("train", *options(folder, folder / "run"))
    return folder / "run"


def make_tokenizer(folder, *more):
    text = r.save_text(folder / "words.txt", 3000, 1)
    run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 300, "--type", "byte-bpe", *more)
    return folder / "tok"


def kept_without_overwrite(path, *arguments, foreign=b"dear\n", beside=(), **more):
    """The command writes `path`, one of its files; a file of that name, its own too, or a link it may replace only with --overwrite."""
    run(*arguments, **more)
    ours = path.read_bytes()
    for other in path.parent.iterdir() if beside else ():
        if other != path and other.match(beside):
            other.unlink()
    for text in (ours, b"", foreign):
        path.write_bytes(text)
        done = run(*arguments, status=2, **more)
        check(str(path) in done.stderr and "--overwrite" in done.stderr, done.stderr)
        check(path.read_bytes() == text, f"{path}: it is as it was")
    mine = path.with_name("mine")
    path.rename(mine)
    path.symlink_to(mine)
    run(*arguments, status=2, **more)
    check(path.is_symlink() and mine.read_bytes() == foreign, f"{path}: a link is as it was")
    path.unlink()
    mine.rename(path)
    run(*arguments, "--overwrite", **more)
    check(path.read_bytes()[:8] == ours[:8], f"{path}: replaced with --overwrite")


def test_files_are_replaced_only_when_asked(folder):
    out = make_run(folder)
    ids = r.save_ids(folder / "few.safetensors", 1, 8)
    weights = (out / "model" / "model.safetensors").read_bytes()
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'></svg>\n"
    bench = ["bench", "train", "--model", folder / "config.json", "--sequence-length", 8, "--steps", 1, "--threads", 1, "--profile", "--timeline", folder / "timeline.json"]
    files = (("trace.safetensors", weights, "trace", "--model", out / "model", "--input", ids, "--out", folder / "trace.safetensors", "--threads", 1),
             ("curves.svg", svg, "plot", out, "--output", folder / "curves.svg"),
             ("curves.html", b"<!doctype html>\n<html></html>\n", "plot", out, "--output", folder / "curves.html"),
             ("schedule.svg", svg, "plan", "--ranks", 2, "--schedule", folder / "schedule.svg", *options(folder, folder / "none", parallel__pipeline=2)),
             ("timeline.json", b'{"traceEvents":[]}', *bench),
             ("pages/ravine-train.1", b'.TH RAVINE 1\n.SH NAME\nravine \\- a gully\n', "man", "--output", folder / "pages"))
    for name, foreign, *words in r.rows(files, 2, "whose file it is is asked in one place"):
        kept_without_overwrite(folder / name, *words, foreign=foreign, beside="*.1" if name.endswith(".1") else ())


def test_arrays_are_replaced_only_when_asked(folder):
    tok = make_tokenizer(folder)
    kept_without_overwrite(folder / "ids.npy", "tokenizer", "encode", "--tokenizer", tok, "--npy", folder / "ids.npy")
    run("preprocess", "--input", folder / "words.txt", "--tokenizer", tok, "--output-prefix", folder / "words", "--append-eod")
    index = ["data", "index", "--prefix", folder / "words_text_document", "--split", "1,0,0", "--sequence-length", 8, "--samples", "20,,", "--out", folder / "index"]
    for name in ("train-document_index.npy", "train-samples.safetensors"):
        kept_without_overwrite(folder / "index" / name, *index, beside="train-*")
        shutil.rmtree(folder / "index")
    # Asked before anything is written.
    (folder / "new").mkdir()
    (folder / "new" / "train-samples.safetensors").write_bytes(b"mine")
    run(*index[:-1], folder / "new", status=2)
    check(os.listdir(folder / "new") == ["train-samples.safetensors"], os.listdir(folder / "new"))


def test_pages_and_indices_are_replaced_together(folder):
    """A command that fails on the way leaves the old set whole; one that was killed is ended by the next."""
    tok = make_tokenizer(folder)
    run("preprocess", "--input", folder / "words.txt", "--tokenizer", tok, "--output-prefix", folder / "words", "--append-eod")
    index = ["data", "index", "--prefix", folder / "words_text_document", "--split", "8,1,1", "--sequence-length", 64, "--samples", "100,5,5", "--first", 100, "--out", folder / "index"]
    pages = ["man", "--output", folder / "pages"]
    for place, command, journal, kind in ((folder / "index", index, "index.replacing", "index files"), (folder / "pages", pages, "man.replacing", "manual pages")):
        run(*command)
        names = sorted(p.name for p in place.iterdir())
        sizes = sorted(p.stat().st_size for p in place.iterdir())
        for p in place.iterdir():
            p.write_bytes(b"old")
        limit = (sizes[0] + sizes[-1]) // 2  # some of the files find room, some do not
        run(*command, "--overwrite", status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        check(sorted(p.name for p in place.iterdir()) == names and all(p.read_bytes() == b"old" for p in place.iterdir()), f"{kind}: a part was replaced: {sorted(place.iterdir())}")
        plant_journal(place / journal, kind, {names[0]: b"new"}, names)
        done = run(*command, "--overwrite")
        check(f"replaced the {kind}" in done.stderr and sorted(p.name for p in place.iterdir()) == names, f"{done.stderr}: {sorted(place.iterdir())}")
        check(sorted(p.stat().st_size for p in place.iterdir()) == sizes, f"{kind}: not all are new")


def test_a_file_that_is_replaced_keeps_its_mode(folder):
    out = make_run(folder)
    picture = folder / "curves.svg"
    run("plot", out, "--output", picture)
    usual = picture.stat().st_mode & 0o777
    for mode in (0o600, 0o664, 0o640):
        picture.chmod(mode)
        run("plot", out, "--output", picture, "--overwrite")
        check(picture.stat().st_mode & 0o777 == mode, f"{oct(picture.stat().st_mode)} instead of {oct(mode)}")
    picture.rename(folder / "mine")
    (folder / "mine").chmod(0o600)
    picture.symlink_to(folder / "mine")  # a link is replaced by a file of its own
    run("plot", out, "--output", picture, "--overwrite")
    check(not picture.is_symlink() and picture.stat().st_mode & 0o777 == usual, oct(picture.stat().st_mode))


def test_a_file_named_like_the_work_folder(folder):
    """A file or link PREFIX.preprocess is the user's: preprocess says so and leaves it."""
    tok = make_tokenizer(folder)
    work = folder / "words.preprocess"
    command = ["preprocess", "--input", folder / "words.txt", "--tokenizer", tok, "--output-prefix", folder / "words"]
    for text in (b"dear", b""):
        work.write_bytes(text)
        for more in ((), ("--restart",), ("--overwrite",)):
            refused(["a file or link has the name of the work folder", work], *command, *more)
            check(work.read_bytes() == text, "the file is not as it was")
    (folder / "empty").mkdir()
    for target in ("empty", "nowhere"):
        work.unlink()
        work.symlink_to(folder / target)
        refused(["a file or link has the name of the work folder", work], *command)
        check(work.is_symlink() and (folder / "empty").is_dir() and not (folder / "nowhere").exists(), f"the link to {target} is not as it was")
    check(not list(folder.glob("words_*")), "something was written")


def test_a_conversion_that_is_stopped(folder):
    """Ctrl-C: the folder with what is complete is named, and the same command goes on there."""
    config = r.save_config(folder / "wide.json", hidden_size=256, intermediate_size=1024, num_hidden_layers=16)
    run("train", *options(folder, folder / "run", model__config=config, checkpoint__every=0, train__steps=1, checkpoint__shard_mb=4))
    model = folder / "run" / "model"
    convert = ["convert", "--input", model, "--output", folder / "m", "--to", "megatron-mcore", "--pipeline", 8]
    for number in (signal.SIGINT, signal.SIGTERM):
        for wait in range(100):
            heard = functools.partial(signal.signal, number, signal.SIG_DFL)  # these tests may run where it is ignored
            job = subprocess.Popen(r.command(*convert), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
            while job.poll() is None and not list(folder.glob("m.ravine-*.tmp/*/mp_rank*")):
                pass
            job.send_signal(number)
            _, err = job.communicate(timeout=60)
            if job.returncode != 0:
                break
            shutil.rmtree(folder / "m")  # it had come to its end
        left = list(folder.glob("m.ravine-*.tmp"))
        check(job.returncode == 130 and len(left) == 1 and str(left[0]) in err and "the same command goes on" in err, f"{job.returncode}: {err}: {left}")
        done = run(*convert)
        check("goes on" in done.stderr and (folder / "m").exists() and not list(folder.glob("m.ravine-*")), done.stderr)
        shutil.rmtree(folder / "m")


def test_an_empty_folder_of_others_stays(folder):
    """Where preprocess works is a folder that somebody made for something else."""
    tok = make_tokenizer(folder)
    (folder / "words.preprocess").mkdir()
    command = ["preprocess", "--input", folder / "words.txt", "--tokenizer", tok, "--output-prefix", folder / "words"]
    run(*command, "--dtype", "int3", status=2)
    check((folder / "words.preprocess").is_dir(), "removed by a refusal")
    run(*command)
    check((folder / "words.preprocess").is_dir() and not os.listdir(folder / "words.preprocess"), "removed, or not empty")
    (folder / "words.preprocess").rmdir()
    run(*command, "--overwrite")
    check(not (folder / "words.preprocess").exists(), "a folder of its own stays")


def test_a_text_named_like_a_part_of_a_tokenizer(folder):
    """--overwrite does not remove the text that the tokenizer is learned from, however it is spelled."""
    for name in ("vocab.txt", "tokenizer.json"):
        here = folder / name.replace(".", "-")
        here.mkdir()
        (folder / "x").mkdir(exist_ok=True)
        text = Path(r.save_text(here / name, 3000, 1))
        words = text.read_bytes()
        (folder / f"link-{name}.txt").symlink_to(text)
        for given in (text, here / "voc*.txt", folder / f"link-{name}.txt"):
            if given.suffix != ".txt" or ("*" in str(given) and name != "vocab.txt"):
                continue
            for kind in ("bpe", "byte-bpe"):
                said = run("tokenizer", "train", "--input", given, "--output", folder / "x" / ".." / here.name if given == text else here, "--vocab-size", 400, "--type", kind, "--overwrite", status=2).stderr
                check("--output" in said and text.read_bytes() == words and [p.name for p in here.iterdir()] == [name], f"{given}: {said}")


def test_a_tokenizer_of_another_type(folder):
    """--overwrite replaces the whole set: nothing of the old tokenizer stays beside the new one, and nothing else goes."""
    text = r.save_text(folder / "words.txt", 3000, 1)
    tok = folder / "tok"
    train = ["tokenizer", "train", "--input", text, "--output", tok, "--vocab-size", 400]
    run(*train)
    check({"tokenizer.model", "special_tokens_map.json"} <= {p.name for p in tok.iterdir()}, sorted(tok.iterdir()))
    (tok / "config.json").write_text("dear")
    (tok / "sub").mkdir()
    (tok / "sub" / "notes").write_text("dear")
    run(*train, "--type", "byte-bpe", "--overwrite")
    check({p.name for p in tok.iterdir()} == {"tokenizer.json", "tokenizer_config.json", "config.json", "sub"}, sorted(tok.iterdir()))
    check((tok / "config.json").read_text() == "dear" and (tok / "sub" / "notes").read_text() == "dear", "what is not the tokenizer's stays")
    kind = json.loads(run("tokenizer", "info", "--tokenizer", tok, "--json").stdout)
    run(*train, "--overwrite")
    check(kind != json.loads(run("tokenizer", "info", "--tokenizer", tok, "--json").stdout), "another tokenizer")


def plant_journal(journal, kind, files, old=()):
    """What a writer that was killed before all names were given leaves; `old`: names in the folder that it was to replace."""
    journal.mkdir()
    for name, content in files.items():
        (journal / name).write_bytes(content)
    def entry(path):
        s = os.lstat(path)
        return {"name": path.name, "bytes": s.st_size, "changed": s.st_mtime_ns, "file": s.st_ino}
    (journal / ".set.json").write_text(json.dumps({"format": "ravine-file-set", "version": 2, "kind": kind, "overwrite": True, "new": [entry(journal / name) for name in sorted(files)],
                                                   "old": [entry(journal.parent / name) for name in old]}))


def test_a_set_that_was_cut_short(folder):
    """Readers do not take half of it; the next writer ends what was begun."""
    tok = make_tokenizer(folder)
    new = (tok / "tokenizer.json").read_bytes()
    (tok / "tokenizer.model").write_bytes(b"old")
    (tok / "tokenizer.json").unlink()
    plant_journal(tok / "tokenizer.replacing", "tokenizer", {"tokenizer.json": new, "tokenizer_config.json": (tok / "tokenizer_config.json").read_bytes()}, ["tokenizer.model", "tokenizer_config.json"])
    refused(["tokenizer.replacing", "run it again"], "tokenizer", "info", "--tokenizer", tok)
    refused(["a tokenizer is there"], "tokenizer", "train", "--input", folder / "words.txt", "--output", tok, "--vocab-size", 300)
    check({p.name for p in tok.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}, sorted(tok.iterdir()))
    run("tokenizer", "info", "--tokenizer", tok)

    run("preprocess", "--input", folder / "words.txt", "--tokenizer", tok, "--output-prefix", folder / "words", "--append-eod")
    pair = folder / "words_text_document"
    one = {end: Path(f"{pair}{end}").read_bytes() for end in (".bin", ".idx")}
    merge = ["data", "merge", "--input", pair, pair, "--output-prefix", folder / "all"]
    run(*merge)
    (folder / "all.idx").unlink()
    plant_journal(folder / "all.replacing", "token files", {"all.bin": one[".bin"], "all.idx": one[".idx"]}, ["all.bin"])
    refused(["all.replacing"], "info", folder / "all")
    refused(["all.replacing"], "data", "merge", "--input", folder / "all", "--output-prefix", folder / "more")
    refused(["output exists"], *merge)
    check((folder / "all.bin").read_bytes() == one[".bin"] and (folder / "all.idx").read_bytes() == one[".idx"] and not (folder / "all.replacing").exists(), "the new pair has its names")
    run(*merge, "--overwrite")
    check((folder / "all.bin").read_bytes() == 2 * one[".bin"], "and is replaced once more")


def test_init_that_was_cut_short(folder):
    """Killed at any time, the same command makes the folder; a failure leaves none."""
    empty = folder / "empty.txt"
    empty.write_text("")
    run("init", "pretrain", folder / "failed", "--data", empty, status=2)
    check(not (folder / "failed").exists(), "nothing is left of an init that failed")
    first = folder / "first"
    for n in range(12):
        job = subprocess.Popen(r.command("init", first), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 0.02 * n
        while time.monotonic() < until or (n % 2 and not first.exists() and job.poll() is None):
            time.sleep(0.001)
        job.kill()
        job.wait()
        if (first / "run.yaml").exists():
            break
    if not (first / "run.yaml").exists() or (first / "init.replacing").exists():
        run("init", first)
    names = {p.name for p in first.iterdir()}
    check(names == {"run.yaml", "manual.txt", "model.json", "tokenizer"}, sorted(names))
    (folder / "own").mkdir()
    (folder / "own" / "notes").write_text("dear")
    refused(["not empty"], "init", folder / "own")


def test_pipes_in_a_run(folder):
    """A pipe or a device with the name of a file of a run makes nobody wait."""
    out = make_run(folder)
    commands = {"metrics.jsonl": [["plot", out], ["train", *options(folder, out, train__steps=3)]],
                "checkpoints/latest": [["train", *options(folder, out, train__steps=3)], ["convert", "--input", out, "--output", folder / "hf", "--to", "hf"]],
                "config.yaml": [["train", *options(folder, out, train__steps=3)]],
                "exported": [["train", *options(folder, out, train__steps=3)]],
                "health_ckpts.json": [["train", *options(folder, out, train__steps=3)]],
                ".lock": [["stop", out], ["train", *options(folder, out, train__steps=3)]]}
    for name, all_of in commands.items():
        path, aside = out / name, folder / "aside"
        if path.exists():
            path.rename(aside)
        os.mkfifo(path)
        for arguments in all_of:
            done = subprocess.run(r.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            check(done.returncode == 2 and Path(name).name in done.stderr, f"{name}: {arguments[0]}: {done.returncode}: {done.stderr}")
        path.unlink()
        if aside.exists():
            aside.rename(path)
    newest = sorted((out / "checkpoints").glob("step_*"))[-1]
    for path, arguments, status in ((out / "config.yaml", ["info", out], 0), (newest / "manifest.json", ["info", newest], 2),
                                    (out / "config.yaml", ["convert", "--input", out, "--output", folder / "plain", "--to", "hf"], 0)):
        path.rename(folder / "aside")
        os.mkfifo(path)
        began = time.monotonic()
        done = subprocess.run(r.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        check(done.returncode == status and "nothing came through" not in done.stderr, f"{path}: {done.returncode}: {done.stderr}")
        check(time.monotonic() - began < 9.5, f"{path}: it was waited for")
        (folder / "aside").rename(path)
    run("train", *options(folder, out, train__steps=3))


def test_huge_files_in_a_run(folder):
    """A file of a run that is far too large is refused by name, and no more of it is read than its bound."""
    out = make_run(folder)
    for name, words, all_of in (("metrics.jsonl", "line is too long", [["plot", out], ["info", out], ["train", *options(folder, out, train__steps=3)]]),
                                ("exported", "file is too large", [["train", *options(folder, out, train__steps=3)]])):
        path, aside = out / name, folder / "aside"
        path.rename(aside)
        path.touch()
        os.truncate(path, 20 << 30)
        for arguments in all_of:
            refused([words, name], *arguments)
        path.unlink()
        aside.rename(path)
    run("train", *options(folder, out, train__steps=3))


def test_stopped_before_it_began(folder):
    """The config comes through a pipe, so the command waits when the signal arrives."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        heard = functools.partial(signal.signal, number, signal.SIG_DFL)  # these tests may run where it is ignored
        job = subprocess.Popen(r.command("train", "--config", pipe), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
        writer = os.open(pipe, os.O_WRONLY)  # returns when the command has opened it
        job.send_signal(number)
        _, err = job.communicate(timeout=60)
        os.close(writer)
        check(job.returncode == 130 and "Stopped before the first step" in err, f"{number}: {job.returncode}: {err}")


def test_what_a_run_owns_is_not_written(folder):
    out = make_run(folder)
    before = sorted(str(p) for p in out.rglob("*"))
    for place in (out / "checkpoints" / "step_000007", out / "checkpoints" / "other", out / "exported", out / "tokens"):
        refused(["is a file of a run", place], "convert", "--input", out / "model", "--output", place, "--to", "hf")
    refused(["is a file of a run"], "plot", out, "--output", out / "model" / "curves.svg")
    check(before == sorted(str(p) for p in out.rglob("*")), "nothing was written there")
    run("plot", out, "--output", out / "curves.svg")


def test_links_and_empty_names(folder):
    out = make_run(folder)
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "there").mkdir()
    (folder / "link").symlink_to(folder / "there")
    for name in ("dangling", "link"):
        refused(["link", folder / name, "--output"] if name == "dangling" else ["link", folder / name], "convert", "--input", out / "model", "--output", folder / name, "--to", "hf")
    check(not (folder / "nowhere").exists() and not any((folder / "there").iterdir()), "nothing was written")
    refused(["--out", "must not be empty"], "trace", "--model", out / "model", "--input", folder / "ids.safetensors", "--out", "")
    for flag, *words in (("--output-prefix", "preprocess", "--input", folder / "ids.json", "--tokenizer", folder), ("--output-prefix", "data", "merge", "--input", folder / "a"), ("--report", "compare", folder / "a", folder / "b"),
                         ("--output", "plot", out), ("--output", "man"), ("--output", "convert", "--input", out, "--to", "hf"), ("--output", "merge-lora", "--model", out, "--adapter", out), ("folder", "init")):
        refused([flag, "must not be empty"], *words, *([flag] if flag[0] == "-" else []), "", cwd=folder)


def test_a_limit_is_called_a_limit(folder):
    limit = 60000  # bytes; the model takes more
    done = run("train", *options(folder, folder / "out", checkpoint__every=0), status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    last = done.stderr.splitlines()[-1]
    check("limit on file sizes" in last and "ulimit -f" in last and "no room" not in last, last)


def test_lasting_work_and_a_reader_that_left(folder):
    """The work of a lasting command is on the disk: that nobody read what it printed is said, and is no failure."""
    tok = make_tokenizer(folder)
    prefix = folder / "words"
    reader, gone = os.pipe()
    os.close(reader)
    done = subprocess.run(r.command("preprocess", "--input", folder / "words.txt", "--tokenizer", tok, "--output-prefix", prefix), stdout=gone, stderr=subprocess.PIPE, text=True, timeout=r.LIMIT)
    check(done.returncode == 0 and "the work is done" in done.stderr, f"{done.returncode}: {done.stderr}")
    check(Path(f"{prefix}_text_document.idx").exists(), "the work is done")
    full = subprocess.run(r.command("data", "merge", "--input", f"{prefix}_text_document", "--output-prefix", folder / "all"), stdout=os.open("/dev/full", os.O_WRONLY),
                          stderr=subprocess.PIPE, text=True, timeout=r.LIMIT)
    check(full.returncode == 1 and "the work itself is done" in full.stderr and (folder / "all.idx").exists(), f"{full.returncode}: {full.stderr}")


@r.full("e2e_inputs has such names of a run of one rank")
def test_ranks_say_names_as_text(folder):
    """What ends a job of several ranks reaches the terminal as text too."""
    mpirun = shutil.which("mpirun")
    if not mpirun:
        raise r.Skipped("no mpirun")
    launch = [mpirun, "--oversubscribe", "-n", "2"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    (folder / "data").mkdir()
    (folder / "data" / "red \x1b[31m.safetensors").write_text("damaged")
    done = subprocess.run([*launch, *r.command("train", *options(folder, folder / "out", data__train=[str(folder / "data" / "*.safetensors")], train__global_batch=4))],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode != 0 and "\\x1b[31m" in done.stderr and "\x1b[31m" not in done.stderr, f"{done.returncode}: {done.stderr!r}")


def test_a_conversion_that_finds_no_room_can_go_on(folder):
    if os.geteuid() != 0:
        raise r.Skipped("needs root to mount a small disk")
    model = make_run(folder) / "model"
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], capture_output=True).returncode != 0:
        raise r.Skipped("no small disk can be mounted here")
    try:
        convert = ["convert", "--input", model, "--output", disk / "m", "--to", "megatron-mcore", "--tensor", 2]
        for wait in range(400):  # killed with something complete in its folder
            job = subprocess.Popen(r.command(*convert), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while job.poll() is None and not list(disk.glob("m.ravine-*.tmp/conversion.plan")):
                pass
            job.kill()
            job.wait()
            if (disk / "m").exists():
                shutil.rmtree(disk / "m")
                continue
            begun = list(disk.glob("m.ravine-*.tmp/conversion.plan"))
            if begun and sum(f.stat().st_size for f in begun[0].parent.rglob("*") if f.is_file()) < 80000:
                break
            for other in begun:  # too much is done: what is left to write would find room
                shutil.rmtree(other.parent)
        left = list(disk.glob("m.ravine-*.tmp"))
        check(len(left) == 1, f"one is left: {left}")
        (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - 16384))
        done = run(*convert, status=1)
        check("no room for the conversion" in done.stderr and left[0].name in done.stderr and left[0].exists(), done.stderr)
        (disk / "filler").unlink()
        check("goes on" in run(*convert).stderr and (disk / "m").exists(), "the same command goes on")
    finally:
        subprocess.run(["umount", disk], check=True)


if __name__ == "__main__":
    r.main(globals())
