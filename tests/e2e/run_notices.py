"""What a run says of itself where something is not as it was: an export that lacks a file, checkpoints that are gone, other data options, other instructions, spikes, weights that no loss
has shown; and the figures that TensorBoard has of local norms."""
import json
import lzma
import re
import shutil
import struct

import ravine_run as r
from inputs import sealed
from ravine_run import check


def train(folder, output, status=0, **more):
    return r.run("train", *r.options(folder, output, **more), status=status).stderr


def last(log):
    return log.strip().splitlines()[-1]


def test_a_packed_tokenizer_goes_along(folder):
    """tokenizer.json.xz beside the weights that a run begins with is tokenizer.json beside those that it leaves."""
    (folder / "text.txt").write_text("one two three four five six seven eight\n" * 400)
    r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / "tok", "--vocab-size", 280)
    config = r.save_config(folder / "config.json", vocab_size=280)
    given = {"model.tokenizer": folder / "tok", "data.train": [str(folder / "text.txt")], "data.sequence_length": 16, "train.global_batch": 4, "train.steps": 1, "log.tensorboard": False}
    r.run("train", *r.settings({**given, "model.config": config, "train.output": folder / "made"}))
    base = folder / "base"
    shutil.copytree(folder / "made" / "model", base)
    text = (base / "tokenizer.json").read_bytes()
    (base / "tokenizer.json.xz").write_bytes(lzma.compress(text))
    (base / "tokenizer.json").unlink()
    del given["model.tokenizer"]
    r.run("train", *r.settings({**given, "model.path": base, "train.output": folder / "run"}))
    check((folder / "run" / "model" / "tokenizer.json").read_bytes() == text, "the exported model has another tokenizer, or none")


def test_an_export_that_lacks_a_file(folder):
    run = folder / "run"
    train(folder, run)
    weights = r.weights(run)
    check("nothing is left to do; a larger train.steps goes on" in last(train(folder, run)), "whole")
    (run / "model" / "config.json").unlink()
    log = train(folder, run)
    check(re.search(r"complete: 2 of 2 steps, saved in \S+step_000002; \S+ lacks config\.json: the model is exported again", log), log)
    check((run / "model" / "config.json").exists() and r.weights(run) == weights, "again")
    shutil.rmtree(run / "model")
    log = train(folder, run)
    check(f"{run}/model is not there: the model is exported again" in log and r.weights(run) == weights, log)
    log = train(folder, run, train__steps=1)
    check("complete: 2 steps, train.steps is 1, saved in" in log and "nothing is left to do" in log, log)


def test_a_model_of_more_steps_is_not_replaced(folder):
    run = folder / "run"
    train(folder, run, train__steps=4, checkpoint__every=2)
    weights = r.weights(run)
    shutil.move(run / "checkpoints" / "step_000004", folder / "kept")
    told = train(folder, run, train__steps=3, checkpoint__every=2, status=2)
    for part in ("train.output holds a finished model of 4 steps", "step_000002", "step_000004 is gone or damaged: the model would be replaced by one of 3 steps", "put step_000004 back", "train.steps=4"):
        check(part in told, f"{part}: {told}")
    check(r.weights(run) == weights and r.checkpoints(run) == ["step_000002"], "nothing is touched")
    log = train(folder, run, train__steps=4, checkpoint__every=2)
    check("resume   from" in log and r.weights(run) == weights, "the same steps again are the same weights")
    # A checkpoint that is named is what is asked for, whatever lies there.
    train(folder, run, train__steps=3, checkpoint__every=2, checkpoint__resume=run / "checkpoints" / "step_000002")
    check(r.weights(run) != weights, "of three steps")


