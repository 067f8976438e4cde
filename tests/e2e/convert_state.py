"""`ravine convert --to ravine`: checkpoints that train on, with the moments of DeepSpeed, Megatron, MindFormers and Ravine; and conversions
that were killed."""
import array
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import ravine_run as r
from convert import CONFIG, GOLDEN, weights
from ravine_run import check, run

STEP = "checkpoints/step_{:06}"


def state(folder, step):
    """{"m/NAME": (shape, bytes)}"""
    tensors = r.load_tensors(Path(folder) / STEP.format(step))
    check(all(kind == "F32" for kind, _, _ in tensors.values()), "a state that is not in f32")
    return {name: (shape, raw) for name, (_, shape, raw) in tensors.items()}


def expected(masters=0.0):
    """Weights and moments as tools/golden/make_convert.py makes them: exact in f32."""
    out = {}
    for name, (shape, raw) in weights(GOLDEN / "hf").items():
        w = array.array("f", raw)
        wide = len(w) // shape[0]
        rows = [w[i * wide:(i + 1) * wide] for i in range(shape[0])]
        out["weights/" + name] = (shape, array.array("f", [x + masters for x in w]).tobytes())
        out["m/" + name] = (shape, array.array("f", [x / 2 for row in reversed(rows) for x in row]).tobytes())
        out["v/" + name] = (shape, array.array("f", [x * x for x in w]).tobytes())
    return out


def equal(got, want, what):
    bad = sorted(k for k in got.keys() | want.keys() if got.get(k) != want.get(k))
    check(not bad, f"{what}: {bad[:5]} differ")


def scalars(folder, step):
    return json.loads((Path(folder) / STEP.format(step) / "manifest.json").read_text())["scalars"]


def options(folder, **more):
    ids = folder / "ids.safetensors"
    if not ids.exists():
        r.save_ids(ids, 40, 16, 50)
    values = {"data.train": [str(ids)], "data.sequence_length": 16, "train.global_batch": 4, "optimizer.lr": 1e-2, "log.tensorboard": False}
    return r.settings(values | {k.replace("__", "."): v for k, v in more.items()})


def test_updates_are_counted_without_steps_that_were_left_out(folder):
    """They are not batches: bias correction and rate follow them."""
    r.save_config(folder / "config.json")
    run("train", *options(folder, model__config=str(folder / "config.json"), data__skip_steps=[2, 3], train__steps=4, checkpoint__every=4, train__output=str(folder / "run")))
    run("convert", "--input", folder / "run" / STEP.format(4), "--output", folder / "new", "--to", "ravine", "--optimizer")
    for at in ("run", "new"):
        said = scalars(folder / at, 4)
        check((said["step"], said["optimizer_steps"]) == (4, 2), f"{at}: {said}")


def test_the_tokenizer_of_a_run_is_that_of_its_model(folder):
    """Not the one that lies in model.tokenizer today, which may be another one, or gone."""
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    (folder / "text.txt").write_text("one two three four five six seven eight\n" * 400)
    run("tokenizer", "train", "--input", folder / "text.txt", "--output", tokenizer, "--vocab-size", 280)
    r.save_config(folder / "config.json", vocab_size=280)
    run("train", *r.settings({"model.config": folder / "config.json", "model.tokenizer": tokenizer, "data.train": [str(folder / "text.txt")], "data.sequence_length": 16,
                              "train.global_batch": 4, "train.steps": 2, "checkpoint.every": 2, "log.tensorboard": False, "train.output": folder / "run"}))
    own = (folder / "run" / "model" / "tokenizer.json").read_bytes()
    (tokenizer / "tokenizer.json").write_text((tokenizer / "tokenizer.json").read_text().replace('"version": "1.0"', '"version":  "1.0"').replace('"version":"1.0"', '"version": "1.0"'))
    check((tokenizer / "tokenizer.json").read_bytes() != own, "another one lies there now")
    for source in ("run", "run/checkpoints/step_000002"):
        for gone in (False, True):
            if gone:
                tokenizer.rename(folder / "away")
            out = folder / f"{source.replace('/', '-')}-{gone}"
            said = run("convert", "--input", folder / source, "--output", out, "--to", "hf").stderr
            check((out / "tokenizer.json").read_bytes() == own, f"{source}, {gone}: {said}")
            check("warning" not in said, f"{source}, {gone}: {said}")
            if gone:
                (folder / "away").rename(tokenizer)


