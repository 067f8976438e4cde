"""Wrong input ends with one clear line that names file and place, says the fix, exit status 2, and nothing written."""
import json
import re
import resource
import time

import ravine_run as r

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads


def options(folder, **more):
    """A good run on a fixed batch file; `more` replaces its settings (__ stands for the dot; None leaves one out)."""
    base = {
        "model.config": r.save_config(folder / "good.json"), "data.train": [r.save_ids(folder / "good.safetensors", 8, 32)],
        "data.sequence_length": 32, "train.steps": 1, "train.global_batch": 2, "train.output": folder / "out",
        "log.tensorboard": False,
    }
    base.update({key.replace("__", "."): value for key, value in more.items()})
    return r.settings({key: value for key, value in base.items() if value is not None})


def refused(folder, words, arguments):
    """The run is refused in one line that holds all `words`, and train.output does not exist."""
    done = r.run("train", *arguments, status=2)
    lines = done.stderr.splitlines()
    r.check(len(lines) == 1, f"one line was expected:\n{done.stderr}")
    r.check(re.fullmatch(r"error: .+ \(.+\): .+; .+", lines[0]), f"not `error: what (where): rule; fix`: {lines[0]}")
    for word in words:
        r.check(str(word) in lines[0], f"'{word}' is not in: {lines[0]}")
    r.check(not (folder / "out").exists(), f"something was written: {lines[0]}")
    r.check(done.stdout == "", f"stdout is not empty: {done.stdout}")


def make_model(folder):
    """A model folder made by one step of training; returns its path and the header and body of its weights."""
    r.run("train", *options(folder, train__output=folder / "made", checkpoint__every=0))
    model = folder / "made" / "model"
    return model, *r.load_raw(model / "model.safetensors")


def test_good_run_is_accepted(folder):
    r.run("train", *options(folder))
    r.check((folder / "out" / "model" / "model.safetensors").exists(), "no model was written")


def test_weights(folder):
    model, header, body = make_model(folder)
    file = model / "model.safetensors"
    second = "model.layers.0.mlp.up_proj.weight"
    whole = file.read_bytes()

    def with_entry(name, **fields):
        return {**header, name: {**header[name], **fields}}

    begin, end = header[second]["data_offsets"]
    rows, columns = header[second]["shape"]
    extra = {"dtype": "F32", "shape": [2], "data_offsets": [len(body), len(body) + 8]}
    final = max((n for n in header if n != "__metadata__"), key=lambda n: header[n]["data_offsets"])
    last = header[final]["data_offsets"]
    without = {n: e for n, e in header.items() if n != final}
    faults = {
        "cut in the data": (whole[:-100], [file]),
        "cut in the header": (whole[:100], [file]),
        "empty": (b"", [file]),
        "overlapping": (with_entry(second, data_offsets=[begin - 4, end - 4]), [file]),
        "a shape that is not its bytes": (with_entry(second, shape=[rows + 1, columns]), [file, second]),
        "offsets beyond the file": (with_entry(final, data_offsets=[last[0], last[1] + 4096]), [file]),
        "a huge shape": (with_entry(second, shape=[1 << 62, 1 << 62]), [file, second]),
        "a negative shape": (with_entry(second, shape=[-1, columns]), [file, second]),
        "an unknown type": (with_entry(second, dtype="F3"), [file, second]),
        "misshapen": (with_entry(second, shape=[columns, rows]), [file, second, "shape"]),
        "integers": (with_entry(second, dtype="I32"), [file, second]),
        "surplus": (({**header, "model.layers.0.mlp.up_proj.bias": extra}, body + bytes(8)),
                    [file, "model.layers.0.mlp.up_proj.bias"]),
        "missing": ((without, body[:last[0]]), [file, final, "missing"]),
        "header length that lies": ((1 << 60).to_bytes(8, "little") + whole[8:], [file]),
    }
    wrong = []
    for name, (fault, words) in faults.items():
        if isinstance(fault, bytes):
            file.write_bytes(fault)
        else:
            r.save_raw(file, *(fault if isinstance(fault, tuple) else (fault, body)))
        try:
            refused(folder, words, options(folder, model__config=None, model__path=model))
        except AssertionError as e:
            wrong.append(f"{name}: {e}")
    r.check(not wrong, "\n" + "\n".join(wrong))
    file.write_bytes(whole)
    r.run("train", *options(folder, model__config=None, model__path=model))


