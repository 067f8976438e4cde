"""Preference training, `train.objective=dpo`, against TRL, PEFT and PyTorch (tests/golden/dpo, made by tools/golden/make_dpo.py), and what is its own:
forms of records, packing, the kept reference, resumes, refusals.

Bounds as in curves.py: `distance` is how far single precision lay from double in PyTorch, another program is another draw of that spread (8 times), and
roundings of double precision are 2^-29 of those.

python3 preferences.py PATH_OF_ravine [FUNCTION ..]
"""
import array
import json
import math
import os
import shutil
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "dpo").resolve()
RECORD = json.loads((GOLDEN / "dpo.json").read_text())
DRAWS = 8
TYPES = {"f32": ([], 2.0 ** -24), "f64": (["--backend", "ref"], 2.0 ** -53), "bf16": ([], 2.0 ** -8)}
METRICS = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected"]


def settings(case, output, kind="f32", **more):
    options = dict(RECORD["cases"][case]["options"])
    data = GOLDEN / options.pop("data.train")
    if "lora.path" in options:
        options["lora.path"] = GOLDEN / options["lora.path"]
    values = {"train.objective": "dpo", "model.path": GOLDEN / "model", "data.train": [str(data)], "data.valid": [str(GOLDEN / ("chats.jsonl" if case == "chats" else "valid.jsonl"))],
              "data.sequence_length": RECORD["columns"], "data.pack": False, "data.shuffle": False, "train.steps": RECORD["steps"], "train.global_batch": RECORD["pairs"],
              "train.micro_batch": RECORD["micro_batch"], "train.valid_every": RECORD["valid_every"], "train.threads": 1, "checkpoint.every": 0, "log.tensorboard": False,
              "precision.compute": kind, "train.output": output, **RECORD["options"], **options, **{key.replace("__", "."): value for key, value in more.items()}}
    return [*TYPES[kind][0], *r.settings({key: value for key, value in values.items() if value is not None})]


def show(case, folder, *words, **more):
    taken = [w for w in settings(case, folder / "run", **more) if w.startswith(("model.", "data.", "train."))]
    return r.run("data", "show", "--step", 1, *words, *taken).stdout


def train(case, folder, kind="f32", status=0, **more):
    done = r.run("train", *settings(case, folder, kind, **more), status=status)
    return rows(folder) if status == 0 else done.stderr


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def compare_curve(case, got, kind, what):
    """Every number of every step."""
    record, rounding = RECORD["cases"][case], TYPES[kind][1]
    beta, share = record["options"]["dpo.beta"], rounding / 2.0 ** -24
    check([row["step"] for row in got] == list(range(1, RECORD["steps"] + 1)), f"{what}: {[row['step'] for row in got]}")
    for row, want in zip(got, record["curve"]):
        for key, value in want.items():
            name = "valid_loss" if key == "valid_loss" else key
            check(name in row, f"{what}, step {row['step']}: no {name} in {sorted(row)}")
            valid = "valid_" if key.startswith("valid_") else ""
            # A reward is the difference of two log-probabilities: it is off as they are.
            scale = beta * abs(want[valid + "logps/chosen"]) if "rewards/" in key else abs(value) or 1.0
            bound = (DRAWS * record["distance"][key] * share + 4 * rounding) * scale
            check(abs(row[name] - value) <= bound, f"{what}, step {row['step']}, {name}: {row[name]!r} instead of {value!r}, off by {abs(row[name] - value) / bound:.3g} bounds")


def floats(tensor):
    return array.array("f", tensor[2])


def compare_weights(case, folder, kind, what):
    place = GOLDEN / "final" / f"{case}.safetensors"
    if not place.exists():
        return
    want = r.load_tensors(place.parent, place.name)
    got = r.load_tensors(folder / ("adapter" if "lora.path" in RECORD["cases"][case]["options"] else "model"))
    check(got.keys() == want.keys(), f"{what}: {sorted(got.keys() ^ want.keys())}")
    for name, tensor in want.items():
        a, b = floats(got[name]), floats(tensor)
        off = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b))
        bound = DRAWS * RECORD["cases"][case]["distance"]["weights"][name] * TYPES[kind][1] / 2.0 ** -24 + 2 * 2.0 ** -24  # stored in f32
        check(off <= bound, f"{what}: {name} is off by {off:.3g}, {off / bound:.3g} bounds")