def test_moments_of_every_layout(folder):
    for source, step, masters, extra in (("zero1", 3, 0.0, ()), ("zero2", 3, 0.0, ()), ("zero3", 3, 0.0, ()), ("optim", 7, 2.0**-20, ()),
                                         ("torch_dist", 7, 0.0, ()), ("mf_ranks", 7, 0.0, ("--model-config", CONFIG))):
        run("convert", "--input", GOLDEN / source, "--output", folder / source, "--to", "ravine", "--optimizer", *extra)
        equal(state(folder / source, step), expected(masters), source)
        s = scalars(folder / source, step)
        check(s["step"] == step and s["optimizer_steps"] == {"optim": 5}.get(source, step), f"{source}: {s}")
        check(s.get("global_batch") == (None if source == "mf_ranks" else 4), f"{source}: {s}")
        # Ravine to Ravine, and a run that goes on from it.
        run("convert", "--input", folder / source, "--output", folder / f"{source}-again", "--to", "ravine", "--optimizer")
        equal(state(folder / f"{source}-again", step), expected(masters), f"{source} again")
        at = folder / source
        log = run("train", *options(folder, model__config=at / "config.json", train__output=at, train__steps=step + 2)).stderr
        check(f"after step {step}" in log, log)
        check(sorted(r.metrics(at)) == [step + 1, step + 2], "the run goes on at the next step")
    runs = [r.weights(folder / s) for s in ("zero1", "zero2", "zero3")]
    check(runs[0] == runs[1] == runs[2], "runs from the same state differ")


def test_weights_alone_begin_a_run(folder):
    """From a Hugging Face folder: equal to a run with model.path."""
    run("convert", "--input", GOLDEN / "hf", "--output", folder / "a", "--to", "ravine")
    for name, (_, raw) in state(folder / "a", 0).items():
        check(name.startswith("weights/") or raw.strip(b"\0") == b"", f"{name} is zero")
    run("train", *options(folder, model__config=folder / "a/config.json", train__output=folder / "a", train__steps=3))
    run("train", *options(folder, model__path=GOLDEN / "hf", train__output=folder / "b", train__steps=3))
    check(r.same_run(folder / "a", folder / "b") == "", r.same_run(folder / "a", folder / "b"))


def test_a_run_goes_on_from_its_converted_checkpoint(folder):
    """Ravine to Ravine in the middle of a run changes nothing, whatever ranks go on; a larger vocabulary keeps the old rows."""
    config = GOLDEN / "hf" / "config.json"
    run("train", *options(folder, model__config=config, train__output=folder / "whole", train__steps=6, checkpoint__every=3, parallel__sum_leaves=2))
    half = folder / "whole" / STEP.format(3)
    run("convert", "--input", half, "--output", folder / "moved", "--to", "ravine", "--optimizer", "--model-config", config)
    run("train", *options(folder, model__config=config, train__output=folder / "moved", train__steps=6, parallel__sum_leaves=2))
    late = {k: v for k, v in r.metrics(folder / "whole").items() if k > 3}
    check(r.metrics(folder / "moved") == late and r.weights(folder / "moved") == r.weights(folder / "whole"), "the moved run differs")
    if mpirun := shutil.which("mpirun"):
        run("convert", "--input", half, "--output", folder / "ranks", "--to", "ravine", "--optimizer", "--model-config", config)
        done = subprocess.run([mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", r.PROGRAM, "train", *map(str, options(
            folder, model__config=config, train__output=folder / "ranks", train__steps=6, parallel__zero=1, parallel__sum_leaves=2))],
            capture_output=True, text=True, timeout=r.LIMIT, stdin=subprocess.DEVNULL)
        check(done.returncode == 0, done.stderr)
        check(r.metrics(folder / "ranks") == late and r.weights(folder / "ranks") == r.weights(folder / "whole"), "two ranks with ZeRO 1 give other bits")
    run("convert", "--input", half, "--output", folder / "wide", "--to", "ravine", "--optimizer", "--model-config", config, "--resize-vocab", 64)
    old, new = state(folder / "whole", 3), state(folder / "wide", 3)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        for kind in ("weights/", "m/", "v/"):
            shape, raw = new[kind + name]
            check(shape == [64, 16] and raw.startswith(old[kind + name][1]), kind + name)
            check(kind == "weights/" or raw[50 * 16 * 4:].strip(b"\0") == b"", f"moments of new rows: {kind}{name}")