def test_sharded_weights(folder):
    """A model folder of several files: what the index says and what is there must agree."""
    big = r.save_config(folder / "big.json", hidden_size=128, intermediate_size=640, num_hidden_layers=2)
    made = options(folder, model__config=big, train__output=folder / "made", checkpoint__every=0, checkpoint__shard_mb=1)
    r.run("train", *made)
    model = folder / "made" / "model"
    index = model / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    shards = sorted(set(content["weight_map"].values()))
    r.check(len(shards) >= 2, f"the model is not sharded: {shards}")
    shard = model / shards[1]
    name = next(n for n, file in content["weight_map"].items() if file == shards[1])
    other = next(n for n, file in content["weight_map"].items() if file == shards[0])

    def with_map(**changes):
        places = {**content["weight_map"], **changes}
        return json.dumps({**content, "weight_map": {k: v for k, v in places.items() if v is not None}})

    header, body = r.load_raw(shard)
    first = header[name]
    faults = {
        "a shard is missing": (shard, None, [shard, "missing", index]),
        "a shard is cut": (shard, shard.read_bytes()[:-1], [shard]),
        "a shard is empty": (shard, b"", [shard]),
        "a shard is another one": (shard, (model / shards[0]).read_bytes(), [shard, name, "missing"]),
        "the index names a tensor that no file holds": (index, with_map(**{"model.layers.7.mlp.up_proj.weight": shards[0]}),
                                                        [model / shards[0], "model.layers.7.mlp.up_proj.weight", index]),
        "the index names another shard": (index, with_map(**{name: shards[0]}), [model / shards[0], name, index]),
        "the index names a shard that is not there": (index, with_map(**{name: "model-9.safetensors"}), [model / "model-9.safetensors"]),
        "the index leads out of the folder": (index, with_map(**{name: "../good.safetensors"}), [index, name]),
        "the index names no file": (index, with_map(**{name: 3}), [index, name]),
        "the index has no map": (index, '{"metadata": {}}', [index, "weight_map"]),
        "the index is not JSON": (index, index.read_text()[:-9], [index, "JSON"]),
        "a tensor of a shard is misshapen": (shard, (header | {name: {**first, "shape": [*first["shape"], 1]}}, body), [shard, name, "shape"]),
    }
    wrong = []
    for fault, (path, put, words) in faults.items():
        kept = path.read_bytes()
        if put is None:
            path.unlink()
        elif isinstance(put, tuple):
            r.save_raw(path, *put)
        else:
            path.write_bytes(put if isinstance(put, bytes) else put.encode())
        try:
            refused(folder, words, options(folder, model__config=None, model__path=model))
        except AssertionError as e:
            wrong.append(f"{fault}: {e}")
        path.write_bytes(kept)
    r.check(not wrong, "\n" + "\n".join(wrong))
    r.check(other != name, "one shard holds all")
    r.run("train", *options(folder, model__config=None, model__path=model))


