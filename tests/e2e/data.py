"""Corpora become token files, and training takes them: preprocess, data merge, data index, info, data.order."""
import array
import itertools
import json
import random
import shutil
import signal
import struct
import time
from pathlib import Path

import ravine_run as r

TOKENIZER = Path(__file__).resolve().parents[1] / "golden" / "tokenizer" / "llama"


def tokenizer():
    for name in ("tokenizer.model", "tokenizer.json"):
        if (TOKENIZER / name).exists():
            return TOKENIZER / name
    return next(TOKENIZER.glob("*.model*"))


def save_records(path, count, seed):
    draw = random.Random(seed)
    words = ["one", "two", "三", "four", "\n", "5"]
    with open(path, "w") as out:
        for i in range(count):
            out.write(json.dumps({"text": " ".join(draw.choices(words, k=draw.randrange(1, 60))), "id": i}) + "\n")
    return path


def read_index(prefix):
    """Lengths of the sequences and the document array."""
    data = Path(str(prefix) + ".idx").read_bytes()
    magic, version, code, n, d = struct.unpack_from("<9sQBQQ", data)
    r.check(magic == b"MMIDIDX\0\0" and version == 1, f"header of {prefix}.idx")
    lengths = struct.unpack_from(f"<{n}i", data, 34)
    documents = struct.unpack_from(f"<{d}q", data, 34 + 12 * n)
    r.check(len(data) == 34 + 12 * n + 8 * d, f"size of {prefix}.idx")
    r.check(Path(str(prefix) + ".bin").stat().st_size == sum(lengths) * {8: 2, 4: 4}[code], f"size of {prefix}.bin")
    return lengths, documents


def preprocess(folder, inputs, prefix, *more, status=0):
    return r.run("preprocess", "--input", *inputs, "--tokenizer", tokenizer(), "--output-prefix", prefix, *more, status=status)


def test_preprocess_merge_info(folder):
    (folder / "in").mkdir()
    save_records(folder / "in" / "a.jsonl", 300, 1)
    (folder / "in" / "b.csv").write_text('id,text\n1,"a, ""b"""\n2,two\n')
    (folder / "in" / "c.json").write_text('[{"text": "x"},\n {"text": "y"}]')
    done = preprocess(folder, [folder / "in"], folder / "p", "--append-eod", "--workers", 2)
    lengths, documents = read_index(folder / "p_text_document")
    r.check(len(documents) == 305 and len(lengths) == 304, f"{len(documents)} documents")
    r.check("304 documents" in done.stdout, done.stdout)
    tokens = array.array("H", (folder / "p_text_document.bin").read_bytes())
    r.check(len({tokens[end - 1] for end in itertools.accumulate(lengths)}) == 1, "each document ends with the end token")
    for part, name in (("a", "a.jsonl"), ("b", "b.csv"), ("c", "c.json")):
        preprocess(folder, [folder / "in" / name], folder / part, "--append-eod")
    r.run("data", "merge", "--input", *(folder / f"{p}_text_document" for p in "abc"), "--output-prefix", folder / "joined")
    for suffix in (".bin", ".idx"):
        r.check(Path(f"{folder}/joined{suffix}").read_bytes() == Path(f"{folder}/p_text_document{suffix}").read_bytes(), f"merged {suffix} differs")
    info = json.loads(r.run("info", folder / "joined", "--tokenizer", tokenizer(), "--json").stdout)
    r.check((info["documents"], info["sequences"], info["tokens"]) == (304, 304, sum(lengths)), str(info))
    r.check(sum(row["count"] for row in info["lengths"]["histogram"]) == 304, str(info))
    r.check("one" in r.run("info", folder / "joined", "--tokenizer", tokenizer(), "--samples", 20).stdout, "samples are not decoded")
    info = json.loads(r.run("info", folder / "in", "--json").stdout)
    r.check(info["records"] == 304 and info["fields_of_the_first"]["text"] == 304, str(info))
    again = preprocess(folder, [folder / "in"], folder / "p", status=2)
    r.check("output exists" in again.stderr and len(again.stderr.splitlines()) == 1, again.stderr)