def test_deepspeed_there_and_back(folder):
    """A run in the middle, as DeepSpeed's checkpoint and back, goes on as if nothing had happened; its weights are read in place."""
    config = GOLDEN / "hf" / "config.json"
    run("train", *options(folder, model__config=config, train__output=folder / "whole", train__steps=6, checkpoint__every=3, schedule__type="linear", schedule__warmup_steps=2))
    half, late = folder / "whole" / STEP.format(3), {k: v for k, v in r.metrics(folder / "whole").items() if k > 3}
    want, prompts = state(folder / "whole", 3), [[1, 2, 3], [7, 8]]
    run("convert", "--input", half, "--output", folder / "hf", "--to", "hf")
    (folder / "prompts.json").write_text(json.dumps(prompts))
    generate = lambda model: run("generate", "--model", model, "--prompt-ids", folder / "prompts.json", "--max-new-tokens", 9, "--json").stdout
    for zero, ranks, *more in r.rows([(2, 2), (0, 1), (1, 3), (3, 2), (3, 1, "--universal"), (2, 5)], 4, "stages and ranks are written and read alike"):
        name = f"{zero}-{ranks}-{len(more)}"
        out = run("convert", "--input", half, "--output", folder / name, "--to", "deepspeed", "--zero", zero, "--ranks", ranks, *more)
        check("after step 3" in out.stderr, out.stderr)
        group = {"lr": r.metrics(folder / "whole")[4]["lr"]}
        state_of_trainer = json.loads((folder / name / "trainer_state.json").read_text())
        check(state_of_trainer["global_step"] == 3 and state_of_trainer["max_steps"] == 6, state_of_trainer)
        files = b"".join(p.read_bytes() for p in (folder / name).rglob("*.pt"))
        check(struct.pack(">d", group["lr"]) in files, "the rate of the next update is there")
        run("convert", "--input", folder / name, "--output", folder / f"back-{name}", "--to", "ravine", "--optimizer")
        equal(state(folder / f"back-{name}", 3), want, name)
        run("train", *options(folder, model__config=config, train__output=folder / f"back-{name}", train__steps=6, schedule__type="linear", schedule__warmup_steps=2))
        check(r.metrics(folder / f"back-{name}") == late, f"{name}: the run that goes on differs")
        said = generate(folder / name)
        check(said == generate(folder / "hf"), f"{name}: other tokens")
        (folder / name / "model.safetensors").unlink()
        check(generate(folder / name) == said, f"{name}: other tokens from the shards alone")
    shards = list((folder / "2-2-0").glob("global_step3/*optim_states.pt"))
    shards[1].unlink()
    failed = run("generate", "--model", folder / "2-2-0", "--prompt-ids", folder / "prompts.json", status=2).stderr
    check("missing rank" in failed and "global_step3" in failed, failed)


