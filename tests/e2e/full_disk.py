"""Disks without room: what was not saved is said, with status 1; what was saved stays; and what cannot fit is refused before it starts. A limit on
the size of files stands for a full disk where anybody may run the test; small disks (tmpfs) need root."""
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import ravine_run as r

MPIRUN = shutil.which("mpirun")
LAUNCH = ["mpirun", "--oversubscribe", "-n", "2"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def options(folder, **more):
    base = {
        "model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 32, 32)],
        "data.sequence_length": 32, "train.steps": 6, "train.global_batch": 4, "train.micro_batch": 2, "optimizer.lr": 1e-3,
        "checkpoint.every": 0, "train.threads": 1, "log.tensorboard": False, "train.output": folder / "out",
    }
    base.update({key.replace("__", "."): value for key, value in more.items()})
    return r.settings({key: value for key, value in base.items() if value is not None})


def last_line(done):
    return done.stderr.splitlines()[-1]


def limit(bytes):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, bytes))


def wait_for(job, condition):
    until = time.monotonic() + r.LIMIT
    while not condition():
        r.check(job.poll() is None and time.monotonic() < until, f"ended with {job.returncode}, or nothing came")
        time.sleep(0.01)


def steps_of(output):
    path = Path(output) / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


class small_disk:
    """A tmpfs of so many KiB as folder/disk; None where this user may not mount."""

    def __init__(self, folder, kib, more=""):
        self.place, self.options = folder / "disk", f"size={kib}k,mode=777{more}"

    def __enter__(self):
        self.place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", self.options, "none", self.place], capture_output=True, text=True)
        self.mounted = done.returncode == 0
        if not self.mounted:
            print("SKIPPED: mounting a small disk needs root", flush=True)
        return self.place if self.mounted else None

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", "-l", self.place], check=True)


def sizes(folder):
    """Bytes of a checkpoint and of the model."""
    r.run("train", *options(folder, train__steps=1, checkpoint__every=1, train__output=folder / "sizes"))
    return sum(p.stat().st_size for p in (folder / "sizes/checkpoints/step_000001").iterdir()), len(r.weights(folder / "sizes"))


