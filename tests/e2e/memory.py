"""Memory: the plan against what the process really took, and runs that do not fit into what they may take."""
import os
import re
import resource
import subprocess

import ravine_run as r

MIB = 1 << 20


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


def warm_up(folder):
    # The first run on a machine measures its peaks, with buffers of their own.
    r.run("bench", "machine", "--threads", 2)


def test_plan(folder):
    """Within 5 % + 32 MB of the plan, while checkpoints are written too."""
    warm_up(folder)
    for name, more in {"f32": {}, "bf16": {"precision.compute": "bf16"}, "full": {"train.recompute": "full"}, "micro": {"train.micro_batch": 2}}.items():
        status, text, most = train({**options(folder, train__output=folder / name), **more})
        r.check(status == 0, text)
        planned = float(re.search(r"([\d.]+) MiB in all", text)[1])
        r.check(abs(most - planned) <= 0.05 * planned + 32, f"{name}: {most:.1f} MiB taken, {planned:.1f} planned")


def test_refused_with_ways_to_fit(folder):
    """Under a limit of address space a plan that is too large is refused before anything is written, and what the message offers runs under
    the same limit."""
    warm_up(folder)
    values = options(folder)
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
    r.check("memory plan" in error and 1 <= len(ways) <= 3, error)
    r.check([float(w[3]) for w in ways] == sorted(float(w[3]) for w in ways), f"not the cheapest first: {error}")
    for changes, *_ in ways:
        changed = {**values, **dict(change.split("=") for change in changes.split())}
        status, text, _ = train(changed, limit)
        r.check(status == 0, f"{changes} was offered under {limit / MIB:.0f} MiB: {text}")
        subprocess.run(["rm", "-rf", str(folder / "limited")], check=True)


if __name__ == "__main__":
    r.main(globals())
