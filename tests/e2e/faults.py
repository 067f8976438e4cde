"""Faults while running: a damaged checkpoint, NaN, a full disk. Each is named, and nothing that was saved is lost."""
import array
import resource
import shutil
import signal

import ravine_run as r


def options(folder, **more):
    base = {
        "model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 32, 32)],
        "data.sequence_length": 32, "train.steps": 12, "train.global_batch": 4, "train.micro_batch": 2, "optimizer.lr": 1e-2,
        "schedule.warmup_steps": 2, "checkpoint.every": 3, "checkpoint.keep": 0, "train.threads": 1, "log.tensorboard": False,
        "train.output": folder / "alone",
    }
    base.update({key.replace("__", "."): value for key, value in more.items()})
    return r.settings({key: value for key, value in base.items() if value is not None})


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_damaged_checkpoint(folder):
    r.run("train", *options(folder))
    names = [f"step_{step:06}" for step in (3, 6, 9, 12)]
    r.check(r.checkpoints(folder / "alone") == names, f"checkpoints: {r.checkpoints(folder / 'alone')}")
    state, manifest = "state-00000.safetensors", "manifest.json"
    size = (folder / "alone" / "checkpoints" / names[3] / state).stat().st_size
    damages = {
        "a bit of a weight": lambda at: flip(at / state, size - 1001),
        "a bit of the header": lambda at: flip(at / state, 40),
        "cut": lambda at: (at / state).write_bytes((at / state).read_bytes()[:-1]),
        "no state": lambda at: (at / state).unlink(),
        "no manifest": lambda at: (at / manifest).unlink(),
        "half a manifest": lambda at: (at / manifest).write_bytes((at / manifest).read_bytes()[:-200]),
        "a bit of the manifest": lambda at: flip(at / manifest, (at / manifest).read_bytes().index(b'"step"') + 2),
    }
    for name, damage in damages.items():
        output = folder / name.replace(" ", "-")
        shutil.copytree(folder / "alone", output)
        shutil.rmtree(output / "model")
        newest = output / "checkpoints" / names[3]
        damage(newest)
        log = r.run("train", *options(folder, train__output=output)).stderr
        warning = [line for line in log.splitlines() if line.startswith("warning:")]
        r.check(len(warning) == 1 and str(newest) in warning[0], f"{name}: no warning that names {newest}:\n{log}")
        r.check("after step 9" in log and names[2] in log, f"{name}: did not go on from step 9:\n{log}")
        difference = r.same_run(folder / "alone", output)
        r.check(difference == "", f"{name}: differs: {difference}")
        repaired = r.run("train", *options(folder, train__output=output)).stderr
        r.check("after step 12" in repaired and "warning" not in repaired, f"{name}: step 12 is not sound again:\n{repaired}")


def test_all_checkpoints_damaged(folder):
    r.run("train", *options(folder))
    for name in r.checkpoints(folder / "alone"):
        flip(folder / "alone" / "checkpoints" / name / "state-00000.safetensors", 5000)
    done = r.run("train", *options(folder), status=2)
    last = done.stderr.splitlines()[-1]
    r.check(last.startswith("error: ") and "all 4 are damaged" in last and str(folder / "alone") in last, done.stderr)