def test_stopped_and_not_saved(folder):
    """No checkpoint fits: SIGTERM ends the run with status 1, and no line says that it was saved. One that was saved before is named."""
    checkpoint, model = sizes(folder)
    for name, every, kept in r.rows((("none", 0, "no checkpoint was saved before"), ("earlier", 0, "step_000003")), 1, "one end, with and without a checkpoint before"):
        output = folder / name
        if name == "earlier":
            r.run("train", *options(folder, train__steps=3, checkpoint__every=3, train__output=output))
        job = subprocess.Popen(r.command("train", *options(folder, train__steps=100000, schedule__steps=100000, checkpoint__every=every, train__output=output)),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limit((checkpoint + model) // 2))
        wait_for(job, lambda: steps_of(output) > 4)
        job.send_signal(signal.SIGTERM)
        text = job.communicate(timeout=r.LIMIT)[0]
        last = text.splitlines()[-1]
        r.check(job.returncode == 1, f"{name}: exit status {job.returncode}\n{text}")
        r.check(last.startswith("error: stopped after step") and "was not saved" in last and "limit on file sizes" in last and kept in last, f"{name}: {text}")
        r.check(", saved;" not in text, f"{name}: it says that it was saved\n{text}")


def test_two_ranks_agree(folder):
    """MPI itself needs files, so here no checkpoint can be made because a file has the name of their folder."""
    if not MPIRUN:
        return print("SKIPPED: no mpirun", flush=True)
    output = folder / "out"
    job = subprocess.Popen([*LAUNCH, *r.command("train", *options(folder, train__steps=10**7))], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    wait_for(job, lambda: steps_of(output) > 2)
    (output / "checkpoints").write_text("")
    r.run("stop", output)
    text = job.communicate(timeout=r.LIMIT)[0]
    said = [line for line in text.splitlines() if "error: " in line]
    r.check(job.returncode == 1 and len(said) == 1 and "was not saved" in said[0], f"exit status {job.returncode}\n{text}")
    r.check(", saved;" not in text, f"a rank says that it was saved\n{text}")


def test_metrics_stay_whole(folder):
    """A line that finds no room is left out as a whole, and the run says which."""
    r.run("train", *options(folder, train__steps=40, train__output=folder / "whole"))
    line = max(len(text) for text in (folder / "whole/metrics.jsonl").read_text().splitlines()) + 1
    room = max((folder / "whole/config.yaml").stat().st_size, (folder / "whole/log.txt").stat().st_size // 2) + line // 2
    r.check(room < (folder / "whole/metrics.jsonl").stat().st_size, "the limit says nothing")
    done = r.run("train", *options(folder, train__steps=40, log__tensorboard=True), status=1, preexec_fn=limit(room))
    rows = [json.loads(text) for text in (folder / "out/metrics.jsonl").read_text().splitlines()]
    r.check([row["step"] for row in rows] == list(range(1, len(rows) + 1)) and 0 < len(rows) < 40, f"steps {[row['step'] for row in rows]}")
    r.check(f"metrics of step {len(rows) + 1} are lost" in done.stderr and "metrics of step 40 are lost" in done.stderr, done.stderr)
    events = b"".join(p.read_bytes() for p in (folder / "out/tensorboard").iterdir())
    at = 0
    while at < len(events):  # whole records only
        at += 12 + int.from_bytes(events[at:at + 8], "little") + 4
    r.check(at == len(events), "the TensorBoard file ends within a record")
    r.check(r.run("train", *options(folder, train__steps=40, checkpoint__resume="none", train__output=folder / "out")).returncode == 0, "it does not go on")


def test_refused_where_nothing_fits(folder):
    checkpoint, model = sizes(folder)
    with small_disk(folder, (checkpoint + model) // 2 // 1024) as disk:
        if disk is None:
            return
        done = r.run("train", *options(folder, checkpoint__every=2, train__output=disk / "out"), status=1)
        last = last_line(done)
        r.check(last.startswith("error: no room for the run") and str(disk) in last and "are free" in last and "at least" in last, done.stderr)
        r.check(not r.checkpoints(disk / "out") and not (disk / "out/metrics.jsonl").exists(), "it began")


def test_warned_where_not_all_fits(folder):
    """Room for two checkpoints and the model, asked to keep three: said at the start; the run goes to its end, and what it leaves out is said."""
    checkpoint, model = sizes(folder)
    with small_disk(folder, (2 * checkpoint + model) // 1024 + 120) as disk:
        if disk is None:
            return
        done = subprocess.run(r.command("train", *options(folder, checkpoint__every=1, train__output=disk / "out")), capture_output=True, text=True, timeout=r.LIMIT)
        said = [line for line in done.stderr.splitlines() if "free, the run may need" in line]
        r.check(len(said) == 1 and said[0].startswith("warning: ") and str(disk) in said[0] and "checkpoint.keep=3" in said[0], done.stderr)
        r.check("was not saved, earlier ones are untouched" in done.stderr, done.stderr)
        saved = r.checkpoints(disk / "out")
        if done.returncode == 1:  # the last checkpoints took the room of the model
            r.check("the model was not saved, it needs" in last_line(done) and saved[-1] in last_line(done), done.stderr)
        for name in saved:
            r.run("info", disk / "out/checkpoints" / name)
    (folder / "enough").mkdir()
    with small_disk(folder / "enough", 5 * (checkpoint + 8192) // 1024 + 2 * model // 1024 + 200) as disk:
        if disk is not None:
            done = r.run("train", *options(folder, checkpoint__every=1, train__output=disk / "out"))
            r.check("was not saved" not in done.stderr and "may need" not in done.stderr, done.stderr)


def test_status_is_1_where_the_disk_is_full(folder):
    """Not one more file fits, or not one byte: no mistake of the user's."""
    for files in (2, 3, 4, 5):
        (folder / str(files)).mkdir()
        with small_disk(folder / str(files), 10000, f",nr_inodes={files}") as disk:
            if disk is None:
                return
            done = r.run("train", *options(folder, train__output=disk / "out"), status=1)
            r.check(last_line(done).startswith("error: ") and str(disk) in last_line(done) and "room" in last_line(done), f"{files}: {done.stderr}")
    with small_disk(folder, 64) as disk:
        if disk is None:
            return
        filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, b"x" * 4096) > 0:
                pass
        except OSError:
            os.close(filler)
        done = r.run("train", *options(folder, train__output=disk / "out"), status=1)
        r.check(last_line(done).startswith("error: ") and str(disk) in last_line(done) and "room" in last_line(done), done.stderr)


def test_a_state_without_room_for_its_files_goes_on(folder):
    """checkpoint.layout=megatron: Megatron's file does not fit, the state does. The run trains to its end with a warning at each save and ends with status 1, its model and the newest state stay, and
    the next start writes it and goes on from it as if nothing had been."""
    megatron = {"checkpoint.layout": "megatron", "checkpoint.every": 2, "schedule.steps": 6}
    sizes(folder)
    state = (folder / "sizes/checkpoints/step_000001/state-00000.safetensors").stat().st_size
    r.run("train", *options(folder, train__output=folder / "whole", **megatron))
    file = folder / "whole/iter_0000006/mp_rank_00/model_optim_rng.pt"
    r.check(state < file.stat().st_size - 1, f"{state} and {file.stat().st_size}")
    out = folder / "out"
    done = subprocess.run(r.command("train", *options(folder, train__steps=4, **megatron)), capture_output=True, text=True, preexec_fn=limit((state + file.stat().st_size) // 2))
    hidden = out / ".saving"
    r.check(done.returncode == 1 and "the last checkpoint is not there: step 4 is saved in " in last_line(done) and f"the model of step 4 is complete, in {out}/model" in last_line(done), done.stderr)
    r.check(all(f"step {n} is saved in {hidden}/step_00000{n}, and could not be written for checkpoint.layout=megatron: " in done.stderr for n in (2, 4)), done.stderr)
    r.check([p.name for p in hidden.iterdir() if p.is_dir()] == ["step_000004"] and not list(out.glob("*iter_*")) and (out / "model").exists(), f"{list(out.iterdir())} {list(hidden.iterdir())}")
    done = subprocess.run(r.command("train", *options(folder, **megatron)), capture_output=True, text=True, preexec_fn=limit((state + file.stat().st_size) // 2))
    r.check(done.returncode == 1 and "once that is mended the same command goes on from there" in last_line(done) and (hidden / "step_000004").exists(), done.stderr)
    log = r.run("train", *options(folder, **megatron)).stderr
    r.check(f"written  {out}/iter_0000004" in log and "after step 4" in log and not hidden.exists(), log)
    losses = [[row["loss"] for row in r.metrics(p).values()] for p in (out, folder / "whole")]
    r.check(losses[0] == losses[1] and len(losses[0]) == 6, f"{losses}")
    r.check((out / "model/model.safetensors").read_bytes() == (folder / "whole/model/model.safetensors").read_bytes(), "the model")


def test_conversion_is_refused_where_it_does_not_fit(folder):
    checkpoint, model = sizes(folder)
    with small_disk(folder, model // 2 // 1024) as disk:
        if disk is None:
            return
        done = r.run("convert", "--input", folder / "sizes", "--output", disk / "hf", "--to", "hf", status=1)
        r.check("no room for the conversion" in last_line(done) and "it needs" in last_line(done), done.stderr)
        r.check(os.listdir(disk) == [], f"left behind: {os.listdir(disk)}")


if __name__ == "__main__":
    r.main(globals())
