"""Dumps of what calls read and write: they change no bit of a run, hold what they say, survive a kill, keep their bounds, are made again from a checkpoint; and
`compare` names the call at which two of them part."""
import csv
import fnmatch
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import ravine_run as r

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools"))
import seeded_faults  # noqa: E402

MEGABYTE = 10**6


def arguments(folder, name, dump=None, **more):
    given = {"train__steps": 4, "train__global_batch": 4, "train__valid_every": 0, "optimizer__lr": 1e-2, **more}
    out = r.options(folder, folder / name, **given)
    if dump is not None:
        out.append("probe.dump=" + json.dumps(dump))
    return ["train", *out]


def train(folder, name, dump=None, status=0, **more):
    return r.run(*arguments(folder, name, dump, **more), status=status)


def lines(dump, rank=0):
    """The objects of a log; a line that is no object behind 16 digits is left out."""
    out = []
    for line in (dump / f"rank_{rank}.log").read_text(errors="replace").splitlines():
        try:
            int(line[:16], 16)
            out.append(json.loads(line[17:]))
        except ValueError:
            pass
    return out


def records(dump):
    return [x for x in lines(dump) if "tensor" in x]


def info(path, *flags):
    return json.loads(r.run("info", path, "--json", *flags).stdout)


def compare(a, b, status=0, *flags):
    out = json.loads(r.run("compare", a, b, "--json", *flags, status=status).stdout)
    r.check(out["equal"] == (status == 0), f"exit status {status}, and {out}")
    r.check(set(out) >= {"equal", "verdict", "culprit", "pairs", "unmatched"}, f"{sorted(out)}")
    return out


def test_no_bit_changes(folder):
    train(folder, "alone")
    for name, dump, more in (("statistics", {}, {}), ("tensors", {"what": "tensors", "io": "both"}, {"train__threads": 2} if r.FULL else {}), ("checksum", {"what": "checksum", "steps": "2|4"}, {"train__recompute": "full"}),
                             ("nan", {"on": "nan"}, {})):
        train(folder, name, {"dir": str(folder / "dumps" / name), **dump}, **more)
        difference = r.same_run(folder / "alone", folder / name)
        r.check(difference == "", f"{name}: {difference}")
    kept = records(folder / "dumps" / "statistics")
    r.check(len(kept) > 500, f"{len(kept)} records")
    r.check({x["step"] for x in kept} == {0, 1, 2, 3, 4}, "every step is there, and what was before the first")
    r.check({x["step"] for x in records(folder / "dumps" / "checksum")} == {1, 2, 3, 4}, "what the optimizer changes is noted before and behind a step")
    r.check({x["step"] for x in records(folder / "dumps" / "checksum") if x["op"] != "state"} == {2, 4}, "steps that were not asked for")
    r.check(not records(folder / "dumps" / "nan"), "no step of a sound run writes a NaN")
    r.check("statistics" not in records(folder / "dumps" / "checksum")[0], "checksums only")


def test_what_it_holds(folder):
    """Figures are those of the tensors beside them; the state behind the last step is the model that the run exports; gradients give the norm of the log."""
    train(folder, "run", {"dir": str(folder / "dump"), "what": "tensors", "steps": "4"}, optimizer__clip_norm=0)
    kept = records(folder / "dump")
    files = {}
    for x in kept:
        if x["file"] not in files:
            files[x["file"]] = r.load_raw(folder / "dump" / x["file"])
        header, body = files[x["file"]]
        stored = header[x["stored"]]
        r.check(stored["shape"] == x["shape"], f"{x['path']} {x['tensor']}: {stored['shape']} and {x['shape']}")
        if stored["dtype"] != "F32":
            continue
        numbers = struct.unpack(f"<{math.prod(x['shape'])}f", body[slice(*stored["data_offsets"])])
        s = x["statistics"]
        finite = [v for v in numbers if math.isfinite(v)]
        r.check(s["count"] == len(numbers) and s["finite"] == len(finite) and s["zero"] == numbers.count(0), f"{x['path']}: {s}")
        if finite:
            r.check(s["min"] == min(finite) and s["max"] == max(finite) and s["abs_max"] == max(map(abs, finite)), f"{x['path']}: {s}")
            r.check(math.isclose(s["l1"], math.fsum(map(abs, finite)), rel_tol=1e-12), f"{x['path']}: l1 {s['l1']}")
            r.check(math.isclose(s["l2"], math.sqrt(math.fsum(v * v for v in finite)), rel_tol=1e-12), f"{x['path']}: l2 {s['l2']}")
    weights = r.load_tensors(folder / "run" / "model")
    found = 0
    for x in kept:
        if x["op"] == "state" and x["tensor"] == "weights" and x["step"] == 4:
            header, body = files[x["file"]]
            r.check(weights[x["path"]][2] == body[slice(*header[x["stored"]]["data_offsets"])], f"{x['path']} is not as the run exported it")
            found += 1
    r.check(found == len(weights), f"{found} of {len(weights)} parameters")
    norm = math.sqrt(math.fsum(x["statistics"]["l2"]**2 for x in kept if x["op"] == "gradient"))
    r.check(math.isclose(norm, r.metrics(folder / "run")[4]["grad_norm"], rel_tol=1e-6), f"norm of gradients {norm}, the log says {r.metrics(folder / 'run')[4]['grad_norm']}")
    end = [x for x in lines(folder / "dump") if "end" in x]
    r.check(len(end) == 1 and end[0]["loss"] == r.metrics(folder / "run")[4]["loss"] and end[0]["verdict"] == "apply", f"{end}")
    told = info(folder / "dump")
    r.check(told["records"] == len(kept) and told["steps"] == "3-4" and told["calls_by_phase"]["forward"] > 10, f"{told}")
    r.check(len(info(folder / "dump", "--tensors")["tensor_list"]) == len(kept), "every record is listed")