def compare(case, folder, kind, **more):
    what = f"{case} in {kind} {more or ''}"
    out = folder / f"{case}-{kind}-{len(list(folder.iterdir()))}"
    compare_curve(case, train(case, out, kind, **more), kind, what)
    compare_weights(case, out, kind, what)


def test_curves_in_double(folder):
    for case in RECORD["cases"]:
        compare(case, folder, "f64")


def test_curves_in_single(folder):
    for case in ("sigmoid", "ipo", "lora", "cut"):
        compare(case, folder, "f32")


def test_however_it_is_computed(folder):
    """Micro batches, recomputation, the head as its unfused definition, ZeRO's buffers: the same curves."""
    compare("sigmoid", folder, "f64", train__micro_batch=1, train__recompute="full")
    compare("ftx", folder, "f64", train__micro_batch=6, train__recompute="none", precision__unfused=["loss_head"])
    compare("sigmoid", folder, "f32", precision__unfused=["loss_head"], train__micro_batch=3)
    compare("ipo", folder, "f64", train__loss_average="micro", train__micro_batch=3)  # micro batches of as many pairs
    compare("sigmoid", folder, "bf16")


def test_what_is_learned_is_what_trl_learns(folder):
    for file, want in RECORD["ids"].items():
        case = "chats" if file == "chats.jsonl" else "sigmoid"
        shown = [json.loads(line) for line in show(case, folder, "--json", data__train=[str(GOLDEN / file)], train__global_batch=len(want), train__micro_batch=1).splitlines()]
        check(len(shown) == len(want), f"{file}: {len(shown)} samples")
        for sample, pair in zip(shown, want):
            check(len(sample["segments"]) == 2, f"{file}: {sample['segments']}")
            for (begin, end), answer in zip(sample["segments"], ("chosen_ids", "rejected_ids")):
                length = end - begin
                prompt, ids = pair["prompt_ids"], pair["prompt_ids"] + pair[answer]
                check(sample["ids"][begin:begin + length] == ids[:-1], f"{file}, {sample['origin']}: ids {sample['ids'][begin:begin + length]} instead of {ids[:-1]}")
                labels = [-100] * (len(prompt) - 1) + pair[answer]
                got = [x if x >= 0 else -100 for x in sample["labels"][begin:begin + length]]
                check(got == labels, f"{file}, {sample['origin']}, {answer}: labels {got} instead of {labels}")
                check(sample["positions"][begin:begin + length] == list(range(length)), f"{file}: positions")
    said = show("sigmoid", folder)
    check("pair 1, chosen" in said and "pair 1, rejected" in said and "two and two? ⟦four.</s>⟧" in said and "⟦five, or so.</s>⟧" in said, said)


def test_forms_of_records(folder):
    """The same pairs as TRL's lists, with the keys of Alpaca and of ShareGPT, in a table and as a list: the same run."""
    chats = [json.loads(line) for line in (GOLDEN / "chats.jsonl").read_text().splitlines()][:4]
    speaker = {"user": "human", "assistant": "gpt"}
    turn = lambda m: {"from": speaker[m["role"]], "value": m["content"]}
    forms = {
        "trl.jsonl": chats,
        "whole.jsonl": [{"chosen": c["prompt"] + c["chosen"], "rejected": c["prompt"] + c["rejected"]} for c in chats],
        "alpaca.json": [{"instruction": c["prompt"][0]["content"], "input": "", "chosen": c["chosen"][0]["content"], "rejected": c["rejected"][0]["content"]} for c in chats],
        "sharegpt.jsonl": [{"conversations": [turn(m) for m in c["prompt"]], "chosen": turn(c["chosen"][0]), "rejected": turn(c["rejected"][0])} for c in chats],
        "messages.jsonl": [{"messages": c["prompt"], "chosen": c["chosen"][0], "rejected": c["rejected"]} for c in chats],
        "turns.jsonl": [{"prompt": [turn(m) for m in c["prompt"]], "chosen": [turn(m) for m in c["chosen"]], "rejected": [turn(m) for m in c["rejected"]]} for c in chats],
    }
    first = None
    for name, records in forms.items():
        text = json.dumps(records) if name.endswith(".json") else "\n".join(json.dumps(x) for x in records)
        (folder / name).write_text(text + "\n")
        got = [{k: row[k] for k in ("loss", "grad_norm", *METRICS)} for row in
               train("chats", folder / f"run-{name}", data__train=[str(folder / name)], data__valid=None, train__valid_every=0, train__global_batch=4, train__steps=2)]
        first = first or got
        check(got == first and len(got) == 2, f"{name}: {got} instead of {first}")