def test_killed_preprocess_goes_on(folder):
    for i in range(4):
        save_records(folder / f"{i}.jsonl", 20000, i)
    inputs = [folder / f"{i}.jsonl" for i in range(4)]
    began = time.monotonic()
    preprocess(folder, inputs, folder / "whole")
    seconds = time.monotonic() - began
    arguments = ("preprocess", "--input", *inputs, "--tokenizer", tokenizer(), "--output-prefix", folder / "p", "--save-every", "0", "--workers", "2")
    draw, kills = random.Random(1), 0
    for attempt in range(60):
        began = time.monotonic()
        process = r.start(*arguments)
        try:
            process.wait(draw.uniform(0.1, 0.6) * seconds * (1 + attempt / 4))
        except Exception:
            process.send_signal(signal.SIGKILL if attempt % 3 else signal.SIGINT)
            process.wait()
        process.stdout.close()
        if process.returncode == 0:
            if kills >= 2:
                break
            seconds = min(seconds, (time.monotonic() - began)) / (2 + attempt)  # the machine is faster now: once more from the beginning
            for path in folder.glob("p_text_document.*"):
                path.unlink()
            continue
        kills += 1
        if (folder / "p_text_document.idx").exists():  # killed behind its end: whole, as is compared below
            if (folder / "p.preprocess" / "state.json").exists():
                r.run(*arguments)
            else:  # all was done but the removal of the folder, which holds nothing of worth
                shutil.rmtree(folder / "p.preprocess", ignore_errors=True)
            break
    else:
        r.run(*arguments)
    r.check(kills >= 2, f"only {kills} runs were killed")
    for suffix in (".bin", ".idx"):
        r.check(Path(f"{folder}/p_text_document{suffix}").read_bytes() == Path(f"{folder}/whole_text_document{suffix}").read_bytes(), f"{suffix} differs after {kills} kills")
    r.check(not (folder / "p.preprocess").exists(), "the work folder is still there")


def training(folder, output, **more):
    values = {"model.config": folder / "config.json", "data.train": [str(folder / "p_text_document")], "data.sequence_length": 32, "train.steps": 6, "train.global_batch": 4,
              "train.output": folder / output, "log.tensorboard": False, "checkpoint.every": 3}
    values.update({key.replace("__", "."): value for key, value in more.items()})
    return r.settings({key: value for key, value in values.items() if value is not None})


def test_training_on_token_files(folder):
    save_records(folder / "a.jsonl", 300, 1)
    info = json.loads(r.run("tokenizer", "info", "--tokenizer", tokenizer(), "--json").stdout)
    r.save_config(folder / "config.json", vocab_size=info["size"])
    preprocess(folder, [folder / "a.jsonl"], folder / "p", "--append-eod")
    runs = {}
    for order in ("philox", "megatron", "megatron-2023"):
        more = {"data__order": order, "data__split": "90,10,0", "train__valid_every": 3, "train__valid_batches": 2} if order != "philox" else {}
        r.run("train", *training(folder, order, **more))
        runs[order] = [row["loss"] for row in r.metrics(folder / order).values()]
    r.check(runs["megatron"] == runs["megatron-2023"], f"{runs}")  # the same arrays for this split
    r.check(runs["philox"] != runs["megatron"], f"{runs}")
    # Indices from files, and a resume: the same numbers.
    cache = {"data__order": "megatron", "data__split": "90,10,0", "train__valid_every": 3, "train__valid_batches": 2, "data__index_cache": folder / "cache"}
    r.run("train", *training(folder, "cached", **cache, train__steps=6))
    r.check(len(list((folder / "cache").glob("*-GPTDataset-train-*"))) == 4, "four files of an index")
    r.run("train", *training(folder, "cached2", **cache))
    r.check(r.same_run(folder / "cached", folder / "cached2") == "" and r.same_run(folder / "cached", folder / "megatron") == "", "index files change the run")
    # What a step sees is what `data index` writes.
    r.run("data", "index", "--prefix", folder / "p_text_document", "--split", "90,10,0", "--sequence-length", 32, "--seed", 42, "--samples", "24,0,0", "--out", folder / "look")
    header, body = r.load_raw(folder / "look" / "train-samples.safetensors")
    begin, end = header["tokens"]["data_offsets"]
    tokens = struct.unpack(f"<{(end - begin) // 4}i", body[begin:end])
    shown = r.run("data", "show", "--step", 2, "--json", *training(folder, "none", data__order="megatron", data__split="90,10,0", log__tensorboard=None, checkpoint__every=None)).stdout.splitlines()
    for i, line in enumerate(shown):
        r.check(tuple(json.loads(line)["ids"]) == tokens[(4 + i) * 32:(5 + i) * 32], f"sample {4 + i}")


