"""Files that lie are refused before a step is made, by one line that says which place; and nothing of a file reaches the terminal but text."""
import itertools
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import threading
from pathlib import Path

import ravine_run as r

TOKENIZER = Path(__file__).resolve().parents[1] / "golden" / "tokenizer" / "llama" / "tokenizer.model"


def options(folder, **more):
    base = {
        "model.config": r.save_config(folder / "good.json"), "data.sequence_length": 16, "train.steps": 1, "train.global_batch": 2, "schedule.warmup_steps": 0,
        "train.output": folder / "out", "log.tensorboard": False,
    }
    base.update({key.replace("__", "."): value for key, value in more.items()})
    return r.settings({key: value for key, value in base.items() if value is not None})


def refused(words, *arguments, **more):
    lines = r.run(*arguments, status=2, **more).stderr.splitlines()
    r.check(len(lines) == 1 and re.fullmatch(r"error: .+ \(.+\): .+; .+", lines[0]), f"not one line `error: what (where): rule; fix`: {lines}")
    for word in words:
        r.check(str(word) in lines[0], f"'{word}' is not in: {lines[0]}")


def save_indexed(prefix, lengths, documents=None, offsets=None):
    """Token files of uint16; documents of one sequence each unless given."""
    true = [2 * begin for begin in itertools.accumulate(lengths[:-1], initial=0)]
    documents = documents or list(range(len(lengths) + 1))
    n = len(lengths)
    Path(f"{prefix}.bin").write_bytes(struct.pack(f"<{sum(lengths)}H", *[3 + i % 200 for i in range(sum(lengths))]))
    Path(f"{prefix}.idx").write_bytes(struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, n, len(documents)) + struct.pack(f"<{n}i", *lengths)
                                      + struct.pack(f"<{n}q", *(offsets or true)) + struct.pack(f"<{len(documents)}q", *documents))
    return prefix


def test_index_lies_in_the_middle(folder):
    """A wrong length, place or border anywhere in an index of 40,000 sequences; in both orders of the samples."""
    prefix = save_indexed(folder / "tokens", [5, 3, 7, 9] * 10_000)
    good = Path(f"{prefix}.idx").read_bytes()
    n, at = 40_000, 34
    for order in ("philox", "megatron"):
        r.run("train", *options(folder, data__train=[str(prefix)], data__order=order, train__output=folder / order))
    faults = {
        "a negative length": (at + 4 * 20_001, "<i", -3, "document 20002 of 40000"),
        "a length that is too large": (at + 4 * 16_383, "<i", 8, "document 16384 of 40000"),  # the last of a block
        "a length of 0": (at + 4 * 16_384, "<i", 0, "document 16385 of 40000"),
        "the first length": (at, "<i", 4, "document 1 of 40000"),
        "the last but one": (at + 4 * (n - 2), "<i", 6, "document 39999 of 40000"),
        "a place": (at + 4 * n + 8 * 30_000, "<q", 2, "document 30000 of 40000"),
        "a place beyond the file": (at + 4 * n + 8 * 7, "<q", 1 << 62, "document 7 of 40000"),
        "a negative place": (at + 4 * n + 8 * 9, "<q", -2, "document 9 of 40000"),
        "documents out of order": (at + 12 * n + 8 * 500, "<q", 502, "document 501 of 40000"),
    }
    faults = {name: ([fault[:3]], fault[3]) for name, fault in faults.items()}
    k, begins = 20_001, 2 * (6 * 20_000 + 5)  # of 3 tokens, then 7: the next begins before it, and all add up
    faults["a negative length that the places follow"] = ([(at + 4 * k, "<i", -3), (at + 4 * (k + 1), "<i", 13), (at + 4 * n + 8 * (k + 1), "<q", begins - 6)],
                                                          "document 20002 of 40000")
    for name, (changes, where) in r.rows(faults.items(), 3, "one check of an index, over all its places"):
        data = bytearray(good)
        for place, form, value in changes:
            struct.pack_into(form, data, place, value)
        Path(f"{prefix}.idx").write_bytes(data)
        for order in r.rows(("philox", "megatron"), 1, "both read the index alike"):
            refused([f"{prefix}.idx", where], "train", *options(folder, data__train=[str(prefix)], data__order=order))
    r.check(not (folder / "out").exists(), "something was written")