def test_a_table_of_texts(folder):
    import csv
    pairs = [json.loads(line) for line in (GOLDEN / "texts.jsonl").read_text().splitlines()]
    with open(folder / "texts.csv", "w", newline="") as f:
        table = csv.DictWriter(f, ["rejected", "prompt", "chosen"])
        table.writeheader()
        table.writerows(pairs)
    same_rows(train("sigmoid", folder / "table", train__steps=2, data__train=[str(folder / "texts.csv")]), train("sigmoid", folder / "lines", train__steps=2), "a table")


def test_tables_of_parquet(folder):
    """The pairs of the lines, as columns in another order beside one that nobody asks for (tools/golden/make_parquet.py): shown and learned alike."""
    for case, name in (("sigmoid", "texts"), ("chats", "chats")):
        lines, table = ({"data__train": [str(GOLDEN / f"{name}.{kind}")]} for kind in ("jsonl", "parquet"))
        words = ["train", *settings(case, folder / f"{case}-table", train__steps=3, **table)]
        done = r.subprocess.run(r.command(*words), capture_output=True, text=True)
        if done.returncode == 2 and "Apache Arrow" in done.stderr:
            raise r.Skipped("built without Apache Arrow (scripts/build --without-parquet)")
        check(done.returncode == 0, done.stderr)
        same_rows(rows(folder / f"{case}-table"), train(case, folder / f"{case}-lines", train__steps=3, **lines), f"{name} in a table")
        shown = [[{k: v for k, v in json.loads(line).items() if k != "origin"} for line in show(case, folder, "--json", **given).splitlines()] for given in (lines, table)]
        check(shown[0] == shown[1] and len(shown[0]) > 1, f"{name}: {shown}")


def test_bounds_train(folder):
    """What is taken ends with finite numbers."""
    for loss in ("sigmoid", "hinge", "ipo"):
        for more in ({"dpo__beta": 1e-6}, {"dpo__beta": 1e6}, {"dpo__ftx": 1e6}, *([{"dpo__label_smoothing": 0.4999}] if loss == "sigmoid" else [])):
            got = train("sigmoid", folder / f"{loss}{len(list(folder.iterdir()))}", dpo__loss=loss, train__steps=2, **more)
            check(all(math.isfinite(row[key]) for row in got for key in ("loss", "grad_norm", "valid_loss", *METRICS) if key in row) and len(got) == 2, f"{loss} {more}: {got}")


def test_packed_pairs_are_those_of_rows(folder):
    """Several pairs side by side in a sequence, which may be twice as long as the model has positions: the loss of the first step, a mean over pairs, is that of one pair per row up to roundings."""
    one = train("sigmoid", folder / "rows", "f64", train__steps=1)[0]
    packed = train("sigmoid", folder / "packed", "f64", data__pack=True, data__sequence_length=256, data__too_long="drop", train__global_batch=1, train__micro_batch=1, train__steps=1, data__valid=None,
                   train__valid_every=0)[0]
    check("in 1 sequence" in (folder / "packed" / "log.txt").read_text(), "all six pairs lie in one sequence")
    for key in ("loss", "grad_norm", "logps/chosen", "logps/rejected"):
        check(abs(packed[key] - one[key]) <= 64 * 2.0 ** -53 * abs(one[key]), f"{key}: {packed[key]!r} and {one[key]!r}")


def same_rows(a, b, what):
    keys = ["step", "loss", "grad_norm", "lr", "tokens", *METRICS]
    pick = lambda xs: [{k: x[k] for k in keys if k in x} | {k: v for k, v in x.items() if k.startswith("valid_")} for x in xs]
    check(pick(a) == pick(b), f"{what}:\n{pick(a)}\n{pick(b)}")