FILES = TOKENIZER.parents[1] / "files"


def needs_parquet(folder):
    done = r.subprocess.run(r.command("preprocess", "--input", FILES / "records.parquet", "--tokenizer", tokenizer(), "--output-prefix", folder / "try"), capture_output=True, text=True)
    if done.returncode == 2 and "Apache Arrow" in done.stderr:
        raise r.Skipped("built without Apache Arrow (scripts/build --without-parquet)")
    r.check(done.returncode == 0, done.stderr)


def test_parquet(folder):
    needs_parquet(folder)
    rows = json.loads((FILES / "records.json").read_text())
    (folder / "same.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows))
    (folder / "set").mkdir()
    (folder / "set" / "a.parquet").write_bytes((FILES / "records.parquet").read_bytes())
    preprocess(folder, [folder / "set"], folder / "p", "--append-eod", "--workers", 2)
    preprocess(folder, [folder / "same.jsonl"], folder / "q", "--append-eod")
    for suffix in (".bin", ".idx"):
        r.check(Path(f"{folder}/p_text_document{suffix}").read_bytes() == Path(f"{folder}/q_text_document{suffix}").read_bytes(), f"parquet and jsonl differ in {suffix}")
    # Trained on as they are: the same text, the same run.
    info = json.loads(r.run("tokenizer", "info", "--tokenizer", tokenizer(), "--json").stdout)
    r.save_config(folder / "config.json", vocab_size=info["size"])
    common = {"model__tokenizer": tokenizer(), "data__sequence_length": 8, "train__steps": 3, "checkpoint__every": 0}
    r.run("train", *training(folder, "table", data__train=[str(folder / "set")], **common))
    r.run("train", *training(folder, "lines", data__train=[str(folder / "same.jsonl")], **common))
    r.check(r.same_run(folder / "table", folder / "lines") == "", "parquet and jsonl train alike")
    info = json.loads(r.run("info", folder / "set", "--json").stdout)
    r.check(info["records"] == len(rows) and info["fields_of_the_first"]["messages"] == len(rows), str(info))
    bad = folder / "set" / "b.parquet"
    bad.write_bytes((FILES / "records.parquet").read_bytes()[:700])
    for done in (preprocess(folder, [folder / "set"], folder / "z", status=2), r.run("train", *training(folder, "none", data__train=[str(folder / "set")], **common), status=2)):
        r.check("cannot read parquet file" in done.stderr and "b.parquet" in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr)
    done = preprocess(folder, [folder / "set" / "a.parquet"], folder / "y", "--json-keys", "body", status=2)
    r.check("it has no column 'body', only text, id" in done.stderr, done.stderr)


def test_mistakes(folder):
    save_records(folder / "a.jsonl", 50, 1)
    r.save_config(folder / "config.json", vocab_size=64)
    preprocess(folder, [folder / "a.jsonl"], folder / "p")

    def refused(words, *arguments):
        done = r.run(*arguments, status=2)
        r.check(len(done.stderr.splitlines()) == 1, done.stderr)
        for word in words:
            r.check(word in done.stderr, f"'{word}' is not in {done.stderr}")

    refused(["beyond the vocabulary", "p_text_document.bin"], "train", *training(folder, "out"))
    refused(["data.order", "preprocess"], "train", *training(folder, "out", data__order="megatron", data__train=[str(folder / "a.jsonl")]))
    refused(["no tokens in a split"], "data", "index", "--prefix", folder / "p_text_document", "--split", "0.001,1", "--sequence-length", 8, "--samples", "10,,", "--out", folder / "x")
    refused(["--samples"], "data", "index", "--prefix", folder / "p_text_document", "--samples", "a,b", "--out", folder / "x")
    bin_file = folder / "p_text_document.bin"
    bin_file.write_bytes(bin_file.read_bytes()[:-2])
    refused(["cut short", "p_text_document.bin"], "info", folder / "p_text_document")
    refused(["cut short"], "train", *training(folder, "out"))
    (folder / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    refused(["bad.jsonl:2", "JSON"], "preprocess", "--input", folder / "bad.jsonl", "--tokenizer", tokenizer(), "--output-prefix", folder / "q")
    refused(["no key 'body'", "a.jsonl:1"], "preprocess", "--input", folder / "a.jsonl", "--json-keys", "body", "--tokenizer", tokenizer(), "--output-prefix", folder / "z")


if __name__ == "__main__":
    r.main(globals())
