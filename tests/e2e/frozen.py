"""Parameters that are frozen, or begin to train later. train.freeze under bf16: memory, checkpoints without frozen weights, resumes and conversions that read them where the run began, and the exported model that has them bit for bit."""
import fnmatch
import json
import os
import resource
import shutil
import struct
import subprocess
from pathlib import Path

import ravine_run as r

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads

FROZEN = ["*.layers.0.*", "model.embed*"]


def is_frozen(name):
    return ".layers.0." in name or "embed" in name


def model_folder(folder):
    """f32 weights that bf16 cannot hold."""
    r.run("train", *r.options(folder, folder / "made", train__steps=1, checkpoint__every=0, train__seed=3))
    shutil.copytree(folder / "made" / "model", folder / "base")
    (folder / "base" / ".ravine").unlink()  # as if it came from elsewhere
    return folder / "base"


def train(folder, name="run", status=0, **more):
    base = {"model__config": None, "model__path": folder / "base", "precision__compute": "bf16", "train__freeze": FROZEN, "train__steps": 4, "checkpoint__every": 2, "optimizer__lr": 1e-2,
            "checkpoint__model_dtype": "f32", "schedule__steps": 8}
    return r.run("train", *r.options(folder, folder / name, **{**base, **more}), status=status).stderr


def tensor_names(checkpoint):
    return {t["name"] for t in json.loads((checkpoint / "manifest.json").read_text())["tensors"]}


def test_a_run_on_frozen_weights(folder):
    base = r.load_tensors(model_folder(folder))
    train(folder)
    run = folder / "run"
    names = tensor_names(run / "checkpoints" / "step_000004")
    left = {n for n in base if is_frozen(n)}
    r.check(left and not any(is_frozen(n) for n in names) and "weights/model.layers.1.mlp.up_proj.weight" in names, names)
    model = r.load_tensors(run / "model")
    for name in base:
        r.check((model[name] == base[name]) == is_frozen(name), f"{name}: {'changed' if is_frozen(name) else 'did not learn'}")
    # A resume reads them again: the same run as one left alone, also where the folder has moved.
    train(folder, train__steps=6)
    train(folder, name="whole", train__steps=6)
    r.check(r.same_run(folder / "whole", run) == "", r.same_run(folder / "whole", run))
    (folder / "base").rename(folder / "moved")
    log = train(folder, train__steps=8, model__path=folder / "moved")
    r.check("resume   from" in log, log)
    (folder / "moved").rename(folder / "base")
    train(folder, name="whole", train__steps=8)
    r.check(r.same_run(folder / "whole", run) == "", r.same_run(folder / "whole", run))


def test_other_weights_are_refused(folder):
    model_folder(folder)
    train(folder)
    r.run("train", *r.options(folder, folder / "other", train__steps=1, checkpoint__every=0, train__seed=4))
    kept = (folder / "base" / "model.safetensors").read_bytes()
    shutil.copy(folder / "other" / "model" / "model.safetensors", folder / "base" / "model.safetensors")
    said = train(folder, status=2, train__steps=6)
    r.check("holds other weights than when this run began" in said and "frozen parameters" in said and "restore the original weights" in said, said)
    said = r.run("convert", "--input", folder / "run", "--output", folder / "hf", "--to", "hf", status=2).stderr
    r.check("holds other weights than when the run began" in said and not (folder / "hf").exists(), said)
    (folder / "base" / "model.safetensors").unlink()
    said = train(folder, status=2, train__steps=6)
    r.check("frozen parameters" in said or "weights" in said, said)
    (folder / "base" / "model.safetensors").write_bytes(kept)
    train(folder, train__steps=6)
    r.run("convert", "--input", folder / "run", "--output", folder / "hf", "--to", "hf")
    r.check(r.load_tensors(folder / "hf") == r.load_tensors(folder / "run" / "model"), "what is converted is what the run exported")


def test_random_frozen_weights_stay_in_checkpoints(folder):
    """Without model.path there is nowhere else to read them."""
    more = {"model__config": r.save_config(folder / "config.json"), "model__path": None}
    train(folder, **more)
    r.check(any(is_frozen(n) for n in tensor_names(folder / "run" / "checkpoints" / "step_000004")), "frozen weights are gone")
    train(folder, train__steps=6, **more)
    train(folder, name="whole", train__steps=6, **more)
    r.check(r.same_run(folder / "whole", folder / "run") == "", r.same_run(folder / "whole", folder / "run"))


LATER = [{"match": "*.layers.1.mlp.*", "from_step": 3}, {"match": "*.k_proj.*", "from_step": 5, "wd_mult": 2}, {"match": "model.embed*", "from_step": 9}]


def test_groups_that_begin_later(folder):
    """Until its step a parameter keeps its bits and its moments are zero; a resume before, at and behind the step goes on as the run that was left alone. Beside frozen ones."""
    base = r.load_tensors(model_folder(folder))
    for kind in r.rows(("adamw", "muon"), 1, "the optimizers take turns"):
        more = {"train__freeze": ["model.layers.0.mlp.*"], "optimizer__groups": LATER, "optimizer__type": kind, "optimizer__weight_decay": 0.5, "checkpoint__every": 1}
        train(folder, name=f"whole {kind}", train__steps=7, **more)
        for stops in r.rows(((2, 7), (1, 3, 4, 7), (5, 6, 7)), 1, "the stops take turns"):
            name = f"{kind} {stops}"
            for steps in stops:
                train(folder, name=name, train__steps=steps, **more)
                if steps == stops[-1]:
                    break
                model, begun = r.load_tensors(folder / name / "model"), lambda n: all(g["from_step"] <= steps for g in LATER if glob(g["match"], n)) and "layers.0.mlp" not in n
                for n in base:
                    r.check((model[n] != base[n]) == begun(n), f"{name}, after step {steps}: {n} {'has stayed' if begun(n) else 'has changed'}")
                for n, tensor in r.load_tensors(folder / name / "checkpoints" / f"step_{steps:06}").items():
                    state, _, parameter = n.partition("/")
                    if state not in ("weights", "") and parameter in base and not begun(parameter):
                        r.check(not any(tensor[2]), f"{name}, after step {steps}: {n} is not zero")
            r.check(r.same_run(folder / f"whole {kind}", folder / name) == "", f"{name}: {r.same_run(folder / f'whole {kind}', folder / name)}")