def test_a_resume_goes_on_bit_for_bit(folder):
    """What the reference gave is kept; lost or torn it is worked out again from the weights that the run began with, not from those of now."""
    for case, more in (("sigmoid", {"precision__compute": "bf16", "data__shuffle": True, "train__global_batch": 2}), ("lora", {"lora__path": None, "lora__rank": 2, "lora__dropout": 0.2, "dpo__beta": 0.5})):
        more["checkpoint__every"] = 1
        whole = train(case, folder / f"{case}-whole", **more)
        check(len({row["loss"] for row in whole}) == len(whole), f"{whole}")
        for fate in ("kept", "lost", "torn"):
            half = folder / f"{case}-{fate}"
            train(case, half, train__steps=3, **more)
            place = half / "reference.safetensors"
            known = place.read_bytes()
            if fate == "lost":
                place.unlink()
            elif fate == "torn":
                place.write_bytes(known[:-8])
            same_rows(train(case, half, **more), whole, f"{case}, reference {fate}")
            check(place.read_bytes() == (folder / f"{case}-whole" / "reference.safetensors").read_bytes(), f"{case}, {fate}: reference.safetensors")
            what = "adapter" if case == "lora" else "model"
            check(r.load_tensors(half / what) == r.load_tensors(folder / f"{case}-whole" / what), f"{case}, {fate}: the weights in the end")


def test_a_reference_that_is_gone_is_named(folder):
    model = folder / "model"
    shutil.copytree(GOLDEN / "model", model)
    train("sigmoid", folder / "run", model__path=model, train__steps=3, checkpoint__every=1)
    shutil.copy(folder / "run" / "model" / "model.safetensors", model / "model.safetensors")
    train("sigmoid", folder / "run", model__path=model, train__steps=4, checkpoint__every=1)  # all is known
    (folder / "run" / "reference.safetensors").unlink()
    said = train("sigmoid", folder / "run", status=2, model__path=model, checkpoint__every=1)
    check("holds other weights than when this run began" in said and "reference.safetensors" in said and "dpo.reference" in said, said)


def test_the_reference_is_another_model_or_the_base(folder):
    train("sigmoid", folder / "first", checkpoint__every=1)
    # Against what was trained, the model as it was gets its rewards from the other side; at a rate of 0 it stays so.
    further = train("sigmoid", folder / "further", dpo__reference=folder / "first" / "model", optimizer__lr=0.0, train__steps=2)
    check(further[0]["rewards/margins"] < 0 and further[0]["loss"] == further[1]["loss"] > math.log(2), f"{further}")
    check(r.load_tensors(folder / "further" / "model") == r.load_tensors(GOLDEN / "model"), "a rate of 0 changes nothing")
    # A new adapter changes nothing yet: the first loss is log 2, the margin 0; the whole model is never there twice.
    begun = train("sigmoid", folder / "adapter", lora__rank=2, train__steps=2)
    check(abs(begun[0]["loss"] - math.log(2)) <= 2 ** -52 and begun[0]["rewards/margins"] == 0 and begun[1]["rewards/margins"] > 0, f"{begun}")
    said = train("sigmoid", folder / "first", status=2, dpo__beta=0.5, train__steps=8, checkpoint__every=1)
    check("dpo.beta" in said, said)


