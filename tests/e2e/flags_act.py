"""Flags and options that nothing else shows at work: each changes what it says, and nothing else."""
import array
import json
import struct
import subprocess
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import check, run

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads

TOKENIZER = Path(__file__).resolve().parents[1] / "golden" / "tokenizer" / "llama"
CODES = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}  # of Megatron's index, as array calls the types


def token_file(prefix):
    """Type, documents as lists of ids."""
    idx = Path(f"{prefix}.idx").read_bytes()
    magic, version, code, n, d = struct.unpack_from("<9sQBQQ", idx)
    lengths, documents = struct.unpack_from(f"<{n}i", idx, 34), struct.unpack_from(f"<{d}q", idx, 34 + 12 * n)
    ids = array.array(CODES[code], Path(f"{prefix}.bin").read_bytes())
    ends = [sum(lengths[:i]) for i in range(n + 1)]
    return CODES[code], [list(ids[ends[a]:ends[b]]) for a, b in zip(documents, documents[1:])]


def preprocess(folder, name, *words, status=0):
    done = run("preprocess", "--tokenizer", TOKENIZER, "--output-prefix", folder / name, *words, status=status)
    return (token_file(folder / f"{name}_text_document") if status == 0 and (folder / f"{name}_text_document.idx").exists() else None), done