def batches(path, **tensors):
    return r.save_tensors(path, {name: ("I32" if max(map(abs, values)) < 2**31 else "I64", (2, 4), values) for name, values in tensors.items()})


def test_positions_and_masks(folder):
    """Of fixed batch files and of the inputs of trace; the tiny model has 64 positions."""
    ids = list(range(5, 13))
    r.run("train", *options(folder, data__train=[r.save_ids(folder / "ids.safetensors", 4, 4)], data__sequence_length=4, train__output=folder / "made"))
    model = folder / "made" / "model"
    zero = [0] * 8

    def both(name, words, **tensors):
        file = batches(folder / f"{name}.safetensors", **tensors)
        refused([file, *words], "train", *options(folder, data__train=[file], data__sequence_length=4))
        refused([file, *words], "trace", "--model", model, "--input", file, "--out", folder / "trace.safetensors")

    for wrong in (64, 1 << 31, (1 << 32) + 3, -1):
        both("positions", ["position_ids", "row 1", "column 2", wrong, "0 to 63"], input_ids=ids, position_ids=[0, 1, 2, 3, 0, 1, wrong, 3])
    both("no_token", ["attention_mask"], input_ids=ids, attention_mask=zero)
    both("no_mask", ["attention_mask", "row 0", "column 1"], input_ids=ids, attention_mask=[1, 7, 1, 1] * 2)
    nothing = batches(folder / "nothing.safetensors", input_ids=ids, labels=[-100] * 8)
    refused([nothing, "labels"], "train", *options(folder, data__train=[nothing], data__sequence_length=4))
    # Parts of a packed row are what they are alone: the last two of five tokens say the same in a row of their own.
    packed = batches(folder / "packed.safetensors", input_ids=ids, position_ids=[0, 1, 0, 1, 0, 1, 2, 3])
    alone = r.save_tensors(folder / "alone.safetensors", {"input_ids": ("I32", (1, 2), ids[2:4])})
    logits = []
    for file in (packed, alone):
        r.run("trace", "--model", model, "--input", file, "--out", folder / "trace.safetensors", "--overwrite")
        kind, shape, data = r.load_tensors(folder, "trace.safetensors")["logits"]
        values = memoryview(data).cast("f")
        logits.append(list(values[2 * shape[2]:4 * shape[2]] if file == packed else values))
    r.check(max(abs(a - b) for a, b in zip(*logits, strict=True)) < 1e-5, "attention stays inside a part")
    joined = batches(folder / "joined.safetensors", input_ids=ids, position_ids=[0, 1, 0, 1, 0, 1, 2, 3], attention_mask=[1] * 8)
    done = r.run("trace", "--model", model, "--input", joined, "--out", folder / "trace.safetensors", "--overwrite")
    words = "position_ids of row 0 begin again, and attention crosses there, as in Transformers with an attention_mask"
    r.check(words in done.stdout + done.stderr, done.stdout + done.stderr)
    done = r.run("train", *options(folder, data__train=[joined], data__sequence_length=4, train__output=folder / "joined"))
    r.check(words in done.stdout + done.stderr, done.stderr)
    good = batches(folder / "good.safetensors", input_ids=ids, position_ids=[0, 1, 2, 63] * 2, attention_mask=[0, 0, 1, 1, 1, 1, 1, 1])
    r.run("train", *options(folder, data__train=[good], data__sequence_length=4))
    r.run("trace", "--model", model, "--input", good, "--out", folder / "trace.safetensors", "--overwrite")