def test_pairs_of_several_files(folder):
    """Two files that have the pairs of one, in its order: whichever file a pair is of, it is compared with its own reference."""
    whole = train("sigmoid", folder / "whole")
    lines = (GOLDEN / RECORD["cases"]["sigmoid"]["options"]["data.train"]).read_text().splitlines(True)
    names = []
    for part, some in enumerate((lines[:len(lines) // 2], lines[len(lines) // 2:])):
        names.append(str(folder / f"part{part}.jsonl"))
        Path(names[-1]).write_text("".join(some))
    same_rows(train("sigmoid", folder / "parts", data__train=names), whole, "two files")


def test_begun_again_beside_another_reference(folder):
    """What an earlier start has left in the folder is taken for the same reference only."""
    train("sigmoid", folder / "first", train__steps=2)
    other = folder / "first" / "model"
    want = train("sigmoid", folder / "new", dpo__reference=other, train__steps=2)
    train("sigmoid", folder / "again", train__steps=2)
    again = train("sigmoid", folder / "again", dpo__reference=other, train__steps=2, checkpoint__resume="none")
    same_rows(again[-2:], want, "a file of another reference")


def test_begun_again_beside_other_pairs(folder):
    """What is kept is of these pairs in this order, computed so: as many others, or the same in another order, have a reference of their own."""
    def turned(name, file):
        (folder / name).write_text("".join(reversed(Path(file).read_text().splitlines(True))))
        return [str(folder / name)]
    train_file = GOLDEN / RECORD["cases"]["sigmoid"]["options"]["data.train"]
    changes = {"valid": {"data__valid": turned("valid.jsonl", GOLDEN / "valid.jsonl")}, "train": {"data__train": turned("train.jsonl", train_file)},
               "compute": {"precision__compute": "bf16"}, "length": {"data__sequence_length": 20, "data__too_long": "cut"}}
    same = {"train__steps": 2, "train__valid_every": 1}
    for what, change in changes.items():
        want = train("sigmoid", folder / f"{what}-new", **{**same, **change})
        train("sigmoid", folder / what, **same)
        first = r.load_tensors(folder / what, "reference.safetensors")
        again = train("sigmoid", folder / what, checkpoint__resume="none", **{**same, **change})
        same_rows(again[-2:], want, f"begun again with another {what}")
        check(first != r.load_tensors(folder / f"{what}-new", "reference.safetensors"), f"{what}: the values do differ")
    # A resume may change what is validated.
    train("sigmoid", folder / "resumed", checkpoint__every=1, **same)
    more = {**same, "train__steps": 3, "checkpoint__every": 1, **changes["valid"]}
    resumed, want = train("sigmoid", folder / "resumed", **more), train("sigmoid", folder / "whole", **more)
    same_rows(resumed[-1:], want[-1:], "resumed with other validation pairs")


def test_new_weights_have_a_reference_too(folder):
    """model.config: drawn from the seed, and drawn again after the file is lost."""
    config = {"model__path": None, "model__config": GOLDEN / "model" / "config.json", "model__tokenizer": GOLDEN / "model", "checkpoint__every": 1}
    whole = train("sigmoid", folder / "whole", **config)
    check(abs(whole[0]["loss"] - math.log(2)) <= 2 ** -52, f"{whole[0]}")
    train("sigmoid", folder / "half", train__steps=3, **config)
    (folder / "half" / "reference.safetensors").unlink()
    same_rows(train("sigmoid", folder / "half", **config), whole, "resumed")


PAIR = {"prompt": "a? ", "chosen": "b", "rejected": "c"}
RECORDS = [  # (the second record of a file, words of the message)
    ({"prompt": "a?", "chosen": "b"}, ("no key 'rejected'", "record 2")),
    ({"prompt": "a?", "chosen": "b", "rejcted": "c"}, ("rename 'rejcted' to 'rejected'",)),
    ({"prompt": "a?", "chosen": "b", "rejected": None}, ("'rejected' is null",)),
    ({"prompt": "a?", "chosen": "", "rejected": "c"}, ("'chosen' is empty",)),
    ({"prompt": "a?", "chosen": "b", "rejected": 7}, ("'rejected' is no answer", "number")),
    ({"prompt": 7, "chosen": "b", "rejected": "c"}, ("'prompt' is no text",)),
    ({"question": "a?", "chosen": "b", "rejected": "c"}, ("rename 'question' to 'prompt'",)),
    ({"prompt": "a?", "instruction": "a?", "chosen": "b", "rejected": "c"}, ("'prompt' beside 'instruction'",)),
    ({"prompt": [{"role": "user", "content": "a"}], "chosen": [{"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]}, ("a conversation among pairs of texts",)),
    (["a", "b"], ("not a JSON object",)),
]
CHAT = {"prompt": [{"role": "user", "content": "a?"}], "chosen": [{"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]}
CHATS = [
    ({**CHAT, "rejected": "c"}, ("'rejected'", "list of messages")),
    ({**CHAT, "rejected": [{"role": "assistent", "content": "c"}]}, ("assistent", "assistant")),
    ({**CHAT, "rejected": []}, ("'rejected' is empty",)),
    ({**CHAT, "chosen": [{"role": "assistant"}, 5]}, ("record 2", "chosen")),
    (PAIR, ("texts among pairs of conversations",)),
]


def test_records_that_are_wrong(folder):
    for k, (first, cases) in enumerate([(PAIR, RECORDS), (CHAT, CHATS)]):
        for i, (record, words) in enumerate(cases):
            place = folder / f"pairs-{k}-{i}.jsonl"
            place.write_text(json.dumps(first) + "\n" + json.dumps(record) + "\n")
            said = train("sigmoid", folder / "run", status=2, data__train=[str(place)], data__valid=None)
            check(all(w in said for w in (*words, place.name)) and not (folder / "run").exists(), f"{record}: {said}")


def test_options_that_are_wrong(folder):
    (folder / "alike.jsonl").write_text(json.dumps({**PAIR, "rejected": "b"}) + "\n")
    (folder / "long.jsonl").write_text(json.dumps({**PAIR, "prompt": "a" * 60}) + "\n")
    (folder / "plain.txt").write_text("no pairs\n")
    other = folder / "other"
    shutil.copytree(GOLDEN / "model", other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "num_attention_heads": 2}))
    for more, words in [
        ({"train__objective": "causal"}, ("dpo.beta", "set train.objective=dpo")),
        ({"train__objective": "dpoo"}, ("did you mean", "dpo")),
        ({"dpo__loss": "hinge", "dpo__label_smoothing": 0.1}, ("dpo.label_smoothing", "sigmoid")),
        ({"dpo__label_smoothing": 0.5}, ("dpo.label_smoothing", "0.5")),
        ({"dpo__beta": 0}, ("dpo.beta",)),
        ({"dpo__ftx": -1}, ("dpo.ftx",)),
        ({"data__loss_on": "all"}, ("data.loss_on",)),
        ({"data__order": "megatron"}, ("data.order",)),
        ({"data__format": "alpaca"}, ("data.format",)),
        ({"data__train": [str(folder / "plain.txt")]}, ("plain.txt", "'chosen' and 'rejected'")),
        ({"data__train": [str(folder / "alike.jsonl")]}, ("no pair is left", "the same")),
        ({"data__train": [str(folder / "long.jsonl")]}, ("no pair is left", "data.sequence_length")),
        ({"dpo__reference": folder / "nowhere"}, ("dpo.reference", "nowhere")),
        ({"dpo__reference": other}, ("the reference is another model", "dpo.reference")),
    ]:
        said = train("sigmoid", folder / "run", status=2, **{"data__valid": None, **more})
        check(all(w in said for w in words) and not (folder / "run").exists(), f"{more}: {said}")
    for case in ("sigmoid", "chats"):  # the same files without the objective
        said = r.run("train", *[w for w in settings(case, folder / "run") if "objective" not in w and "dpo." not in w], status=2).stderr
        check("train.objective=dpo" in said and ".jsonl:1" in said, said)


def test_what_is_left_out_is_counted(folder):
    (folder / "pairs.jsonl").write_text("".join(json.dumps(x) + "\n" for x in [PAIR] * 3 + [{**PAIR, "rejected": "b"}, {**PAIR, "prompt": "a" * 60}, {**PAIR, "chosen": "b" * 60}]))
    more = {"data__train": [str(folder / "pairs.jsonl")], "data__valid": None, "train__valid_every": 0, "train__global_batch": 2, "train__steps": 1, "checkpoint__every": 1}
    train("sigmoid", folder / "cut", **more)
    said = (folder / "cut" / "log.txt").read_text()
    check("6 pairs" in said and "1 cut at half of data.sequence_length" in said and "2 left out" in said and "whose two answers are the same" in said, said)
    train("sigmoid", folder / "dropped", data__too_long="drop", **more)
    check("3 left out" in (folder / "dropped" / "log.txt").read_text(), (folder / "dropped" / "log.txt").read_text())
    # Tokens, and what was counted, come again from the folder.
    train("sigmoid", folder / "cut", **{**more, "train__steps": 2})
    again = (folder / "cut" / "log.txt").read_text()
    check(again.count("6 pairs, 90 tokens") == 2 and len(list((folder / "cut" / "tokens").iterdir())) == 1, again)
    # A share is held out by the record, so both answers of a pair stay together.
    held = train("sigmoid", folder / "held", data__valid_fraction=0.34, data__valid=None, train__valid_every=1, train__global_batch=2, train__steps=1)
    check("valid_loss" in held[0] and "valid_rewards/margins" in held[0], f"{held}")


def test_config_warns_of_what_does_not_fit(folder):
    (folder / "pairs.jsonl").write_text("".join(json.dumps(x) + "\n" for x in [PAIR] * 3 + [{**PAIR, "chosen": "b" * 60}] * 3))
    for file, words in [(folder / "pairs.jsonl", ("50 % of the first 6 pairs are longer than data.sequence_length=96 and are cut; data.sequence_length=192 would keep 100 % of them whole",)), (GOLDEN / "chats.jsonl", ())]:
        said = r.run("config", *[w for w in settings("sigmoid", folder / "run", data__train=[str(file)], data__valid=None) if not w.startswith("--")]).stderr
        check(all(w in said for w in words) and ("longer" in said) == bool(words), said)
    said = train("sigmoid", folder / "run", status=2, data__sequence_length=257)
    check("max_position_embeddings = 128, and each answer of a pair has half" in said and "data.sequence_length=256" in said, said)


if __name__ == "__main__":
    r.main(globals())
