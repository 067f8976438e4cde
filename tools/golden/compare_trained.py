"""Tokenizers that `ravine tokenizer train` makes, opened by Transformers without SentencePiece installed: the same ids and texts as from tokenizer.model.

    python3 tools/golden/compare_trained.py RAVINE TEXT...     TEXT: UTF-8 files; the first one trains, the lines of all are compared

Needs transformers, and no sentencepiece beside it. Exit status 1 if a line differs. Two differences are not counted, since they are no fault of the file: a Unigram
path over a text of thousands of characters (SentencePiece sums in single precision), and the text of unk, which Transformers leaves out as special."""
import json
import random
import subprocess
import sys
import tempfile

from transformers import AutoTokenizer

ravine, *files = sys.argv[1:]
random.seed(1)
texts = [line.rstrip("\n") for name in files for line in open(name, encoding="utf-8")][:3000]
texts += ["  two spaces", " one", "", "tab\there", "   ", "a  b   c", "日本 語", "12345 678", "émigré \u2581x", "\n\nfoo", "foo\n", "x  ", "<|call|>x <|call|> y", "z<|call|>"]
texts += ["".join(random.choice(" ab\n\té日1.") for _ in range(random.randrange(12))) for _ in range(500)]
kinds = {"bpe": [], "unigram": ["--type", "unigram"], "no dummy prefix": ["--add-dummy-prefix=false"], "symbols": ["--symbols", "<|call|>", "<|c"], "no bytes": ["--byte-fallback=false"]}


def lines(*command, rows):
    done = subprocess.run([ravine, *command], input="\n".join(json.dumps(r) for r in rows), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


wrong = 0
for kind, flags in kinds.items():
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/tok"
        subprocess.run([ravine, "tokenizer", "train", "--input", files[0], "--output", made, "--vocab-size", "1500", *flags], check=True, capture_output=True)
        theirs = AutoTokenizer.from_pretrained(made)
        ids = [theirs(t)["input_ids"] for t in texts]
        model = [[1, *r["ids"]] for r in lines("tokenizer", "encode", "--tokenizer", f"{made}/tokenizer.model", "--jsonl", rows=[{"text": t} for t in texts])]
        ours = [r["ids"] for r in lines("tokenizer", "encode", "--tokenizer", made, "--jsonl", rows=[{"text": t} for t in texts])]
        decoded = [r["text"] for r in lines("tokenizer", "decode", "--tokenizer", f"{made}/tokenizer.model", "--jsonl", rows=[{"ids": i[1:]} for i in ids])]
        a = [t for t, x, y in zip(texts, model, ids) if x != y and not (kind == "unigram" and len(t) > 2000)]
        b = [t for t, x, y in zip(texts, ours, ids) if x != y]
        c = [t for t, x, y in zip(texts, decoded, (theirs.decode(i, skip_special_tokens=True) for i in ids)) if x != y and "\u2047" not in x]
        print(f"{kind:16} {len(texts)} texts; other ids than tokenizer.model's: {len(a)}, than Ravine's of the folder: {len(b)}; other texts: {len(c)}")
        for t in (a + b + c)[:3]:
            print("   ", repr(t)[:100])
        wrong += len(a) + len(b) + len(c)
sys.exit(wrong > 0)
