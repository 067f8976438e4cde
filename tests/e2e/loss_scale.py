"""Loss scales: the sequence of scales follows the rule from the overflows alone; a step with an overflow leaves weights, moments and rate; norms and updates are those
of gradients that were never scaled; an overflow at the smallest scale ends the run; a resume goes on in the middle of a sequence."""
import json
import math

import ravine_run as r
from health import metrics, state, train as train_run
from ravine_run import check

SCRIPT = [0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0]  # overflows


def train(folder, name, status=0, script=SCRIPT, **more):
    inject = [{"step": i + 1, "path": "*layers.0*", "phase": "backward", "value": "inf"} for i, o in enumerate(script) if o]
    given = {"probe.inject": inject, "train.steps": len(script), "precision.loss_scale": 0, "precision.scale_window": 2}
    return train_run(folder, name, status, **{**given, **more})


def scales(overflows, scale=65536.0, window=2, hysteresis=2, least=1.0, factor=2, rule="deepspeed", consecutive=False):
    """What the scale is after each step; None where there is no smaller one. DeepSpeed 0.19 (steps from 0, the one right behind an overflow does not count), 0.13 (it does),
    MindSpore (counts from the last change)."""
    out, last, left, good = [], -1, hysteresis, 0
    for i, overflow in enumerate(overflows):
        if rule == "mindformers":
            good = 0 if overflow else good + 1
            scale = max(scale / factor, least) if overflow else scale
            if good == window:
                scale, good = scale * factor, 0
        elif overflow:
            if left == 1:
                if scale <= least:
                    return out + [None]
                scale = max(scale / factor, least)
            else:
                left -= 1
            last = i
        else:
            left = hysteresis if consecutive else left
            since = i - last - (rule == "deepspeed")
            if since > 0 and since % window == 0:
                scale, left = scale * factor, hysteresis
        out.append(scale)
    return out


def test_scales_follow_from_overflows(folder):
    for i, more in enumerate(r.rows(({}, {"rule": "deepspeed-0.13"}, {"rule": "mindformers"}, {"consecutive": True}, {"hysteresis": 1, "window": 1, "factor": 4, "scale": 1024.0}), 2, "the rules take turns; tests/unit has each")):
        names = {"rule": "scale_rule", "consecutive": "scale_consecutive_hysteresis", "scale": "scale_initial"}
        log = train(folder, f"run{i}", **{"precision." + names.get(k, "scale_" + k): v for k, v in more.items()})
        rows = metrics(folder / f"run{i}")
        check([rows[s]["overflow"] for s in rows] == [bool(o) for o in SCRIPT], f"{more}: {[rows[s]['overflow'] for s in rows]}")
        check([rows[s]["loss_scale"] for s in rows] == scales(SCRIPT, **more), f"{more}: {[rows[s]['loss_scale'] for s in rows]}")
        check([rows[s]["grad_norm"] is None for s in rows] == [bool(o) for o in SCRIPT], "a norm of what has none")
        check(log.count("  overflow  skipped") == sum(SCRIPT) and "nan" not in log, log)


def test_only_the_batches_are_used_up(folder):
    train(folder, "run", checkpoint__every=1)
    rows, updates = metrics(folder / "run"), 0
    train(folder, "plain", script=[0] * len(SCRIPT), precision__loss_scale="auto")  # f32: none
    plain = metrics(folder / "plain")
    check("loss_scale" not in plain[1] and "overflow" not in plain[1], f"{plain[1]}")
    before = None
    for s, overflow in enumerate(SCRIPT, 1):
        now = state(folder / "run", s)
        check(before is None or (now == before) == bool(overflow), f"step {s}: weights and moments")
        check(rows[s]["lr"] == plain[updates + 1]["lr"] and rows[s]["tokens"] == plain[s]["tokens"], f"step {s}: {rows[s]}")
        before, updates = now, updates + 1 - overflow
    # Powers of two change no bit of f32: up to the first overflow this is the run without a scale, its norms and clipping as well.
    for s in (1, 2, 3):
        for key in ("loss", "grad_norm"):
            check(rows[s][key] == plain[s][key] or SCRIPT[s - 1] and key == "grad_norm", f"step {s}: {key} {rows[s][key]} and {plain[s][key]}")
    train(folder, "scaled", script=[0] * 6, precision__loss_scale=1024, log__local_norms="*")
    train(folder, "unscaled", script=[0] * 6, precision__loss_scale="auto", log__local_norms="*")
    for key in ("loss", "grad_norm", "local_norms"):
        check([row[key] for row in metrics(folder / "scaled").values()] == [row[key] for row in metrics(folder / "unscaled").values()], key)
    check(state(folder / "scaled", 6) == state(folder / "unscaled", 6), "the weights of a run with a fixed scale")


