"""model.vocabulary, model.new_rows, model.tie: what the tables of a stored model become, under any layout, in checkpoints, adapters and the exported folder."""
import json
import os
import shutil
import struct
import subprocess
import sys

import ravine_run as r
from ravine_run import check

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
STILL = {"optimizer__lr": 0.0, "train__steps": 1}


def base_model(folder, name="base", **config):
    """What a short run leaves: 256 rows."""
    if not (folder / name / "model").exists():
        made = r.save_config(folder / f"{name}.json", **config)
        r.run("train", *r.options(folder, folder / name, model__config=made, checkpoint__every=0))
    return folder / name / "model"


def train(folder, name, base, ranks=1, status=0, **more):
    words = ["train", *r.options(folder, folder / name, **{"model__config": None, "model__path": base, **more})]
    if ranks == 1:
        return r.run(*words, status=status).stderr
    launch = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", str(ranks)]
    done = subprocess.run([*launch, *r.command(*words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"{done.returncode}: {done.stderr}")
    return done.stderr


def exported(folder, name):
    return r.load_tensors(folder / name / "model"), json.loads((folder / name / "model" / "config.json").read_text())


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def mean_of(table):
    """The mean of the rows as its bytes in f32, by sums in f64 in their order."""
    kind, (rows, width), body = table
    values, sums = floats(body), [0.0] * width
    for row in range(rows):
        for c in range(width):
            sums[c] += values[row * width + c]
    return struct.pack(f"<{width}f", *(s / rows for s in sums))


def check_table(got, was, rows, name):
    """Old rows bitwise, new ones the mean."""
    (_, (had, width), old), (kind, shape, body) = was, got
    check(kind == "F32" and shape == [rows, width], f"{name}: {kind} {shape}")
    kept = 4 * width * min(rows, had)
    check(body[:kept] == old[:kept], f"{name}: old rows keep their bits")
    check(body[kept:] == mean_of(was) * max(0, rows - had), f"{name}: new rows are the mean of the old")


def test_rows_old_and_new(folder):
    base = base_model(folder)
    was = r.load_tensors(base)
    for rows in (301, 200):
        said = train(folder, f"r{rows}", base, model__vocabulary=rows, **STILL, **({"data__train": [r.save_ids(folder / "few.safetensors", 16, 16, 200)]} if rows < 256 else {}))
        got, config = exported(folder, f"r{rows}")
        check(config["vocab_size"] == rows and set(got) == set(was), f"{config} {sorted(got)}")
        for name in was:
            if name in (EMBEDDING, HEAD):
                check_table(got[name], was[name], rows, name)
            else:
                check(got[name] == was[name], f"{name} is as it was")
        check((f"256 rows are stored, 45 new ones: the mean of the stored" if rows > 256 else "256 rows are stored, the first 200 are taken") in said, said)
    (folder / "ids.json").write_text("[[3, 300]]")
    r.run("generate", "--model", folder / "r301" / "model", "--prompt-ids", folder / "ids.json", "--max-new-tokens", 2)
    if r.FULL:  # short: e2e_mistakes and others plan
        r.run("plan", *r.options(folder, folder / "p", model__config=None, model__path=base, model__vocabulary=301))
    train(folder, "drawn", base, model__vocabulary=301, model__new_rows="normal", **STILL)
    got, _ = exported(folder, "drawn")
    new = {n: floats(got[n][2][256 * 32 * 4:]) for n in (EMBEDDING, HEAD)}
    for n, values in new.items():
        check(got[n][2][:256 * 32 * 4] == was[n][2], f"{n}: old rows keep their bits")
        second = (sum(v * v for v in values) / len(values)) ** 0.5
        check(abs(second - 0.02) < 0.02 / len(values) ** 0.5 * 4 and len(set(values)) > 1400, f"{n}: {second}")
    check(new[EMBEDDING] != new[HEAD], "each has numbers of its own")
    # As those rows of a new model of that size and seed.
    r.run("train", *r.options(folder, folder / "new", model__config=r.save_config(folder / "wide.json", vocab_size=301), checkpoint__every=0, **STILL))
    fresh, _ = exported(folder, "new")
    check(all(fresh[n][2][256 * 32 * 4:] == got[n][2][256 * 32 * 4:] for n in new), "rows are drawn as those of a new model")


def test_every_layout_begins_with_the_same(folder):
    if shutil.which("mpirun") is None:
        raise r.Skipped("no mpirun")
    if not r.FULL:  # one layout that cuts the table both ways
        base = base_model(folder)
        given = {"model__vocabulary": 301, "model__new_rows": "normal", "train__global_batch": 2, **STILL}
        train(folder, "one", base, **given)
        train(folder, "two", base, ranks=2, parallel__zero=3, parallel__zero_threshold=0, **given, train__micro_batch=1)
        check(exported(folder, "one") == exported(folder, "two"), "two ranks under ZeRO 3 begin with the same")
        return
    for tied in (False, True):
        base = base_model(folder, f"base{tied:d}", tie_word_embeddings=tied)
        for rule in ("mean", "normal"):
            given = {"model__vocabulary": 301, "model__new_rows": rule, "train__global_batch": 4, **STILL}
            train(folder, f"one{tied}{rule}", base, **given)
            train(folder, f"four{tied}{rule}", base, ranks=4, parallel__tensor=2, parallel__zero=3, parallel__zero_threshold=0, **given)
            check(exported(folder, f"one{tied}{rule}") == exported(folder, f"four{tied}{rule}"), f"{tied} {rule}: 2 x 2 ranks under ZeRO 3 begin with the same")
    given = {"model__vocabulary": 301, "train__steps": 3, "train__global_batch": 4, "parallel__sum_leaves": 2}
    train(folder, "learns", base, **given)
    train(folder, "stages", base, ranks=4, parallel__pipeline=2, parallel__zero=3, parallel__zero_threshold=0, **{**given, "train__micro_batch": 1})
    train(folder, "zero", base, ranks=2, parallel__zero=3, parallel__zero_threshold=0, **given)
    check(not r.same_run(folder / "learns", folder / "zero"), r.same_run(folder / "learns", folder / "zero"))
    check(exported(folder, "stages")[1]["vocab_size"] == 301, "two stages hold a tied table")


def check_converted(folder, name):
    """What lies in no checkpoint is read from model.path, with the rows and the tie that the run has."""
    r.run("convert", "--input", folder / name, "--output", folder / f"{name}_converted", "--to", "hf", "--from", "ravine")
    check(r.load_tensors(folder / f"{name}_converted") == exported(folder, name)[0], f"{name}: the checkpoint converted is the model exported")


def test_checkpoints_without_frozen_tables_are_converted(folder):
    base, tied = base_model(folder), base_model(folder, "tied", tie_word_embeddings=True)
    frozen = {"train__freeze": [EMBEDDING, HEAD], "train__steps": 2}
    few = [r.save_ids(folder / "few.safetensors", 16, 16, 200)]
    cases = ({"model__vocabulary": 300}, {"model__vocabulary": 300, "model__new_rows": "normal"}, {"model__vocabulary": 200, "data__train": few})
    for i, more in enumerate(r.rows(cases, 1, "rows are made as at the start of a run, which test_rows_old_and_new has")):
        train(folder, f"rows{i}", base, **frozen, **more)
        check_converted(folder, f"rows{i}")
    train(folder, "cut", tied, **frozen, model__tie="untied", model__vocabulary=260)
    check_converted(folder, "cut")


def test_resumes(folder):
    base = base_model(folder)
    given = {"model__vocabulary": 300, "train__steps": 4}
    train(folder, "whole", base, **given)
    train(folder, "parts", base, **{**given, "train__steps": 2})
    said = train(folder, "parts", base, status=2, **{**given, "model__vocabulary": 0})
    check("vocab_size is 256, was 300" in said and "set model.vocabulary=300" in said, said)
    train(folder, "parts", base, **given)
    check(not r.same_run(folder / "whole", folder / "parts"), r.same_run(folder / "whole", folder / "parts"))
    # What is frozen lies in no checkpoint: its new rows come by the rule again.
    frozen = {**given, "train__freeze": [EMBEDDING], "precision__compute": "bf16"}
    said = train(folder, "frozen", base, **{**frozen, "train__steps": 2})
    check(f"{EMBEDDING} is frozen, and they stay so" in said, said)
    train(folder, "frozen", base, **frozen)
    train(folder, "frozen_whole", base, **frozen)
    check(not r.same_run(folder / "frozen", folder / "frozen_whole"), r.same_run(folder / "frozen", folder / "frozen_whole"))
    check_table(exported(folder, "frozen")[0][EMBEDDING], r.load_tensors(base)[EMBEDDING], 300, "frozen under bf16")
    check_converted(folder, "frozen")
    said = train(folder, "frozen", base, status=2, **{**frozen, "train__steps": 5, "model__new_rows": "normal"})
    check("model.new_rows is normal, was mean" in said, said)


def test_ties(folder):
    base, tied = base_model(folder), base_model(folder, "tied", tie_word_embeddings=True)
    was = r.load_tensors(tied)
    said = train(folder, "cut", tied, model__tie="untied", **STILL)
    got, config = exported(folder, "cut")
    check(got[HEAD] == got[EMBEDDING] == was[EMBEDDING] and config["tie_word_embeddings"] is False, config)
    check("the head begins as a copy of the embedding" in said, said)
    train(folder, "plain", tied, **STILL)
    check(r.metrics(folder / "plain")[1]["loss"] == r.metrics(folder / "cut")[1]["loss"], "the function is the same")
    train(folder, "cut_wide", tied, model__tie="untied", model__vocabulary=260, **STILL)
    got, _ = exported(folder, "cut_wide")
    check_table(got[EMBEDDING], was[EMBEDDING], 260, "both"), check_table(got[HEAD], was[EMBEDDING], 260, "both")
    if shutil.which("mpirun") and r.FULL:
        train(folder, "cut_four", tied, ranks=4, parallel__tensor=2, parallel__zero=3, parallel__zero_threshold=0, train__global_batch=4, model__tie="untied", model__vocabulary=260, **STILL)
        check(exported(folder, "cut_wide") == exported(folder, "cut_four"), "untied and wider on four ranks")
    said = train(folder, "joined", base, model__tie="tied", **STILL)
    got, config = exported(folder, "joined")
    check(HEAD not in got and got[EMBEDDING] == r.load_tensors(base)[EMBEDDING] and config["tie_word_embeddings"] is True, config)
    check("the table of the embedding is the head too, in place of the stored head" in said, said)
    said = train(folder, "joined", base, status=2, train__steps=2)
    check("set model.tie=tied" in said, said)
    train(folder, "same", tied, model__tie="tied", **STILL)
    check(exported(folder, "same")[0] == was, "what is tied already stays")


def test_adapters_hold_resized_tables(folder):
    base = base_model(folder)
    given = {"lora__rank": 4, "model__vocabulary": 300, "optimizer__lr": 0.01}
    said = train(folder, "lost", base, status=2, **given)
    check("embedding whose rows change" in said and "lora.save=[embed_tokens, lm_head]" in said, said)
    check(not (folder / "lost").exists(), "nothing is written")
    given["lora__save"] = ["embed_tokens", "lm_head"]
    ids = r.save_ids(folder / "wide.safetensors", 16, 16, 300)
    train(folder, "run", base, **given, data__train=[ids])
    held = r.load_tensors(folder / "run" / "adapter")
    check(held["base_model.model.model.embed_tokens.weight"][1] == [300, 32] == held["base_model.model.lm_head.weight"][1], sorted(held))
    (folder / "ids.json").write_text("[[3, 299]]")
    beside = r.run("generate", "--model", base, "--adapter", folder / "run" / "adapter", "--prompt-ids", folder / "ids.json", "--max-new-tokens", 4, "--json").stdout
    r.run("merge-lora", "--model", base, "--adapter", folder / "run" / "adapter", "--output", folder / "merged")
    check(json.loads((folder / "merged" / "config.json").read_text())["vocab_size"] == 300, "the merged model has the rows of the adapter")
    merged = r.run("generate", "--model", folder / "merged", "--prompt-ids", folder / "ids.json", "--max-new-tokens", 4, "--json").stdout
    check(json.loads(beside)["ids"] == json.loads(merged)["ids"], f"{beside} {merged}")
    check(r.load_tensors(folder / "merged")[HEAD][2] == held["base_model.model.lm_head.weight"][2], "whole modules are taken as they are")
    # On from there: the rows are those of the adapter.
    train(folder, "on", base, lora__path=folder / "run" / "adapter", data__train=[ids], **STILL)
    check(r.load_tensors(folder / "on" / "adapter") == held, "at a rate of 0 the adapter stays")
    train(folder, "whole", base, **{**given, "lora__save": None, "lora__merge": True})
    check(exported(folder, "whole")[1]["vocab_size"] == 300, "a merged model needs no whole modules")
    said = train(folder, "tie", base, status=2, lora__rank=4, model__tie="tied")
    check("model.tie with an adapter" in said and "lora.merge=true" in said, said)


def test_tokenizers_and_mistakes(folder):
    base = base_model(folder)
    text = folder / "book.txt"
    text.write_text("".join(f"Line {i}: the ravine is {i * 7919 % 1000} feet deep, said the {'abcdefgh'[i % 8]} man.\n" for i in range(3000)))
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 400)
    size = json.loads(r.run("tokenizer", "info", "--tokenizer", folder / "tok", "--json").stdout)["size"]
    check(size > 300, size)
    talk = {"model__tokenizer": folder / "tok", "data__train": [str(text)], "data__sequence_length": 16}
    said = train(folder, "none", base, status=2, **talk)
    check(f"the tokenizer has {size} ids, the model a vocabulary of 256" in said and "set model.vocabulary=-1" in said, said)
    said = train(folder, "none", base, status=2, model__vocabulary=300, **talk)
    check(f"model.vocabulary=300, and the tokenizer has {size} ids" in said and f"model.vocabulary={size} or more" in said, said)
    train(folder, "fits", base, model__vocabulary=-1, **talk, **STILL)
    got, config = exported(folder, "fits")
    check(config["vocab_size"] == size, config)
    check_table(got[EMBEDDING], r.load_tensors(base)[EMBEDDING], size, "as the tokenizer needs")
    train(folder, "roomy", base_model(folder, "room", vocab_size=size + 50), model__vocabulary=-1, **talk, **STILL)
    check(exported(folder, "roomy")[1]["vocab_size"] == size + 50, "no row is lost that no number gives up")
    said = train(folder, "none", base, status=2, model__vocabulary=-1)
    check("model.vocabulary=-1 without a tokenizer" in said and "set model.tokenizer" in said, said)
    for option, fix in (("vocabulary", "vocab_size rows of"), ("new_rows", "vocab_size rows of"), ("tie", "tie_word_embeddings in")):
        value = {"vocabulary": 300, "new_rows": "normal", "tie": "tied"}[option]
        said = r.run("train", *r.options(folder, folder / "none", **{f"model__{option}": value}), status=2).stderr
        check(f"model.{option} with new weights" in said and fix in said, said)
    said = train(folder, "none", base, status=2, model__new_rows="normal")
    check("model.new_rows without new rows" in said, said)
    ends = base_model(folder, "ends", eos_token_id=250)
    said = train(folder, "none", ends, status=2, model__vocabulary=200)
    check("eos_token_id is 250" in said and "251 rows or more" in said, said)
    check(not (folder / "none").exists(), "nothing is written")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