def test_megatron_there_and_back(folder):
    """A run in the middle, as Megatron's checkpoint and back, goes on as if nothing had happened; its weights are read in place."""
    config = GOLDEN / "hf" / "config.json"
    schedule = {"schedule__type": "OptimizerParamScheduler", "schedule__lr_warmup_steps": 2, "schedule__lr_decay_style": "linear"}
    run("train", *options(folder, model__config=config, train__output=folder / "whole", train__steps=6, checkpoint__every=3, **schedule))
    half, late = folder / "whole" / STEP.format(3), {k: v for k, v in r.metrics(folder / "whole").items() if k > 3}
    want = state(folder / "whole", 3)
    rows = [("mcore", 2, 2, ("--distributed-optimizer",)), ("legacy", 1, 1, ()), ("legacy", 2, 1, ("--distributed-optimizer", "--ranks", 3)), ("mcore", 1, 2, ("--virtual", 2)),
            ("mcore", 1, 1, ("--dtype", "bf16")), ("mcore", 2, 1, ("--dtype", "f16", "--distributed-optimizer"))]
    for names, tensor, pipeline, more in r.rows(rows, 3, "each layout is in tests/unit/io/megatron_state.cpp too"):
        at = "-".join(map(str, (names, tensor, pipeline, *more)))
        out = run("convert", "--input", half, "--output", folder / at, "--to", f"megatron-{names}", "--tensor", tensor, "--pipeline", pipeline, "--optimizer", *more)
        check("after step 3" in out.stderr and "--no-load-rng" in out.stderr, out.stderr)
        check((folder / at / "latest_checkpointed_iteration.txt").read_text() == "3", "the tracker file")
        files = sorted(p.name for p in (folder / at / "iter_0000003").rglob("*.pt"))
        check(files == sorted(["model_optim_rng.pt"] * (tensor * pipeline) + ["distrib_optim.pt"] * ("--distributed-optimizer" in more) * (tensor * pipeline)), files)
        check(struct.pack(">d", r.metrics(folder / "whole")[4]["lr"]) in next((folder / at).rglob("model_optim_rng.pt")).read_bytes(), "the rate of the next update is there")
        run("convert", "--input", folder / at, "--output", folder / f"back-{at}", "--to", "ravine", "--optimizer")
        equal(state(folder / f"back-{at}", 3), want, at)
        said = scalars(folder / f"back-{at}", 3)
        check((said["step"], said["optimizer_steps"], said["global_batch"]) == (3, 3, 4), f"{at}: {said}")
        run("train", *options(folder, model__config=config, train__output=folder / f"back-{at}", train__steps=6, **schedule))
        check(r.metrics(folder / f"back-{at}") == late, f"{at}: the run that goes on differs")
    run("convert", "--input", half, "--output", folder / "cut", "--to", "megatron-mcore", "--optimizer", "--distributed-optimizer")
    (folder / "cut/iter_0000003/mp_rank_00/distrib_optim.pt").unlink()
    failed = run("convert", "--input", folder / "cut", "--output", folder / "x", "--to", "ravine", "--optimizer", status=2).stderr
    check("distrib_optim.pt beside it: the file is missing" in failed and not (folder / "x").exists(), failed)


def test_refusals(folder):
    def refused(says, *arguments):
        done = run("convert", *arguments, "--output", folder / "x", status=2)
        check(says in done.stderr and not (folder / "x").exists() and not work(folder / "x"), f"{says}: {done.stderr}")
    refused("hold weights only", "--input", GOLDEN / "hf", "--to", "ravine", "--optimizer")
    refused("it must hold 'optimizer'", "--input", GOLDEN / "te", "--to", "ravine", "--optimizer")
    refused("only checkpoints of Ravine and Megatron are written with moments", "--input", GOLDEN / "zero1", "--to", "hf", "--optimizer")
    for to in (("deepspeed",), ("megatron-mcore", "--optimizer")):
        refused("this layout is written from checkpoints of Ravine only", "--input", GOLDEN / "zero1", "--to", *to)
    refused("only DeepSpeed has these", "--input", GOLDEN / "hf", "--to", "hf", "--universal")
    refused("it is of --optimizer and Megatron", "--input", GOLDEN / "hf", "--to", "megatron-mcore", "--distributed-optimizer")
    refused("have data ranks", "--input", GOLDEN / "hf", "--to", "megatron-mcore", "--ranks", 2)
    refused("hold f32", "--input", GOLDEN / "hf", "--to", "ravine", "--dtype", "bf16")
    refused("adam_m", "--input", GOLDEN / "mf", "--to", "ravine", "--optimizer", "--model-config", CONFIG)


def test_recorded_moments(folder):
    golden = r.shared("golden")
    base = golden / "deepspeed"
    for name in ("z1_bf16", "z2_f32", "z3_bf16"):
        run("convert", "--input", base / "checkpoints" / name, "--output", folder / name, "--to", "ravine", "--optimizer", "--model-config",
            base / "checkpoint-model-init" / "config.json")
        got, want = state(folder / name, 3), weights(base / "checkpoints" / f"{name}-fp32")
        for key, value in got.items():
            kind, _, tensor = key.partition("/")
            check(kind != "weights" or want[tensor] == value, key)
            check(kind == "weights" or any(value[1]), f"{key} is all zero")
        check(len(got) % 3 == 0 and scalars(folder / name, 3)["optimizer_steps"] == 3, str(scalars(folder / name, 3)))


