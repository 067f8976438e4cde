"""Faults while running: a damaged checkpoint, NaN, a full disk. Each is named, and nothing that was saved is lost."""
import array
import json
import os
import resource
import shutil
import signal
import subprocess
import sys

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
    for name, damage in r.rows(damages.items(), 3, "whatever is damaged, the one before is taken"):
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
        r.check("complete: 12 of 12 steps" in repaired and "warning" not in repaired, f"{name}: step 12 is not sound again:\n{repaired}")


def test_all_checkpoints_damaged(folder):
    r.run("train", *options(folder))
    for name in r.checkpoints(folder / "alone"):
        flip(folder / "alone" / "checkpoints" / name / "state-00000.safetensors", 5000)
    done = r.run("train", *options(folder), status=2)
    last = done.stderr.splitlines()[-1]
    r.check(last.startswith("error: ") and "all 4 are damaged" in last and str(folder / "alone") in last, done.stderr)


def test_nan(folder):
    """A weight of the model folder is NaN: it is refused by name. One that is so large that sums overflow: the run stops with its first step and, when asked, names the first op."""
    made = options(folder, train__steps=1, checkpoint__every=0, train__output=folder / "made")
    r.run("train", *made)
    model = folder / "made" / "model"
    header, body = r.load_raw(model / "model.safetensors")
    begin, end = header["model.layers.1.mlp.up_proj.weight"]["data_offsets"]
    values = array.array("f", body[begin:end])
    more = {"model__config": None, "model__path": model}
    for bad in (float("nan"), float("inf")):
        values[5] = bad
        r.save_raw(model / "model.safetensors", header, body[:begin] + values.tobytes() + body[end:])
        said = r.run("train", *options(folder, train__output=folder / "refused", **more), status=2).stderr
        r.check("model.layers.1.mlp.up_proj.weight" in said and str(model) in said and "NaN or infinite" in said, said)
        r.check(not (folder / "refused" / "metrics.jsonl").exists(), "it began")
    values[:64] = array.array("f", [3e38] * 64)
    r.save_raw(model / "model.safetensors", header, body[:begin] + values.tobytes() + body[end:])

    plain = r.run("train", *options(folder, train__output=folder / "plain", **more), status=1).stderr.splitlines()
    r.check(plain[-1].startswith("error: step 1:") and "nan" in plain[-1].lower(), "\n".join(plain))
    r.check("train.find_nan=true" in plain[-1], f"does not say how to find it: {plain[-1]}")
    r.check(not (folder / "plain" / "model").exists() and not r.checkpoints(folder / "plain"), "it saved NaN")

    arguments = options(folder, train__output=folder / "found", train__find_nan=True, **more)
    found = r.run("train", *arguments, status=1).stderr.splitlines()
    r.check("layers.1.mlp" in found[-1] and "first:" in found[-1], f"the first op is not named: {found[-1]}")


def test_nan_later(folder):
    """The checkpoints before the NaN stay, and none is written after it."""
    spoilt = options(folder, optimizer__type="sgd", checkpoint__every=1, train__find_nan=True, probe__inject="{step: 3, op: attention, value: nan}")
    done = r.run("train", *spoilt, status=1)
    last = done.stderr.splitlines()[-1]
    steps = sorted(r.metrics(folder / "alone"))
    r.check(last.startswith(f"error: step {steps[-1] + 1}:") and "first:" in last, done.stderr)
    saved = r.checkpoints(folder / "alone")
    r.check(saved[-1] == f"step_{steps[-1]:06}", f"checkpoints {saved} after steps {steps}")
    again = r.run("train", *spoilt, f"train.steps={steps[-1]}", "schedule.steps=12")
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
    r.check(last.startswith("error: ") and "limit on file sizes" in last and str(folder / "alone" / "model") in last, done.stderr)
    r.check(sorted(r.metrics(folder / "alone")) == list(range(1, 13)), "steps are missing in the metrics")
    r.check(not (folder / "alone" / "model").exists(), "half a model is left")


