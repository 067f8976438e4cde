"""Streams that are closed, full or read by nobody; limits on files; data files that are cut while a run reads them. Training loses nothing by
them, and ends with a status and a word that say what happened."""
import json
import os
import random
import resource
import signal
import struct
import subprocess
import time
from pathlib import Path

import ravine_run as r


def options(folder, **more):
    base = {
        "model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 32, 32)],
        "data.sequence_length": 32, "train.steps": 6, "train.global_batch": 4, "train.micro_batch": 2, "optimizer.lr": 1e-3,
        "checkpoint.every": 0, "train.threads": 1, "log.tensorboard": False, "train.output": folder / "out",
    }
    base.update({key.replace("__", "."): value for key, value in more.items()})
    return r.settings({key: value for key, value in base.items() if value is not None})


def begin(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more):
    return subprocess.Popen(r.command(*arguments), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, **more)


def steps_of(output):
    path = Path(output) / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for_steps(job, output, steps):
    until = time.monotonic() + r.LIMIT
    while steps_of(output) < steps:
        r.check(job.poll() is None, f"ended with {job.returncode} before step {steps}")
        r.check(time.monotonic() < until, f"no step {steps}")
        time.sleep(0.01)


def without(streams, *arguments, **more):
    """Runs with some descriptors closed: "1>&- 2>&-"."""
    return subprocess.run(["sh", "-c", f'exec "$@" {streams}', "sh", *r.command(*arguments)], capture_output=True, text=True, timeout=r.LIMIT, **more)


def test_errors_without_stderr(folder):
    full = os.open("/dev/full", os.O_WRONLY)
    reader, gone = os.pipe()
    os.close(reader)
    absent = folder / "none"
    for name, done in {"full": subprocess.run(r.command("info", absent), stderr=full, timeout=r.LIMIT),
                       "read by nobody": subprocess.run(r.command("info", absent), stderr=gone, timeout=r.LIMIT),
                       "closed": without("2>&-", "info", absent)}.items():
        r.check(done.returncode == 2, f"stderr is {name}: exit status {done.returncode}")


def test_stop_without_stderr(folder):
    full = os.open("/dev/full", os.O_WRONLY)
    for number in (signal.SIGTERM, signal.SIGHUP):  # the second: a terminal that is closed
        output = folder / signal.Signals(number).name
        job = begin("train", *options(folder, train__steps=100000, train__output=output), stdout=full, stderr=full,
                    preexec_fn=lambda number=number: signal.signal(number, signal.SIG_DFL))  # also where the test itself runs under nohup
        wait_for_steps(job, output, 2)
        job.send_signal(number)
        r.check(job.wait(timeout=r.LIMIT) == 130, f"{output}: exit status {job.returncode}")
        r.check(len(r.checkpoints(output)) == 1, f"checkpoints: {r.checkpoints(output)}")