def test_dynamic_rotary_positions_have_no_end(folder):
    """Beyond max_position_embeddings each sequence has the angles of its own length, whatever others stand in the batch."""
    config = {"max_position_embeddings": 8, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
    made = r.save_config(folder / "config.json", **config)
    r.run("train", *options(folder, model__config=made, data__train=[r.save_ids(folder / "ids.safetensors", 4, 20)], data__sequence_length=20, train__output=folder / "made"))
    model = folder / "made" / "model"
    ids, more = list(range(5, 25)), list(range(40, 55))
    both = r.save_tensors(folder / "both.safetensors", {"input_ids": ("I32", (2, 20), [*ids, *more, 0, 0, 0, 0, 0]), "attention_mask": ("I32", (2, 20), [1] * 35 + [0] * 5)})

    def logits(file, model=model):
        r.run("trace", "--model", model, "--input", file, "--out", folder / "trace.safetensors", "--overwrite")
        return memoryview(r.load_tensors(folder, "trace.safetensors")["logits"][2]).cast("f")

    together = logits(both)
    for row, one in enumerate((ids, more)):
        alone = logits(r.save_tensors(folder / "alone.safetensors", {"input_ids": ("I32", (1, len(one)), one)}))
        theirs = together[row * 20 * 256:(row * 20 + len(one)) * 256]
        r.check(max(abs(a - b) for a, b in zip(theirs, alone, strict=True)) < 1e-5, f"row {row} is what it is alone")
    # The formula: the base of a sequence of 20 tokens, written as the base of a plain model of that length.
    head = 32 // 4
    plain = folder / "plain"
    shutil.copytree(model, plain)
    base = 10000 * (2.0 * 20 / 8 - 1) ** (head / (head - 2))
    written = json.loads((plain / "config.json").read_text())
    for key in ("rope_scaling", "rope_parameters"):
        written.pop(key, None)
    (plain / "config.json").write_text(json.dumps({**written, "max_position_embeddings": 64, "rope_theta": base}))
    file = r.save_tensors(folder / "alone.safetensors", {"input_ids": ("I32", (1, 20), ids)})
    r.check(max(abs(a - b) for a, b in zip(logits(file), logits(file, plain), strict=True)) < 1e-5, "the base follows the length")
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps([ids[:6], more]))
    said = [json.loads(x) for x in r.run("generate", "--model", model, "--prompt-ids", prompts, "--max-new-tokens", 6, "--json").stdout.splitlines()]
    r.check([len(x["ids"]) for x in said] == [6, 6], said)


def sealed(manifest, change):
    """Changes the scalars of a manifest and puts the checksum right that the refusal itself names."""
    text = manifest.read_text()
    body = json.loads(text)
    change(body["scalars"])
    manifest.write_text(json.dumps(body, separators=(",", ":")))
    told = subprocess.run(r.command("convert", "--input", manifest.parent, "--to", "hf", "--dry-run"), capture_output=True, text=True)
    found = re.search(r"its checksum is ([0-9a-f]{16}), it says", told.stderr)
    r.check(found, f"no checksum in: {told.stderr}")
    text = manifest.read_text()
    manifest.write_text(text[:13] + found[1] + text[29:])