def last_line(done):
    return done.stderr.splitlines()[-1]


def injected(folder, name, faults, status=1, **more):
    """A run with probe.inject; returns it."""
    arguments = options(folder, train__output=folder / name, **more)
    return r.run("train", *arguments, "probe.inject=" + json.dumps(faults), status=status)


def test_injected(folder):
    """A number that a kernel spoils: the stop names step, op, path and tensor; what was saved before is intact and goes on as if nothing was."""
    r.run("train", *options(folder))
    whole = "model.layers.1"
    cases = {
        "attention": ({"path": whole + ".self_attn*", "op": "attention", "value": "nan"}, "none", "the loss became",
                      ["first: attention at model.layers.1.self_attn", "(forward)", "tensor 'out'", "row 3, column 5"]),
        "product": ({"path": whole + ".mlp*", "op": "matmul", "value": "inf"}, "cheap", "the loss became",
                    ["first: matmul at model.layers.1.mlp", "(forward)", "tensor 'out'"]),
        "norm": ({"path": "model.layers.0.input_layernorm", "op": "*rms_norm", "value": "-inf"}, "cheap", "the loss became",
                 ["first: rms_norm at model.layers.0.input_layernorm", "-inf"]),
        "backward": ({"path": whole + ".self_attn*", "op": "attention_backward", "phase": "backward"}, "cheap", "the gradient norm became",
                     ["first: attention_backward at model.layers.1.self_attn", "(backward)", "tensor 'd"]),
        "recompute": ({"path": whole + ".mlp*", "op": "matmul", "phase": "recompute"}, "full", "the gradient norm became",
                      ["first: matmul at model.layers.1.mlp", "(recompute)", "tensor 'out'"]),
    }
    for name, (fault, recompute, what, words) in r.rows(cases.items(), 2, "one check of every call, which names what it found"):
        done = injected(folder, name, [{"step": 8, "element": 3 * 32 + 5, **fault}], train__recompute=recompute, train__find_nan=True)
        line = last_line(done)
        for word in ["error: step 8:", what, "the weights are those of step 7", *words]:
            r.check(word in line, f"{name}: '{word}' is not in: {line}")
        r.check(sorted(r.metrics(folder / name)) == list(range(1, 8)), f"{name}: metrics of {sorted(r.metrics(folder / name))}")
        saved = r.checkpoints(folder / name)
        r.check(saved == ["step_000003", "step_000006"], f"{name}: checkpoints {saved}")
        for step in saved:
            same = r.run("diff", folder / "alone" / "checkpoints" / step, folder / name / "checkpoints" / step).stdout
            r.check("bitwise equal" in same, f"{name}: {step}: {same}")
        log = r.run("train", *options(folder, train__output=folder / name)).stderr
        r.check("after step 6" in log, f"{name}: {log}")
        difference = r.same_run(folder / "alone", folder / name)
        r.check(difference == "", f"{name}: {difference}")


def test_injected_update(folder):
    """An update that spoils a weight: the loss shows it one step later; the weight is named, and an earlier checkpoint is good."""
    done = injected(folder, "run", [{"step": 8, "path": "model.layers.1", "op": "adamw", "phase": "update", "tensor": "param"}], checkpoint__every=2,
                    train__find_nan=True)
    line = last_line(done)
    for word in ("error: step 9:", "weight 'model.layers.1.", "holds nan at element 0", "since step 8 or before",
                 "an earlier checkpoint", "its input has it already"):
        r.check(word in line, f"'{word}' is not in: {line}")
    good = folder / "run" / "checkpoints" / "step_000006"
    r.run("train", *options(folder))
    r.run("train", *options(folder, train__output=folder / "again", checkpoint__resume=good))
    r.check(r.weights(folder / "alone") == r.weights(folder / "again"), "the earlier checkpoint does not lead to the same weights")


