"""Rates that follow the validation loss (schedule.type: reduce_lr_on_plateau, greedy): what a whole run applies and logs is what its validation losses make of it, also
after a resume; what cannot be followed is refused."""
import sys

import ravine_run as r
from ravine_run import check

LR = 0.05


def options(folder, **more):
    values = {"model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 64, 17)],
              "data.valid": [r.save_ids(folder / "valid.safetensors", 4, 17, seed=5)], "data.sequence_length": 17, "train.steps": 16, "train.global_batch": 4,
              "train.micro_batch": 2, "train.valid_every": 2, "optimizer.lr": LR, "schedule.type": "reduce_lr_on_plateau", "schedule.factor": 0.5,
              "schedule.patience": 0, "schedule.threshold": 0.02, "checkpoint.every": 4, "log.tensorboard": False}
    return {**values, **{key.replace("__", "."): value for key, value in more.items()}}


def train(folder, name="run", **more):
    r.run("train", *r.settings({**options(folder, **more), "train.output": folder / name}))
    return r.metrics(folder / name)


def lowered(rows, factor, threshold):
    """torch's ReduceLROnPlateau, patience 0, of the losses that were logged: the rate that each step should have had, and the one after the last."""
    rate, best, out = LR, float("inf"), []
    for step in sorted(rows):
        out.append(rate)
        loss = rows[step].get("valid_loss")
        if loss is not None and loss < best * (1 - threshold):
            best = loss
        elif loss is not None:
            rate *= factor
    return out + [rate]


def test_the_rate_falls_where_the_loss_stays(folder):
    rows = train(folder)
    want = lowered(rows, 0.5, 0.02)
    check([rows[s]["lr"] for s in sorted(rows)] == want[:-1], f"{want}: {rows}")
    check(len(set(want)) > 2, f"the rate is lowered more than once: {rows}")
    log = (folder / "run" / "log.txt").read_text()
    check(log.count("follows the validation loss") == len(set(want)) - 1, log)


def test_a_resume_goes_on_with_its_state(folder):
    for kind, more in (("reduce_lr_on_plateau", {}), ("greedy", {"schedule__smooth_window": 3, "schedule__cooldown": 1, "schedule__lowest_lr": 0.001})):
        whole = train(folder, kind, schedule__type=kind, **more)
        train(folder, kind + "-cut", schedule__type=kind, train__steps=8, schedule__steps=16, **more)
        cut = train(folder, kind + "-cut", schedule__type=kind, schedule__steps=16, **more)
        check({s: row["lr"] for s, row in whole.items()} == {s: row["lr"] for s, row in cut.items()}, f"{kind}: {whole} {cut}")
        check(len({row["lr"] for row in whole.values()}) > 1, f"{kind}: the rate changes")
        check(r.weights(folder / kind) == r.weights(folder / (kind + "-cut")), f"{kind}: other weights")


def test_what_cannot_be_followed_is_refused(folder):
    def refused(*words, **more):
        said = r.run("train", *r.settings({**{k: v for k, v in options(folder, **more).items() if v is not None}, "train.output": folder / "x"}), status=2).stderr
        for word in words:
            check(word in said, f"{word}: {said}")

    refused("schedule.type", "data.valid", "there are no validation data", data__valid=[])
    refused("schedule.type is reduce_lr_on_plateau, train.valid_every 0", train__valid_every=0)
    refused("schedule.lowest_lr 0.001", "optimizer.lr is 0.0001", schedule__type="greedy", optimizer__lr=1e-4)
    refused("did you mean", schedule__type="reduce_lr_on_plateu")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