def test_sealed_manifest_with_values_of_a_wrong_type(folder):
    """Whoever seals a manifest anew may write anything into it: file and field are named, never the JSON library."""
    arguments = options(folder, data__train=[r.save_ids(folder / "ids.safetensors", 8, 16)], train__steps=2)
    r.run("train", *options(folder, data__train=[str(folder / "ids.safetensors")], train__steps=1, schedule__steps=2))
    (step,) = (folder / "out" / "checkpoints").glob("step_*")
    manifest = step / "manifest.json"
    good = manifest.read_text()
    again = [w for w in arguments if not w.startswith("train.output")] + [f"train.output={folder / 'again'}", f"checkpoint.resume={step}", "schedule.steps=2"]

    def wrong(*path, value):
        def change(scalars):
            for key in path[:-1]:
                scalars = scalars[key]
            scalars[path[-1]] = value
        return change

    faults = {"sum_leaves": wrong("sum_leaves", value=[1]), "fingerprint": wrong("fingerprint", value=3),
              "tokens": wrong("tokens", value={}), "optimizer_steps": wrong("optimizer_steps", value="1"), "data": wrong("data", value="x"),
              "sources": wrong("data", "sources", value={"a": 1}), "segments": wrong("data", "segments", value=7),
              "sample": wrong("data", "segments", 0, "sample", value="0"), "weights": wrong("data", "segments", 0, "weights", value="0.5"),
              # Of the right type, and of no run: counts that are not those of the step, and a type whose states are not there.
              "'optimizer_steps' is": wrong("optimizer_steps", value=10**15), "'step' is": wrong("step", value=2**62), "'tokens' is": wrong("tokens", value=2**62),
              "data position": wrong("data", "segments", 0, "global_batch", value=2**62), "optimizer.type": wrong("optimizer", value="lion"),
              "lion has no state": lambda scalars: (scalars.update(optimizer="lion"), scalars.pop("options"))}
    for key, change in faults.items():
        manifest.write_text(good)
        lion = ["optimizer.type=lion"] if key.startswith("lion") else []
        sealed(manifest, change)
        error = r.run("train", *again, *lion, status=2).stderr
        r.check("json" not in error.replace("manifest.json", "").lower() or key == "data", f"{key}: {error}")
        r.check(key in error and "exception" not in error, f"{key}: {error}")
    manifest.write_text(good)
    r.run("train", *again)


@r.full("takes the seconds for which a pipe is waited for; what else is no file is refused in test_pipes_and_devices")
def test_a_pipe_into_which_nobody_writes(folder):
    fifo = folder / "pipe"
    os.mkfifo(fifo)
    refused([fifo, "nothing came through this pipe"], "config", "--config", fifo)


def test_pipes_and_devices(folder):
    """A config may come through a pipe; a device and a folder are refused."""
    fifo, config = folder / "pipe", folder / "run.yaml"
    os.mkfifo(fifo)
    config.write_text("train: {steps: 7}\n")
    through = subprocess.run(["bash", "-c", f"{r.PROGRAM} config --config <(sleep 0.3; cat {config})"], capture_output=True, text=True, timeout=r.LIMIT)
    r.check(through.returncode == 0 and "steps: 7" in through.stdout, through.stderr)
    threading.Thread(target=lambda: fifo.write_text(config.read_text())).start()
    r.check("steps: 7" in r.run("config", "--config", fifo).stdout, "a named pipe")
    for path, word in (("/dev/zero", "neither a file nor a pipe"), ("/dev/null", "neither a file nor a pipe"), (folder, "it is a folder"), (folder / "none", "No such file")):
        refused([path, word], "config", "--config", path)
    endless = subprocess.run(["bash", "-c", f"{r.PROGRAM} config --config <(yes)"], capture_output=True, text=True, timeout=r.LIMIT)
    r.check(endless.returncode == 2 and "at most" in endless.stderr, endless.stderr)
    # The same reader serves every small file.
    refused(["/dev/zero", "neither"], "train", *options(folder, model__config="/dev/zero", data__train=["x"]))


HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202eb\x7f"


def only_text(stream, what):
    data = stream if isinstance(stream, bytes) else stream.encode()
    text = data.decode()  # UTF-8
    bad = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c in "\u202e\u2028"]
    r.check(not bad, f"{what}: {bad!r} in {text!r}")
    return text


