"""`bisect` names the first step, phase, layer, call and element at which two configs, runs or builds part; `bisect features` names the feature of a config, or the pair
of features, that changes the result."""
import json
import shutil
import struct
import subprocess

import ravine_run as r
from ravine_run import check


def config_file(path, folder, name, **more):
    """Options as the YAML of a config: JSON, which YAML reads."""
    sections = {}
    base = {"checkpoint__every": 0, "train__steps": 4, "optimizer__lr": 1e-2, "health__stop_not_finite": False, **more}
    for word in r.options(folder, folder / name, **base):
        key, value = word.split("=", 1)
        section, field = key.split(".")
        try:
            value = json.loads(value)
        except ValueError:
            pass
        sections.setdefault(section, {})[field] = value
    path.write_text(json.dumps(sections))
    return path


def bisect(*words, status):
    """The answer as JSON. The program is started by itself: it starts its own copies."""
    done = subprocess.run(r.command("bisect", *words, "--json"), capture_output=True, text=True)
    check(done.returncode == status, f"bisect {words}: status {done.returncode} in place of {status}\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout)


# What differs in B, and where the two part: step, phase, layer, op, part of the path or tensor; words of the verdict.
PARTED = [
    ({"optimizer__eps": 1e-3}, dict(step=1, phase="update", op="adamw"), "eps"),
    ({"optimizer__type": "lion"}, dict(step=1, phase="update"), "optimizer.type is adamw in A and lion in B"),
    ({"optimizer__betas": [0.9, 0.999]}, dict(step=1, phase="update"), "beta2 is 0.95 in A and 0.999 in B"),
    ({"optimizer__lr": 2e-2}, dict(step=1, phase="update", output=False), "optimizer.lr"),
    ({"train__seed": 7}, dict(step=0, tensor="weights"), "The weights before the first step differ"),
    ({"precision__recipes": [{"path": "model.layers.1.mlp", "op": "swiglu", "round": "bf16"}]}, dict(step=1, phase="forward", layer=1), "cast"),
    ({"optimizer__clip_norm": 1e-3}, dict(step=1, phase="update"), ""),
    ({"schedule__warmup_steps": 3}, dict(step=1, phase="update"), "lr"),
    ({"train__dropout": 0.5}, dict(step=1, phase="forward"), ""),
]


def test_two_configs(folder):
    a = config_file(folder / "a.yaml", folder, "a")
    for i, (more, place, words) in enumerate(r.rows(PARTED, 4, "the search is one code")):
        b = config_file(folder / f"b{i}.yaml", folder, f"b{i}", **more)
        found = bisect(a, b, "--steps", 2, status=1)
        check(not found["equal"] and not found["agrees"], f"{more}: {found}")
        for key, value in place.items():
            have = found["first"][key]
            check(have == value if key != "tensor" else value in have, f"{more}: {key} is {have!r}, not {value!r}: {found}")
        check(words in json.dumps(found), f"{more}: '{words}' is not in {found}")
    last = found["first"]
    if last["element"]:
        check(last["a"] != last["b"], f"{last}")


def test_equal_configs(folder):
    a = config_file(folder / "a.yaml", folder, "a")
    b = config_file(folder / "b.yaml", folder, "b", train__recompute="full", train__threads=2)
    for other in (a, b):
        found = bisect(a, other, "--steps", 2, status=0)
        check(found["equal"] and found["first"] is None and found["steps"] == 2, f"{found}")


def test_recorded_runs_part_at_a_late_step(folder):
    """Two runs that log every second step part at step 5, whose batch one of them leaves out."""
    more = {"train__steps": 8, "log__every": 2, "checkpoint__every": 3}
    for name, skipped in (("a", []), ("b", [5])):
        r.run("train", "--config", config_file(folder / f"{name}.yaml", folder, name, **more, data__skip_steps=skipped))
    found = bisect(folder / "a", folder / "b", status=1)
    check(found["first"]["step"] == 5 and any("step 5" in x for x in found["alone"]), f"{found}")
    check("Before step 5 all is equal" in found["verdict"], found["verdict"])


def test_a_record_that_ends_early(folder):
    sides = [config_file(folder / f"{n}.yaml", folder, f"run{n}", train__steps=n) for n in (2, 4)]
    for side in sides:
        r.run("train", "--config", side)
    found = bisect(folder / "run2", folder / "run4", status=0)
    check(found["equal"] and "B has recorded 2 further steps" in found["verdict"], f"{found}")


def test_the_element_and_both_values(folder):
    """One number of one parameter is another: its place and both values are those of the files."""
    a = config_file(folder / "a.yaml", folder, "a", train__steps=1)
    r.run("train", "--config", a)
    name, (dtype, shape, body) = next((n, t) for n, t in sorted(r.load_tensors(folder / "a" / "model").items()) if "layers.1.mlp.down_proj" in n)
    header, data = r.load_raw(folder / "a" / "model" / "model.safetensors")
    begin = header[name]["data_offsets"][0] + 4 * (3 * shape[1] + 5)
    changed = data[:begin] + struct.pack("<f", 0.625) + data[begin + 4:]
    shutil.copytree(folder / "a" / "model", folder / "other")
    r.save_raw(folder / "other" / "model.safetensors", header, changed)
    shutil.copytree(folder / "a" / "model", folder / "one")
    sides = [config_file(folder / f"{m}.yaml", folder, f"run_{m}", model__config=None, model__path=str(folder / m)) for m in ("one", "other")]
    found = bisect(*sides, "--steps", 2, status=1)["first"]
    value = struct.unpack("<f", data[begin:begin + 4])[0]
    check(found["element"] == [3, 5] and found["layer"] == 1 and float(found["b"]) == 0.625, f"{found}")
    check(abs(float(found["a"]) - value) <= 1e-7 * abs(value), f"{found}: {value}")


def test_another_build(folder):
    """B is run by another build: here by a script that adds an option to every training."""
    a = config_file(folder / "a.yaml", folder, "a")
    for name, extra, status in (("same", "", 0), ("other", "optimizer.betas=[0.9,0.5]", 1)):
        build = folder / name
        build.write_text(f'#!/bin/sh\nif [ "$1" = train ]; then exec {r.PROGRAM} "$@" {extra}; fi\nexec {r.PROGRAM} "$@"\n')
        build.chmod(0o755)
        found = bisect(a, "--other-build", build, "--steps", 2, status=status)
        check(found["equal"] == (status == 0), f"{found}")
        check(status == 0 or found["first"]["phase"] == "update", f"{found}")


def test_states_behind_equal_losses(folder):
    """After one step losses and norms are those of equal weights; what the update made of them differs."""
    a = config_file(folder / "a.yaml", folder, "a")
    b = config_file(folder / "b.yaml", folder, "b", optimizer__eps=1e-3)
    found = bisect(a, b, "--steps", 1, status=1)
    check(found["first"]["phase"] == "update" and found["steps"] == 1, f"{found}")


def nan_in(op, phase="forward", path="*"):
    return {"step": 1, "op": op, "path": path, "phase": phase, "value": "nan"}


COARSE = [{"path": "model.embed_tokens", "op": "embedding", "round": "bf16"}, {"path": "model.layers.1.*", "op": "sigmoid", "round": "bf16"}]
# A fault that a feature brings about, or two together, and the features that are to be named.
FEATURES = [
    ({"probe__inject": [nan_in("attention")]}, [["fused attention"]]),
    ({"probe__inject": [nan_in("loss_head", "backward")]}, [["fused loss_head"]]),
    ({"probe__inject": [nan_in("rope")]}, [["fused rope"]]),
    ({"probe__inject": [nan_in("rms_norm", "recompute")]}, [["recompute"]]),
    ({"probe__inject": [nan_in("matmul", "recompute", "model.layers.1.*")]}, [["recompute"]]),
    ({"precision__recipes": COARSE}, [["precision.recipes[0] (embedding at model.embed_tokens)"]]),
    ({"precision__recipes": COARSE[::-1]}, [["precision.recipes[1] (embedding at model.embed_tokens)"]]),
    ({"precision__recipes": [{"path": "*", "op": "matmul", "round": "bf16"}]}, [["precision.recipes[0] (matmul at *)"]]),
    ({"precision__recipes": [{"path": "*", "op": "matmul", "role": "dw", "round": "bf16"}]}, [["precision.recipes[0] (matmul at *)"]]),
    ({"parallel__tensor": 2, "precision__recipes": COARSE}, [["precision.recipes[0] (embedding at model.embed_tokens)"]]),
    ({"probe__inject": [nan_in("attention", "recompute")]}, [["fused attention", "recompute"]]),
    ({"probe__inject": [nan_in("rope", "recompute")]}, [["fused rope", "recompute"]]),
]


def test_features(folder):
    for i, (more, guilty) in enumerate(r.rows(FEATURES, 4, "the search is one code")):
        path = config_file(folder / f"{i}.yaml", folder, f"{i}", train__recompute="full", **more)
        found = bisect("features", path, "--steps", 2, status=1)
        check(found["guilty"] == guilty, f"{more}: {found}")


def test_features_without_a_fault(folder):
    path = config_file(folder / "c.yaml", folder, "c", train__recompute="full", precision__compute="bf16", offload__optimizer="cpu")
    found = bisect("features", path, "--steps", 3, status=0)
    check(found["guilty"] == [] and found["features"] == [] and {"recompute", "precision.compute", "fused attention"} <= set(found["tried"]), f"{found}")


def test_features_that_are_named(folder):
    """--features limits the search; any option is a feature, whose default is the other value."""
    path = config_file(folder / "c.yaml", folder, "c", train__recompute="full", optimizer__eps=1e-3, probe__inject=[nan_in("rms_norm", "recompute")])
    found = bisect("features", path, "--steps", 3, "--features", "train.recompute,optimizer.eps,precision.unfused", status=1)
    check(found["features"] == ["train.recompute", "optimizer.eps"], f"{found}")
    check(set(found["tried"]) == {"recompute", "optimizer.eps"} | {x for x in found["tried"] if x.startswith("fused ")}, f"{found}")
    for words, said in (("no.such", "no feature 'no.such'"), ("optimizer.clip_norm", "a feature differs from its default")):
        done = subprocess.run(r.command("bisect", "features", path, "--features", words), capture_output=True, text=True)
        check(done.returncode == 2 and said in done.stderr, done.stderr)


def test_features_against_a_curve(folder):
    """The reference has no packing; the config has, and a second feature that is innocent."""
    right = config_file(folder / "right.yaml", folder, "right", train__attention_dropout=0.0)
    r.run("train", "--config", right)
    path = config_file(folder / "c.yaml", folder, "c", train__attention_dropout=0.3, train__recompute="full")
    reference = folder / "right" / "metrics.jsonl"
    found = bisect("features", path, "--reference", reference, status=1)
    check(found["guilty"] == [["train.attention_dropout"]], f"{found}")
    found = bisect("features", right, "--reference", reference, status=0)
    check(found["agrees"] and found["runs"] == 1, f"the config of the reference itself: {found}")
    other = config_file(folder / "d.yaml", folder, "d", train__seed=9)
    found = bisect("features", other, "--reference", reference, status=1)
    check(found["without_all"] and found["guilty"] == [], f"{found}")


def test_a_norm_alone(folder):
    """A rounding of gradients changes the gradient norm of the first step and hardly its loss."""
    path = config_file(folder / "c.yaml", folder, "c", precision__recipes=[{"path": "*", "op": "matmul", "role": "dw", "round": "bf16"}], optimizer__lr=1e-9)
    found = bisect("features", path, "--steps", 2, status=1)
    check(found["guilty"] == [["precision.recipes[0] (matmul at *)"]] and "gradient norm" in found["verdict"], f"{found}")


def test_what_is_refused(folder):
    a = config_file(folder / "a.yaml", folder, "a")
    for words, said in (([a], "two are compared"), ([folder / "none", a], "no such file"), ([folder, a], "not the folder of a run"), (["features"], "one config"),
                        ([a, a, "--reference", a], "--reference without features"), ([a, "--other-build", "/bin/false"], "failed")):
        done = subprocess.run(r.command("bisect", *words), capture_output=True, text=True)
        check(done.returncode == 2 and said in done.stderr, f"bisect {words}: {done.returncode} {done.stderr}")


SERVED_COMMANDS = False

if __name__ == "__main__":
    r.main(globals())