def test_nohup(folder):
    """Where SIGHUP is ignored it stays so."""
    output = folder / "out"
    job = begin("train", *options(folder, train__steps=100000), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_steps(job, output, 2)
    job.send_signal(signal.SIGHUP)
    wait_for_steps(job, output, steps_of(output) + 3)
    job.send_signal(signal.SIGTERM)
    r.check(job.wait(timeout=r.LIMIT) == 130, f"exit status {job.returncode}")


def test_train_into_head(folder):
    """`train 2>&1 | head -1`: the run goes on to its end."""
    job = begin("train", *options(folder))
    job.stdout.readline()
    job.stdout.close()
    r.check(job.wait(timeout=r.LIMIT) == 0, f"exit status {job.returncode}")
    r.check(sorted(r.metrics(folder / "out")) == list(range(1, 7)) and r.weights(folder / "out"), "the run is not whole")
    log = (folder / "out" / "log.txt").read_text()
    r.check("step 6/6" in log, f"log.txt lacks lines:\n{log}")


def test_results_into_nothing(folder):
    """A reader that goes away ends a filter by SIGPIPE, quietly, as it ends those of coreutils; a full disk is said, with status 1."""
    reader, gone = os.pipe()
    os.close(reader)
    quiet = subprocess.run(r.command("config", "--list"), stdout=gone, stderr=subprocess.PIPE, text=True, timeout=r.LIMIT)
    r.check(quiet.returncode == -signal.SIGPIPE and quiet.stderr == "", f"{quiet.returncode}: {quiet.stderr}")
    told = subprocess.run(r.command("config", "--list"), stdout=gone, stderr=subprocess.PIPE, text=True, timeout=r.LIMIT,
                          preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
    r.check(told.returncode in (1, -signal.SIGPIPE), f"SIGPIPE ignored: {told.returncode}: {told.stderr}")
    full = subprocess.run(r.command("config", "--list"), stdout=os.open("/dev/full", os.O_WRONLY), stderr=subprocess.PIPE, text=True, timeout=r.LIMIT)
    r.check(full.returncode == 1 and full.stderr.startswith("error: ") and "writing to stdout failed" in full.stderr and "full" in full.stderr, f"{full.returncode}: {full.stderr}")
    closed = without("1>&-", "config", "--list")
    r.check(closed.returncode == 1 and "writing to stdout failed" in closed.stderr, f"{closed.returncode}: {closed.stderr}")


def test_closed_at_start(folder):
    """No file of ours becomes stdin, stdout or stderr, where a library or a warning would write into it."""
    job = subprocess.Popen(["sh", "-c", 'exec "$@" 0>&- 1>&- 2>&-', "sh", *r.command("train", *options(folder, train__steps=100000))])
    wait_for_steps(job, folder / "out", 2)
    places = [os.readlink(f"/proc/{job.pid}/fd/{n}") for n in range(3)]
    job.send_signal(signal.SIGTERM)
    status = job.wait(timeout=r.LIMIT)
    r.check(places == ["/dev/null"] * 3, f"descriptors 0 1 2 are {places}")
    r.check(status == 130, f"exit status {status}")


def test_limit_on_file_size(folder):
    """`ulimit -f` is like a full disk for the file that meets it, and no signal."""
    limit = 60000  # bytes; the model takes more
    done = r.run("train", *options(folder), status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    last = done.stderr.splitlines()[-1]
    r.check(last.startswith("error: ") and "limit on file sizes" in last and str(folder / "out" / "model") in last, done.stderr)


def save_indexed(prefix, documents, length):
    """PREFIX.bin and .idx of uint16, as Megatron's MMapIndexedDataset has them."""
    draw = random.Random(1)
    Path(f"{prefix}.bin").write_bytes(struct.pack(f"<{documents * length}H", *(draw.randrange(3, 256) for _ in range(documents * length))))
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1)
    index += struct.pack(f"<{documents}i", *([length] * documents)) + struct.pack(f"<{documents}q", *(2 * length * i for i in range(documents)))
    index += struct.pack(f"<{documents + 1}q", *range(documents + 1))
    Path(f"{prefix}.idx").write_bytes(index)
    return str(prefix)


def cut(folder, size, **more):
    """A run on a token file that is cut to `size` after two steps; what it said, and its status."""
    prefix = save_indexed(folder / "tokens", 512, 1024)
    job = begin("train", *options(folder, data__train=[prefix + ".bin"], train__steps=3000, **more))
    wait_for_steps(job, folder / "out", 2)
    os.truncate(prefix + ".bin", size)
    text = job.communicate(timeout=r.LIMIT)[0].decode()
    return prefix + ".bin", job.returncode, text


def test_data_file_is_cut(folder):
    """What was mapped is gone: a line that names the file, and status 1 instead of SIGBUS."""
    file, status, text = cut(folder, 4096)
    last = text.splitlines()[-1]
    r.check(status == 1 and last.startswith("error: ") and file in last and "cut short" in last, f"{status}: {text}")


def test_data_file_is_cut_within_a_page(folder):
    """The rest of the last page reads as zeros, without a signal: no checkpoint is made of what was learned from them."""
    file, status, text = cut(folder, 2 * 512 * 1024 - 100, checkpoint__every=5)
    last = text.splitlines()[-1]
    r.check(status == 1 and last.startswith("error: ") and file in last and "cut short" in last, f"{status}: {text}")


def test_stop_of_a_run_that_is_over(folder):
    r.run("train", *options(folder))
    done = r.run("stop", folder / "out", status=2)
    r.check("no run is alive" in done.stderr and str(folder / "out") in done.stderr, done.stderr)
    r.check(not (folder / "out" / "stop").exists(), "it left its file")
    job = begin("train", *options(folder, train__steps=100000, train__output=folder / "alive"))
    wait_for_steps(job, folder / "alive", 2)
    asked = r.run("stop", folder / "alive")
    r.check(f"process {job.pid} " in asked.stderr, asked.stderr)
    r.check(job.wait(timeout=r.LIMIT) == 130, f"exit status {job.returncode}")


def test_killed_run_is_not_alive(folder):
    job = begin("train", *options(folder, train__steps=100000))
    wait_for_steps(job, folder / "out", 2)
    job.kill()
    job.wait()
    r.check("no run is alive" in r.run("stop", folder / "out", status=2).stderr, "it is taken for alive")


if __name__ == "__main__":
    r.main(globals())
