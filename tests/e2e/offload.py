"""States and weights on a disk (offload.optimizer, offload.params): the bits of a run stay, on one rank and two, of runs that go on too; memory falls by what is planned; nothing is left behind.

python3 offload.py PATH_OF_ravine [FUNCTION ..]
"""
import itertools
import json
import os
import re
import shutil
import subprocess

import ravine_run as r
from full_disk import small_disk
from ravine_run import check

SERVED_COMMANDS = False  # what a child takes is measured
BOTH = {"offload__optimizer": "disk", "offload__params": "disk"}
MIB = 1 << 20


def train(folder, name, ranks=1, status=0, **more):
    words = [*map(str, r.options(folder, folder / name, **{"offload__path": folder / "disk", **more}))]
    before = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*before, r.PROGRAM, "train", *words], capture_output=True, text=True, timeout=r.LIMIT, stdin=subprocess.DEVNULL)
    check(done.returncode == status, f"{name}: status {done.returncode}: {done.stderr[-600:]}")
    return done.stderr


def different(a, b):
    """What differs between two runs, with all that they leave but checkpoints."""
    if r.metrics(a) != r.metrics(b):
        return "metrics"
    left, right = ({p.relative_to(run): p.read_bytes() for p in sorted(run.rglob("*.safetensors")) if "checkpoints" not in p.parts} for run in (a, b))
    check(left, f"{a} has no weights")
    return "" if left == right else "weights"


def test_the_bits_stay(folder):
    """Of every arithmetic and kind of rule; the second run goes on from a checkpoint of the first, on the disk or from there."""
    cases = {"f32": {}, "bf16": {"precision__compute": "bf16"}, "muon": {"optimizer__type": "muon"}, "adafactor": {"optimizer__type": "adafactor"}, "recompute": {"train__recompute": "full"},
             "nf4": {"lora__rank": 2, "lora__base": "nf4"}}
    for (case, more), disk in itertools.product(cases.items(), [BOTH, {"offload__optimizer": "disk"}]):
        given = {"train__steps": 5, "checkpoint__every": 2, "train__valid_every": 2, "data__valid": [r.save_ids(folder / "valid.safetensors", 4, 16)], **more}
        names = [f"{case}-{len(disk)}-{way}" for way in ("memory", "disk", "onto", "from")]
        if case == "nf4" and not (folder / "base").exists():
            train(folder, "base", model__config=r.save_config(folder / "wide.json", hidden_size=64, intermediate_size=64), train__steps=1)
        if case == "nf4":
            given |= {"model__config": None, "model__path": folder / "base" / "model"}
        train(folder, names[0], **given)
        said = train(folder, names[1], **given, **disk)
        check(re.search(r"^disk +[\d.]+ \S+ of them in ", said, re.M), said)
        check(not different(folder / names[0], folder / names[1]), f"{names[1]}: {different(folder / names[0], folder / names[1])}")
        for first, second, name in (({}, disk, names[2]), (disk, {}, names[3])):
            train(folder, name, **{**given, **first, "train__steps": 2})
            train(folder, name, **given, **second)
            check(not different(folder / names[0], folder / name), f"{name}: {different(folder / names[0], folder / name)}")
    check(not any((folder / "disk").iterdir()), "files are left behind")


def test_two_ranks(folder):
    if not shutil.which("mpirun"):
        raise r.Skipped("no mpirun")
    for zero, compute in r.rows([(3, "f32"), (3, "bf16"), (1, "bf16"), (0, "f32")], 2, "ways of dividing"):
        given = {"train__steps": 3, "train__global_batch": 4, "parallel__zero": zero, "parallel__zero_threshold": 1, "precision__compute": compute}
        train(folder, f"{zero}-{compute}-memory", 2, **given)
        train(folder, f"{zero}-{compute}-disk", 2, **given, **BOTH)
        what = different(folder / f"{zero}-{compute}-memory", folder / f"{zero}-{compute}-disk")
        check(not what, f"ZeRO {zero}, {compute}: {what}")
    check(not any((folder / "disk").iterdir()), "files are left behind")


