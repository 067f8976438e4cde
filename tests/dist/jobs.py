"""Jobs of several ranks in which something goes wrong: a rank runs out of memory, finds an error in its data, is lost during a save, was started
with something else; and how launchers bind and stop ranks. The job must end within 30 s (soon() of training.py) with a status that is not 0, say which rank, on which host,
and what the others waited for, and leave the last checkpoint whole.

python3 jobs.py PATH_OF_ravine [FUNCTION ..]
"""
import array
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from training import LAUNCH, STEPS, launch, prepare, processes, r, soon, train
from ravine_run import check

HOST = socket.gethostname()
PATIENCE = 5


def settings(base, out, **more):
    return r.settings({**base, "train.output": str(out), **{k.replace("__", "."): v for k, v in more.items()}})


def start(ranks, *arguments):
    return subprocess.Popen([*LAUNCH, "-n", str(ranks), *r.command("train", *arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def wait_for(condition, job, seconds=300):
    began = time.monotonic()
    while not condition():
        check(job.poll() is None and time.monotonic() - began < seconds, "the job ended, or nothing came")
        time.sleep(0.002)


def ends(job, since, *words):
    """The job's words; it must have ended in time, with a status other than 0."""
    text = job.communicate(timeout=400)[0]
    seconds = time.monotonic() - since
    check(job.returncode != 0, f"exit status 0: {text[-2000:]}")
    check(seconds < soon(), f"took {seconds:.0f} s")
    for w in words:
        check(re.search(w, text), f"no '{w}' in\n{text[-3000:]}")
    return text


def goes_on(base, out, ranks=1):
    """Whatever is there loads and is trained for two steps more."""
    last = int(r.checkpoints(out)[-1].split("_")[1])
    train({**base, "train.steps": last + 2, "schedule.steps": last + 2, "probe.inject": []}, out, ranks)
    check(last + 2 in r.metrics(out), "it did not go on")


@r.full("dist_faults has a rank that throws, whatever it throws")
def test_out_of_memory_on_one_rank(folder):
    base = {**prepare(folder), "checkpoint.every": 1, "train.valid_every": 0, "parallel.patience": PATIENCE}
    for rank, layer in ((1, 3), (0, 0)):
        out = folder / f"rank{rank}"
        job = start(2, *settings(base, out, parallel__pipeline=2), f"probe.inject=[{{step: 3, path: 'model.layers.{layer}.*', value: bad_alloc}}]")
        wait_for(lambda: len(r.checkpoints(out)) >= 1, job)
        text = ends(job, time.monotonic(), rf"rank {rank} \({HOST}\): memory: the machine has no more", rf"rank {1 - rank} waited in receive over pipeline",
                    "the last checkpoint is intact")
        check(text.count("error: ") == 1, f"said more than once:\n{text}")
        goes_on(base, out)


def token_file(prefix, documents):
    lengths = array.array("i", map(len, documents))
    starts, at = array.array("q"), 0
    for d in documents:
        starts.append(at)
        at += 4 * len(d)
    ends_of = array.array("q", range(len(documents) + 1))
    Path(f"{prefix}.bin").write_bytes(b"".join(array.array("i", d).tobytes() for d in documents))
    Path(f"{prefix}.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(documents), len(ends_of)) + lengths.tobytes() + starts.tobytes() + ends_of.tobytes())
    return str(prefix)


@r.full("dist_faults has a rank that throws, whatever it throws")
def test_an_error_in_the_data_of_one_rank(folder):
    base = prepare(folder)
    ids = [[3 + (i * 7 + k) % 200 for i in range(17)] for k in range(4096)]
    ids[44][7] = 9999  # token 755: step 6, in the second half of the batch: data rank 1; not among those that are looked at when the file is opened
    base.update({"data.train": [token_file(folder / "t", ids)], "data.shuffle": False, "data.sequence_length": 16, "checkpoint.every": 1, "train.valid_every": 0,
                 "parallel.patience": PATIENCE, "data.prefetch": 0, "train.steps": 8})
    out = folder / "run"
    began = time.monotonic()
    del base["data.valid"]
    text = ends(start(2, *settings(base, out)), began, rf"rank 1 \({HOST}\): .*9999", r"rank 0 waited in all_\w+ over (data|world)")
    check(text.count("error: ") == 1, f"said more than once:\n{text}")
    check(r.checkpoints(out), "no checkpoint")
    base["data.train"] = [token_file(folder / "t", [[min(i, 250) for i in d] for d in ids])]
    launch(1, ["train", *settings(base, out)], status=2, expect="other data than the checkpoint's")
    train({**base, "checkpoint.other_data": True}, out)


@r.full("test_rank_0_is_lost saves every step; io_checkpoint_faults.cpp ends at every point of a save")
def test_a_rank_lost_during_a_save(folder):
    """Killed, or stopped, while its part of a checkpoint is being written: the one before is whole."""
    base = {**prepare(folder, hidden_size=256, intermediate_size=768, num_attention_heads=8), "checkpoint.every": 1, "checkpoint.keep": 2, "train.steps": 100000, "schedule.steps": STEPS,
            "train.valid_every": 0, "parallel.patience": PATIENCE}
    for lost, harm, words in ((1, signal.SIGKILL, "is gone"), (2, signal.SIGSTOP, "has not answered for")):
        out = folder / harm.name
        job = start(3, *settings({**base, "parallel.sum_leaves": 3, "train.global_batch": 12}, out))
        ranks = processes(job, 3)
        wait_for(lambda: len(r.checkpoints(out)) >= 2, job)
        half = lambda: any((out / "checkpoints").glob("*.tmp*")) and not any((out / "checkpoints").glob(f"*/part-{lost:05}.json"))
        began = time.monotonic()
        while True:  # stopped to look: with no part of its own yet it is in the middle of it
            wait_for(half, job)
            os.kill(ranks[lost], signal.SIGSTOP)
            time.sleep(0.05)
            if half():
                break
            os.kill(ranks[lost], signal.SIGCONT)
            check(time.monotonic() - began < 300, "no save was met half done")
        os.kill(ranks[lost], harm)
        ends(job, time.monotonic(), rf"rank {lost} \({HOST}\) {words}", "waited in", "the last checkpoint is intact")
        check(any((out / "checkpoints").glob("*.tmp*")), "the save was complete")
        goes_on({**base, "parallel.sum_leaves": 0, "train.steps": STEPS}, out)


def test_rank_0_is_lost(folder):
    base = {**prepare(folder), "checkpoint.every": 1, "train.steps": 100000, "schedule.steps": STEPS, "train.valid_every": 0, "parallel.patience": PATIENCE}
    # Patience, or half of it more where this machine stood still.
    cases = ((signal.SIGKILL, "is gone"), (signal.SIGSTOP, f"has not answered for [{PATIENCE}-{PATIENCE * 3 // 2 + 1}] s"))
    for harm, words in cases if r.FULL else cases[:1]:  # short: dist_faults stops a rank
        out = folder / harm.name
        job = start(2, *settings(base, out))
        ranks = processes(job, 2)
        wait_for(lambda: len(r.checkpoints(out)) >= 2, job)
        os.kill(ranks[0], harm)
        ends(job, time.monotonic(), rf"rank 0 \({HOST}\) {words}", "rank 1 waited in", "the last checkpoint is intact")
        goes_on({**base, "train.steps": STEPS}, out)


def refused_at_start(folder, first, second, *words, other=None, where=None):
    """Two ranks, the second started with other arguments, as another program or in another folder."""
    left = [*r.command("train", *first)]
    right = [other or left[0], *r.command("train", *second)[1:]]
    command = [*LAUNCH, "-n", "1", *left, ":", "-n", "1", *(["-wdir", str(where)] if where else []), *right]
    began = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400, cwd=folder)
    check(done.returncode != 0 and time.monotonic() - began < soon(), f"exit status {done.returncode}")
    check(done.stderr.count("error: ") == 1 and all(w in done.stderr for w in words), f"{words} not in\n{done.stderr}")


def test_ranks_that_were_started_differently(folder):
    base = prepare(folder)
    other = folder / "other"
    other.mkdir()
    same = settings({**base, "data.train": ["ids.safetensors"], "data.valid": ["ids.safetensors"]}, folder / "run")
    refused_at_start(folder, same, [*same, "optimizer.lr=0.02"], "ranks differ in their config (rank 1)", "lr: 0.02", "lr: 0.01")
    if r.FULL:  # short: lines are compared, whatever they say (SameEverywhere.TheFirstLineThatDiffersIsShown)
        r.save_ids(other / "ids.safetensors", 40, 17, vocabulary=257, seed=2)
        refused_at_start(folder, same, same, "ranks differ in their data (rank 1)", "ids.safetensors: checksum", where=other)
        r.save_ids(other / "ids.safetensors", 48, 17, vocabulary=257)
        refused_at_start(folder, same, same, "ranks differ in their data (rank 1)", "'48 sequences of 17 tokens", where=other)
        program = (Path(r.PROGRAM).read_bytes()).replace(b"ravine 0.1.0", b"ravine 0.1.9")
        (folder / "ravine9").write_bytes(program)
        (folder / "ravine9").chmod(0o755)
        refused_at_start(folder, same, same, "ranks differ in their program (rank 1)", "'ravine 0.1.9', rank 0 has 'ravine 0.1.0'", other=str(folder / "ravine9"))
    check(not (folder / "run" / "checkpoints").exists(), "something was written")


@r.full("the program waits 10 s for a folder; nothing else in the short tier has one that is not shared")
def test_a_folder_that_is_not_shared(folder):
    base = prepare(folder)
    other = folder / "other"
    other.mkdir()
    same = settings(base, "run")  # of each rank in its own folder
    refused_at_start(folder, same, same, f"rank 1 ({HOST}) does not see there what the first rank writes (run)", "that all ranks share", where=other)
    check(not any((folder / "run").glob("*.tmp")) and not (folder / "run" / "checkpoints").exists(), "something is left")


def test_resume_with_other_data_or_tokenizer(folder):
    text = r.save_text(folder / "a.txt", 4000, 1)
    for name, size in (("tok", 400), ("tok2", 390)):
        r.run("tokenizer", "train", "--input", text, "--output", folder / name, "--vocab-size", size)
    base = {"model.config": r.save_config(folder / "config.json", vocab_size=400), "model.tokenizer": folder / "tok", "data.train": [text], "data.sequence_length": 16,
            "train.global_batch": 4, "checkpoint.every": 2, "schedule.steps": 8, "log.tensorboard": False}
    for ranks in (1, 2) if r.FULL else (1,):  # short: that two ranks refuse, and once, is in the tests around this one
        out = folder / f"run{ranks}"
        train({**base, "train.steps": 2}, out, ranks)
        kept = sorted(p.name for p in (out / "checkpoints").iterdir())
        more = {**base, "train.steps": 4}
        done = launch(ranks, ["train", *settings({**more, "model.tokenizer": folder / "tok2"}, out)], status=2, expect="another tokenizer than the checkpoint's (model.tokenizer): step_000002")
        check(done.stderr.count("error: ") == 1, done.stderr)
        shutil.copy(text, folder / "kept.txt")
        r.save_text(folder / "a.txt", 4000, 2)
        launch(ranks, ["train", *settings(more, out)], status=2, expect=f"other data than the checkpoint's (data.train: {text}): step_000002")
        check(sorted(p.name for p in (out / "checkpoints").iterdir()) == kept, "something was written")
        forced = shutil.copytree(out, folder / f"forced{ranks}")
        train({**more, "checkpoint.other_data": True}, Path(forced), ranks)
        shutil.move(folder / "kept.txt", folder / "moved.txt")  # the same under another name
        train({**more, "data.train": [str(folder / "moved.txt")]}, out, ranks)
        shutil.copy(folder / "moved.txt", text)
        other = ["train", *settings({**base, "train.steps": 6, "data.append_eos": False}, out)]
        launch(ranks, other, status=2, expect="data.append_eos is false, was true (command line): step_000004")
        done = launch(ranks, [*other, "checkpoint.other_data=true"])
        check("data.append_eos (was true, is false)" in done.stderr, done.stderr)


def test_binding_to_cores(folder):
    base = {**prepare(folder), "train.steps": 1, "train.valid_every": 0}
    base.pop("train.threads", None)
    cores = len(os.sched_getaffinity(0))
    for bind, ranks in r.rows(((["--bind-to", "core"], min(2, cores)), (["--bind-to", "none"], 2)), 1, "the affinity that a rank finds is what it counts"):
        out = folder / bind[1]
        command = [a for a in LAUNCH if a != "--oversubscribe" or bind[1] == "none"] + [*bind, "-n", str(ranks), *r.command("train", *settings(base, out, parallel__sum_leaves=0))]
        if ranks < 2:
            continue
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
        check(done.returncode == 0, done.stderr)
        share = 1 if bind[1] == "core" else max(1, cores // ranks)
        check(re.search(rf"\b{share} threads? each", done.stderr), f"{bind}: {done.stderr}")
        idle = os.sysconf("SC_NPROCESSORS_ONLN") >= 2 * ranks * share
        check(("of the" in done.stderr and "idle" in done.stderr) == idle, f"{bind}: {done.stderr}")
    if not r.FULL:  # test_what_ranks_say_of_themselves has ranks that take turns
        return
    done = launch(2, ["train", "--threads", str(4 * cores), *settings(base, folder / "many", parallel__sum_leaves=0)])
    check("take turns" in done.stderr, done.stderr)


def test_what_ranks_say_of_themselves(folder):
    """Ranks that are alike are named together, with what each sends, and whether they share cores."""
    base = prepare(folder)
    cores = os.sysconf("SC_NPROCESSORS_ONLN")
    log = launch(4, ["train", *settings(base, folder / "run", train__threads=1, train__steps=1, parallel__pipeline=2)]).stderr
    ranks = re.search(r"^ranks    4 on 1 host: data 2 x pipeline 2, (\d+) micro batch(?:es)? each, (1 leaf|\d+ leaves); 1 thread each$", log, re.M)
    check(ranks, log)
    for what, text in (("memory", r"weights (?:\S+ \S+), optimizer (?:\S+ \S+), arena (?:\S+ \S+)"), ("sends ", r"(\S+) MB per step over data ranks, (\S+) MB per step over pipeline ranks")):
        lines = re.findall(rf"^{what}   (.+?): {text}$", log, re.M)
        named = [line if isinstance(line, str) else line[0] for line in lines]
        check(named in (["rank 0 and 1 alike", "rank 2 and 1 alike"], ["every rank"]), f"{what}: {named}\n{log}")
    check("rank 0 and 1 alike: weights" in log, "the first stage has the embedding, the last the head and a norm more")
    check((f"4 ranks of 1 thread on {cores} core{'s' if cores > 1 else ''} of this host take turns: expect them to wait for each other" in log) == (4 > cores), f"{cores} cores: {log}")
    check((f"leave {cores - 4} of the {cores} cores of this host idle" in log) == (8 <= cores), f"{cores} cores: {log}")


@r.full("test_rank_0_is_lost is what a launcher does; dist_training has a signal that one rank hears")
def test_ctrl_c_at_the_launcher(folder):
    """mpirun sends SIGTERM on and kills soon after: the job is over at once, and what was saved before is whole."""
    base = {**prepare(folder), "checkpoint.every": 1, "train.steps": 100000, "schedule.steps": STEPS, "train.valid_every": 0}
    out = folder / "run"
    job = start(2, *settings(base, out))
    wait_for(lambda: len(r.checkpoints(out)) >= 2, job)
    job.send_signal(signal.SIGINT)
    ends(job, time.monotonic())
    # mpirun may end before its ranks have.
    deadline = time.monotonic() + 300
    while (out / ".lock").exists() and time.monotonic() < deadline and Path(f"/proc/{(out / '.lock').read_text().split()[3]}").exists():
        time.sleep(0.01)
    goes_on({**base, "train.steps": STEPS}, out)


def test_a_stop_and_a_save_that_fails(folder):
    """All ranks try a failed save again and agree that it failed; the job that follows a stop is not stopped by what asked for the first."""
    base = {**prepare(folder), "train.steps": 100000, "schedule.steps": STEPS, "train.valid_every": 0}
    out = folder / "run"
    job = start(2, *settings(base, out))
    wait_for(lambda: (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text().count("\n") >= 2, job)
    r.run("stop", out)
    text = job.communicate(timeout=400)[0]
    check("saved; the same command goes on from there" in text, text)
    done = int(r.checkpoints(out)[-1].split("_")[1])
    blocked = out / "checkpoints" / f"step_{done + 2:06}"
    blocked.mkdir()
    (blocked / "notes.txt").write_text("dear")
    text = launch(2, ["train", *settings({**base, "train.steps": done + 2, "checkpoint.every": 2}, out)]).stderr
    check(f"after step {done}" in text and len(re.findall(f"warning: checkpoint {blocked.name} was not saved", text)) >= 2 and f"no checkpoint of step {done + 2} could be saved" in text, text)
    check((blocked / "notes.txt").read_text() == "dear" and (out / "model" / "config.json").exists(), "something is lost")


@r.full("e2e_run_ends takes a folder from a run of one rank; dist_faults has a rank that throws")
def test_a_folder_that_is_taken_from_its_job(folder):
    base = {**prepare(folder), "train.steps": 100000, "schedule.steps": STEPS, "train.valid_every": 0, "parallel.patience": PATIENCE}
    out = folder / "run"
    job = start(2, *settings(base, out))
    wait_for(lambda: (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text().count("\n") >= 2, job)
    out.rename(folder / "elsewhere")
    ends(job, time.monotonic(), "the folder of the run is gone")
    check(not out.exists(), "it was made again")


if __name__ == "__main__":
    r.main(globals())
