"""Encoding speed against PyPI's tokenizers on one core: the two sides in turn over the same documents, megabytes (10^6) of text per second of CPU time.

  python bench/tokenizer_speed.py --ravine build/release/bench/tokenizer_speed [--mb 3] [--rounds 3] --text NAME=FILE.. TOKENIZER..

Both sides get the documents in memory and give lists of ids; reading the tokenizer does not count. Documents: pieces of at most 2000 characters, cut at line ends.
"""
import argparse, json, lzma, os, subprocess, tempfile, time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, __version__


def documents(path, size):
    text = open(path, encoding="utf-8", errors="replace", newline="").read(int(size))
    docs, now = [], ""
    for line in text.splitlines(keepends=True):
        if now and len(now) + len(line) > 2000:
            docs.append(now)
            now = ""
        now += line
    return docs + [now]


a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
a.add_argument("--ravine", required=True, help="bench/tokenizer_speed")
a.add_argument("--mb", type=float, default=3)
a.add_argument("--rounds", type=int, default=3)
a.add_argument("--text", nargs="+", required=True)
a.add_argument("tokenizers", nargs="+")
args = a.parse_args()
print("tokenizers", __version__)
for path in args.tokenizers:
    peer = Tokenizer.from_str((lzma.open(path).read() if path.endswith(".xz") else open(path, "rb").read()).decode())
    for entry in args.text:
        name, file = entry.split("=", 1)
        docs = documents(file, args.mb * 1e6)
        size = sum(len(d.encode()) for d in docs)
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": d}) + "\n" for d in docs)
            f.flush()
            ours, theirs, count = [], [], 0
            for _ in range(args.rounds):
                out = json.loads(subprocess.run([args.ravine, path, f.name], stdout=subprocess.PIPE, check=True).stdout)
                ours.append(out["bytes"] / out["cpu_seconds"] / 1e6)
                begin = time.process_time()
                ids = peer.encode_batch_fast(docs, add_special_tokens=False)
                theirs.append(size / (time.process_time() - begin) / 1e6)
                count = sum(len(e.ids) for e in ids)
                assert out["tokens"] == count and out["bytes"] == size, (out, count, size)
        print("%-28s %-10s ours %6.1f MB/s  tokenizers %5.2f MB/s  ratio %5.2f  (%d tokens; ours %s, theirs %s)" % (
            os.path.basename(os.path.dirname(path)), name, max(ours), max(theirs), max(ours) / max(theirs), count,
            " ".join("%.1f" % x for x in ours), " ".join("%.2f" % x for x in theirs)), flush=True)