def test_unused_weight(folder):
    """A spoilt row of the embedding that no token asks for: no loss can show it, so the export says it."""
    done = injected(folder, "run", [{"step": 8, "path": "model.embed_tokens", "op": "adamw", "phase": "update", "tensor": "param"}], status=0)
    r.check("warning: weight 'model.embed_tokens.weight' holds nan at element 0" in done.stderr, done.stderr)


def test_injection_rules(folder):
    done = injected(folder, "run", [{"step": 2, "op": "swiglu", "path": "model.layers.7.*"}], status=0)
    r.check("warning: step 2: probe.inject found no call of swiglu at model.layers.7.*" in done.stderr, done.stderr)
    r.run("train", *options(folder))
    r.check(r.same_run(folder / "alone", folder / "run") == "", "an injection that finds no call changes the run")
    line = last_line(injected(folder, "typo", [{"op": "swigluu"}], status=2))
    r.check("swigluu" in line and "did you mean 'swiglu'" in line and not (folder / "typo").exists(), line)
    line = last_line(injected(folder, "value", [{"value": "nun"}], status=2))
    r.check("value" in line and "nun" in line and not (folder / "value").exists(), line)


def test_weights_not_finite(folder):
    """Infinity in a weight file is refused; of one that becomes infinite when rounded to bf16 the first op is named."""
    r.run("train", *options(folder, train__steps=1, checkpoint__every=0, train__output=folder / "made"))
    model = folder / "made" / "model"
    name = "model.layers.0.self_attn.o_proj.weight"
    header, body = r.load_raw(model / "model.safetensors")
    begin, end = header[name]["data_offsets"]
    values = array.array("f", body[begin:end])
    for value, compute, status, words in ((float("-inf"), "f32", 2, ("NaN or infinite", name)), (float("-inf"), "bf16", 2, ("NaN or infinite", name)),
                                          (-3.4028e38, "bf16", 1, ("error: step 1:", "first: matmul at model.layers.0.self_attn", "its input has it already"))):
        values[9] = value
        r.save_raw(model / "model.safetensors", header, body[:begin] + values.tobytes() + body[end:])
        arguments = options(folder, train__output=folder / compute, precision__compute=compute, train__find_nan=True, model__config=None,
                            model__path=model)
        line = last_line(r.run("train", *arguments, status=status))
        for word in words:
            r.check(word in line, f"{compute}: '{word}' is not in: {line}")
        r.check(not r.checkpoints(folder / compute) and not (folder / compute / "model").exists(), "it saved infinity")


def test_stale_lock(folder):
    """What a killed run leaves of its lock holds nobody back, whatever stands in the file."""
    r.run("train", *options(folder))
    dead = r.start("info", folder / "alone")
    dead.communicate()
    host = os.uname().nodename
    ours = "ravine lock: process "
    locks = {"dead": f"{ours}{dead.pid} {host}\n", "alive": f"{ours}{os.getpid()} {host}\n", "elsewhere": f"{ours}17 another-host\n", "older": f"{dead.pid} {host}\n", "zeros": "\0" * 30, "empty": ""}
    for name, text in r.rows(locks.items(), 3, "one reader of a lock"):
        output = folder / name
        output.mkdir()
        if not text.startswith(ours):  # as an earlier version, or a power loss, leaves it: in a folder of ours only
            (output / ".ravine").write_text(json.dumps({"format": "ravine-folder", "version": 1, "run": "0" * 32, "files": {}}))
        (output / ".lock").write_text(text)
        r.run("train", *options(folder, train__output=output))
        r.check(r.same_run(folder / "alone", output) == "", f"{name}: another run")
        r.check(not (output / ".lock").exists(), f"{name}: the lock stays after the run")


