"""`ravine check lr0`: a run without updates against another program's log; a step that stands out is named."""
import json
import sys

import ravine_run as r
from ravine_run import check

STEPS = 12


def own(words):
    """Without what a check does not take, since it writes no run."""
    return [w for w in words if not w.startswith(("checkpoint.", "log."))]


def words(folder, output, **more):
    return r.options(folder, folder / output, **{"train.steps": STEPS, "precision.compute": "f32", "data.train": [r.save_ids(folder / "ids.safetensors", 64, 16)], **more})


def frozen_log(folder, name, change=None, **more):
    """The other side: a run whose rate is 0, as a .csv; change(step, loss, norm) plants a fault."""
    r.run("train", *words(folder, name, **{"optimizer.lr": 0, "schedule.type": "constant", "checkpoint.every": 0, **more}))
    rows = r.metrics(folder / name)
    lines = ["step,loss,grad_norm"]
    for step, row in rows.items():
        loss, norm = change(step, row["loss"], row["grad_norm"]) if change else (row["loss"], row["grad_norm"])
        lines.append(f"{step},{loss!r},{norm!r}")
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder / f"{name}.csv"


def lr0(folder, *flags, status=0, **more):
    return json.loads(r.run("check", "lr0", *own(words(folder, "own", **{"optimizer.lr": 0.05, **more})), "--steps", 1000, "--json", *flags, status=status).stdout)


def test_weights_stay_and_clean_sides_agree(folder):
    said = lr0(folder, "--against", frozen_log(folder, "other"))
    check(said["agrees"] and said["steps"] == STEPS and said["loss"]["most"] == 0 and said["norm"]["most"] == 0 and not said["stand_out"], said)
    # Other sums are silent too.
    said = lr0(folder, "--against", folder / "other.csv", **{"precision.unfused": ["attention", "loss_head"]})
    check(said["agrees"] and 0 < said["loss"]["most"] < 1e-4, said)
    check(not (folder / "own").exists(), "it writes no run")


def test_a_step_that_stands_out_is_named(folder):
    for name, change in (("loss", lambda t, x, n: (x + (0.05 if t == 7 else 0), n)), ("norm", lambda t, x, n: (x, n + (0.5 if t == 7 else 0)))):
        said = lr0(folder, "--against", frozen_log(folder, name, change), status=1)
        check([s["step"] for s in said["stand_out"]] == [7] and "--step 7" in said["verdict"], said)
    # Within the limits, but alone: named, and not refused.
    noise = lambda t, x, n: (x + (5e-4 if t == 4 else 1e-6 * (-1) ** t), n)
    said = lr0(folder, "--against", frozen_log(folder, "near", noise))
    check([s["step"] for s in said["stand_out"]] == [4] and said["agrees"] and "far from the others" in said["verdict"], said)


def test_a_fault_at_all_steps_is_no_batch(folder):
    said = lr0(folder, "--against", frozen_log(folder, "half", lambda t, x, n: (x, n / 2)), status=1)
    check("no batch is at fault" in said["verdict"] and "check step" in said["verdict"], said)
    other = frozen_log(folder, "seed", None, **{"train.seed": 7})
    check(not lr0(folder, "--against", other, status=1)["agrees"], "other weights")


def test_limits_and_config_files(folder):
    other = frozen_log(folder, "other", lambda t, x, n: (x + (0.05 if t == 7 else 0), n))
    check(lr0(folder, "--against", other, "--loss-limit", 0.1)["agrees"], "a wider limit")
    config = folder / "run.yaml"
    lines = {}
    for word in words(folder, "own"):
        key, value = word.split("=", 1)
        lines.setdefault(key.split(".")[0], []).append(f"  {key.split('.', 1)[1]}: {value}")
    config.write_text("\n".join(f"{s}:\n" + "\n".join(x) for s, x in lines.items()) + "\n")
    done = r.run("check", "lr0", config, "--against", other, "--out", folder / "band.json", status=1)
    check("step 7" in done.stdout and len(json.loads((folder / "band.json").read_text())["runs"]) == 2, done.stdout)
    check("steps without an update" in r.run("check", "lr0", config, "--steps", 2).stdout, "alone")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
