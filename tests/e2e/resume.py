"""A run that is killed or stopped anywhere and started again ends as one that was left alone, bit for bit."""
import os
import random
import shutil
import signal
import subprocess
import time

import ravine_run as r

STEPS = 24
KILLS = 20 if r.FULL else 4


def prepare(folder, batch=8):
    """Arguments of a run over shuffled text with dropout, so that the place in the data and in the random numbers count."""
    text = r.save_text(folder / "train.txt", 6000, 1)
    valid = r.save_text(folder / "valid.txt", 400, 2)
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tokenizer", "--vocab-size", 300, "--overwrite")
    options = {
        "model.config": r.save_config(folder / "config.json", vocab_size=300), "model.tokenizer": folder / "tokenizer",
        "data.train": [text], "data.valid": [valid], "data.sequence_length": 32, "train.steps": STEPS,
        "train.global_batch": batch,
        "train.micro_batch": 2, "train.dropout": 0.1, "train.attention_dropout": 0.1, "train.valid_every": 4, "train.valid_batches": 2, "checkpoint.every": 3,
        "schedule.warmup_steps": 4, "optimizer.lr": 1e-2, "train.threads": 1,
    }
    arguments = ["train", *r.settings(options)]
    r.run(*arguments, f"train.output={folder / 'alone'}")  # measures the peaks of the machine too, so its time says nothing
    began = time.monotonic()
    r.run(*arguments, f"train.output={folder / 'again'}")
    seconds = time.monotonic() - began
    r.check(r.same_run(folder / "alone", folder / "again") == "", "two runs left alone differ")
    numbers = r.metrics(folder / "alone")
    r.check(sorted(numbers) == list(range(1, STEPS + 1)) and "valid_loss" in numbers[STEPS], f"metrics of {sorted(numbers)}")
    r.check(numbers[STEPS]["loss"] < numbers[1]["loss"] - 0.3, "the run learns nothing, so equality says little")
    return arguments, seconds


def saving(output):
    try:
        return any(name.endswith(".tmp") for name in os.listdir(output / "checkpoints"))
    except FileNotFoundError:
        return False


def wait_until(process, condition, limit=r.LIMIT):
    """False if the process ended first."""
    began = time.monotonic()
    while not condition():
        if process.poll() is not None:
            return False
        r.check(time.monotonic() - began < limit, "waited too long")
    return True


def kill_and_resume(folder, kills_wanted, seed, report):
    """Kills runs with SIGKILL, every other time aimed into a save, and starts them again until enough are killed and the last has
    ended; every run that ends must equal one left alone. `report` gets a line for each start. Returns (kills, of them inside a
    save, runs brought to their end)."""
    arguments, seconds = prepare(folder)
    draw = random.Random(seed)
    kills = while_saving = rounds = 0
    while kills < kills_wanted:
        output = folder / f"round{rounds}"
        rounds += 1
        while True:
            process = r.start(*arguments, f"train.output={output}")
            if kills >= kills_wanted:  # from here on it may finish
                log = process.communicate(timeout=r.LIMIT)[0]
                r.check(process.returncode == 0, f"the last start of round {rounds} failed:\n{log}")
                break
            aimed = kills % 2 == 0
            if aimed:
                wait_until(process, lambda: saving(output))
                time.sleep(draw.uniform(0, 0.002))
            else:
                try:
                    process.wait(draw.uniform(0, 0.7 * seconds))
                except subprocess.TimeoutExpired:
                    pass
            process.kill()
            log = process.communicate(timeout=r.LIMIT)[0]
            if process.returncode == 0:
                break
            r.check(process.returncode == -signal.SIGKILL, f"a start after {kills} kills failed:\n{log}")
            kills += 1
            inside = saving(output)
            while_saving += inside
            newest = r.checkpoints(output)[-1:] or ["no checkpoint"]
            report(f"kill {kills}: round {rounds}, {'aimed into a save' if aimed else 'at random'}, {'inside a save' if inside else 'outside'}, "
                   f"{newest[0]} complete")
        difference = r.same_run(folder / "alone", output)
        r.check(difference == "", f"round {rounds} after {kills} kills differs: {difference}")
        r.check(not saving(output), "a finished run leaves temporary folders behind")
        report(f"round {rounds}: ended after {kills} kills in all, losses, norms and weights bitwise those of the run left alone")
        shutil.rmtree(output)
    return kills, while_saving, rounds