def test_nothing_moves_the_cursor(folder):
    """Names and texts of files are shown, not obeyed: in info, data show, diff, errors and the log."""
    names = {HOSTILE: ("F32", (1,), [1.0])}
    file = Path(r.save_tensors(folder / "hostile.safetensors", names))
    header, body = r.load_raw(file)
    header["__metadata__"] = {"key" + HOSTILE: "value" + HOSTILE}
    r.save_raw(file, header, body)
    shown = only_text(r.run("info", file).stdout, "info")
    r.check("\\x1b[2J" in shown, shown)
    only_text(r.run("diff", file, file, "--all").stdout, "diff")
    text = folder / "hostile.txt"
    text.write_text((HOSTILE + " some words\n\n") * 200)
    only_text(r.run("info", text).stdout, "info of a text")
    config = r.save_config(folder / "m.json", vocab_size=32000)
    show = ["data", "show", "--step", 1, f"model.config={config}", f"model.tokenizer={TOKENIZER}", f"data.train=[{text}]", "data.sequence_length=16", "train.global_batch=2"]
    only_text(r.run(*show).stdout, "data show")
    odd = folder / ("x" + HOSTILE + ".json")
    odd.write_text(json.dumps({"model_type": HOSTILE, "bytes": "x", "parameters": []}))
    only_text(r.run("info", odd).stdout, "info of a config")
    only_text(r.run("train", *options(folder, model__config=str(odd).replace("\x1b", "\x1b"), data__train=["x"]), status=2).stderr, "an error")
    only_text(r.run("config", "--config", odd, status=2).stderr, "an error of a config")
    only_text(r.run("info", HOSTILE, status=2).stderr, "the error of a name")


def test_config_and_train_warn_alike(folder):
    """What `config` says of likely mistakes, a run says too, at its start and in its log."""
    wrong = options(folder, data__train=[r.save_ids(folder / "ids.safetensors", 8, 16)], schedule__warmup_steps=5, train__valid_every=3, data__skip_steps=[9])
    told = [line for line in r.run("config", *wrong).stderr.splitlines() if line.startswith("warning: ")]
    r.check(len(told) == 3, told)
    done = r.run("train", *wrong)
    log = (folder / "out" / "log.txt").read_text()
    for line in told:
        r.check(line in done.stderr.splitlines() and line in log.splitlines(), f"train does not say: {line}\n{done.stderr}")
    # A new model takes the larger vocabulary of the tokenizer, so that is no mistake.
    text = r.save_text(folder / "text.txt", 2000, 1)
    r.check(r.run("config", *options(folder, model__tokenizer=TOKENIZER, data__train=[text])).stderr == "", "config warns of a vocabulary that is taken over")
    quiet = options(folder, data__train=[r.save_ids(folder / "ids.safetensors", 8, 16)], train__output=folder / "quiet")
    r.check("warning" not in r.run("train", *quiet).stderr, "a run without mistakes warns")


def test_prefetch_is_part_of_the_plan(folder):
    """What the loader may hold is planned, so a prefetch that does not fit is refused."""
    base = ["plan", "--json", f"model.config={r.save_config(folder / 'm.json')}", "data.sequence_length=64", "train.micro_batch=64", "train.global_batch=64"]
    few, many = (json.loads(r.run(*base, f"data.prefetch={n}").stdout) for n in (4, 4096))
    r.check(many["total"] - few["total"] > 4000 * 64 * 64 * 12, f"{few['total']} and {many['total']} bytes")


def test_preprocess_again_with_the_right_keys(folder):
    """A wrong field ends the first command before anything is done; the right one is not refused for it."""
    records = folder / "records.jsonl"
    records.write_text("".join(json.dumps({"body": f"some text {i}"}) + "\n" for i in range(20)))
    command = ["preprocess", "--input", records, "--tokenizer", TOKENIZER, "--output-prefix", folder / "out"]
    r.run(*command, "--json-keys", "text", status=2)
    r.check("20 documents" in r.run(*command, "--json-keys", "body").stdout, "the right key")
    # Once records are done, they are not thrown away for other options.
    with open(records, "a") as out:
        out.write("".join(json.dumps({"body": f"more text {i}"}) + "\n" for i in range(9000)) + "not json\n")
    more = ["preprocess", "--input", records, "--tokenizer", TOKENIZER, "--output-prefix", folder / "more", "--json-keys", "body"]
    r.run(*more, status=2)
    error = r.run(*more, "--append-eod", status=2).stderr
    r.check("--restart" in error, error)


if __name__ == "__main__":
    r.main(globals())