def test_filters(folder):
    train(folder, "run", [{"dir": str(folder / "a"), "paths": ["*layers.1.mlp*"], "io": "output", "phases": ["forward"]},
                          {"dir": str(folder / "b"), "phases": ["update"], "steps": "1"}, {"dir": str(folder / "c"), "ranks": [1]}])
    a, b = records(folder / "a"), records(folder / "b")
    r.check(a and {(x["io"], x["phase"]) for x in a} == {("output", "forward")} and all("layers.1.mlp" in x["path"] for x in a), f"{a[:3]}")
    r.check({x["phase"] for x in b} == {"update"} and {"state", "gradient", "adamw"} <= {x["op"] for x in b}, f"{b[:3]}")
    r.check({x["io"] for x in b if x["op"] == "adamw" and x["tensor"] == "param"} == {"input", "output"}, "what an update changes is noted before and behind it")
    r.check(not (folder / "c").exists(), "rank 0 was not asked for")


def test_a_figure_that_is_kept_is_not_old(folder):
    """With offload every tensor is read each time; without, one that no call has written since is read once. Both say the same of every tensor: with several micro batches, of dense
    models and of those with experts, with optimizers of other ways."""
    moe = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02}
    cases = {"adamw": ({}, {}), "recompute": ({}, {"train__recompute": "full"}), "unfused": ({}, {"precision__unfused": ["attention", "qkv", "rope", "swiglu"]}), "experts": (moe, {}),
             "balance": (moe, {"moe__load_balance": "seq_aux"}), "muon": ({}, {"optimizer__type": "muon"}), "bf16": ({}, {"precision__compute": "bf16"})}
    for name, (model, more) in cases.items():
        place = folder / name
        place.mkdir()
        config = r.save_config(place / "model.json", **model)
        kept = {}
        for way, offload in (("kept", "none"), ("read", "cpu")):
            train(place, way, {"dir": str(place / f"{way}.dump")}, train__steps=2, train__global_batch=32, train__micro_batch=16, data__sequence_length=16, model__config=config,
                  data__train=[r.save_ids(place / "many.safetensors", 64, 16)], offload__optimizer=offload, **more)
            kept[way] = [{key: x.get(key) for key in ("step", "micro", "phase", "path", "op", "n", "tensor", "io", "shape", "sums", "statistics")} for x in records(place / f"{way}.dump")]
        large = sum(math.prod(x["shape"]) >= 4096 for x in kept["kept"])
        r.check(large > 100, f"{name}: {large} tensors are large enough to be kept")
        others = [(x, y) for x, y in zip(kept["kept"], kept["read"]) if x != y]
        r.check(len(kept["kept"]) == len(kept["read"]) and not others, f"{name}: {len(others)} of {len(kept['kept'])}: {others[:1]}")


def test_what_is_run_again_counts_as_backward(folder):
    """Under full recompute the forward pass of a layer is run again: a dump of the backward pass has its calls, and with them all calls of the forward one."""
    dump = lambda name: {"dir": str(folder / name), "phases": ["backward"], "what": "checksum", "steps": "1"}
    train(folder, "full", dump("again"), train__recompute="full", train__steps=1)
    train(folder, "none", {**dump("forward"), "phases": ["forward"]}, train__recompute="none", train__steps=1)
    calls = lambda kept: {(x["micro"], x["path"], x["op"]) for x in kept if ".layers." in x["path"]}
    again, forward = records(folder / "again"), records(folder / "forward")
    rerun = [x for x in again if x["phase"] == "recompute"]
    r.check({x["phase"] for x in again} == {"backward", "recompute"}, f"{sorted({x['phase'] for x in again})}")
    r.check(calls(forward) and calls(rerun) == calls(forward), f"{sorted(calls(rerun) ^ calls(forward))[:5]}")


