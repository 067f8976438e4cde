"""`ravine tokenizer` from the outside: encode, decode, render, info and train with every form of their input, against what Transformers, tokenizers and
sentencepiece gave (tests/golden)."""
import array
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
SENTENCEPIECE = json.loads((GOLDEN / "tokenizer" / "expected.json").read_text())


def ask(what, tokenizer, text, *flags, status=0):
    done = subprocess.run(r.command("tokenizer", what, *(["--tokenizer", tokenizer] if tokenizer else []), *flags), input=text.encode("utf-8", "surrogatepass"), capture_output=True)
    check(done.returncode == status, f"tokenizer {what} {flags}: exit status {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode() if status == 0 else done.stderr.decode()


def lines(what, tokenizer, rows, *flags):
    return [json.loads(line) for line in ask(what, tokenizer, "".join(json.dumps(x) + "\n" for x in rows), "--jsonl", *flags).splitlines()]


def same(got, want, what):
    bad = [i for i, (a, b) in enumerate(zip(got, want)) if a != b]
    check(len(got) == len(want) and not bad, f"{what}: {len(got)} of {len(want)}, differ at {bad[:5]}: {[(got[i], want[i]) for i in bad[:2]]}")


def llama_folder(folder, variant):
    folder.mkdir()
    shutil.copy(GOLDEN / "tokenizer" / variant["model"] / "tokenizer.model", folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(variant["config"]))
    return folder


def size_of(variant):
    """All ids are below it: pieces of the model, and what the config adds."""
    return max([variant["size"]] + [int(i) + 1 for i in variant["config"]["added_tokens_decoder"]])


def both_ways(name, tokenizer, texts, plain, special, decode):
    """--jsonl, with and without special tokens; decode is rows of (ids, kept, skipped)."""
    same([x["ids"] for x in lines("encode", tokenizer, [{"text": t} for t in texts], "--no-special")], plain, f"{name}: encode --no-special")
    same([x["ids"] for x in lines("encode", tokenizer, [{"text": t} for t in texts])], special, f"{name}: encode")
    same([x["text"] for x in lines("decode", tokenizer, [{"ids": i} for i, _, _ in decode])], [k for _, k, _ in decode], f"{name}: decode")
    same([x["text"] for x in lines("decode", tokenizer, [{"ids": i} for i, _, _ in decode], "--skip-special")], [s for _, _, s in decode], f"{name}: decode --skip-special")


def test_encode_and_decode(folder):
    for i, v in enumerate(r.rows(SENTENCEPIECE["variants"], 1, "what each variant gives is compared by tests/unit/text")):
        tokenizer = llama_folder(folder / f"{i}", v)
        both_ways(f"Llama {i}", tokenizer, SENTENCEPIECE["texts"], [e["plain"] for e in v["encode"]], [e["special"] for e in v["encode"]],
                  [(d["ids"], d["keep"], d["skip"]) for d in v["decode"]])
        check(json.loads(ask("info", tokenizer, "", "--json"))["size"] == size_of(v), f"Llama {i}: size")
    golden = json.loads((GOLDEN / "tokenizers.json").read_text())
    kinds = r.rows(("gpt2", "llama3", "unigram", "bert"), 1, "what each kind gives is compared by tests/unit/text")
    for row in golden["rows"]:
        if row["name"] not in kinds:
            continue
        file = folder / f"{row['name']}.json"
        file.write_text(json.dumps(row["tokenizer"]))
        both_ways(row["name"], file, golden["texts"], [e[0] for e in row["encode"]], [e[1] for e in row["encode"]], row["decode"])


# Lines that look like comments of one kind or another.
MARKS = ["#", "##", "# #", "#!", "//", ";", "%", "--", "#version"]


def test_lines_that_look_like_comments(folder):
    """In files of tokenizers, texts and templates only the head of merges.txt (#version) is no line like all others."""
    signs = [chr(c) for c in range(33, 127)]
    merges = [("#", "#"), ("##", "#"), ("#", "!"), ("/", "/"), (";", ";"), ("%", "%"), ("-", "-"), ("a", "b")]
    vocab = {t: i for i, t in enumerate([*signs, "\u0120", "\u010a", *(a + b for a, b in merges)])}
    for name, head in (("with a head", "#version: 0.2\n"), ("without", "")):
        old = folder / name
        old.mkdir()
        (old / "vocab.json").write_text(json.dumps(vocab))
        (old / "merges.txt").write_text(head + "".join(f"{a} {b}\n" for a, b in merges))
        pieces = (("###", ["###"]), ("##", ["##"]), ("#!ab", ["#!", "ab"]), ("//;;%%--", ["//", ";;", "%%", "--"]))
        same(lines("encode", old, [{"text": t} for t, _ in pieces], "--no-special"), [{"ids": [vocab[w] for w in ws]} for _, ws in pieces], f"merges.txt {name}")
    # A vocabulary of one token a line: its number is that of the line.
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "#", "##b", "//", ";", "# c", "%", "zz", "##d"]
    bert = folder / "bert"
    bert.mkdir()
    (bert / "vocab.txt").write_text("".join(w + "\n" for w in words))
    pieces = (("zz", ["zz"]), ("zzd", ["zz", "##d"]), ("#;%", ["#", ";", "%"]), ("zzb", ["zz", "##b"]))
    same(lines("encode", bert, [{"text": t} for t, _ in pieces], "--no-special"), [{"ids": [words.index(w) for w in ws]} for _, ws in pieces], "vocab.txt")
    # Texts: one a line, each as it is.
    want = lines("encode", GOLDEN / "chat", [{"text": t} for t in MARKS], "--no-special")
    got = ask("encode", GOLDEN / "chat", "".join(t + "\n" for t in MARKS), "--no-special").splitlines()
    same([json.loads(line) for line in got], [x["ids"] for x in want], "plain lines")
    # Templates: Transformers' have no line comments and no line statements.
    for mark in ("#", "##", "# #", "%"):
        (folder / "t.jinja").write_text(f"{mark} {{{{ messages[0].content }}}}\n{mark} end\n")
        got = lines("render", None, [{"messages": [{"role": "user", "content": "x"}]}], "--template", folder / "t.jinja")
        check(got[0].get("text") == f"{mark} x\n{mark} end", f"a template with {mark!r}: {got}")