def test_preprocess(folder):
    rows = [{"text": "one"}, {"text": "two words and more of them"}, {"text": ""}, {"text": "three"}]
    (folder / "a.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows))
    (kind, plain), done = preprocess(folder, "plain", "--input", folder / "a.jsonl")
    check(kind == "H" and len(plain) == 3 and "left out: 1 time" in done.stderr, f"{kind} {plain}: {done.stderr}")
    for dtype, want in (("int32", "i"), ("int64", "q"), ("uint16", "H"), ("int16", "h")):
        got, _ = preprocess(folder, dtype, "--input", folder / "a.jsonl", "--dtype", dtype)
        check(got == (want, plain), f"--dtype {dtype}: {got}")
    done = preprocess(folder, "narrow", "--input", folder / "a.jsonl", "--dtype", "int8", status=2)[1]
    check("error: " in done.stderr and not (folder / "narrow_text_document.bin").exists(), done.stderr)
    done = preprocess(folder, "strict", "--input", folder / "a.jsonl", "--strict", status=2)[1]
    check("empty document" in done.stderr and "a.jsonl:3" in done.stderr and not list(folder.glob("strict*")), done.stderr)
    (folder / "bad.jsonl").write_bytes(b'{"text": "good"}\n{"text": "b\xffd"}\n')
    done = preprocess(folder, "bad", "--input", folder / "bad.jsonl", "--strict", status=2)[1]
    check("not UTF-8" in done.stderr and "bad.jsonl:2" in done.stderr, done.stderr)
    (_, repaired), done = preprocess(folder, "repaired", "--input", folder / "bad.jsonl")
    check(len(repaired) == 2 and "1 of 2 records had bad UTF-8" in done.stderr, done.stderr)
    # Of conversations those as long as --seq-length, or longer, are left out, as ModelLink does.
    (folder / "chat.jsonl").write_text("".join(json.dumps({"instruction": "Why?", "input": "", "output": "It is " + "so " * n}) + "\n" for n in (1, 5, 30)))
    words = ("--input", folder / "chat.jsonl", "--handler", "GeneralInstructionHandler")
    preprocess(folder, "all", *words)
    everything = token_file(folder / "all_packed_input_ids_document")[1]
    lengths = [len(d) for d in everything]
    check(lengths == sorted(lengths) and len(set(lengths)) == 3, f"{lengths}")
    for most, kept in ((lengths[1], 1), (lengths[1] + 1, 2), (0, 3)):
        done = preprocess(folder, f"most{most}", *words, "--seq-length", most)[1]
        check(token_file(folder / f"most{most}_packed_input_ids_document")[1] == everything[:kept] and (kept == 3 or f"left out: {3 - kept} time" in done.stderr), f"--seq-length {most}: {done.stderr}")
    # What --json-keys names, each in files of its own.
    (folder / "two.jsonl").write_text(json.dumps({"text": "one", "body": "three"}) + "\n")
    run("preprocess", "--tokenizer", TOKENIZER, "--output-prefix", folder / "k", "--input", folder / "two.jsonl", "--json-keys", "body", "text")
    check(token_file(folder / "k_body_document")[1] == plain[2:] and token_file(folder / "k_text_document")[1] == plain[:1], "files of each key")


def pieces(folder):
    file = json.loads((folder / "tokenizer.json").read_text())
    vocab = file["model"]["vocab"]
    return list(vocab) if isinstance(vocab, dict) else [p for p, _ in vocab]


def encode(folder, text):
    done = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", folder, "--no-special", "--jsonl"), input=json.dumps({"text": text}), capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    return json.loads(done.stdout)["ids"]


def test_tokenizer_train(folder):
    (folder / "t.txt").write_text("".join(f"in the year 2024 the \ufb01rst river {i % 7} ran\n" for i in range(300)))

    def train(name, *words):
        run("tokenizer", "train", "--input", folder / "t.txt", "--output", folder / name, "--vocab-size", 340, *words)
        return pieces(folder / name)

    plain = train("plain")
    check(not any(sum(c.isdigit() for c in p) > 1 and not p.startswith("<0x") for p in plain), "every digit is a piece of its own")
    check(any("2024" in p for p in train("digits", "--split-digits=false")), "without it years are pieces")
    check(sum(p.startswith("<0x") for p in plain) == 256, "256 bytes")
    none = train("bytes", "--byte-fallback=false")
    check(not any(p.startswith("<0x") for p in none), "no bytes")
    check(encode(folder / "bytes", "\u6f22")[-1] == 0 and encode(folder / "plain", "\u6f22")[-3:] == [plain.index(f"<0x{b:02X}>") for b in "\u6f22".encode()], "unknown, or its bytes")
    check(any("\ufb01" in p for p in plain), "the ligature is a character like others")
    tidy = train("tidy", "--normalization", "nmt_nfkc")
    check(not any("\ufb01" in p for p in tidy) and encode(folder / "tidy", "\ufb01rst") == encode(folder / "tidy", "first"), "NFKC takes it apart")
    ids = encode(folder / "plain", "river")
    check(plain[ids[0]].startswith("\u2581"), "a space before the text")
    bare = train("bare", "--add-dummy-prefix=false")
    check(not bare[encode(folder / "bare", "river")[0]].startswith("\u2581"), "no space before the text")
    done = run("tokenizer", "train", "--input", folder / "t.txt", "--output", folder / "few", "--vocab-size", 300, "--max-bytes", 200)
    check("learned from the first" in done.stderr and "2024" in (folder / "t.txt").read_text(), done.stderr)
    check("learned from the first" not in run("tokenizer", "train", "--input", folder / "t.txt", "--output", folder / "many", "--vocab-size", 300, "--max-bytes", 10**6).stderr, "all of it")


def test_plan_for_ranks_that_share_a_machine(folder):
    def plan(*words):
        return json.loads(run("plan", f"model.config={r.save_config(folder / 'config.json')}", "data.sequence_length=32", "train.global_batch=8", "train.micro_batch=1", "--json", *words).stdout)
    one, four = (plan("--ranks", 4, "--local", n)["step"] for n in (1, 4))
    check(four["update"] > one["update"] and four["compute"] > one["compute"], f"four ranks have a quarter of it each: {one} {four}")
    have = [plan("--layouts", "--ranks", 4, "--local", n)["memory_available"] for n in (1, 4)]
    check(3 < have[0] / have[1] < 5, f"and a quarter of its memory: {have}")


def test_checksums_are_looked_at_unless_told_otherwise(folder):
    r.run("train", *r.options(folder, folder / "run", train__steps=2))
    at = folder / "run" / "checkpoints" / "step_000002"
    (file,) = at.glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1  # the last weight or moment: a number all the same
    file.write_bytes(data)
    more = dict(train__steps=3, checkpoint__resume=str(at))
    done = r.run("train", *r.options(folder, folder / "a", **more), status=2)
    check(file.name in done.stderr or "step_000002" in done.stderr, done.stderr)
    done = r.run("train", *r.options(folder, folder / "b", **more, checkpoint__verify=False))
    check("step 3/3" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
