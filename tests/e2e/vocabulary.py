"""A new model has a row for every id of its tokenizer, whatever its config says; one with weights keeps its own."""
import json

import ravine_run as r


def test_a_larger_tokenizer_widens_a_new_model(folder):
    text = folder / "book.txt"
    text.write_text("".join(f"Line {i}: the ravine is {i * 7919 % 1000} feet deep, said the {'abcdefgh'[i % 8]} man.\n" for i in range(4000)))
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 500)
    ids = json.loads(r.run("tokenizer", "info", "--tokenizer", folder / "tok", "--json").stdout)["size"]
    r.check(ids > 300, ids)
    config = r.save_config(folder / "config.json", vocab_size=300)
    values = {"model.config": config, "model.tokenizer": folder / "tok", "data.train": [str(text)], "data.sequence_length": 32, "train.steps": 2, "schedule.warmup_steps": 1, "train.output": folder / "run"}
    log = r.run("train", *r.settings(values)).stderr
    r.check(f"the {ids} ids of the tokenizer, not the 300" in log, log)
    made = json.loads((folder / "run" / "model" / "config.json").read_text())
    r.check(made["vocab_size"] == ids, made)
    r.run("generate", "--model", folder / "run" / "model", "--prompt", "The ravine", "--max-new-tokens", 3)
    r.run("plan", *r.settings(values))
    r.run("data", "show", "--step", 1, *r.settings({k: v for k, v in values.items() if not k.startswith("schedule")}))  # sees the ids that the run does
    values["train.steps"] = 3
    r.run("train", *r.settings(values))  # goes on from its checkpoint
    # A model that has weights already cannot grow.
    more = folder / "more.txt"
    more.write_text("".join(chr(0x4e00 + i) + " " for i in range(900)) * 3)
    r.run("tokenizer", "train", "--input", more, "--output", folder / "more", "--vocab-size", 1300, "--character-coverage", 1)
    wider = json.loads(r.run("tokenizer", "info", "--tokenizer", folder / "more", "--json").stdout)["size"]
    said = r.run("train", *r.settings({**values, "model.config": '""', "model.path": folder / "run" / "model", "model.tokenizer": folder / "more", "train.output": folder / "other"}), status=2).stderr
    r.check(f"the tokenizer has {wider} ids, the model a vocabulary of {ids}" in said, said)


def test_a_smaller_tokenizer_leaves_the_config_as_it_is(folder):
    text = folder / "book.txt"
    text.write_text("a small text about ravines and rivers and the people there\n" * 400)
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 290)
    config = r.save_config(folder / "config.json", vocab_size=512)
    r.run("train", *r.settings({"model.config": config, "model.tokenizer": folder / "tok", "data.train": [str(text)], "data.sequence_length": 32, "train.steps": 1, "schedule.warmup_steps": 0, "train.output": folder / "run"}))
    r.check(json.loads((folder / "run" / "model" / "config.json").read_text())["vocab_size"] == 512, "the vocabulary shrank")


if __name__ == "__main__":
    r.main(globals())