def test_plain_lines_and_npy(folder):
    """Lines of text and lines of lists say the same as JSON; --npy takes all of stdin, line ends and all, as one text."""
    v = next(v for v in SENTENCEPIECE["variants"] if v["model"] == "llama")
    tokenizer = llama_folder(folder / "t", v)
    texts = [(t, e) for t, e in zip(SENTENCEPIECE["texts"], v["encode"]) if "\n" not in t and "\r" not in t]
    check(len(texts) > 10 and len(texts) < len(SENTENCEPIECE["texts"]), "texts with and without line ends")
    for flags, key in ((["--no-special"], "plain"), ([], "special")):
        said = ask("encode", tokenizer, "".join(t + "\n" for t, _ in texts), *flags)
        same([json.loads(line) for line in said.splitlines()], [e[key] for _, e in texts], f"plain lines {flags}")
    for flags, key in (([], "keep"), (["--skip-special"], "skip")):
        decode = [d for d in v["decode"] if "\n" not in d[key] and "\r" not in d[key]]
        said = ask("decode", tokenizer, "".join(f"{d['ids']}\n" for d in decode), *flags)
        same(said.split("\n")[:-1], [d[key] for d in decode], f"lists {flags}")
    for text, e in r.rows(zip(SENTENCEPIECE["texts"], v["encode"]), 8, "the lines above have every text"):
        for flags, key in ((["--no-special"], "plain"), ([], "special")):
            out = folder / "ids.npy"
            check(ask("encode", tokenizer, text, "--npy", out, "--overwrite", *flags) == "", "--npy prints something")
            data = out.read_bytes()
            check(data[:8] == b"\x93NUMPY\x01\0", data[:8])
            size = struct.unpack_from("<H", data, 8)[0]
            header = eval(data[10:10 + size], {"__builtins__": {}})
            ids = array.array("i", data[10 + size:])
            check(header == {"descr": "<i4", "fortran_order": False, "shape": (len(ids),)} and (10 + size) % 64 == 0, header)
            check(list(ids) == e[key], f"--npy {flags} of {text!r}: {list(ids)}, not {e[key]}")


def test_raw_sentencepiece_and_xz(folder):
    import lzma
    for name in ("llama", "nfkc"):
        file, rows = GOLDEN / "tokenizer" / name / "tokenizer.model", SENTENCEPIECE["raw"][name]
        (folder / f"{name}.model.xz").write_bytes(lzma.compress(file.read_bytes()))
        for tokenizer in (file, folder / f"{name}.model.xz"):
            got = [x["ids"] for x in lines("encode", tokenizer, [{"text": t} for t in SENTENCEPIECE["texts"]], "--no-special")]
            same(got, [x["ids"] for x in rows], f"{tokenizer.name}: encode")
            same([x["text"] for x in lines("decode", tokenizer, [{"ids": x["ids"]} for x in rows])], [x["text"] for x in rows], f"{tokenizer.name}: decode")