def test_kill(folder):
    """What was before a kill is there; a resume goes on with the dump, and it is that of a run left alone."""
    train(folder, "alone", {"dir": str(folder / "whole")}, train__steps=12)
    job = r.start(*arguments(folder, "killed", {"dir": str(folder / "torn")}, train__steps=12))
    log = folder / "torn" / "rank_0.log"
    began = time.monotonic()
    while job.poll() is None and not (log.exists() and b'"end":5' in log.read_bytes()):
        r.check(time.monotonic() - began < r.LIMIT, "waited too long")
        time.sleep(0.001)
    job.send_signal(signal.SIGKILL)
    job.communicate()
    with open(log, "ab") as torn:  # what a kill in the middle of a line leaves
        torn.write(b"0123456789abcdef {\"step\":")
    before = info(folder / "torn")
    r.check(before["damaged_lines"] == 1 and before["records"] > 500 and "step 5" in before["step_ends"], f"{before}")
    train(folder, "killed", {"dir": str(folder / "torn")}, train__steps=12)
    r.check(r.same_run(folder / "alone", folder / "killed") == "", "the resumed run differs")
    out = compare(folder / "whole", folder / "torn")
    r.check(out["pairs"] == out["bitwise_equal"] and not out["unmatched"], f"{out['verdict']} {out['unmatched'][:3]}")


def test_limit(folder):
    train(folder, "alone", train__steps=6)
    said = train(folder, "run", {"dir": str(folder / "dump"), "what": "tensors", "limit_mb": 2}, train__steps=6).stderr
    warning = [line for line in said.splitlines() if line.startswith("warning:")]
    r.check(len(warning) == 1 and "limit_mb=2" in warning[0] and str(folder / "dump") in warning[0], said)
    held = sum(p.stat().st_size for p in (folder / "dump").rglob("*") if p.is_file())
    r.check(1 * MEGABYTE < held < 2.6 * MEGABYTE, f"{held} bytes")  # headers of files come on top
    r.check("rank 0" in info(folder / "dump")["ended_for_its_size"], "info does not say it")
    r.check(r.same_run(folder / "alone", folder / "run") == "", "the run differs")


def test_on(folder):
    fault = "probe.inject=" + json.dumps([{"step": 3, "path": "model.layers.1.mlp*", "op": "matmul"}])
    for on in r.rows(("nan", "overflow"), 1, "a NaN is both"):
        r.run(*arguments(folder, on, {"dir": str(folder / "dumps" / on), "on": on, "what": "tensors"}), fault, status=1)
        kept = records(folder / "dumps" / on)
        r.check(kept and {x["step"] for x in kept} == {2, 3}, f"{on}: {sorted({x['step'] for x in kept})}")
        r.check(sorted(p.name for p in (folder / "dumps" / on).iterdir() if p.is_dir()) == ["step_000002", "step_000003"], f"{on}: files of other steps")
        r.check("model.layers.1.mlp" in info(folder / "dumps" / on)["first_nan"], "the first NaN is named")


