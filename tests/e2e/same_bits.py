"""What changes bits follows from options, from the kind of CPU and from what a checkpoint remembers, never from a clock: equal bits beside busy loops and with
an empty cache, choices kept by a resume, and no test that reads or writes the user's cache."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import ravine_run as r

DOT = "avx512_bf16" in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else False


class BusyLoops:
    """Two processes that take what time they can get."""

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def empty_cache(folder, name):
    cache = folder / f"cache-{name}"
    cache.mkdir()
    return {**os.environ, "XDG_CACHE_HOME": str(cache)}


def options(folder, **more):
    values = {"model.config": r.save_config(folder / "config.json", hidden_size=40, intermediate_size=260, num_attention_heads=4, num_key_value_heads=2, head_dim=10),
              "data.train": [r.save_ids(folder / "ids.safetensors", 36, 33)], "data.sequence_length": 33, "train.steps": 4, "train.global_batch": 6, "train.micro_batch": 3,
              "optimizer.lr": 1e-2, "schedule.warmup_steps": 1, "schedule.steps": 4, "checkpoint.every": 2, "log.tensorboard": False, "precision.compute": "bf16"}
    return {**values, **{key.replace("__", "."): value for key, value in more.items()}}


def train(folder, name, status=0, env=None, **more):
    return r.run("train", *r.settings({**options(folder, **more), "train.output": folder / name}), status=status, env=env or os.environ).stderr


def chosen(output):
    """The arithmetic that config.yaml and the newest checkpoint name; both must be definite and the same."""
    lines = (output / "config.yaml").read_text().splitlines()
    written = {key: next(line.split()[1] for line in lines if line.startswith(f"  {key}: ")) for key in ("compute", "bf16_products")}
    manifest = json.loads((output / "checkpoints" / r.checkpoints(output)[-1] / "manifest.json").read_text())
    for key, value in written.items():
        r.check(manifest["scalars"]["options"][f"precision.{key}"] == value, f"{key}: config.yaml has {value}, the checkpoint another")
    r.check(written["compute"] != "auto" and (written["compute"] != "bf16" or written["bf16_products"] in ("dot", "widen")), f"not definite: {written}")
    return written, manifest["instructions"]


def test_beside_busy_loops(folder):
    common = {k: v for k, v in options(folder).items() if k.split(".")[0] not in ("checkpoint", "log") and k not in ("data.train", "train.steps")}
    with BusyLoops():
        for products in ["auto"] + ["dot"] * DOT if r.FULL else []:  # short: e2e_determinism has the command
            done = r.run("check", "determinism", "--json", "--steps", 2, *r.settings({**common, "precision.bf16_products": products}), env=empty_cache(folder, products))
            result = json.loads(done.stdout)
            r.check(result["equal"] and len(result["cases"]) >= 8, f"{products}: {result}")
        runs = 5 if r.FULL else 2
        for n in range(runs):
            train(folder, f"run{n}", env=empty_cache(folder, f"run{n}"))
        train(folder, "auto", env=empty_cache(folder, "auto-run"), precision__compute="auto")
    first = folder / "run0"
    for n in range(1, runs):
        r.check(chosen(folder / f"run{n}") == chosen(first), f"run {n}: {chosen(folder / f'run{n}')} instead of {chosen(first)}")
        r.check(r.same_run(first, folder / f"run{n}") == "", f"run {n}: {r.same_run(first, folder / f'run{n}')}")
    if chosen(folder / "auto")[0]["compute"] == "bf16":
        r.check(chosen(folder / "auto") == chosen(first) and r.same_run(first, folder / "auto") == "", "precision.compute=auto gives other bits")
    # As config.yaml says, elsewhere.
    r.run("train", "--config", folder / "auto" / "config.yaml", f"train.output={folder / 'again'}")
    r.check(r.same_run(folder / "auto", folder / "again") == "", "config.yaml of a run gives other bits")


def test_a_resume_keeps_the_choice(folder):
    """A checkpoint written with the choice that auto would not make, on any machine: auto goes on with it."""
    train(folder, "auto", train__steps=2)
    choice = chosen(folder / "auto")[0]["bf16_products"]
    other = "widen" if choice == "dot" else "dot"
    if other == "dot" and not DOT:
        print("        this machine has one way to multiply bf16: nothing to keep", flush=True)
        return
    train(folder, "alone", precision__bf16_products=other)
    train(folder, "half", precision__bf16_products=other, train__steps=2)
    info = r.run("info", folder / "half" / "checkpoints" / "step_000002").stdout
    r.check(f"bf16_products              {other}" in info, info)
    log = train(folder, "half")
    r.check("after step 2" in log and "as in step_000002" in log and "warning" not in log and "changed  precision" not in log, log)
    r.check(chosen(folder / "half")[0]["bf16_products"] == other, "the choice was not kept")
    r.check(r.same_run(folder / "alone", folder / "half") == "", r.same_run(folder / "alone", folder / "half"))
    # Another one is taken when it is asked for, and said.
    shutil.copytree(folder / "auto", folder / "changed")
    log = train(folder, "changed", precision__bf16_products=other)
    r.check(f"changed  precision.bf16_products: {other}, was {choice}: numbers agree closely from here on, not bit for bit" in log and "warning" in log, log)
    # The arithmetic itself as well: auto goes on with f32 where auto would take bf16.
    train(folder, "f32", precision__compute="f32", train__steps=2)
    log = train(folder, "f32", precision__compute="auto")
    r.check("after step 2" in log and "f32 on cpu" in log and "as in step_000002" in log and chosen(folder / "f32")[0]["compute"] == "f32", log)


def test_stages_by_cost_do_not_follow_measurements(folder):
    """Layers are shared by the FLOPs and bytes of the model: absurd peaks in the cache change the predicted time, not the stages."""
    config = r.save_config(folder / "wide.json", hidden_size=64, intermediate_size=64, num_hidden_layers=12, vocab_size=20000)
    cache = empty_cache(folder, "machine")
    train(folder, "run", env=cache, train__steps=1)  # measures arithmetic; memory is made up
    file = Path(cache["XDG_CACHE_HOME"], "ravine", "machine.json")
    stages, times = [], []
    for memory, flops in ((1, 1), (1e-3, 1), (1, 1e-3)):
        measured = json.loads(file.read_text())
        for peaks in measured.values():
            peaks.update({"read_bytes": 3e10, "copy_bytes": 4e10})
            peaks["sure"] = True
            for key in [k for k in peaks if k.endswith(("flops", "product", "dot", "bytes"))]:
                peaks[key] *= memory if "bytes" in key else flops
        here = empty_cache(folder, f"{memory}-{flops}")
        Path(here["XDG_CACHE_HOME"], "ravine").mkdir()
        Path(here["XDG_CACHE_HOME"], "ravine", "machine.json").write_text(json.dumps(measured))
        plan = json.loads(r.run("plan", "--json", *r.settings({"model.config": config, "data.sequence_length": 64, "parallel.pipeline": 2, "parallel.split": "cost"}), env=here).stdout)
        stages.append([rank["weights"] for rank in plan["ranks"]])
        times.append(plan["step"]["seconds"])
    r.check(len(set(times)) == 3, f"the peaks were not read: {times}")
    r.check(stages[0] == stages[1] == stages[2], f"stages follow what was measured: {stages}")


def test_the_cache_of_tests_is_private(folder):
    """Every test of ctest has a cache folder of its own, and these scripts have another; a run writes nothing into the home folder."""
    r.check(Path(os.environ["XDG_CACHE_HOME"]).parent == folder.parent, "these tests share a cache")
    home = folder / "home"
    home.mkdir()
    train(folder, "run", env={**os.environ, "HOME": str(home)}, train__steps=1)
    r.check(not list(home.iterdir()), f"written into the home folder: {list(home.iterdir())}")
    tests = Path(r.PROGRAM).parent / "tests"
    if not (tests / "CTestTestfile.cmake").exists() or not shutil.which("ctest"):
        return
    listing = folder / "listing"  # even a listing writes a log: in the build folder it would replace that of the ctest that runs this
    listing.mkdir()
    (listing / "CTestTestfile.cmake").write_text(f'subdirs("{tests.resolve()}")\n')
    listed = json.loads(subprocess.run(["ctest", "--test-dir", str(listing), "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout)
    caches = {}
    for test in listed["tests"]:
        environment = next((p["value"] for p in test.get("properties", []) if p["name"] == "ENVIRONMENT"), [])
        caches[test["name"]] = next((v for v in environment if v.startswith("XDG_CACHE_HOME=")), None)
    r.check(len(caches) > 50 and None not in caches.values(), f"without a cache of its own: {[n for n, c in caches.items() if not c]}")
    r.check(len(set(caches.values())) == len(caches), "tests share a cache")


if __name__ == "__main__":
    r.main(globals())