def test_render(folder):
    golden = json.loads((GOLDEN / "chat" / "expected.json").read_text())
    for name, source in golden["templates"].items():
        chats = [c for c in golden["chats"] if c["template"] == name]
        (folder / f"{name}.jinja").write_text(source)
        got = lines("render", None, [{"messages": c["messages"]} for c in chats], "--template", folder / f"{name}.jinja", "--bos-token", "<s>", "--eos-token", "</s>")
        same([x.get("text") for x in got], [c["text"] for c in chats], f"render --template {name}")
    chats = [c for c in golden["chats"] if c["template"] == "chatml"]
    got = lines("render", GOLDEN / "chat", [{"messages": c["messages"], "add_generation_prompt": True} for c in chats])
    same([x.get("text") for x in got], [c["text"] + "<|im_start|>assistant\n" for c in chats], "render by the tokenizer's own template, with a generation prompt")
    (folder / "strict.jinja").write_text("{{ raise_exception('no ' + messages[0].role) }}")
    got = lines("render", None, [{"messages": [{"role": "tool", "content": "x"}]}], "--template", folder / "strict.jinja")
    check(len(got) == 1 and set(got[0]) == {"error"} and "no tool" in got[0]["error"], f"{got}")


def test_info(folder):
    v = SENTENCEPIECE["variants"][0]
    tokenizer = llama_folder(folder / "t", v)
    info = json.loads(ask("info", tokenizer, "", "--json"))
    text = ask("info", tokenizer, "")
    check(info["size"] == size_of(v) and f"size  {size_of(v)}\n" in text, f"{info}\n{text}")
    bos = next(e["special"][0] for e in v["encode"] if e["special"][:1] != e["plain"][:1])
    check(info["bos"] == {"id": bos, "piece": "<s>"} and info["eos"]["piece"] == "</s>" and f"bos   {bos} <s>\n" in text, f"{info}\n{text}")
    info = json.loads(ask("info", GOLDEN / "chat", "", "--json"))
    file = json.loads((GOLDEN / "chat" / "tokenizer.json").read_text())
    ids = {**file["model"]["vocab"], **{t["content"]: t["id"] for t in file["added_tokens"]}}
    check(info["size"] == len(ids), f"{info['size']} pieces, {len(ids)} in the file")
    for name, piece in (("bos", "<s>"), ("eos", "</s>"), ("pad", "<|im_end|>")):
        check(info[name] == {"id": ids[piece], "piece": piece}, f"{name}: {info[name]}")


def test_train(folder):
    """A byte-level tokenizer has the merges that the tokenizers library learns from the same text; SentencePiece's reads itself back."""
    golden = json.loads((GOLDEN / "bpe_training.json").read_text())
    (folder / "text.jsonl").write_text("".join(json.dumps({"body": t}) + "\n" for t in golden["corpus"]))
    for i, c in enumerate(golden["cases"]):
        out = folder / f"bpe{i}"
        r.run("tokenizer", "train", "--input", folder / "text.jsonl", "--text-key", "body", "--output", out, "--type", "byte-bpe", "--vocab-size", c["size"],
              "--pattern", c["pattern"], "--min-frequency", c["min_frequency"])
        file = json.loads((out / "tokenizer.json").read_text())
        merges = [m if isinstance(m, list) else m.split(" ") for m in file["model"]["merges"]]
        check(merges == c["model"], f"case {i}: {len(merges)} merges, {len(c['model'])} wanted")
        info = json.loads(ask("info", out, "", "--json"))
        size = len(file["model"]["vocab"].keys() | {t["content"] for t in file["added_tokens"]})
        check(info["size"] == size <= c["size"], f"case {i}: {info}, {size} in the file")
        texts = golden["corpus"][:20] + ["Grün 猫 \U0001f408\n\tx"]
        got = lines("decode", out, [{"ids": x["ids"]} for x in lines("encode", out, [{"text": t} for t in texts], "--no-special")], "--skip-special")
        same([x["text"] for x in got], texts, f"case {i}: there and back")
    for kind in ("bpe", "unigram"):
        r.save_text(folder / "words.txt", 4000, 1)
        said = r.run("tokenizer", "train", "--input", folder / "words.txt", "--output", folder / kind, "--type", kind, "--vocab-size", 400, "--symbols", "<x>").stderr
        info = json.loads(ask("info", folder / kind, "", "--json"))
        check(info["size"] == 400 and "tokenizer of 400 pieces" in said, f"{info}\n{said}")
        texts = ["the wind", " two  spaces ", "a <x> b", "Ünï"]
        ids = [x["ids"] for x in lines("encode", folder / kind, [{"text": t} for t in texts], "--no-special")]
        check(len({i for row in ids for i in row}) > 5 and max(i for row in ids for i in row) < 400, f"{ids}")
        same([x["text"] for x in lines("decode", folder / kind, [{"ids": i} for i in ids], "--skip-special")], texts, f"{kind}: there and back")