def state(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_again(folder):
    """A step that is run again from a checkpoint has the bits of the first time, and the run's folder stays as it is."""
    live = {"dir": str(folder / "live"), "what": "tensors", "steps": "3-4"}
    for name, more in r.rows((("f32", {}), ("bf16", {"precision__compute": "bf16", "train__recompute": "cheap", "train__dropout": 0.1})), 1, "one way back to a step"):
        live["dir"] = str(folder / f"live-{name}")
        train(folder, name, live, checkpoint__every=2, **more)
        before = state(folder / name)
        start = folder / name / "checkpoints" / "step_000002"
        said = r.run("dump", "--from", start, "--step", 4, "--steps", "3-4", "--out", folder / f"again-{name}", "--what", "tensors", "--threads", 2 if r.FULL else 1).stderr
        r.check(state(folder / name) == before, f"{name}: the run's folder has changed")
        out = compare(folder / f"live-{name}", folder / f"again-{name}")
        r.check(out["pairs"] == out["bitwise_equal"] and not out["unmatched"] and out["pairs"] > 500, f"{name}: {out['verdict']} {out['unmatched'][:3]}")
        r.check(f"loss {r.metrics(folder / name)[4]['loss']:.9g}" in said, said)
        r.run("dump", "--from", start, "--out", folder / f"one-{name}")
        r.check({x["step"] for x in records(folder / f"one-{name}")} == {2, 3}, "the step behind the checkpoint")
    for words, more in (("does not follow", ["--step", 2]), ("does not follow", ["--step", 99])):
        said = r.run("dump", "--from", start, "--out", folder / "none", *more, status=2).stderr
        r.check(words in said, said)
    (folder / "empty").mkdir()
    r.check("no checkpoint" in r.run("dump", "--from", folder / "empty", "--out", folder / "none", status=2).stderr, "a folder that is no checkpoint")


def test_a_step_that_is_not_the_recorded_one_is_said(folder):
    """Of a run that was made longer, steps of its first part are made with another rate: a warning names both, once."""
    more = {"schedule__type": "linear", "schedule__steps": None, "checkpoint__every": 2}
    train(folder, "run", **more)
    again = lambda out, *flags: r.run("dump", "--from", folder / "run", "--out", folder / out, *flags)
    r.check("is not the one" not in again("before", "--step", 3).stderr, "the run as it was made")
    (folder / "first").mkdir()
    shutil.copy(folder / "run" / "config.yaml", folder / "first"), shutil.copy(folder / "run" / "metrics.jsonl", folder / "first")
    train(folder, "run", **{**more, "train__steps": 8})
    said = again("behind", "--step", 3).stderr
    r.check(said.count("is not the one that the run has made") == 1 and "step 2" in said and "metrics.jsonl" in said and "--run" in said, said)
    r.check("is not the one" not in again("then", "--step", 3, "--run", folder / "first").stderr, "with the options of then")


def test_the_call_at_fault(folder):
    """Of two runs, one with a number spoilt: the first call that differs though its inputs agree is the one that was spoilt."""
    dump = {"what": "statistics"}
    cases = {"forward": ({"path": "model.layers.1.self_attn*", "op": "attention", "phase": "forward"}, "forward"),
             "product": ({"path": "model.layers.0.mlp*", "op": "matmul", "phase": "forward", "value": "inf"}, "forward"),
             "backward": ({"path": "model.layers.1.self_attn*", "op": "attention_backward", "phase": "backward"}, "backward"),
             "update": ({"path": "model.layers.0", "op": "adamw", "phase": "update", "tensor": "param"}, "update")}
    for what in [*r.rows(("statistics", "checksum"), 1, "each is what tensors are compared by too"), "tensors"]:
        train(folder, f"good-{what}", {"dir": str(folder / f"good-{what}.dump"), "steps": "2-3", "what": what})
        for name, (fault, kind) in r.rows(cases.items(), 1, "one search for the first call") if what != "tensors" else [("forward", cases["forward"]), *r.rows([c for c in cases.items() if c[0] != "forward"], 1, "one search for the first call")]:
            bad = folder / f"{name}-{what}.dump"
            r.run(*arguments(folder, f"{name}-{what}", {"dir": str(bad), "steps": "2-3", "what": what}), "probe.inject=" + json.dumps([{"step": 2, "element": 3, **fault}]), status=1)
            culprit = compare(folder / f"good-{what}.dump", bad, 1)["culprit"]
            r.check(culprit is not None and (culprit["step"], culprit["phase"], culprit["op"], culprit["kind"]) == (2, fault["phase"], fault["op"], kind), f"{what}, {name}: {culprit}")
            r.check(culprit["path"].startswith(fault["path"].rstrip("*")), f"{what}, {name}: {culprit}")
    r.check("not all of it is finite" in culprit["hypothesis"], f"{culprit}")
    report = folder / "report"
    text = r.run("compare", folder / "good-tensors.dump", folder / "forward-tensors.dump", "--report", report, status=1).stdout
    r.check("attention at model.layers.1.self_attn" in text and text.count(". ") >= 2, text)
    page = (report / "verdict.html").read_text()
    opened = re.findall(r'<details( id="first")? open><summary><span class="mark [a-z]*">[^<]*</span>([^<(]*)', page)
    r.check([name.strip() for _, name in opened] == ["model", "layers", "1", "self_attn"] and [bool(first) for first, _ in opened] == [False] * 3 + [True], f"open are {opened}")
    r.check(page.index("<summary>" ) < page.index("embed_tokens") < page.index('id="first"') < page.index("lm_head", page.index("The model, by error")), "parts do not stand in the order of the run")
    r.check("overflow-x" not in page and re.search(r"td\.text[^}]*white-space: normal", page), "cells of figures are cut")
    rows = (report / "pairs.csv").read_text().splitlines()
    r.check(len(rows) > 500 and set(os.listdir(report)) == {"pairs.csv", "verdict.json", "verdict.html"} and len({row.count(",") for row in rows[:1]}) == 1, rows[0])


def one_ulp(path):
    """One weight of a safetensors file up by a unit in the last place; its name."""
    header, body = r.load_raw(path)
    name = sorted(n for n in header if "layers.1" in n and "up_proj" in n)[0]
    at = header[name]["data_offsets"][0]
    body = bytearray(body)
    body[at] ^= 1
    r.save_raw(path, header, bytes(body))
    return name


def test_what_a_run_begins_with(folder):
    """Another weight, by one unit in the last place, and other data are named as such."""
    train(folder, "maker")
    given = {"model__config": None, "model__path": folder / "maker" / "model"}
    train(folder, "one", {"dir": str(folder / "one.dump"), "steps": "1"}, **given)
    name = one_ulp(folder / "maker" / "model" / "model.safetensors")
    train(folder, "two", {"dir": str(folder / "two.dump"), "steps": "1"}, **given)
    culprit = compare(folder / "one.dump", folder / "two.dump", 1)["culprit"]
    r.check(culprit["kind"] == "weights" and culprit["path"] == name, f"{culprit}")
    r.save_ids(folder / "others.safetensors", 16, 16, seed=9)
    train(folder, "three", {"dir": str(folder / "three.dump"), "steps": "1"}, data__train=[str(folder / "others.safetensors")], **given)
    culprit = compare(folder / "two.dump", folder / "three.dump", 1)["culprit"]
    r.check(culprit["kind"] == "data", f"{culprit}")


def test_no_alarm(folder):
    """The same run on other threads, recomputed, with a definition in place of a fused op: roundings and nothing else."""
    train(folder, "one", {"dir": str(folder / "one.dump"), "steps": "1-2", "what": "tensors"})
    for name, more in (("recompute", {"train__recompute": "full", "train__threads": 2 if r.FULL else 1}), ("unfused", {"precision__unfused": ["add_rms_norm"]}), ("attention", {"precision__unfused": ["attention"]})):
        train(folder, name, {"dir": str(folder / f"{name}.dump"), "steps": "1-2", "what": "tensors"}, **more)
        out = compare(folder / "one.dump", folder / f"{name}.dump")
        r.check(out["culprit"] is None and out["pairs"] > 200, f"{name}: {out['verdict']}")


def test_seeded_faults(folder):
    """Of the table of tools/seeded_faults.py: each fault is named, and pairs without one are silent."""
    for what in ("statistics", "tensors"):
        (folder / what).mkdir()
        pairs = seeded_faults.Pairs(r.PROGRAM, folder / what, what)
        for fault in r.rows(list(seeded_faults.FAULTS), 4, "one judgement, another row of the table each"):
            right, said = pairs.finds(fault)
            r.check(right, f"{fault}, {what}: {said}")
        for fault in r.rows([f for f in seeded_faults.ACROSS if f not in seeded_faults.NOT_FOUND], 2, "the same"):
            right, said = pairs.finds(fault)
            r.check(right, f"{fault}, {what}: {said}")
        for pair in r.rows(list(seeded_faults.CLEAN), 4, "the same"):
            right, said = pairs.is_silent(pair)
            r.check(right, f"{pair}, {what}: {said}")


# Of a run that does as the recorded one: what else is asked, changes of config.json, the culprit's op and path.
AGAINST_TORCH = {
    "nothing": ({}, {}, None),
    "micro batch": ({"train__micro_batch": 4}, {}, None),
    "rms eps": ({}, {"rms_norm_eps": 1e-3}, ("rms_norm", "model.layers.0.input_layernorm")),
    "rope base": ({}, {"rope_theta": 50000.0, "rope_parameters": None}, ("rope", "model.layers.0.self_attn")),
    "lr": ({"optimizer__lr": 1.1e-2}, {}, ("input", "optimizer.lr")),
    "beta2": ({"optimizer__betas": [0.9, 0.99]}, {}, ("input", "optimizer.beta2")),
    "eps": ({"optimizer__eps": 1e-4}, {}, ("adamw", "*")),
    "decay of all": ({"optimizer__decay": "all"}, {}, ("adamw", "*norm.weight")),
    "attention in bf16": ({"precision__recipes": [{"path": "model.layers.1.self_attn", "op": "attention", "round": "bf16"}]}, {}, ("cast", "model.layers.1.self_attn")),
    "window": ({}, {"model_type": "mistral", "sliding_window": 3, **dict.fromkeys(("attention_bias", "mlp_bias", "pretraining_tp"))}, ("attention", "model.layers.0.self_attn")),
}


def train_as_recorded(folder, fault, options, fields):
    """A run on the model and data of tests/golden/torch_trace, with another option or another field of config.json; its dump."""
    golden = Path(__file__).resolve().parent.parent / "golden" / "torch_trace"
    model = folder / fault / "model"
    shutil.copytree(golden / "model", model)
    config = {**json.loads((model / "config.json").read_text()), **fields}
    (model / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    dump = folder / fault / "dump"
    train(folder / fault, "run", {"dir": str(dump), "what": "tensors", "steps": "1"}, **{
        "model__config": None, "model__path": model, "data__train": [str(golden / "ids.safetensors")], "data__sequence_length": 8, "data__shuffle": False, "train__steps": 1,
        "train__global_batch": 4, "train__micro_batch": 2, "optimizer__betas": [0.9, 0.95], "optimizer__weight_decay": 0.1, "optimizer__clip_norm": 0.5, "optimizer__lr": 1e-2,
        "precision__compute": "f32", **options})
    return dump


def test_against_pytorch(folder):
    """A trace of tools/trace_torch.py (Llama of Transformers, AdamW of torch) and a run on the same weights and data: silent, and each fault is named."""
    golden = Path(__file__).resolve().parent.parent / "golden" / "torch_trace"
    for fault in r.rows(list(AGAINST_TORCH), 5, "one way to pair, another row each"):
        options, fields, named = AGAINST_TORCH[fault]
        dump = train_as_recorded(folder, fault, options, fields)
        out = compare(golden / "trace", dump, 0 if named is None else 1)
        if fault in ("nothing", "rms eps", "window"):
            again = compare(golden / "trace", dump, 0 if named is None else 1, "--from", folder / fault / "run")
            r.check(again["substituted"] > 50 and (again["culprit"] or {}).get("generates") == (named and "A"), f"{fault}, where all that is read is known: {again['verdict']}")
            r.check(fault != "nothing" or again["by_spread"] > 10, f"of a trace not all is known: {again['by_spread']} tolerances by perturbation")
        c = out["culprit"]
        r.check(c == named if named is None else c["op"] == named[0] and fnmatch.fnmatch(c["path"], named[1]), f"{fault}: {c}, {out['verdict']}")


# Of msprobe there are no queries behind RoPE and no optimizer: what differs there is seen in the table that is read, or not at all.
AGAINST_MSPROBE = {"nothing": None, "micro batch": None, "rms eps": ("rms_norm", "model.layers.0.input_layernorm"), "rope base": ("input", "rope.table"),
                   "attention in bf16": ("cast", "model.layers.1.self_attn"), "window": ("attention", "model.layers.0.self_attn")}


def test_against_msprobe(folder):
    """Dumps of msprobe (L0, figures and some tensors) and a run on the same weights and data: silent, and each fault is named. Calls of the API have no partner, which is said."""
    golden = Path(__file__).resolve().parent.parent / "golden" / "msprobe"
    clean = train_as_recorded(folder, "nothing", {}, {})
    for fault in r.rows(list(AGAINST_MSPROBE), 3, "one way to pair, another row each"):
        options, fields, _ = AGAINST_TORCH[fault]
        dump, named = clean if fault == "nothing" else train_as_recorded(folder, fault, options, fields), AGAINST_MSPROBE[fault]
        for a, b in ((golden / "statistics", dump), (dump, golden / "statistics")):
            out = compare(a, b, 0 if named is None else 1)
            c = out["culprit"]
            r.check(out["pairs"] > 100 and (c == named if named is None else (c["op"], c["path"]) == named), f"{fault}: {c}, {out['verdict']}")
    said = r.run("compare", golden / "api", clean, status=2).stderr
    r.check("L0 or mix" in said and str(golden / "api") in said, said)
    out = compare(golden / "statistics", golden / "rope", 1)
    r.check(out["culprit"]["path"] == "model.rotary_emb" and out["culprit"]["op"] == "LlamaRotaryEmbedding", f"{out['culprit']}")
    r.check(info(golden / "statistics")["kind"].startswith("dump of msprobe"), "info")
    mixed = folder / "mixed"
    shutil.copytree(golden / "statistics", mixed)
    file = mixed / "step0" / "rank0" / "dump.json"
    both = json.loads(file.read_text())
    both["data"].update(json.loads((golden / "api" / "step0" / "rank0" / "dump.json").read_text())["data"])
    file.write_text(json.dumps({**both, "level": "mix"}))
    out = compare(mixed, clean)
    r.check(any("of the API" in one for one in out["unmatched"]), f"{out['unmatched'][:3]}")


# Of A, held against B, whose steps are made again: what is else asked of A, changes of its config.json, whether it begins with another weight, and what is named: op, path, whose error.
SUBSTITUTED = {
    "other roundings": ({}, {}, False, None),
    "rms eps": ({}, {"rms_norm_eps": 1e-4}, False, ("rms_norm", "model.layers.0.input_layernorm", "A")),
    "a weight": ({}, {}, True, ("input", "model.layers.0.self_attn.v_proj.weight", None)),
    "another mask of dropout": ({"train__seed": 7}, {}, True, ("attention", "model.layers.0.self_attn", "A")),
    "in place": ({"optimizer__weight_decay": 0.5}, {}, True, ("adamw", "model.embed_tokens", "A")),
}


def scaled(path, name, factor):
    """A model file with one parameter times a factor."""
    header, body = r.load_raw(path)
    low, high = header[name]["data_offsets"]
    values = struct.unpack(f"<{(high - low) // 4}f", body[low:high])
    r.save_raw(path, header, body[:low] + struct.pack(f"<{len(values)}f", *(factor * v for v in values)) + body[high:])


def test_generated_is_told_from_inherited(folder):
    """`compare --from`: our kernels run on the inputs of A and of B. What only inherits is not named, and a small fault behind a large difference is."""
    train(folder, "maker", train__steps=1)
    model = folder / "maker" / "model"
    given = {"model__config": None, "train__steps": 1, "train__attention_dropout": 0.002, "data__shuffle": False}
    tensors = {"what": "tensors", "steps": "1"}
    train(folder, "b", {"dir": str(folder / "b.dump"), **tensors}, model__path=model, **given)
    before = state(folder / "b")
    for name, (options, fields, changed, named) in SUBSTITUTED.items():
        other, place = folder / f"{name}.model", folder / f"{name}.dump"
        shutil.copytree(model, other)
        if changed:
            scaled(other / "model.safetensors", "model.layers.0.self_attn.v_proj.weight", 1.25)
        (other / "config.json").write_text(json.dumps({**json.loads((other / "config.json").read_text()), **fields}))
        shutil.rmtree(other / ".ravine", ignore_errors=True)
        r.run(*arguments(folder, name, {"dir": str(place), **tensors}, model__path=other, **{**given, **options}), *(["--backend", "ref"] if name == "other roundings" else []))
        out = compare(place, folder / "b.dump", 0 if named is None else 1, "--from", folder / "b", "--report", folder / "report" / name)
        said = [(c["op"], c["path"], c["generates"]) for c in out["culprits"]]
        r.check(named in said if named else not said, f"{name}: {said}, {out['verdict']}")
        r.check({c[2] for c in said if c[0] != "input"} <= {named and named[2]}, f"{name}: what only inherits is named: {said}")
        with open(folder / "report" / name / "pairs.csv", newline="") as file:
            written = [row for row in csv.DictReader(file) if row["side"] == "output" and row["compared_by"] == "tensors" and row["op"] not in ("state", "gradient")]
        r.check(len(written) > 100 and all(row["generated_a"] and row["generated_b"] for row in written), f"{name}: not of every call is told what it generates")
        r.check(all(float(row["generated_b"]) == 0 for row in written), f"{name}: B is the run itself, so its calls make what they made")
        if name == "another mask of dropout":
            hidden = compare(place, folder / "b.dump", 1)["culprits"]
            r.check({c["op"] for c in hidden} == {"input"}, f"bounds on what is inherited are loose behind another weight: {hidden}")
    r.check(state(folder / "b") == before, "the run's folder has changed")
    train(folder, "sums", {"dir": str(folder / "sums.dump"), "what": "checksum", "steps": "1"}, model__path=model, **given)
    out = compare(folder / "rms eps.dump", folder / "sums.dump", 1, "--from", folder / "b")
    r.check(out["culprit"]["generates"] == "A" and out["culprit"]["op"] == "rms_norm", f"a dump of the run itself needs no tensors: {out['culprit']}")
    for words, more in (("no calls behind step 1", ["--from", folder / "b" / "checkpoints" / "step_000001"]), ("no checkpoint", ["--from", folder / "b.dump"])):
        said = r.run("compare", folder / "b.dump", folder / "sums.dump", *more, status=2).stderr
        r.check(words in said, said)


def test_generated_on_ranks(folder):
    """Each rank runs what its namesake has recorded; a job of another number of ranks is refused."""
    pairs = seeded_faults.Pairs(r.PROGRAM, folder, "tensors")
    dumps = [pairs.train(name, "llama", {"parallel__tensor": 2, **more}, ranks=2) for name, more in (("one", {}), ("two", {"optimizer__weight_decay": 0.5}))]
    start = folder / "two"
    done = subprocess.run([*seeded_faults.LAUNCH, "-n", "2", r.PROGRAM, "compare", *dumps, "--from", start, "--json"], capture_output=True, text=True)
    out = json.loads(done.stdout)
    r.check(done.returncode == 1 and (out["culprit"]["op"], out["culprit"]["generates"]) == ("adamw", "A"), f"{done.returncode}: {out['verdict']} {done.stderr[-300:]}")
    r.check(out["substituted"] > 200, f"{out['substituted']} pairs of both ranks")
    one = pairs.train("alone", "llama", {})
    for words, job, sides, more in (("a dump of 2 ranks and a job of 1", 1, dumps, [start]), ("other ranks or micro batches", 1, [one, dumps[0]], [start]), ("a dump of 1 rank and a job of 2", 2, [one, one], [start])):
        launch = [*seeded_faults.LAUNCH, "-n", str(job)] if job > 1 else []
        done = subprocess.run([*launch, r.PROGRAM, "compare", *sides, "--from", *more], capture_output=True, text=True)
        r.check(done.returncode == 2 and words in done.stderr, f"{done.returncode}: {done.stderr}")


def test_a_layout_needs_all_its_ranks(folder):
    """Ranks of another layout are put together from all of them: a dump that lacks one is refused."""
    pairs = seeded_faults.Pairs(r.PROGRAM, folder, "statistics")
    one = pairs.train("one", "llama", {})
    two = pairs.train("two", "llama", {"parallel__data": 2}, ranks=2)
    r.check(pairs.compare(one, two)[0] == 0, "the same run on two ranks is no agreement")
    (two / "rank_1.log").unlink()
    said = r.run("compare", one, two, status=2).stderr
    r.check("1 of the 2 ranks" in said and str(two) in said, said)


def test_a_run_of_its_own(folder):
    """One folder holds one run; a dump that ends for want of room is a failure of `ravine dump`; steps that are dropped take nothing of an older dump along."""
    dump = folder / "dump"
    train(folder, "run", {"dir": str(dump), "steps": "1-4", "what": "tensors"})
    files = sorted(dump.rglob("*"))
    train(folder, "again", {"dir": str(dump), "steps": "1-4", "what": "tensors", "on": "nan"})
    r.check(sorted(dump.rglob("*")) == files, "an older dump is gone")
    said = train(folder, "other", {"dir": str(dump), "steps": "1-4"}, status=2, train__seed=7).stderr
    r.check("seed" in said and str(dump) in said, said)


def test_traces(folder):
    train(folder, "run")
    r.save_tensors(folder / "in.safetensors", {"input_ids": ("I32", (2, 8), list(range(16))), "labels": ("I32", (2, 8), list(range(16)))})
    trace = ["trace", "--model", folder / "run" / "model", "--input", folder / "in.safetensors", "--backward", "--out"]
    r.run(*trace, folder / "a.safetensors")
    r.run(*trace, folder / "b.safetensors", "--backend", "ref")
    r.check(compare(folder / "a.safetensors", folder / "b.safetensors")["culprit"] is None, "roundings are no fault")
    config = folder / "run" / "model" / "config.json"
    config.write_text(config.read_text().replace("1e-05", "1e-02"))
    (folder / "run" / "model" / ".ravine").unlink(missing_ok=True)
    r.run(*trace, folder / "c.safetensors")
    culprit = compare(folder / "a.safetensors", folder / "c.safetensors", 1)["culprit"]
    r.check(culprit["kind"] == "forward" and culprit["path"] == "hidden.1", f"{culprit}")


def one_tensor(path, name, dtype, values):
    r.save_tensors(path, {name: (dtype, (len(values),), values)})
    return path


def test_numbers_at_the_ends_of_their_types(folder):
    """Numbers whose squares no f64 holds, and integers that differ beyond 2^53."""
    for i, (dtype, a, b) in enumerate((("F64", (1e200, 1.0), (2e200, 5.0)), ("F64", (1e-200, 1e-201), (3e-200, 9e-201)), ("F64", (math.inf, 1e200), (math.inf, -1e200)),
                                       ("I64", (2**53, 7), (2**53 + 1, 7)), ("I64", (2**63 - 1, 0), (2**63 - 2, 0)))):
        sides = [one_tensor(folder / f"{side}{i}.safetensors", "loss", dtype, values) for side, values in (("a", a), ("b", b))]
        out = compare(*sides, 1)
        r.check(out["culprit"]["path"] == "loss" and "nan" not in r.run("compare", *sides, status=1).stdout, f"{a} {b}: {out}")


def test_names_from_files_do_not_steer_a_terminal(folder):
    name = "t\x1b[31mX\u202e"
    said = r.run("compare", one_tensor(folder / "a.safetensors", name, "F32", (1.0,)), one_tensor(folder / "b.safetensors", name, "F32", (3.0,)), "--report", folder / "report", status=1).stdout
    r.check("\x1b" not in said and "\u202e" not in said and said.count("x1b[31mX") >= 2, said)
    r.check("\x1b" not in (folder / "report" / "pairs.csv").read_text(), "a table that is printed is harmless too")


def test_a_report_is_replaced_only_when_asked(folder):
    a, b = (one_tensor(folder / f"{n}.safetensors", "loss", "F32", (x,)) for n, x in (("a", 1.0), ("b", 1.0)))
    report = folder / "report"
    r.run("compare", a, b, "--report", report)
    r.check(json.loads((report / "verdict.json").read_text())["equal"], "two of a kind")
    for name, other in (("pairs.csv", "verdict.json"), ("verdict.json", "pairs.csv")):
        (report / other).unlink()
        (report / name).write_text("my own")
        (folder / "mine").write_text("mine")
        for link in (False, True):
            if link:
                (report / name).unlink()
                (report / name).symlink_to(folder / "mine")
            said = r.run("compare", a, b, "--report", report, status=2).stderr
            r.check(name in said and "--overwrite" in said and (report / name).read_text() in ("my own", "mine"), said)
        r.run("compare", a, b, "--report", report, "--overwrite")
        r.check((folder / "mine").read_text() == "mine" and not (report / name).is_symlink(), "what a link leads to stays")


def test_damaged_lines_are_said(folder):
    train(folder, "run", {"dir": str(folder / "d"), "steps": "1"})
    pairs = compare(folder / "d", folder / "d")["pairs"]
    log = folder / "d" / "rank_0.log"
    (folder / "d" / "rank_00.log").write_bytes(log.read_bytes())
    r.check(compare(folder / "d", folder / "d")["pairs"] == pairs, "one rank, one log")
    lines_there = log.read_text().splitlines(keepends=True)
    lines_there[-2] = "0" * 16 + lines_there[-2][16:]
    log.write_text("".join(lines_there))
    out = compare(folder / "d", folder / "d")
    r.check(out["damaged_lines"] == {"a": 1, "b": 1} and "1 line of A cannot be read" in out["verdict"] and "1 line of B" in out["verdict"], f"{out}")
    (folder / "whole").mkdir()
    for name in ("dump.json", "rank_0.log"):
        (folder / "whole" / name).write_bytes((folder / "d" / name).read_bytes())
    lines_there[-3] = "0" * 16 + lines_there[-3][16:]
    log.write_text("".join(lines_there))
    r.check("that is not all" in compare(folder / "whole", folder / "d", 1)["verdict"], "a line that one has and the other lost")


def test_mistakes(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("x")
    said = train(folder, "run", {"dir": str(folder / "mine")}, status=2).stderr
    r.check("a folder that is no dump" in said and str(folder / "mine") in said and not (folder / "run").exists(), said)
    said = train(folder, "run", {"dir": str(folder / "d"), "steps": "5-3"}, status=2).stderr
    r.check("'5-3'" in said and "ranges" in said, said)
    said = train(folder, "run", [{"dir": str(folder / "d")}, {"dir": str(folder / "d")}], status=2).stderr
    r.check("stands twice" in said, said)
    train(folder, "run", {"dir": str(folder / "d"), "steps": "1"})
    said = r.run("compare", folder / "d", folder / "mine", status=2).stderr
    r.check("neither a dump nor a trace" in said, said)
    train(folder, "other", {"dir": str(folder / "e"), "steps": "3", "phases": ["forward"]})
    said = r.run("compare", folder / "d", folder / "e", status=2).stderr
    r.check("nothing to compare" in said, said)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