def test_nan(folder):
    """One weight of the model folder is NaN: the run stops with its first step and, when asked, names the first op."""
    made = options(folder, train__steps=1, checkpoint__every=0, train__output=folder / "made")
    r.run("train", *made)
    model = folder / "made" / "model"
    header, body = r.load_raw(model / "model.safetensors")
    begin, end = header["model.layers.1.mlp.up_proj.weight"]["data_offsets"]
    values = array.array("f", body[begin:end])
    values[5] = float("nan")
    r.save_raw(model / "model.safetensors", header, body[:begin] + values.tobytes() + body[end:])
    more = {"model__config": None, "model__path": model}

    plain = r.run("train", *options(folder, train__output=folder / "plain", **more), status=1).stderr.splitlines()
    r.check(plain[-1].startswith("error: step 1:") and "nan" in plain[-1].lower(), "\n".join(plain))
    r.check("train.find_nan=true" in plain[-1], f"does not say how to find it: {plain[-1]}")
    r.check(not (folder / "plain" / "model").exists() and not r.checkpoints(folder / "plain"), "it saved NaN")

    arguments = options(folder, train__output=folder / "found", train__find_nan=True, **more)
    found = r.run("train", *arguments, status=1).stderr.splitlines()
    r.check("layers.1.mlp" in found[-1] and "first:" in found[-1], f"the first op is not named: {found[-1]}")


def test_nan_later(folder):
    """An absurd learning rate: the checkpoints before the NaN stay, and none is written after it."""
    absurd = options(folder, optimizer__type="sgd", optimizer__lr=1e30, optimizer__clip_norm=0, optimizer__weight_decay=0,
                     checkpoint__every=1, train__find_nan=True)
    done = r.run("train", *absurd, status=1)
    last = done.stderr.splitlines()[-1]
    steps = sorted(r.metrics(folder / "alone"))
    r.check(last.startswith(f"error: step {steps[-1] + 1}:") and "first:" in last, done.stderr)
    saved = r.checkpoints(folder / "alone")
    r.check(saved[-1] == f"step_{steps[-1]:06}", f"checkpoints {saved} after steps {steps}")
    again = r.run("train", *options(folder, optimizer__type="sgd", optimizer__lr=0, checkpoint__every=1, train__steps=1))
    r.check(f"after step {steps[-1]}" in again.stderr, again.stderr)


def test_full_disk(folder):
    """A limit on the size of a file stands for a full disk: from some step on no checkpoint fits."""
    r.run("train", *options(folder))
    state = (folder / "alone" / "checkpoints" / "step_000012" / "state-00000.safetensors").stat().st_size
    model = len(r.weights(folder / "alone"))
    limit = (state + model) // 2  # the model folder fits, a checkpoint does not
    r.check(model + 8192 < limit < state - 8192, "the limit says nothing")

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    output = folder / "full"
    r.run("train", *options(folder, train__output=output, train__steps=6, schedule__steps=12))
    before = {p: p.read_bytes() for p in (output / "checkpoints").rglob("*") if p.is_file()}
    log = r.run("train", *options(folder, train__output=output, schedule__steps=12), preexec_fn=little_room).stderr
    warnings = [line for line in log.splitlines() if line.startswith("warning:")]
    r.check("after step 6" in log, log)
    for step in ("step_000009", "step_000012"):
        r.check(any(step in w and "not saved" in w for w in warnings), f"no warning for {step}:\n{log}")
    after = {p: p.read_bytes() for p in (output / "checkpoints").rglob("*") if p.is_file()}
    r.check(before == after, f"earlier checkpoints changed: {sorted(before)} and {sorted(after)}")
    difference = r.same_run(folder / "alone", output)
    r.check(difference == "", f"training did not go on as before: {difference}")
    r.run("train", *options(folder, train__output=output))  # and with room again
    r.check(r.checkpoints(output)[-1] == "step_000012" and r.same_run(folder / "alone", output) == "", "no recovery")


def test_no_room_for_the_model(folder):
    """Even the last save fails: an error that names the file, and the run's metrics stay whole."""
    def no_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))

    done = r.run("train", *options(folder), status=1, preexec_fn=no_room)
    last = done.stderr.splitlines()[-1]
    r.check(last.startswith("error: ") and "no room left" in last and str(folder / "alone" / "model") in last, done.stderr)
    r.check(sorted(r.metrics(folder / "alone")) == list(range(1, 13)), "steps are missing in the metrics")
    r.check(not (folder / "alone" / "model").exists(), "half a model is left")


if __name__ == "__main__":
    r.main(globals())