def test_merges_are_texts(folder):
    """As every version of tokenizers reads them; pairs, which only versions since 0.20 read, where a part has a blank."""
    (folder / "text.txt").write_text("The ravine is deep and the river runs below, and the river is deep.\n" * 60)
    for kind in ("bpe", "byte-bpe"):
        r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / kind, "--vocab-size", 300, "--type", kind)
        merges = json.loads((folder / kind / "tokenizer.json").read_text())["model"]["merges"]
        check(merges and all(isinstance(m, str) and m.count(" ") == 1 for m in merges), f"{kind}: {merges[:3]}")
        ids = json.loads(ask("encode", folder / kind / "tokenizer.json", json.dumps({"text": "the river below"}) + "\n", "--jsonl", "--no-special"))["ids"]
        check(ids == lines("encode", folder / kind, [{"text": "the river below"}], "--no-special")[0]["ids"], kind)


def test_ids_that_only_a_model_has_make_no_text(folder):
    """Rows of a table beyond the tokenizer, which generate may draw: as there, no text, and it is said."""
    variant = SENTENCEPIECE["variants"][0]
    tokenizer = llama_folder(folder / "t", variant)
    size = size_of(variant)
    ids = json.loads(ask("encode", tokenizer, "the ravine\n", "--no-special"))
    done = subprocess.run(r.command("tokenizer", "decode", "--tokenizer", tokenizer), input=json.dumps([*ids[:1], size, *ids[1:], size + 1000]), capture_output=True, text=True)
    check(done.returncode == 0 and done.stdout == ask("decode", tokenizer, json.dumps(ids) + "\n"), done)
    check("stdin:1" in done.stderr and f"2 ids are beyond the {size} of the tokenizer" in done.stderr, done.stderr)
    check("ids are 0 to" in ask("decode", tokenizer, "[-1]\n", status=2), "a negative id is none")


def test_mistakes(folder):
    tokenizer = llama_folder(folder / "t", SENTENCEPIECE["variants"][0])
    for what, text, flags, says in (("encode", "{\"txt\": \"a\"}\n", ["--jsonl"], "stdin:1"), ("encode", "a\n", ["--jsonl", "--npy", folder / "x.npy"], "--npy and --jsonl"),
                                    ("decode", "[1, 2]\n[1, \"a\"]\n", [], "stdin:2"), ("decode", "{\"ids\": 3}\n", ["--jsonl"], "stdin:1"), ("decode", "[1e99]\n", [], "stdin:1"),
                                    ("render", "{\"messages\": []}\n", ["--jsonl"], "no chat template"), ("render", "x", [], "add --jsonl")):
        said = ask(what, tokenizer, text, *flags, status=2)
        check(says in said and said.startswith("error: ") and len(said.splitlines()) == 1, f"tokenizer {what} {flags}: {said}")
    check(not (folder / "x.npy").exists(), "a refused command wrote its file")



def test_of_equal_keys_of_an_object_the_last_counts(folder):
    """As in Python: in lines of texts, in records that are trained on, in a tokenizer.json."""
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    shutil.copy(GOLDEN / "chat" / "tokenizer.json", tokenizer)
    text = '{"text": "one", "text": "two and three"}\n'
    want = ask("encode", tokenizer, '{"text": "two and three"}\n', "--jsonl")
    check(ask("encode", tokenizer, text, "--jsonl") == want, "of a line")
    for name, content in (("twice", text), ("once", '{"text": "two and three"}\n')):
        (folder / f"{name}.jsonl").write_text(content * 40)
        r.run("preprocess", "--input", folder / f"{name}.jsonl", "--tokenizer", tokenizer, "--output-prefix", folder / name)
    check((folder / "twice_text_document.bin").read_bytes() == (folder / "once_text_document.bin").read_bytes(), "of preprocess")
    file = json.loads((tokenizer / "tokenizer.json").read_text())
    file["normalizer"] = None
    again = json.dumps(file)[:-1] + ', "normalizer": {"type": "Lowercase"}}'
    (tokenizer / "tokenizer.json").write_text(again)
    lower = ask("encode", tokenizer, "two and three\n")
    check(ask("encode", tokenizer, "TWO and Three\n") == lower, "of a tokenizer.json")


def test_records_without_a_text_are_counted(folder):
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "chat" / name, tokenizer)
    lines = [json.dumps({"text": "The ravine is deep and the river runs below."})] * 40 + ['{"text": ""}', '{"text": null}', '{"text": "x", "text": ""}']
    (folder / "some.jsonl").write_text("\n".join(lines) + "\n")
    done = r.run("train", *r.settings({"model.config": r.save_config(folder / "c.json", vocab_size=520), "model.tokenizer": str(tokenizer), "data.train": str(folder / "some.jsonl"),
                                       "data.sequence_length": 16, "train.steps": 1, "train.global_batch": 1, "train.output": str(folder / "run"), "log.tensorboard": False, "schedule.warmup_steps": 0}))
    check("some.jsonl: 3 records with an empty text left out" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