def namespaced(name):
    """Runs a function of this file as root of a mount namespace of its own, so that nothing it mounts leaks; skipped where that cannot be."""
    own = ["unshare", "--mount", "--propagation", "private"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    probe = [*own, "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]
    try:
        able = subprocess.run(probe, capture_output=True).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        raise r.Skipped("this user may not mount")
    done = subprocess.run([*own, sys.executable, "-B", os.path.abspath(__file__), r.PROGRAM, name], capture_output=True, text=True)
    r.check(done.returncode == 0, done.stdout + done.stderr)


def test_tmpfs(folder):
    namespaced("on_full_tmpfs")


def test_read_only(folder):
    namespaced("on_read_only_folder")


def on_full_tmpfs(folder):
    """A disk with room for two checkpoints: the third is warned about, the first two stay, the run ends as one with room."""
    r.run("train", *options(folder))
    def size(path):
        return sum(-(-p.stat().st_size // 4096) * 4096 for p in path.rglob("*") if p.is_file())
    checkpoint, model = size(folder / "alone" / "checkpoints" / "step_000012"), size(folder / "alone" / "model")
    disk = folder / "disk"
    disk.mkdir()
    room = 2 * checkpoint + model + (checkpoint - model) // 2
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "none", disk], check=True)
    output = disk / "run"
    log = r.run("train", *options(folder, train__output=output)).stderr
    warnings = [line for line in log.splitlines() if line.startswith("warning:")]
    for step in ("step_000009", "step_000012"):
        r.check(any(step in w and "not saved" in w for w in warnings), f"no warning for {step}:\n{log}")
    r.check(r.checkpoints(output) == ["step_000003", "step_000006"], f"checkpoints {r.checkpoints(output)}")
    r.check((output / "checkpoints" / "latest").read_text().strip() == "step_000006", "latest is another")
    for step in r.checkpoints(output):
        r.run("diff", folder / "alone" / "checkpoints" / step, output / "checkpoints" / step)
    r.check(not list((output / "checkpoints").glob("*.tmp*")), "leftovers take what room there is")
    difference = r.same_run(folder / "alone", output)
    r.check(difference == "", f"training did not go on as before: {difference}")
    # Not even a checkpoint and the model fit: refused before the first step.
    shutil.rmtree(output)
    with open(disk / "filler", "wb") as filler:
        filler.write(bytes(room - 32768))
    done = subprocess.run(r.command("train", *options(folder, train__output=output)), capture_output=True, text=True)
    r.check(done.returncode == 1 and "no room for the run" in done.stderr.splitlines()[-1] and str(output) in done.stderr.splitlines()[-1],
            f"{done.returncode}: {done.stderr}")
    (disk / "filler").unlink()
    r.run("train", *options(folder, train__output=output))
    r.check(r.same_run(folder / "alone", output) == "", "no recovery once there is room")


def on_read_only_folder(folder):
    def read_only(path, flag="ro"):
        subprocess.run(["mount", "--bind", path, path], check=True)
        subprocess.run(["mount", "-o", f"remount,{flag},bind", path], check=True)

    r.run("train", *options(folder))
    inside = folder / "locked"
    inside.mkdir()
    read_only(inside)
    made = folder / "made"
    r.run("train", *options(folder, train__output=made, train__steps=6, schedule__steps=12))
    read_only(made)
    for output in (inside / "new", inside, made):
        done = r.run("train", *options(folder, train__output=output), status=2)
        line = last_line(done)
        r.check(line.startswith("error: ") and str(output) in line and "ead-only" in line, f"{output}: {done.stderr}")
    r.check(sorted(p.name for p in inside.iterdir()) == [], "something was written")
    # The checkpoints alone cannot be written: a warning each, and the run goes on.
    partly = folder / "partly"
    r.run("train", *options(folder, train__output=partly, train__steps=6, schedule__steps=12))
    read_only(partly / "checkpoints")
    log = r.run("train", *options(folder, train__output=partly)).stderr
    r.check([line[25:31] for line in log.splitlines() if line.startswith("warning: checkpoint step_") and "was not saved" in line] == ["000009", "000012", "000012"], log)  # the last is tried twice
    r.check("after step 6" in log and r.same_run(folder / "alone", partly) == "", log)


if __name__ == "__main__":
    r.main(globals())
