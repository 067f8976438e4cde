"""How `ravine preprocess` scales from one worker to two, and how much of a worker's time is not encoding.

    python3 bench/preprocess.py build/release/ravine --text FILE.. --tokenizer FILE-OR-DIR [--mb 40] [--rounds 3] [--kinds jsonl csv json jsonl.gz parquet]
The texts, cut into documents of at most 4000 characters and repeated with a counter, as records of each kind of file. One and two workers in turn;
megabytes (10^6) of text per second of wall time, the best of the rounds. Two programs of one worker each at the same time, on the same file, show what
the machine has to give: twice the work in `ceiling` times the speed of one. parquet needs pyarrow."""
import argparse, csv, gzip, json, os, resource, subprocess, sys, tempfile, time
from pathlib import Path

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("ravine")
p.add_argument("--text", nargs="+", required=True)
p.add_argument("--tokenizer", required=True)
p.add_argument("--mb", type=float, default=40)
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--kinds", nargs="+", default=["jsonl", "csv"])
p.add_argument("--folder")
a = p.parse_args()
program = os.path.abspath(a.ravine)


def documents():
    pieces = []
    for path in a.text:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        if path.endswith(".jsonl"):
            pieces += [json.loads(line)["text"] for line in text.splitlines() if line]
        else:
            pieces += [text[i:i + 4000] for i in range(0, len(text), 4000)]
    docs, size, n = [], 0, 0
    while size < a.mb * 1e6:
        docs.append(f"{n} {pieces[n % len(pieces)]}")
        size += len(docs[-1].encode())
        n += 1
    return docs, size


def write(path, kind, docs):
    if kind == "csv":
        with open(path, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["text"])
            w.writerows([d] for d in docs)
    elif kind == "parquet":
        import pyarrow as pa, pyarrow.parquet as pq
        pq.write_table(pa.table({"text": docs}), path, row_group_size=1000, compression="zstd")
    else:
        open_ = gzip.open if kind.endswith(".gz") else open
        lines = [json.dumps({"text": d}, ensure_ascii=False) for d in docs]
        with open_(path, "wt") as f:
            f.write("[" + ",\n".join(lines) + "]" if kind.startswith("json") and not kind.startswith("jsonl") else "\n".join(lines) + "\n")


def run(*words, **more):
    """Wall and CPU seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([program, *map(str, words)], capture_output=True, **more)
    if done.returncode:
        sys.exit(done.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


with tempfile.TemporaryDirectory(prefix="ravine-preprocess-", dir=a.folder) as folder:
    folder = Path(folder)
    docs, size = documents()
    print(f"{len(docs)} documents, {size / 1e6:.1f} MB of text, {os.cpu_count()} cores", flush=True)
    empty = folder / "empty.jsonl"
    empty.write_text('{"text": "a"}\n')
    start = min(run("preprocess", "--input", empty, "--tokenizer", a.tokenizer, "--output-prefix", folder / "e", "--overwrite")[0] for _ in range(a.rounds))
    print(f"start (reading the tokenizer): {start:.2f} s, taken off below", flush=True)
    for kind in a.kinds:
        file = folder / f"a.{kind}"
        write(file, kind, docs)
        walls, cpus = {1: [], 2: []}, {1: [], 2: []}
        for _ in range(a.rounds):
            for workers in (1, 2):
                wall, cpu = run("preprocess", "--input", file, "--tokenizer", a.tokenizer, "--output-prefix", folder / "p", "--workers", workers, "--overwrite")
                walls[workers].append(wall - start)
                cpus[workers].append(cpu)
        began = time.monotonic()
        both = [subprocess.Popen([program, "preprocess", "--input", file, "--tokenizer", a.tokenizer, "--output-prefix", folder / name, "--workers", "1", "--overwrite"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for name in ("q", "r")]
        [x.wait() for x in both]
        together = time.monotonic() - began - start
        one, two = min(walls[1]), min(walls[2])
        print(f"{kind:9} 1 worker {size / one / 1e6:6.1f} MB/s, 2 workers {size / two / 1e6:6.1f} MB/s, {one / two:.2f} times (ceiling {2 * one / together:.2f}); cores in use {min(cpus[1]) / (one + start):.2f} and {min(cpus[2]) / (two + start):.2f}"
              f" (walls {' '.join(f'{w:.2f}' for w in walls[1])} | {' '.join(f'{w:.2f}' for w in walls[2])})", flush=True)
        file.unlink()
