"""`ravine check baseline`, and `ravine curves --band`: the noise band that other roundings make, and curves judged by it."""
import json
import sys

import ravine_run as r
from ravine_run import check

STEPS = 90


def own(words):
    """Without what a check does not take, since it writes no run."""
    return [w for w in words if not w.startswith(("checkpoint.", "log."))]


def words(folder, output, **more):
    return r.options(folder, folder / output, **{"train.steps": STEPS, "precision.compute": "f32", "optimizer.lr": 3e-3, "checkpoint.every": 0,
                                                  "data.train": [r.save_ids(folder / "ids.safetensors", 64, 16)], **more})


def baseline(folder, *flags, status=0, **more):
    return json.loads(r.run("check", "baseline", *own(words(folder, "own", **more)), "--json", *flags, status=status).stdout)


def csv(folder, name, change=lambda t, x: x, **more):
    r.run("train", *words(folder, name, **more))
    rows = r.metrics(folder / name)
    (folder / f"{name}.csv").write_text("\n".join(["step,loss,grad_norm,lr", *(f"{t},{change(t, row['loss'])!r},{row['grad_norm']!r},{row['lr']!r}" for t, row in rows.items())]) + "\n")
    return folder / f"{name}.csv"


def test_the_band_of_other_roundings(folder):
    same = baseline(folder, "--runs", 2, "--steps", 5)
    check(same["repeats_bits"] and same["band"]["loss"] == 0 and same["agrees"], same)
    said = baseline(folder, "--perturb", "--out", folder / "band.json")
    check(said["runs"] == 3 and said["steps"] == STEPS and 0 < said["band"]["loss"] < 0.1 and said["band"]["norm"] > 0, said)
    runs = json.loads((folder / "band.json").read_text())["runs"]
    curves = [[x for _, x in run["loss"]] for run in runs]
    check(len({tuple(c) for c in curves}) == 3, "each run has other roundings")
    # A run in another order of sums is inside, one at another rate is not.
    reference = csv(folder, "reference")
    inside = csv(folder, "inside", **{"train.recompute": "full", "precision.unfused": ["attention"]})
    outside = csv(folder, "outside", lambda t, x: x + (0.02 * (-1) ** t if t > 30 else 0))
    check(json.loads(r.run("curves", inside, reference, "--band", folder / "band.json", "--json").stdout)["agrees"], "inside")
    r.run("curves", outside, reference, "--limit", 0.1)  # the usual band is wider than this fault
    judged = json.loads(r.run("curves", outside, reference, "--band", folder / "band.json", "--limit", 0.1, "--json", status=1).stdout)
    check(not judged["agrees"], judged)
    check(not baseline(folder, "--perturb", "--against", outside, status=1)["agrees"], "against")
    check(baseline(folder, "--perturb", "--against", inside)["agrees"], "against")


def test_rates_of_curves(folder):
    """Learning rates are compared and drawn, of a table and of logs in the form of other programs."""
    a, b = csv(folder, "a", **{"train.steps": 6}), csv(folder, "b", **{"train.steps": 6, "schedule.steps": 20})
    said = json.loads(r.run("curves", a, b, "--json", "--svg", folder / "x.svg", status=json_status(a, b)).stdout)
    check(said["rates"]["steps"] == 6 and said["rates"]["first_other"] and "learning rates differ from step" in said["verdict"], said)
    check("learning rate" in (folder / "x.svg").read_text(), "no chart of rates")
    for style in ("megatron", "mindformers"):
        r.run("train", *words(folder, style, **{"train.steps": 6, "log.style": style, "log.every": 1}))
        said = json.loads(r.run("curves", folder / style / "log.txt", a, "--json").stdout)
        check(said["rates"] and said["rates"]["steps"] == (5 if style == "megatron" else 6) and said["rates"]["first_other"] is None, (style, said))


def json_status(a, b):
    import subprocess
    return subprocess.run(r.command("curves", a, b), capture_output=True).returncode


def test_refusals(folder):
    (folder / "x.json").write_text("{}")
    a = csv(folder, "a", **{"train.steps": 3})
    check("no band" in r.run("curves", a, a, "--band", folder / "x.json", status=2).stderr, "no band")
    (folder / "one.json").write_text('{"ravine": "band", "runs": []}')
    check("two or more" in r.run("curves", a, a, "--band", folder / "one.json", status=2).stderr, "an empty band")
    check("step" in r.run("check", "baseline", *own(words(folder, "own", **{"train.steps": 3})), "--steps", 9, status=2).stderr, "too many steps")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
