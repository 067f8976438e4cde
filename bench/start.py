"""How long `ravine train` takes from its start to its first step, beyond reading weights, and what steps wait for data.

    python3 bench/start.py build/release/ravine --text FILE --tokenizer FILE-OR-DIR [--mb 50] [--folder DIR]
The 134 M model as a folder of weights; the text repeated with a counter in each paragraph to --mb megabytes. First start: the text is tokenized;
second start, into the same folder: its tokens are read from train.output/tokens."""
import argparse, json, os, re, subprocess, sys, tempfile, time
from pathlib import Path

p = argparse.ArgumentParser()
p.add_argument("ravine")
p.add_argument("--text", required=True)
p.add_argument("--tokenizer", required=True)
p.add_argument("--mb", type=int, default=50)
p.add_argument("--steps", type=int, default=4)
p.add_argument("--folder")
a = p.parse_args()
program = os.path.abspath(a.ravine)
CONFIG = Path(__file__).parent.parent / "configs" / "llama-134m.json"


def train(*settings):
    began = time.monotonic()
    run = subprocess.Popen([program, "train", *settings], stderr=subprocess.PIPE, text=True)
    text, first = "", None
    for line in run.stderr:
        text += line
        if first is None and re.search(r"step +1/", line):
            first = time.monotonic() - began
    if run.wait():
        sys.exit(text)
    return first, text


with tempfile.TemporaryDirectory(prefix="ravine-start-", dir=a.folder) as folder:
    folder = Path(folder)
    ids = json.dumps({"input_ids": {"dtype": "I32", "shape": [1, 8], "data_offsets": [0, 32]}}).encode()
    ids += b" " * (-len(ids) % 8)
    (folder / "ids.safetensors").write_bytes(len(ids).to_bytes(8, "little") + ids + bytes(32))
    train(f"model.config={CONFIG}", f"data.train=[{folder / 'ids.safetensors'}]", "data.sequence_length=8", "train.steps=1", "train.global_batch=1",
          f"train.output={folder / 'made'}", "checkpoint.every=0")
    paragraphs = Path(a.text).read_text().split("\n\n")
    with open(folder / "text.txt", "w") as out:
        n = 0
        while out.tell() < a.mb * 1000000:
            out.write(f"{n}\n{paragraphs[n % len(paragraphs)]}\n\n")
            n += 1
    for name in ("first start", "second start"):
        first, text = train(f"model.path={folder / 'made' / 'model'}", f"model.tokenizer={a.tokenizer}", f"data.train=[{folder / 'text.txt'}]",
                            "data.sequence_length=1024", f"train.steps={a.steps}", "train.global_batch=1", f"train.output={folder / 'run'}",
                            "checkpoint.every=0")
        rows = [json.loads(x) for x in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
        weights = float(re.search(r"weights .* read in ([\d.]+) s", text)[1])
        print(f"{name}: {first - rows[0]['step_time']:.2f} s to the first step, {weights:.2f} s of it reading weights, "
              f"{first - rows[0]['step_time'] - weights:.2f} s beyond; data waited for {100 * sum(r['data_wait'] for r in rows) / sum(r['step_time'] for r in rows):.3f} % of step time, "
              f"without the first step {100 * sum(r['data_wait'] for r in rows[1:]) / sum(r['step_time'] for r in rows[1:]):.3f} %", flush=True)