def taken(folder, name, **more):
    """MiB that a run took at most, and those of its plan."""
    words = r.options(folder, folder / name, offload__path=folder / "disk", checkpoint__every=0, train__steps=4, **more)
    child = subprocess.Popen(r.command("train", *words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    text = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    check(child.returncode == 0, text)
    return usage.ru_maxrss / 1024, float(re.search(r"([\d.]+) MiB in all", text)[1])


def test_memory_falls_by_what_is_planned(folder):
    """States of 16 layers of 1.5 million parameters: 8 bytes of each, of which three layers are in memory at once; of bf16 the masters go with them."""
    model = {"model__config": r.save_config(folder / "model.json", hidden_size=384, intermediate_size=768, num_hidden_layers=16, num_attention_heads=4, num_key_value_heads=4)}
    for compute, least in (("f32", 100), ("bf16", 150)):
        most, planned = taken(folder, f"{compute}-memory", **model, precision__compute=compute)
        less, planned_less = taken(folder, f"{compute}-disk", **model, precision__compute=compute, offload__optimizer="disk")
        check(planned - planned_less > least, f"{compute}: the plans are {planned} and {planned_less} MiB")
        check(abs((most - less) - (planned - planned_less)) < 0.25 * (planned - planned_less), f"{compute}: took {most:.0f} and {less:.0f} MiB, planned were {planned:.0f} and {planned_less:.0f}")


def test_plan_says_what_lies_on_the_disk(folder):
    """What lies there, with what of it is in memory at once, is what lay in memory; without offload nothing does. DeepSpeed's masters of 16-bit weights go with the states."""
    given = [o for o in r.options(folder, folder / "out", model__config=r.save_config(folder / "model.json", num_hidden_layers=12), offload__path=folder / "disk") if not o.startswith("train.output")]
    plan = lambda *more: json.loads(r.run("plan", "--json", *given, *more).stdout)
    for compute in ("f32", "bf16"):
        host = plan(f"precision.compute={compute}", "offload.optimizer=cpu", "offload.params=cpu")
        none, states, both = plan(f"precision.compute={compute}"), plan(f"precision.compute={compute}", "offload.optimizer=disk"), plan(f"precision.compute={compute}", "offload.optimizer=disk", "offload.params=disk")
        check(none["disk"] == 0 and all(none[key] == host[key] for key in ("disk", "weights", "optimizer", "arena")), f"{none} {host}")
        check(none["optimizer"] <= states["disk"] < both["disk"], f"{compute}: {states} {both}")
        check(states["optimizer"] < none["optimizer"] / 2 and (states["weights"] < none["weights"]) == (compute == "bf16"), f"{compute}: {states}")
        check(both["weights"] < none["weights"] / 2 and none["weights"] + none["optimizer"] <= both["disk"], f"{compute}: {both}")
    check(not (folder / "disk").exists(), "a plan makes nothing")


def test_a_disk_without_room(folder):
    """Status 1 before a step, with folder, bytes and a way out."""
    model = r.save_config(folder / "model.json", hidden_size=128, num_hidden_layers=4)
    with small_disk(folder, 256) as disk:
        if not disk:
            raise r.Skipped("mounting a small disk needs root")
        said = train(folder, "out", 1, 1, model__config=model, offload__path=disk / "there", offload__optimizer="disk")
        check(str(disk / "there") in said and re.search(r"\d+ bytes asked for", said) and "offload.path" in said, said)
        check(not (folder / "out" / "metrics.jsonl").exists() or not (folder / "out" / "metrics.jsonl").read_text(), "a step was made")


def test_a_rule_of_all_weights_is_refused(folder):
    said = train(folder, "out", 1, 2, optimizer__type="onebit_lamb", offload__optimizer="disk")
    check("offload.optimizer" in said and "onebit_lamb" in said and not (folder / "out").exists() and not (folder / "disk").exists(), said)


if __name__ == "__main__":
    r.main(globals())