def test_config(folder):
    file = folder / "config.json"
    faults = {
        "hidden_size missing": ({"hidden_size": None}, ["'hidden_size' is missing"]),
        "vocab_size missing": ({"vocab_size": None}, ["'vocab_size' is missing"]),
        "unknown": ({"rms_norm_epsi": 1e-5}, ["rms_norm_epsi", "did you mean 'rms_norm_eps'"]),
        "not a number": ({"num_hidden_layers": "two"}, ["num_hidden_layers", '"two"']),
        "negative": ({"num_hidden_layers": -2}, ["num_hidden_layers", "-2"]),
        "heads": ({"num_attention_heads": 5, "num_key_value_heads": 5}, ["hidden_size", "num_attention_heads = 5"]),
        "key heads": ({"num_key_value_heads": 3}, ["num_key_value_heads", "num_attention_heads = 4"]),
        "activation": ({"hidden_act": "gelu"}, ["hidden_act", "gelu"]),
        "family": ({"model_type": "lama"}, ["lama"]),
        "rope": ({"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, ["spiral"]),
    }
    wrong = []
    for name, (fields, words) in faults.items():
        r.save_config(file, **fields)
        try:
            refused(folder, [file, *words], options(folder, model__config=file))
        except AssertionError as e:
            wrong.append(f"{name}: {e}")
    for name, text in {"not JSON": '{"hidden_size": 32,', "no object": "[1]", "empty": ""}.items():
        file.write_text(text)
        try:
            refused(folder, [file], options(folder, model__config=file))
        except AssertionError as e:
            wrong.append(f"{name}: {e}")
    r.check(not wrong, "\n" + "\n".join(wrong))


def test_experts(folder):
    """Experts that do not fit, options of experts without any, expert ranks that do not divide."""
    moe = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    sparse = r.save_config(folder / "moe.json", **moe)
    r.run("train", *options(folder, model__config=sparse, train__output=folder / "moe", checkpoint__every=0))
    dense = folder / "dense"
    r.run("train", *options(folder, train__output=dense, checkpoint__every=0))
    (dense / "model" / "config.json").write_text((folder / "moe" / "model" / "config.json").read_text())
    for fields, words in (({"num_experts_per_tok": 5}, ("num_experts_per_tok", "5 experts per token", "4")), ({"num_local_experts": 0}, ("num_local_experts",)),
                          ({"router_jitter_noise": 0.1}, ("router_jitter_noise",)), ({"num_expert": 4}, ("num_expert", "num_experts"))):
        refused(folder, words, options(folder, model__config=r.save_config(folder / "bad.json", **{**moe, **fields})))
    for more, words in (({"moe__capacity_factor": 0.2, "moe__drop": "position"}, ("moe.capacity_factor", "0.25 or more")), ({"moe__capacity_factor": 1.5}, ("moe.drop",)),
                        ({"moe__drop": "probs"}, ("moe.capacity_factor",)), ({"moe__pad_to_capacity": True}, ("capacity",)), ({"moe__shared_gate": "gated"}, ("no shared expert",)),
                        ({"model__config": None, "model__path": folder / "moe" / "model", "lora__rank": 2, "lora__targets": ["w1"]}, ("w1",))):
        refused(folder, words, options(folder, **{"model__config": sparse, **more}))
    refused(folder, ("moe.aux_loss", "llama"), options(folder, moe__aux_loss=0.1))
    refused(folder, ("tensor", "model.layers.0"), options(folder, model__config=None, model__path=dense / "model"))
    for ranks, more, words in ((8, {"expert": 8}, "the 4 experts of a layer must be a multiple of it; use parallel.data=8 parallel.expert=4"),
                               (2, {"expert": 4}, "the 2 data ranks must be a multiple of it; use parallel.data=2 parallel.expert=2")):
        done = r.run("plan", "--ranks", ranks, *options(folder, model__config=sparse, train__global_batch=8, **{f"parallel__{k}": v for k, v in more.items()}), status=2)
        r.check(words in done.stderr, done.stderr)
    done = r.run("plan", "--ranks", 2, *options(folder, train__global_batch=8, parallel__expert=2), status=2)
    r.check("the model has no experts; use parallel.data=2 parallel.expert=1" in done.stderr, done.stderr)


def test_data(folder):
    text = folder / "latin.txt"
    text.write_bytes(b"plain line\nna\xefve text that is Latin-1\n")
    empty, good = folder / "empty.txt", r.save_text(folder / "good.txt", 3000, 1)
    empty.write_text("")
    lines = folder / "lines.jsonl"
    lines.write_text('{"text": "one"}\n{"txet": "two"}\n')
    nan = folder / "nan.jsonl"
    nan.write_text('{"text": "one"}\n{"text": NaN}\n')
    r.run("tokenizer", "train", "--input", good, "--output", folder / "tokenizer", "--vocab-size", 300)
    ids = r.save_tensors(folder / "ids.safetensors", {"input_ids": ("I32", (2, 32), [5] * 40 + [256] + [5] * 23)})
    none = r.save_tensors(folder / "none.safetensors", {"input_ids": ("I32", (0, 32), [])})
    floats = r.save_tensors(folder / "floats.safetensors", {"input_ids": ("F32", (2, 32), [1.0] * 64)})
    labels = r.save_tensors(folder / "labels.safetensors", {"input_ids": ("I32", (2, 32), [5] * 64),
                                                            "labels": ("I32", (2, 16), [5] * 32)})
    wide = r.save_ids(folder / "wide.safetensors", 4, 65)
    short = r.save_config(folder / "short.json", max_position_embeddings=16)
    words = {"model__config": r.save_config(folder / "text.json", vocab_size=300), "model__tokenizer": folder / "tokenizer"}
    r.run("train", *options(folder, data__train=[good], train__output=folder / "text", **words))
    cases = [
        ({"data__train": [str(ids)]}, [ids, "input_ids", "row 1", "column 8", "256"]),
        ({"data__train": [str(none)]}, [none, "input_ids", "empty"]),
        ({"data__train": [str(floats)]}, [floats, "input_ids"]),
        ({"data__train": [str(labels)]}, [labels, "labels"]),
        ({"data__train": [str(folder / "absent.safetensors")]}, [folder / "absent.safetensors"]),
        ({"data__train": [str(text)], **words}, [f"{text}:2", "UTF-8"]),
        ({"data__train": [str(empty)], **words}, [empty, "empty"]),
        ({"data__train": [str(lines)], **words}, [f"{lines}:2", "text"]),
        ({"data__train": [str(nan)], **words}, [f"{nan}:2", "JSON"]),
        ({"data__train": [str(good)]}, ["model.tokenizer"]),
        ({"data__train": []}, ["data.train"]),
        ({"data__train": [str(wide)], "data__sequence_length": 65}, ["data.sequence_length", "max_position_embeddings = 64"]),
        ({"model__config": short}, ["data.sequence_length", "max_position_embeddings = 16"]),
        ({"data__train": [str(wide)]}, [wide, "65"]),
    ]
    wrong = []
    for more, expected in cases:
        try:
            refused(folder, expected, options(folder, **more))
        except AssertionError as e:
            wrong.append(f"{more}: {e}")
    r.check(not wrong, "\n" + "\n".join(wrong))


def test_options(folder):
    good = options(folder)
    refused(folder, ["train.stpes", "did you mean 'train.steps'", "command line"], [*good, "train.stpes=3"])
    refused(folder, ["cosin", "schedule.type", "did you mean 'cosine'"], [*good, "schedule.type=cosin"])
    refused(folder, ["train.steps", "-3"], [*good, "train.steps=-3"])
    refused(folder, ["--bakend", "did you mean '--backend'"], [*good, "--bakend=cpu"])
    file = folder / "run.yaml"
    file.write_text("train:\n  steps: 3\n  sede: 4\n")
    refused(folder, [f"{file}:3", "sede", "did you mean 'train.seed'"], ["--config", file, *good])
    both = [*good, f"model.path={folder}"]
    refused(folder, ["model.path", "model.config", "remove one"], both)
    refused(folder, ["train.global_batch", "train.micro_batch"], [*good, "train.micro_batch=2", "train.global_batch=3"])


def test_checkpoint(folder):
    absent = folder / "step_000001"
    refused(folder, [absent, "checkpoint"], options(folder, checkpoint__resume=absent))
    absent.mkdir()
    refused(folder, [absent / "manifest.json", "missing"], options(folder, checkpoint__resume=absent))


def test_folder_in_use(folder):
    def quiet_files():  # all but those that the first run goes on writing
        growing = ("metrics.jsonl", "log.txt")
        return {p: p.read_bytes() for p in (folder / "used").rglob("*") if p.is_file() and p.name not in growing}

    long = options(folder, train__output=folder / "used", train__steps=100000, checkpoint__every=0)
    first = r.start("train", *long)
    try:
        file = folder / "used" / "metrics.jsonl"
        for _ in range(6000):
            if file.exists() and file.read_text().count("\n") > 2:
                break
            time.sleep(0.01)
        before = quiet_files()
        refused(folder, [folder / "used", str(first.pid), "in use"], long)
        after = quiet_files()
        r.check(first.poll() is None, "the run that held the folder has ended")
        r.check(before == after, "the refused run wrote into the folder of the other")
    finally:
        first.kill()
        first.communicate()
    r.check(before, "the first run wrote nothing")


def test_memory(folder):
    """Refused by the plan, before memory is taken."""
    huge = r.save_config(folder / "huge.json", hidden_size=16384, intermediate_size=65536, num_hidden_layers=200)
    refused(folder, ["memory", "TiB", "train.micro_batch"], options(folder, model__config=huge))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    r.check(most < 1 << 30, f"the refused run itself took {most} bytes")


if __name__ == "__main__":
    r.main(globals())