def big_model(folder):
    """A model whose conversion takes a moment: 4 layers of 13 MB."""
    config = r.save_config(folder / "config.json", hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                           num_key_value_heads=8, vocab_size=512)
    names = {"model.embed_tokens.weight": (512, 512), "lm_head.weight": (512, 512), "model.norm.weight": (512,)}
    for i in range(8):
        names |= {f"model.layers.{i}.self_attn.{n}_proj.weight": (512, 512) for n in "qkvo"}
        names |= {f"model.layers.{i}.mlp.gate_proj.weight": (1536, 512), f"model.layers.{i}.mlp.up_proj.weight": (1536, 512),
                  f"model.layers.{i}.mlp.down_proj.weight": (512, 1536)}
        names |= {f"model.layers.{i}.{n}_layernorm.weight": (512,) for n in ("input", "post_attention")}
    body = os.urandom(4 * 512 * 1536)
    header, parts, at = {}, [], 0
    for k, (name, shape) in enumerate(names.items()):
        count = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        parts.append(bytes([k]) * 4 + body[4:count])
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + count]}
        at += count
    r.save_raw(folder / "model.safetensors", header, b"".join(parts))
    return Path(config).parent


def work(out):
    """The folders in which conversions to `out` are built."""
    return list(out.parent.glob(f"{out.name}.ravine-*.tmp"))


def test_killed_conversions_go_on(folder):
    (folder / "in").mkdir()
    source = big_model(folder / "in")
    arguments = ["convert", "--input", source, "--to", "megatron-mcore", "--tensor", 2, "--pipeline", 8]
    run(*arguments, "--output", folder / "whole")
    files = sorted(p.relative_to(folder / "whole") for p in (folder / "whole").rglob("*") if p.is_file())
    check(len(files) == 18, files)  # 16 ranks, config.json, tracker
    kills = taken = 0
    wanted_kills = 6 if r.FULL else 2
    for attempt in range(40):
        out = folder / f"out{attempt}"
        for wanted in (2, 7):  # complete files at the kill
            process = subprocess.Popen(r.command(*arguments, "--output", out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and sum(1 for at in work(out) for _ in at.rglob("*.pt")) < wanted:
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if out.exists():
                break
            kills += 1
            check(len(work(out)) == 1 and not out.exists(), "a killed conversion leaves its work, and nothing under its name")
            at = work(out)[0]
            kept = {p: p.stat().st_ino for p in at.rglob("*.pt")}
        if out.exists():
            continue
        log = run(*arguments, "--output", out).stderr
        check("goes on" in log, log)
        for p, inode in kept.items():
            check((out / p.relative_to(at)).stat().st_ino == inode, f"{p} was written again")
        taken += len(kept)
        got = sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file())
        check(got == files, f"{got}")
        for p in files:
            check((out / p).read_bytes() == (folder / "whole" / p).read_bytes(), f"{p} differs")
        check(not work(out), "the work folder is gone")
        shutil.rmtree(out)
        if kills >= wanted_kills:
            break
    check(kills >= wanted_kills and taken >= wanted_kills, f"{kills} kills landed in the middle, {taken} files were taken up")


def test_another_input_starts_anew(folder):
    """What was left of a conversion of other weights or other options is not mixed in."""
    (folder / "in").mkdir()
    source = big_model(folder / "in")
    arguments = ["convert", "--input", source, "--output", folder / "out", "--to", "megatron-mcore", "--pipeline", 8]
    for change in r.rows(("weights", "options"), 1, "one check of what was left"):
        for _ in range(20):
            process = subprocess.Popen(r.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and sum(1 for at in work(folder / "out") for _ in at.rglob("*.pt")) < 2:
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if not (folder / "out").exists():
                break
            shutil.rmtree(folder / "out")
        check(len(work(folder / "out")) == 1, "a kill landed")
        if change == "weights":
            header, body = r.load_raw(source / "model.safetensors")
            r.save_raw(source / "model.safetensors", header, body[::-1])
        else:
            arguments += ["--dtype", "bf16"]
        log = run(*arguments).stderr
        check("goes on" not in log, log)
        run("convert", "--input", folder / "out", "--output", folder / "back", "--to", "hf")
        if change == "weights":
            check(weights(folder / "back") == weights(source), "weights of two models are mixed")
        shutil.rmtree(folder / "out"), shutil.rmtree(folder / "back")


if __name__ == "__main__":
    r.main({k: v for k, v in globals().items() if k != "test_refusals"} | {"test_refusals": test_refusals})
