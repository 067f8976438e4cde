"""Memory does not grow: 2000 steps of a tiny model with checkpoints, and what a checkpoint adds while it is written."""
import os
import statistics
import subprocess
import time

import ravine_run as r

MIB = 1 << 20


def resident(pid):
    """Bytes of the process in memory, or None when it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


def watch(process, output):
    """[(last step in metrics.jsonl, resident bytes, a checkpoint is being written)], sampled until the end."""
    samples, steps, at = [], 0, 0
    metrics, saves = output / "metrics.jsonl", output / "checkpoints"
    while process.poll() is None:
        saving = saves.exists() and any(p.name.endswith(".tmp") for p in saves.iterdir())
        bytes_now = resident(process.pid)
        if metrics.exists():
            with open(metrics, "rb") as lines:
                lines.seek(at)
                new = lines.read()
            at, steps = at + len(new), steps + new.count(b"\n")
        if bytes_now:
            samples.append((steps, bytes_now, saving))
        time.sleep(0.002)
    return samples


def train(folder, **more):
    options = {
        "model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 64, 32)],
        "data.sequence_length": 32, "train.global_batch": 4, "train.micro_batch": 2, "train.threads": 1, "train.dropout": 0.1,
        "checkpoint.keep": 2, "train.output": folder / "run",
    }
    options.update({key.replace("__", "."): value for key, value in more.items()})
    # What is freed goes back to the system, or the room that the start of a run leaves in the heap would hide megabytes of a leak.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    log = folder / "log"
    with open(log, "w") as out:  # a pipe that nobody reads would fill
        process = subprocess.Popen(r.command("train", *r.settings(options)), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        samples = watch(process, folder / "run")
    r.check(process.wait() == 0, log.read_text())
    return samples


SERVED_COMMANDS = False  # what a child takes is measured


def test_no_growth(folder):
    """After a warm-up of 500 steps, no later 500 steps hold 256 KiB more than the first: 270 bytes lost per step would show; of 200 steps in the short tier, 660 bytes."""
    window = 500 if r.FULL else 200
    samples = train(folder, train__steps=4 * window, checkpoint__every=50, data__valid=[r.save_ids(folder / "valid.safetensors", 4, 32, seed=2)],
                    train__valid_every=100)
    windows = [statistics.median(size for steps, size, _ in samples if begin <= steps < begin + window) for begin in (window, 2 * window, 3 * window)]
    print(f"        resident in the three times {window} steps behind the first {window}: {', '.join(f'{w / MIB:.2f} MiB' for w in windows)}")
    r.check(max(windows[1:]) <= windows[0] + MIB // 4, f"memory grows: {windows}")


def test_checkpoint_adds_little(folder):
    """While a checkpoint is written, at most 5 % more than between checkpoints. 6.9M parameters: 83 MB of state."""
    config = r.save_config(folder / "bigger.json", hidden_size=256, intermediate_size=1024, num_hidden_layers=6, vocab_size=1024)
    samples = train(folder, train__steps=24, checkpoint__every=6, model__config=config)
    before = max(size for steps, size, saving in samples if 3 <= steps <= 5 and not saving)  # not one save has been
    between = [size for steps, size, saving in samples if steps > 3 and not saving]
    during = [size for _, size, saving in samples if saving]
    r.check(len(during) >= 4, f"only {len(during)} samples while saving")
    print(f"        most resident before the first save {before / MIB:.1f} MiB, between saves {max(between) / MIB:.1f}, while saving "
          f"{max(during) / MIB:.1f} ({100 * (max(during) / before - 1):+.2f} %), {len(during)} samples")
    r.check(max(during) <= 1.05 * before, "a checkpoint takes too much memory")


if __name__ == "__main__":
    r.main(globals())
