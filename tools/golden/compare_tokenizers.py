"""Compares `ravine tokenizer encode` and `decode` with PyPI's tokenizers, token for token, on mixed text, code and random bytes.

  python tools/golden/compare_tokenizers.py --ravine build/release/ravine --mb 100 [--parts 0-24] [--text FILE..] TOKENIZER..

TOKENIZER: tokenizer.json or .xz. The text comes in parts of 4 MB, each from the seed and its number alone, so a comparison can be done in runs of some parts each
(--parts FIRST-LAST). It is made of pieces of the files given and of Python's own library, words of many scripts, code points of
all Unicode, runs of white space and digits, and (as lines of their own) bytes that are not UTF-8.
"""
import argparse, glob, json, lzma, os, random, subprocess, sys, sysconfig
from tokenizers import Tokenizer

SCRIPTS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF), (0x1100, 0x11FF), (0x1E00, 0x206F), (0x2070, 0x2BFF),
           (0x3000, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFFEF), (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF), (0x2EBF0, 0x323AF), (0, 0x10FFFF)]
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<|im_start|>", "<|eot_id|>", "<unk>", "[CLS]", "'s", "'LL", "'\u017f", "\r\n", "\n\n", "  ", "\t", " " * 30, "0123456789", "\u3000", "\u00a0", "e\u0301\u0327", "\u0307\u0323"]


def char(r, span):
    while True:
        c = r.randint(*span)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def documents(r, files, size):
    made = 0
    while made < size:
        kind = r.random()
        if kind < 0.55 and files:
            text = r.choice(files)
            at = r.randrange(max(1, len(text)))
            doc = text[at:at + r.choice([80, 400, 2000, 20000])]
        elif kind < 0.7:
            span = r.choice(SCRIPTS)
            doc = "".join("".join(char(r, span) for _ in range(r.randint(1, 9))) + r.choice([" ", " ", "", "\n", ". "]) for _ in range(r.randint(1, 60)))
        elif kind < 0.8:
            doc = "".join(char(r, r.choice(SCRIPTS)) for _ in range(r.randint(1, 300)))
        elif kind < 0.9:
            doc = "".join(r.choice(SPECIAL + ["a", "B", "7", ".", "-", "\u4e2d", "\u00e9"]) * r.choice([1, 1, 1, 2, 5]) for _ in range(r.randint(1, 40)))
        else:
            raw = bytes(r.choice([r.randrange(256), r.randrange(128), r.randrange(0xC0, 256), r.randrange(0x80, 0xC0)]) for _ in range(r.randint(1, 200)))
            doc = raw.replace(b"\n", b"").replace(b"\r", b"")
        if doc:
            made += len(doc if isinstance(doc, bytes) else doc.encode())
            yield doc


def ravine(args, words, data):
    p = subprocess.run([args.ravine, "tokenizer"] + words, input=data, stdout=subprocess.PIPE, check=True)
    return p.stdout.decode().splitlines()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ravine", required=True)
    a.add_argument("--mb", type=float, default=100)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--text", nargs="*", default=[])
    a.add_argument("--parts", help="FIRST-LAST, from 0; all that make --mb otherwise")
    a.add_argument("--no-decode", action="store_true")
    a.add_argument("tokenizers", nargs="+")
    args = a.parse_args()
    library = sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py")))
    files = [open(f, encoding="utf-8", errors="replace", newline="").read() for f in library[:150] + args.text]
    bad = 0
    for path in args.tokenizers:
        peer = Tokenizer.from_str((lzma.open(path).read() if path.endswith(".xz") else open(path, "rb").read()).decode())
        peer.no_truncation(), peer.no_padding()
        total, done, size = 0, 0, 0
        first, last = map(int, args.parts.split("-")) if args.parts else (0, int(-(-args.mb // 4)) - 1)
        for number in range(first, last + 1):
            part = list(documents(random.Random(f"{args.seed}/{number}"), files, 4e6))
            size += sum(len(d if isinstance(d, bytes) else d.encode()) for d in part)
            for raw in (False, True):
                docs = [d for d in part if isinstance(d, bytes) == raw]
                texts = [d.decode("utf-8", "replace") if raw else d for d in docs]
                if not docs:
                    continue
                want = [e.ids for e in peer.encode_batch_fast(texts, add_special_tokens=True)]
                if raw:
                    got = [json.loads(x) for x in ravine(args, ["encode", "--tokenizer", path], b"".join(d + b"\n" for d in docs))]
                else:
                    got = [json.loads(x)["ids"] for x in ravine(args, ["encode", "--jsonl", "--tokenizer", path], "".join(json.dumps({"text": t}) + "\n" for t in texts).encode())]
                assert len(got) == len(want), (len(got), len(want))
                back = []
                if not args.no_decode:
                    rows = "".join(json.dumps({"ids": w}) + "\n" for w in want).encode()
                    back = [json.loads(x)["text"] for x in ravine(args, ["decode", "--jsonl", "--tokenizer", path], rows)]
                    wanted = peer.decode_batch(want, skip_special_tokens=False)
                for i, w in enumerate(want):
                    if got[i] != w or (back and back[i] != wanted[i]):
                        bad += 1
                        if bad <= 5:
                            at = next((k for k in range(min(len(w), len(got[i]))) if w[k] != got[i][k]), min(len(w), len(got[i])))
                            print("DIFFERS", path, repr(docs[i][:200]), "at", at, w[max(0, at - 2):at + 4], got[i][max(0, at - 2):at + 4], "decoded equal" if not back or back[i] == wanted[i] else (back[i][:80], wanted[i][:80]))
                done += len(docs)
                total += sum(len(w) for w in want)
        print("%s parts %d-%d: %.1f MB, %d documents, %d tokens, %d differ so far" % ("/".join(path.split("/")[-2:]), first, last, size / 1e6, done, total, bad), flush=True)
    sys.exit(1 if bad else 0)


main()
