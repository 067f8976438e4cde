"""Dropout of attention probabilities in whole runs: the mask is of the place in data and model, not of how the run is carried out; what config.json says about it;
its limits. (Layouts: tests/dist/training.py; kills and resumes: resume.py; the mask itself: unit_engine_attention.)"""
import ravine_run as r


def options(folder, output, **more):
    values = {"model.config": r.save_config(folder / "config.json", num_attention_heads=4, num_key_value_heads=2), "data.train": [r.save_ids(folder / "ids.safetensors", 24, 33)],
              "data.valid": [r.save_ids(folder / "valid.safetensors", 4, 33, seed=2)], "data.sequence_length": 33, "train.steps": 6, "train.global_batch": 4, "train.micro_batch": 2,
              "train.valid_every": 3, "optimizer.lr": 1e-2, "schedule.warmup_steps": 1, "schedule.steps": 6, "log.tensorboard": False, "train.output": folder / output}
    return r.settings({**values, **{key.replace("__", "."): value for key, value in more.items()}})


def train(folder, output, **more):
    return r.run("train", *options(folder, output, **more)).stderr


def test_recompute_threads_and_a_resume_keep_the_bits(folder):
    for compute in r.rows(("f32", "bf16"), 1, "the types take turns"):
        common = {"precision__compute": compute, "train__attention_dropout": 0.3}
        train(folder, compute, **common)
        for recompute in ("none", "full"):
            train(folder, f"{compute}-{recompute}", train__recompute=recompute, train__threads=1, **common)
            difference = r.same_run(folder / compute, folder / f"{compute}-{recompute}")
            r.check(not difference, f"{compute}, {recompute}: {difference}")
        train(folder, f"{compute}-half", train__steps=3, checkpoint__every=3, **common)
        train(folder, f"{compute}-half", **common)
        difference = r.same_run(folder / compute, folder / f"{compute}-half")
        r.check(not difference, f"{compute}, resumed: {difference}")


def test_it_drops_and_not_in_validation(folder):
    # A rate of zero leaves the weights as they began: what differs is the mask.
    still = {"optimizer__lr": 0}
    for name, p in (("none", 0), ("some", 0.5)):
        train(folder, name, train__attention_dropout=p, **still)
    none, some = (r.metrics(folder / name) for name in ("none", "some"))
    r.check(all(none[step]["loss"] != some[step]["loss"] for step in none), "the loss of a step is the same with dropout")
    r.check(all(none[step]["valid_loss"] == some[step]["valid_loss"] for step in (3, 6)), "validation drops something")
    r.check(none[1]["loss"] != none[4]["loss"] and len({some[step]["loss"] for step in some}) == len(some), "each step has a mask of its own")


def test_fused_and_unfused_drop_the_same(folder):
    """One step from the same weights: the losses differ by roundings, not by masks."""
    for name, more in (("fused", {}), ("unfused", {"precision__unfused": ["attention"]})):
        train(folder, name, train__attention_dropout=0.5, train__steps=1, train__valid_every=0, precision__compute="f32", **more)
    a, b = (r.metrics(folder / name)[1]["loss"] for name in ("fused", "unfused"))
    r.check(abs(a - b) < 1e-5 * abs(a), f"fused {a}, unfused {b}")


def test_what_config_json_says(folder):
    r.save_config(folder / "other.json", attention_dropout=0.25)
    text = train(folder, "said", model__config=folder / "other.json", train__steps=1)
    r.check("config.json has attention_dropout=0.25" in text and "train.attention_dropout=0.25 trains as it says" in text, text)
    text = train(folder, "chosen", model__config=folder / "other.json", train__steps=1, train__attention_dropout=0)
    r.check("attention_dropout=0.25" not in text, text)
    for name in ("said", "chosen"):
        r.check(r.metrics(folder / name)[1]["loss"] == r.metrics(folder / "said")[1]["loss"], "config.json changed the run")


def test_limits(folder):
    for wrong in (-0.1, 1, "nan"):
        text = r.run("train", *options(folder, "none", train__attention_dropout=wrong), status=2).stderr
        r.check("train.attention_dropout" in text and not (folder / "none").exists(), text)
    train(folder, "run", train__steps=2, checkpoint__every=2, train__attention_dropout=0.1)
    text = r.run("train", *options(folder, "run", train__attention_dropout=0.2), status=2).stderr
    r.check("train.attention_dropout" in text, text)


if __name__ == "__main__":
    r.main(globals())
