"""Memory: the plan against what the process really took, and runs that do not fit into what they may take."""
import json
import os
import re
import resource
import subprocess
from pathlib import Path

import ravine_run as r

MIB = 1 << 20


SERVED_COMMANDS = False  # what a child takes is measured


def options(folder, **more):
    # 7 M parameters, 8 x 256 tokens: a few hundred MB, most of it activations.
    model = r.save_config(folder / "config.json", hidden_size=256, intermediate_size=688, num_hidden_layers=8, num_attention_heads=8,
                          num_key_value_heads=8, vocab_size=512, max_position_embeddings=256)
    values = {"model.config": model, "data.train": [r.save_ids(folder / "ids.safetensors", 8, 256)], "data.sequence_length": 256,
              "train.global_batch": 8, "train.micro_batch": 8, "train.steps": 2, "train.recompute": "none", "train.threads": 2,
              "checkpoint.every": 1, "log.tensorboard": False, "train.output": folder / "run"}
    return {**values, **{key.replace("__", "."): value for key, value in more.items()}}


def train(values, limit=None):
    """Runs to the end: status, stderr, most memory in MiB. `limit`: address space in bytes."""
    def confine():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    run = subprocess.Popen(r.command("train", *r.settings(values)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True, preexec_fn=confine)
    text = run.stderr.read()
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    return run.returncode, text, usage.ru_maxrss / 1024


HUGE_PAGE = 2          # MiB
WRITER_BUFFERS = 8 * 4  # MiB: kBuffers, kBuffer of files/straight_writer.h; how many are in use depends on the disk


def unplanned(folder, name, **more):
    """MiB that a run took beyond its plan."""
    values = {**options(folder, train__output=folder / name), **more}
    status, text, most = train(values)
    r.check(status == 0, text)
    return most - float(re.search(r"([\d.]+) MiB in all", text)[1])


def test_plan(folder):
    """A run takes what was planned, and beyond it what the same run of a tiny model takes: the program's own. Weights, copies, moments and the arena are buffers that may end in
    a huge page each. Checkpoints add the buffers of their writer."""
    tiny = {"model.config": r.save_config(folder / "tiny" / "config.json"), "data.train": [r.save_ids(folder / "tiny" / "ids.safetensors", 8, 16)], "data.sequence_length": 16}
    unplanned(folder, "first", **tiny)  # measures the peaks of the machine, with buffers that a tiny run does not hide
    kept = Path(os.environ["XDG_CACHE_HOME"]) / "ravine" / "machine.json"
    kept.write_text(json.dumps({machine: {**figures, "sure": True} for machine, figures in json.loads(kept.read_text()).items()}))  # and no run measures them again
    for name, more in r.rows({"f32": {}, "bf16": {"precision.compute": "bf16"}, "full": {"train.recompute": "full"}, "saved": {"train.micro_batch": 2, "checkpoint.every": 1}}.items(), 1, "one sum of parts"):
        more = {"checkpoint.every": 0, **more}
        own, taken = unplanned(folder, f"{name}-tiny", **more, **tiny), unplanned(folder, name, **more)
        most = 4 * HUGE_PAGE + (WRITER_BUFFERS if name == "saved" else 0)
        r.check(-4 * HUGE_PAGE <= taken - own <= most, f"{name}: {taken:.1f} MiB beyond the plan, of a tiny model {own:.1f}")


def test_gradients_of_16_bits(folder):
    """With precision.gradients=compute a parameter of a matrix takes 4 (master) + 8 (moments) + 2 (copy) + 2 (gradient) bytes: 2 less, in the plan and as the system sees it."""
    more = {"precision.compute": "bf16", "checkpoint.every": 0, "train.micro_batch": 1, "train.global_batch": 1,
            "data.train": [r.save_ids(folder / "short.safetensors", 8, 16)], "data.sequence_length": 16}  # gradients are most of what a step adds
    tiny = {"model.config": r.save_config(folder / "tiny" / "config.json"), "data.train": [r.save_ids(folder / "tiny" / "ids.safetensors", 8, 16)], "data.sequence_length": 16}
    unplanned(folder, "first", **{**more, **tiny})
    matrices = 8 * (4 * 256 * 256 + 3 * 256 * 688) + 2 * 512 * 256
    own, taken, planned = {}, {}, {}
    for kind in ("f32", "compute"):
        own[kind] = unplanned(folder, f"{kind}-tiny", **{**more, **tiny, "precision.gradients": kind})
        status, text, taken[kind] = train({**options(folder, train__output=folder / kind), **more, "precision.gradients": kind})
        r.check(status == 0, text)
        planned[kind] = float(re.search(r"([\d.]+) MiB in all", text)[1])
        r.check(abs(taken[kind] - planned[kind] - own[kind]) <= 4 * HUGE_PAGE, f"{kind}: took {taken[kind]:.1f} MiB, planned {planned[kind]:.1f}, own {own[kind]:.1f}")
    saved = 2 * matrices / MIB
    r.check(abs(planned["f32"] - planned["compute"] - saved) <= 0.1 * saved, f"the plans differ by {planned['f32'] - planned['compute']:.1f} MiB, not {saved:.1f}")


def test_a_plan_has_the_gradients_of_the_run(folder):
    """`plan` and its own row "as configured" agree, on 16-bit gradients too; these halve what the sums of data ranks send of matrices."""
    given = options(folder, precision__compute="bf16", train__micro_batch=4, parallel__data=2)
    plans = {}
    for kind in ("f32", "compute"):
        plans[kind] = plan = json.loads(r.run("plan", "--json", *r.settings({**given, "precision.gradients": kind})).stdout)
        r.check(plan["total"] == plan["variants"][0]["total"], f"{kind}: {plan['total']} and {plan['variants'][0]}")
        r.check(plan["ranks"][0]["total"] == plan["total"], f"{kind}: {plan['ranks'][0]} and {plan['total']}")
    matrices = 8 * (4 * 256 * 256 + 3 * 256 * 688) + 512 * 256  # the head; the table's gradient is of the master's type
    less = plans["f32"]["gradients"] - plans["compute"]["gradients"]
    r.check(0 < less <= 2 * matrices * 1.01, f"{less} bytes of gradients less")
    sent = {kind: plan["ranks"][0]["sent_data"] for kind, plan in plans.items()}
    r.check(sent["compute"] < 0.8 * sent["f32"], f"sent {sent}")


def test_refused_with_ways_to_fit(folder):
    """Under a limit of address space a plan that is too large is refused before anything is written, and what the message offers runs under
    the same limit."""
    values = options(folder, **({} if r.FULL else {"train__steps": 1, "checkpoint__every": 0}))
    status, text, most = train(values)
    r.check(status == 0, text)
    values["train.output"] = folder / "limited"
    limit = int(1.7 * most * MIB)  # stacks and arenas of threads are address space too
    while status == 0:
        subprocess.run(["rm", "-rf", str(folder / "limited")], check=True)
        limit = limit * 9 // 10
        status, text, _ = train(values, limit)
    r.check(status == 2, f"neither refused nor run under {limit / MIB:.0f} MiB: {text}")
    error = text.splitlines()[-1]
    r.check(not (folder / "limited").exists(), "the refused run wrote something")
    ways = re.findall(r"((?:[a-z]+\.[a-z_]+=\S+ )+)\(([\d.]+) (MiB|GiB), ([\d.]+) x the time\)", error)
    r.check("memory plan" in error and 1 <= len(ways) <= 3 and "nan" not in error, error)
    r.check([float(w[3]) for w in ways] == sorted(float(w[3]) for w in ways), f"not the cheapest first: {error}")
    for changes, *_ in r.rows(ways, 1, "each is planned alike"):
        changed = {**values, **dict(change.split("=") for change in changes.split())}
        status, text, _ = train(changed, limit)
        r.check(status == 0, f"{changes} was offered under {limit / MIB:.0f} MiB: {text}")
        subprocess.run(["rm", "-rf", str(folder / "limited")], check=True)


if __name__ == "__main__":
    r.main(globals())