def test_what_a_resume_says_has_changed(folder):
    (folder / "text.txt").write_text("the ship sank and the crew swam home\n" * 60)
    from command_edges import CHAT
    base = dict(model__config=r.save_config(folder / "config.json"), model__tokenizer=CHAT, data__train=[str(folder / "text.txt")], train__steps=1)
    run = folder / "run"
    first = train(folder, run, **base)
    check("goes on" not in first and "samples are cut otherwise" not in first, first)
    manifest = run / "checkpoints" / "step_000001" / "manifest.json"
    text = manifest.read_text()
    had = json.loads(text)["instructions"]
    manifest.write_text(text.replace(json.dumps(had), '"another instruction set"'))
    sealed(manifest, lambda scalars: None)
    log = train(folder, run, **{**base, "train__steps": 2, "data__append_eos": False, "checkpoint__other_data": True})
    check(f"the checkpoint was written with another instruction set instructions, this run uses {had}: numbers will agree closely, not bit for bit" in log, log)
    check("samples are cut otherwise than before the checkpoint" in log, log)
    log = train(folder, run, **{**base, "train__steps": 3, "data__append_eos": False, "checkpoint__other_data": True})
    check("another instruction set" not in log and "samples are cut otherwise" not in log, f"said once: {log}")


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def test_spikes_are_counted_in_the_log(folder):
    log = train(folder, folder / "run", status=1, train__steps=6, health__skip_norm=1e-9, health__skip_count=3)
    seen = re.findall(r"opt_global_step: (\d+), skip_data_grad_norm_threshold: 1e-09, is_skip: \[ True\]", log)
    check(seen == ["0", "0", "0"], log)
    counted = re.findall(r"Current global norm \[(\S+)\] of step (\d+) has been (\d+) consecutive times greater than threshold(?:: 1e-09| 1e-09, stop training \(health\.skip_count=3\); the weights are those of step (\d+),)", log)
    check([(step, n, w) for _, step, n, w in counted] == [("1", "1", ""), ("2", "2", ""), ("3", "3", "0")] and all(float(norm) > 1e-9 for norm, *_ in counted), log)
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    check([row.get("skipped") for row in rows] == [True, True] and [f32(float(c[0])) for c in counted[:2]] == [f32(row["grad_norm"]) for row in rows], rows)


def test_a_weight_that_no_loss_shows(folder):
    ids = r.save_ids(folder / "few.safetensors", 8, 16, vocabulary=200)
    run = folder / "run"
    element = 32 * 251 + 7  # row 251 of 32, which no sample holds
    more = {"data__train": [ids], "probe__inject": json.dumps([{"step": 1, "op": "adamw", "phase": "update", "tensor": "param", "element": element}])}
    log = train(folder, run, **more)
    check(f"weight 'model.embed_tokens.weight' holds nan at element {element}; no loss has shown it, and the model is saved as it is" in log, log)
    check("the model is saved as it is" not in train(folder, folder / "fine", data__train=[ids]), "none is bad")
    # whoever goes on from there, or begins with that model, is told
    rows = (run / "metrics.jsonl").read_text()
    said = train(folder, run, status=2, data__train=[ids], train__steps=3)
    check(f"a number that is NaN or infinite ({run / 'checkpoints' / 'step_000002'}: tensor 'weights/model.embed_tokens.weight')" in said and "earlier checkpoint" in said, said)
    said = train(folder, folder / "other", status=2, data__train=[ids], model__config=None, model__path=run / "model")
    check(f"({run / 'model'}: tensor 'weights/model.embed_tokens.weight')" in said, said)
    check((run / "metrics.jsonl").read_text() == rows, "its rows stay")


def test_local_norms_in_tensorboard(folder):
    run = folder / "run"
    log = train(folder, run, log__tensorboard=True, log__local_norms="model.layers.*.input_layernorm.weight")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = [f"model.layers.{i}.input_layernorm.weight" for i in (0, 1)]
    tags = json.loads(r.run("info", run / "tensorboard", "--json").stdout)["tags"]
    check(sorted(t for t in tags if t.startswith("local_")) == sorted(f"local_{what}/{name}" for what in ("norm", "squares") for name in names), list(tags))
    for name in names:
        squares, norm = rows[-1]["local_norms"][name]["squares"], rows[-1]["local_norms"][name]["norms"]
        check(len(squares) == 1 and abs(norm[0] ** 2 / squares[0] - 1) < 1e-12 and "ranks" not in rows[-1]["local_norms"][name], rows[-1])
        for what, value in (("squares", squares[0]), ("norm", norm[0])):
            tag = tags[f"local_{what}/{name}"]
            check(tag["points"] == 2 and abs(tag["last"] / value - 1) < 1e-6, f"{tag} and {value}")
        check(re.search(rf"^local +{re.escape(name)}  squares {squares[0]:.6g}  norm {norm[0]:.6g}$".replace("e-0", "e-0"), log, re.M), log)


if __name__ == "__main__":
    r.main(globals())