def test_a_late_group_takes_a_first_step_of_its_own(folder):
    """Its moments begin at zero with its first update, so Adam's correction of their bias does too: the update is lr g / (|g| + eps), which is lr wherever |g| is far above eps."""
    model_folder(folder)
    lr = 2.0 ** -7
    more = {"train__freeze": [], "precision__compute": "f32", "optimizer__lr": lr, "optimizer__weight_decay": 0, "optimizer__eps": 1e-12, "schedule__type": "constant", "checkpoint__every": 1,
            "checkpoint__keep": 0, "optimizer__groups": [{"match": "*.layers.1.*", "from_step": 3}]}
    train(folder, train__steps=3, **more)
    name = "model.layers.1.mlp.up_proj.weight"
    was, now = (struct.unpack(f"<{len(t) // 4}f", t) for t in (r.load_tensors(folder / "run" / "checkpoints" / f"step_{s:06}")[f"weights/{name}"][2] for s in (2, 3)))
    moves = sorted(abs(a - b) for a, b in zip(was, now))
    # A weight below 1 is rounded by 2^-25 at most, and the step itself by a few units of f32.
    r.check(abs(moves[len(moves) // 2] - lr) < 2.0 ** -24 + 8 * lr * 2.0 ** -24 and moves[-1] < lr + 2.0 ** -24 + 8 * lr * 2.0 ** -24, f"first moves {moves[::200]}, not {lr}")


def glob(pattern, name):
    """As the program has it: the first group that matches counts, and these do not overlap."""
    return fnmatch.fnmatchcase(name, pattern)


def test_what_begins_later_counts_in_no_norm(folder):
    """The norm of the first step is that of a run in which the others are frozen; with all awake it is larger."""
    model_folder(folder)
    common = {"train__freeze": [], "train__steps": 1, "checkpoint__every": 0}
    train(folder, name="later", optimizer__groups=[{"match": "*.layers.1.*", "from_step": 2}], **common)
    train(folder, name="frozen", **{**common, "train__freeze": ["*.layers.1.*"]})
    train(folder, name="all", **common)
    norm = lambda name: r.metrics(folder / name)[1]["grad_norm"]
    r.check(abs(norm("later") - norm("frozen")) < 1e-6 * norm("frozen") and norm("all") > 1.01 * norm("later"), f"{norm('later')}, {norm('frozen')}, {norm('all')}")


def test_mistakes_of_later_groups(folder):
    model_folder(folder)
    for more, expected in (({"optimizer__groups": [{"match": "*", "from_step": 2}]}, ["nothing trains in the first step", "the earliest is 2"]),
                           ({"optimizer__groups": [{"match": "*", "from_step": 0}]}, ["from_step", "at least 1"]),
                           ({"optimizer__groups": [{"match": "*k_proj*", "from_step": 2}], "optimizer__type": "onebit_adam"}, ["optimizer.groups[0].from_step is 2", "onebit_adam"])):
        said = train(folder, status=2, **{"train__freeze": [], **more})
        r.check(all(e in said for e in expected), said)
    said = train(folder, name="warned", train__freeze=[], train__steps=1, checkpoint__every=0, optimizer__groups=[{"match": "*k_proj*", "from_step": 2}])
    r.check("optimizer.groups[0].from_step=2 is beyond train.steps=1" in said, said)
    train(folder, name="fixed", train__freeze=[], train__steps=2, optimizer__groups=[{"match": "*k_proj*", "from_step": 2}])
    said = train(folder, name="fixed", status=2, train__freeze=[], train__steps=4, optimizer__groups=[{"match": "*k_proj*", "from_step": 3}])
    r.check("optimizer.groups" in said, said)


def peak(words):
    """Of a process, in bytes."""
    job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = job.stderr.read()
    _, status, used = os.wait4(job.pid, 0)
    job.returncode = status
    r.check(status == 0, said)
    return used.ru_maxrss * 1024, said


def test_memory_falls_as_planned(folder):
    if r.sanitized():
        raise r.Skipped("sanitizers have memory of their own")
    fields = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8}
    config = r.save_config(folder / "wide.json", **fields)
    products = 7 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 256 * 1024)  # of seven layers: q and o, k and v, the MLP
    plans, peaks, weights = [], [], []
    for name, freeze in (("all", []), ("few", [f"*.layers.{i}.*" for i in range(7)])):
        words = r.options(folder, folder / name, model__config=config, precision__compute="bf16", train__freeze=freeze, train__steps=2, checkpoint__every=0, data__sequence_length=16)
        plan = json.loads(r.run("plan", *words, "--json").stdout)
        plans.append(plan["weights"] + plan["optimizer"] + plan["arena"])
        weights.append(plan["weights"])
        peaks.append(peak(r.command("train", *words))[0])
    r.check(weights[0] - weights[1] == 4 * products, f"{weights}: frozen products have no f32 master, {4 * products:,} bytes less")
    planned, measured = plans[0] - plans[1], peaks[0] - peaks[1]
    r.check(planned > 60e6 and abs(measured - planned) < 0.1 * planned, f"planned {planned:,} bytes less, measured {measured:,}")


if __name__ == "__main__":
    r.main(globals())