def test_kill(folder):
    kills, inside, rounds = kill_and_resume(folder, KILLS, 7, lambda line: None)
    print(f"        {kills} kills, {inside} of them inside a save, {rounds} runs brought to their end")
    r.check(inside >= KILLS // 4, "too few kills hit a save to say anything about one")


def test_stop_twice(folder):
    """A second Ctrl-C ends the run at once: nothing more is saved, what was saved is whole, and the run goes on from there."""
    arguments, _ = prepare(folder)
    slow = [a.replace("train.global_batch=8", "train.global_batch=256") for a in arguments] + ["checkpoint.every=1", "train.valid_every=0"]
    # On a busy machine a step may end between the look and the signals; then it is tried again.
    for attempt in range(4):
        output = folder / f"slow {attempt}"
        process = r.start(*slow, f"train.output={output}")
        latest = output / "checkpoints" / "latest"
        r.check(wait_until(process, lambda: latest.exists() and latest.read_text().strip() == "step_000002"), "no second checkpoint")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=r.LIMIT)
        print(f"        ended {time.monotonic() - began:.3f} s after the first signal")
        r.check(process.returncode == 130, f"exit status {process.returncode}")
        if r.checkpoints(output) == ["step_000001", "step_000002"]:
            break
    else:
        r.check(False, f"it saved on: {r.checkpoints(output)}")
    r.check(latest.read_text().strip() == "step_000002" and not (output / "model").exists(), "it wrote on")
    log = r.start(*slow, f"train.output={output}", "train.steps=3", f"schedule.steps={STEPS}").communicate(timeout=r.LIMIT)[0]
    warned = [line for line in log.splitlines() if line.startswith("warning: ") and "schedule.warmup_steps" not in line and "train.valid_every" not in line]
    r.check("after step 2" in log and not warned, log)
    r.start(*slow, f"train.output={folder / 'whole'}", "train.steps=3", f"schedule.steps={STEPS}").communicate(timeout=r.LIMIT)
    difference = r.same_run(folder / "whole", output)
    r.check(difference == "", f"differs: {difference}")


def test_stop(folder):
    arguments, seconds = prepare(folder)
    if seconds < 4:  # slow enough for a signal to arrive in time; under a sanitizer it is anyway
        shutil.rmtree(folder / "alone")
        shutil.rmtree(folder / "again")
        arguments, _ = prepare(folder, batch=64)
    ways = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT, "SIGUSR1": signal.SIGUSR1, "stop": None}
    for at, (name, number) in enumerate(r.rows(ways.items(), 2, "signals and the file are told to the run alike")):
        output = folder / name
        process = r.start(*arguments, f"train.output={output}")
        lines = lambda: (output / "metrics.jsonl").exists() and (output / "metrics.jsonl").read_text().count("\n") >= 3 + at
        r.check(wait_until(process, lines), f"{name}: the run ended before step {3 + at}")
        if number is None:
            r.run("stop", output)
        else:
            process.send_signal(number)
        log = process.communicate(timeout=r.LIMIT)[0]
        r.check(process.returncode == 130, f"{name}: exit status {process.returncode} instead of 130:\n{log}")
        done = max(r.metrics(output))
        r.check(done < STEPS, f"{name}: the run was not stopped")
        r.check(r.checkpoints(output)[-1] == f"step_{done:06}", f"{name}: step {done} is not saved: {r.checkpoints(output)}")
        r.check((output / "checkpoints" / "latest").read_text().strip() == f"step_{done:06}", f"{name}: latest is another")
        r.check(not (output / "stop").exists() and not (output / "model").exists(), f"{name}: left too much behind")
        log = r.run(*arguments, f"train.output={output}").stderr
        r.check(f"after step {done}" in log, f"{name}: did not go on from step {done}:\n{log}")
        difference = r.same_run(folder / "alone", output)
        r.check(difference == "", f"{name}: differs after step {done}: {difference}")


if __name__ == "__main__":
    r.main(globals())
