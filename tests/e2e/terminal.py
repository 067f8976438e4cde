"""What a person at a terminal sees: no control character of a model, a file's name or a text reaches it; the bar; and the figures of the last line.

python3 terminal.py PATH_OF_RAVINE [test_function ..]
"""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import tty

import ravine_run as r

ESC = "\x1b[31m\x1b]0;owned\x07"


def in_terminal(*arguments, status=0, given=None):
    """Everything that the program shows in a terminal of 100 columns; `given`: a file that is its stdin."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    job = subprocess.Popen(r.command(*arguments), stdin=open(given) if given else theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown, end = b"", time.monotonic() + r.LIMIT
    while time.monotonic() < end:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            piece = os.read(ours, 65536)
        except OSError:  # nobody has the other end any more
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    r.check(job.wait(timeout=r.LIMIT) == status, f"exit status {job.returncode} instead of {status}: {shown}")
    return shown.decode()


def model_that_says(folder, token):
    """A model whose most likely token is always the same: its layers add nothing, and one row of the head looks along what is left."""
    hidden, vocabulary, inner = 32, 4, 64
    config = {**r.TINY, "vocab_size": vocabulary, "num_hidden_layers": 1, "tie_word_embeddings": False, "eos_token_id": 3}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    block = "model.layers.0."
    shapes = {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (hidden // 2, hidden), "self_attn.v_proj": (hidden // 2, hidden), "self_attn.o_proj": (hidden, hidden),
              "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
    tensors = {block + name + ".weight": ("F32", shape, [0.0] * (shape[0] * shape[1])) for name, shape in shapes.items()}
    for name in (block + "input_layernorm", block + "post_attention_layernorm", "model.norm"):
        tensors[name + ".weight"] = ("F32", (hidden,), [1.0] * hidden)
    tensors["model.embed_tokens.weight"] = ("F32", (vocabulary, hidden), [1.0] * (vocabulary * hidden))
    tensors["lm_head.weight"] = ("F32", (vocabulary, hidden), [1.0 if i // hidden == token else 0.0 for i in range(vocabulary * hidden)])
    r.save_tensors(folder / "model.safetensors", tensors)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordPiece", "vocab": {"hello": 0, ESC: 1, "unknown": 2, "end": 3}, "unk_token": "unknown"}}))
    return folder


def test_generate(folder):
    """A token of ESC is text on a terminal, and itself in a pipe, a file and JSON."""
    model = model_that_says(folder / "model", 1)
    said = ["generate", "--model", model, "--prompt", "hello", "--max-new-tokens", 2]
    plain = r.run(*said)
    r.check(plain.stdout.count(ESC) == 2, f"in a pipe: {plain.stdout!r}")
    shown = in_terminal(*said)
    want = ESC.replace("\x1b", "\\x1b").replace("\x07", "\\x07")
    r.check(shown.count(want) == 2 and "\x1b" not in shown and "\x07" not in shown, f"on a terminal: {shown!r}")
    shown = in_terminal(*said, "--json")
    r.check("\x1b" not in shown and "\x07" not in shown, f"JSON on a terminal: {shown!r}")
    r.check(json.loads(r.run(*said, "--json").stdout)["text"].count(ESC) == 2, "JSON in a pipe")


def options(folder, **more):
    config = folder / "config.json"
    if not config.exists():
        r.save_config(config)
        r.save_ids(folder / "ids.safetensors", 16, 16)
    values = {"model.config": config, "data.train": [str(folder / "ids.safetensors")], "data.sequence_length": 16, "train.steps": 5, "train.global_batch": 4,
              "train.micro_batch": 2, "train.output": folder / "run", "checkpoint.every": 0, "log.every": 1, **more}
    return r.settings(values)


def test_train(folder):
    """The bar grows to its end and is cleared; lines stand alone; a name with ESC in a message is text."""
    shown = in_terminal("train", *options(folder, **{"log.every": 2}))
    bars = re.findall(r"\r\[(#*)(\.*)\] (\d)/5  loss (\S+)  left ([^\x1b]*)\x1b\[J\r(?=\r)", shown)  # the next bar, or what clears it, goes over it
    r.check([b[2] for b in bars] == list("12345"), f"bars: {bars} in {shown!r}")
    widths = {len(b[0]) + len(b[1]) for b in bars}
    r.check(len(widths) == 1 and widths <= set(range(10, 31)), f"widths {widths}")
    r.check([len(b[0]) for b in bars] == [int(b[2]) * max(widths) // 5 for b in bars], f"bars: {bars}")
    rest = re.sub(r"\r\[[^\r]*?\x1b\[J\r", "", shown).replace("\r\x1b[J", "")
    r.check("\x1b" not in rest and "\r" not in rest, f"beside the bars: {rest!r}")
    r.check(rest.splitlines() == (folder / "run" / "log.txt").read_text().splitlines(), f"{rest!r} and log.txt")
    bad = ["train", *options(folder, **{"data.train": json.dumps([str(folder / "no\x1b[2J.safetensors")]), "train.output": folder / "none"})]
    for shown in (in_terminal(*bad, status=2), r.run(*bad, status=2).stderr):
        r.check("\x1b" not in shown and "no\\x1b[2J.safetensors" in shown, f"{shown!r}")


def test_explained_keys(folder):
    """A table on a terminal: refused keys first, columns at one place, no line beyond the terminal; JSON lines elsewhere."""
    line = ("megatron", "--num-layers", "2", "--swiglu", "--log-timers-to-tensorboard", "--no-such-flag", "3", "--explain")
    shown = in_terminal(*line, status=2).replace("\r", "")
    table = shown[:shown.index("ravine: ")] if "ravine: " in shown else shown
    r.check(table.startswith("refused (") and "--no-such-flag" in table.split("used: ")[0] and table.index("\nused: ") < table.index("\ninert: "), shown)
    rows = [row for row in table.split("\n") if row.startswith("  --")]
    r.check(all(len(row) <= 100 for row in rows) and len(rows) >= 4, [row for row in rows if len(row) > 100] or shown)
    r.check(len({row.index("model.config") for row in rows if "model.config" in row}) == 1, rows)
    piped = r.run(*line, status=2).stdout.splitlines()
    r.check({json.loads(text)["key"] for text in piped} >= {"--no-such-flag", "--num-layers"}, piped)


def test_last_line(folder):
    """The mean that the last line tells is that of the losses in metrics.jsonl: of all in a short run, of the last 20 in a longer one."""
    for steps, last in ((5, 5), (23, 20)):
        output = folder / f"run{steps}"
        log = r.run("train", *options(folder, **{"train.steps": steps, "train.output": output, "optimizer.lr": 0.03})).stderr
        losses = [json.loads(line)["loss"] for line in (output / "metrics.jsonl").read_text().splitlines()]
        r.check(len(losses) == steps and len({f"{x:.4f}" for x in losses}) > 3, f"{losses}")
        said = re.search(r"^done +(\d+) steps, loss (\S+) on average over the last (\d+)$", log, re.M)
        r.check(said and int(said[1]) == steps and int(said[3]) == last, log)
        mean = sum(losses[-last:]) / last
        r.check(abs(float(said[2]) - mean) <= 0.5e-4 + 1e-12, f"{steps} steps: {said[0]}, by metrics.jsonl {mean}")


def test_size_of_shards(folder):
    """checkpoint.shard_mb is in MB of 1,000,000 bytes: two tensors of 520,000 bytes fit into a MiB, and not into one file here."""
    config = r.save_config(folder / "big.json", hidden_size=104, intermediate_size=1250, num_hidden_layers=1, vocab_size=1250, tie_word_embeddings=False)
    r.run("train", *options(folder, **{"model.config": config, "train.steps": 1, "checkpoint.shard_mb": 1}))
    model = folder / "run" / "model"
    sizes = {f.name: f.stat().st_size for f in model.glob("*.safetensors")}
    tensors = r.load_tensors(model)
    r.check(sum(len(t[2]) == 520000 for t in tensors.values()) == 5, f"{ {n: len(t[2]) for n, t in tensors.items()} }")
    r.check(all(size <= 1000000 for size in sizes.values()), f"{sizes}")
    index = json.loads((model / "model.safetensors.index.json").read_text())
    r.check(set(index["weight_map"].values()) == set(sizes) and index["metadata"]["total_size"] == sum(len(t[2]) for t in tensors.values()), f"{index['metadata']}")


if __name__ == "__main__":
    r.main(globals())