def test_a_fixed_scale_stays(folder):
    train(folder, "run", precision__loss_scale=1000)
    rows = metrics(folder / "run")
    check([row["loss_scale"] for row in rows.values()] == [1000] * len(SCRIPT), "it moved")
    check([row["overflow"] for row in rows.values()] == [bool(o) for o in SCRIPT], "overflows")


def test_the_end_of_the_road(folder):
    said = train(folder, "run", 1, [0, 1, 1, 1, 1, 0], precision__scale_initial=4, precision__scale_min=2, precision__scale_hysteresis=1, checkpoint__every=1)
    rows = metrics(folder / "run")
    check(sorted(rows) == [1, 2] and rows[2]["loss_scale"] == 2, f"{rows}")
    check("step 3" in said and "precision.scale_min=2" in said and "after 1 updates" in said, said)
    train(folder, "stays", 0, [0, 1, 1, 1, 1, 0], precision__scale_initial=4, precision__scale_min=2, precision__scale_rule="mindformers")
    check([row["loss_scale"] for row in metrics(folder / "stays").values()] == [4, 2, 2, 2, 2, 2], "MindSpore's stays at the smallest")


def test_a_resume_goes_on_in_the_middle(folder):
    train(folder, "run", checkpoint__every=1)
    whole = metrics(folder / "run")
    for stop in (3, 6, 8):
        train(folder, f"again{stop}", checkpoint__resume=folder / "run" / "checkpoints" / f"step_{stop:06}")
        rows = metrics(folder / f"again{stop}")
        for s in range(stop + 1, len(SCRIPT) + 1):
            for key in ("loss", "lr", "loss_scale", "overflow", "grad_norm"):
                check(rows[s][key] == whole[s][key], f"from {stop}, step {s}: {key} {rows[s][key]} and {whole[s][key]}")
    manifest = folder / "run" / "checkpoints" / "step_000003" / "manifest.json"
    held = json.loads(manifest.read_text())["scalars"]["loss_scale"]
    check(held == {"scale": 65536.0, "step": 3, "last_overflow": 2, "hysteresis": 1}, f"{held}")


def test_f16(folder):
    """From a scale that nothing survives the run finds its own; the curve is that of f32 where it has."""
    more = {"precision__compute": "f16", "precision__loss_scale": "auto", "precision__scale_initial": 2.0 ** 40, "precision__scale_hysteresis": 1, "precision__scale_window": 1000}
    train(folder, "run", 0, [0] * 40, **more)
    rows = metrics(folder / "run")
    overflows = [row["overflow"] for row in rows.values()]
    first = overflows.index(False)
    check(first > 5 and overflows.count(False) > 15, f"{overflows}")
    check([row["loss_scale"] for row in rows.values()] == scales(overflows, 2.0 ** 40, 1000, 1), "scales")
    check(all(math.isfinite(row["loss"]) for row in rows.values()), "loss")
    check(rows[40]["loss"] < rows[1]["loss"], "it learns")
    # Half precision keeps 11 bits: the first loss is that of f32 within some of its roundings.
    train(folder, "f32", 0, [0] * 2, precision__loss_scale="auto")
    check(abs(rows[1]["loss"] - metrics(folder / "f32")[1]["loss"]) < 2.0 ** -9 * rows[1]["loss"], "the first loss")


def test_mistakes(folder):
    for value, words in (("often", ["precision.loss_scale", "auto"]), (-1, ["precision.loss_scale", "0, or"]), ("[1]", ["precision.loss_scale", "auto"])):
        said = train(folder, "no", 2, precision__loss_scale=value)
        check(all(w in said for w in words), said)
    check("deepspeed-0.13" in train(folder, "no", 2, precision__scale_rule="deepspeed-0.14"), "no choices")


if __name__ == "__main__":
    r.main(globals())
