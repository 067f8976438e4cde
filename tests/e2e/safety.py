"""Nothing of the user's is lost or read twice, whatever lies where: journals of sets that were cut short, files with the names of ours, outputs that are inputs;
files of many keys, text of files on a terminal, small stacks, paths that cannot be used.

python3 safety.py PATH_OF_RAVINE [test_function ..]
"""
import json
import os
import resource
import struct
import subprocess
from pathlib import Path

import ravine_run as r
from hostile import MIB, grows, within
from outputs import make_tokenizer, plant_journal, refused
from ravine_run import check, options, run
from terminal import in_terminal

TURNS = "a\x9bb\u202ec"  # CSI as one character, and the mark that turns the direction of writing


def content(folder):
    return {p.relative_to(folder): p.read_bytes() if p.is_file() else b"" for p in sorted(Path(folder).rglob("*"))}


def token_files(folder):
    tok = make_tokenizer(folder)
    run("preprocess", "--input", folder / "words.txt", "--tokenizer", tok, "--output-prefix", folder / "words", "--append-eod")
    return tok, folder / "words_text_document"


def test_a_journal_stands_back(folder):
    """Files that came after the kill are neither replaced nor removed, also where the command is refused then."""
    tok = make_tokenizer(folder)
    train = ["tokenizer", "train", "--input", folder / "words.txt", "--output", tok, "--vocab-size", 300]
    plant_journal(tok / "tokenizer.replacing", "tokenizer", {"tokenizer.json": b"{}"}, ["tokenizer.json", "tokenizer_config.json"])
    text = (tok / "tokenizer.json").read_bytes()
    (tok / "tokenizer.json").unlink()
    (tok / "tokenizer.json").write_bytes(text[:-1] + b"\n\n")  # put back by hand
    (tok / "vocab.txt").write_text("dear")
    before = content(tok)
    for more in ([], ["--overwrite"]):
        done = refused(["tokenizer.replacing", "put there later"], *train, *more)
        check(content(tok) == before, f"{more}: {done.stderr}")


def test_a_journal_of_another_kind(folder):
    first = folder / "first"
    first.mkdir()
    for name in ("run.yaml", "notes"):
        (first / name).write_text("dear")
    for kind, files in (("tokenizer", {"tokenizer.json": b"{}"}), ("run of init", {"notes.txt": b""})):
        plant_journal(first / "init.replacing", kind, files, ["run.yaml", "notes"])
        before = content(first)
        refused(["init.replacing", "move it away"], "init", first)
        check(content(first) == before, kind)
        for path in (first / "init.replacing").iterdir():
            path.unlink()
        (first / "init.replacing").rmdir()


def test_folders_with_names_of_a_set(folder):
    tok, pair = token_files(folder)
    for filled in (False, True):
        (tok / "vocab.txt").mkdir(exist_ok=True)
        if filled:
            (tok / "vocab.txt" / "notes").write_text("dear")
        before = content(tok)
        refused(["vocab.txt"], "tokenizer", "train", "--input", folder / "words.txt", "--output", tok, "--vocab-size", 300, "--overwrite")
        check(content(tok) == before, "a folder of the user's is gone, or the old tokenizer")
    for end in (".bin", ".idx"):
        here = folder / f"merged{end[1:]}"
        here.mkdir()
        (here / f"all{end}").mkdir()
        refused([f"all{end}"], "data", "merge", "--input", pair, "--output-prefix", here / "all", "--overwrite")
        check([p.name for p in here.iterdir()] == [f"all{end}"], f"{end}: {list(here.iterdir())}")
    (folder / "more_text_document.idx").mkdir()
    refused(["more_text_document.idx"], "preprocess", "--input", folder / "words.txt", "--tokenizer", tok / "tokenizer.json", "--output-prefix", folder / "more", "--overwrite")
    check((folder / "more_text_document.idx").is_dir(), "a folder of the user's is gone")


def test_a_lock_of_others(folder):
    for number, text in enumerate((b"dear\0notes", b"\xff\xfed\0e\0a\0r\0", b"\x7f", b"12\n")):
        out = folder / f"out{number}"
        out.mkdir()
        (out / ".lock").write_bytes(text)
        refused([".lock"], "train", *options(folder, out))
        check((out / ".lock").read_bytes() == text, f"{text}: lost")


def test_outputs_are_not_inputs(folder):
    tok, pair = token_files(folder)
    words = (folder / "words.txt").read_bytes()
    # A tokenizer or a text with the name of a file of the prefix.
    run("tokenizer", "train", "--input", folder / "words.txt", "--output", folder / "sp", "--vocab-size", 300)
    for flag, end in (("--tokenizer", ".bin"), ("--input", ".idx")):
        taken = folder / f"Q_text_document{end}"
        taken.write_bytes((folder / ("sp/tokenizer.model" if end == ".bin" else "words.txt")).read_bytes())
        given = {"--tokenizer": tok, "--input": folder / "words.txt", flag: taken}
        kept = taken.read_bytes()
        refused(["--output-prefix", flag, taken.name], "preprocess", *(x for pair_of in given.items() for x in pair_of), "--output-prefix", folder / "Q", "--overwrite")
        check(taken.read_bytes() == kept and not (folder / "Q.preprocess").exists(), f"{taken}")
        taken.unlink()
    index = ["data", "index", "--prefix", pair, "--split", "1,0,0", "--sequence-length", 8, "--samples", "20,,", "--overwrite"]
    (folder / "look").mkdir()
    for name in ("train-document_index.npy", "train-samples.safetensors"):
        identity = folder / "look" / name
        identity.write_text('{"class": "x"}')
        refused(["--out", "--index-tokenizer"], *index, "--out", folder / "look", "--index-tokenizer", identity)
        check(identity.read_text() == '{"class": "x"}', name)
        identity.unlink()
    npy = folder / "text.npy"
    npy.write_text("one two three")
    os.link(npy, folder / "other.npy")
    for output in (npy, folder / "other.npy"):
        with open(npy) as given:
            done = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", tok, "--npy", output, "--overwrite"), stdin=given, capture_output=True, text=True)
        check(done.returncode == 2 and "stdin" in done.stderr and npy.read_text() == "one two three", done.stderr)


def test_files_of_many_keys(folder):
    """Time that grows with the square of the keys shows here; memory is a few bytes per byte."""
    metrics = folder / "metrics.jsonl"

    def rows(n):  # a new key in each row
        metrics.write_text("".join(json.dumps({"step": i, "loss": 1.0, "lr": 0.1, f"key{i}": 1}) + "\n" for i in range(n)))
        return b""
    grows(rows, ("info", metrics), 10_000)
    if not r.FULL:  # the other files are read by the same reader of JSON
        return
    rows(40_000)
    within(100 * metrics.stat().st_size, "info", metrics)
    within(100 * metrics.stat().st_size, "plot", metrics, status=(0,))

    def one_row(n):
        metrics.write_text(json.dumps({"step": 1, "loss": 1.0, "lr": 0.1, **{f"key{i}": 1 for i in range(n)}}) + "\n")
        return b""
    grows(one_row, ("info", metrics), 20_000)

    weights = folder / "x.safetensors"

    def metadata(n):
        r.save_raw(weights, {"__metadata__": {f"key{i}": "" for i in range(n)}, "x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"x")
        return b""
    grows(metadata, ("info", weights), 20_000)
    within(100 * weights.stat().st_size, "info", weights, status=(0,))

    for name in ("tokenizer_config.json", "manifest.json"):
        file = folder / name

        def settings(n):
            file.write_text(json.dumps({"format": "x", "tensors": [], **{f"key{i}": 1 for i in range(n)}}))
            return b""
        grows(settings, ("info", file), 20_000)
        within(100 * file.stat().st_size, "info", file, status=(0,))


def crc32c(data):
    table = crc32c.__dict__.setdefault("table", [])
    if not table:
        for n in range(256):
            for _ in range(8):
                n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
            table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def event(step, tag=None, value=0.0):
    """A scalar, or without a tag a restart mark."""
    body = b"\x10" + varint(step)
    if tag is None:
        body += b"\x3a\x02\x08\x01"
    else:
        inner = b"\x0a" + varint(len(tag)) + tag + b"\x15" + struct.pack("<f", value)
        summary = b"\x0a" + varint(len(inner)) + inner
        body += b"\x2a" + varint(len(summary)) + summary
    head = struct.pack("<Q", len(body))
    return head + struct.pack("<I", crc32c(head)) + body + struct.pack("<I", crc32c(body))


def test_events_of_many_tags_and_restarts(folder):
    file = folder / "events.out.tfevents.1"

    def tags(n):
        file.write_bytes(b"".join(event(1, b"tag%d" % i) for i in range(n)))
        return b""

    def restarts(n):
        file.write_bytes(b"".join(event(1, b"tag%d" % i) + event(5) for i in range(n)))
        return b""
    grows(tags, ("info", file), 5_000)
    within(100 * file.stat().st_size, "info", file, status=(0,))
    grows(restarts, ("info", file), 5_000)
    within(100 * file.stat().st_size, "info", file, status=(0,))
    # What restarts take back: steps of theirs and later, of what came before.
    file.write_bytes(event(1, b"a", 1) + event(2, b"a", 2) + event(3, b"b", 3) + event(2) + event(2, b"a", 4) + event(9, b"a", 5) + event(3, b"c", 6) + event(8) + event(3))
    told = json.loads(run("info", file, "--json").stdout)["tags"]
    check({tag: (t["points"], t["last"]) for tag, t in told.items()} == {"a": (2, 4.0)}, told)


def test_npy_is_not_read_whole(folder):
    """`info` looks at the header; `encode --npy` of an endless text says so before the machine is full."""
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % (2 << 30)
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118 - 0) + header + b" " * (117 - len(header)) + b"\n"
    with open(folder / "x.npy", "wb") as file:
        file.write(header)
        file.truncate(len(header) + (2 << 30))  # a hole
    within(8 * MIB, "info", folder / "x.npy", status=(0,))
    check(json.loads(run("info", folder / "x.npy", "--json").stdout)["bytes"] == 2 << 30, "bytes")
    if r.sanitized():
        return
    tok = make_tokenizer(folder)
    # A container of little memory is played by a limit on the address space.
    limit = 2 << 30
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", tok, "--npy", folder / "ids.npy"), stdin=endless.stdout, capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        endless.kill()
    check(done.returncode == 2 and "stdin" in done.stderr and "preprocess" in done.stderr and not (folder / "ids.npy").exists(), f"{done.returncode}: {done.stderr}")


def test_text_of_files_on_a_terminal(folder):
    """U+009B and U+202E as escapes: special tokens, decoded text, names of keys, of tensors and of outputs. A pipe has the text's own bytes."""
    tok = folder / "tok"
    tok.mkdir()
    (tok / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [{"id": 1, "content": TURNS, "special": True, "normalized": False}],
                                                    "model": {"type": "WordPiece", "vocab": {"a": 0, TURNS: 1}, "unk_token": "a"}}))
    (tok / "tokenizer_config.json").write_text(json.dumps({"eos_token": TURNS}))
    for arguments in (["tokenizer", "info", "--tokenizer", tok], ["tokenizer", "info", "--tokenizer", tok, "--json"]):
        said = run(*arguments).stdout
        check("\x9b" not in said and "\u202e" not in said and "eos" in said, repr(said))
    check(json.loads(run("tokenizer", "info", "--tokenizer", tok, "--json").stdout)["eos"]["piece"] == TURNS, "JSON keeps the text")
    decode = r.command("tokenizer", "decode", "--tokenizer", tok)
    check(subprocess.run(decode, input=b"[1]\n", capture_output=True).stdout.decode() == TURNS + "\n", "a pipe has the bytes")
    (folder / "lists").write_text("[1]\n")
    shown = in_terminal("tokenizer", "decode", "--tokenizer", tok, given=folder / "lists")
    check("\\x9b" in shown and "\x9b" not in shown and "\u202e" not in shown, repr(shown))

    out = folder / "run"
    out.mkdir()
    (out / "metrics.jsonl").write_text("".join(json.dumps({"step": i, TURNS: i}) + "\n" for i in (1, 2)))
    said = run("plot", out, "--keys", TURNS).stdout
    check("\x9b" not in said and "\u202e" not in said and "\\x9b" in said, repr(said[:200]))
    run("plot", out, "--keys", TURNS, "--output", folder / "x.svg")
    check("\x9b" not in (folder / "x.svg").read_text(), "in a picture")
    for name, number in (("a", 0.0), ("b", 1.0)):
        r.save_tensors(folder / f"{name}.safetensors", {TURNS: ("F32", (1,), [number])})
    said = run("diff", folder / "a.safetensors", folder / "b.safetensors", "--json", status=1).stdout
    check("\x9b" not in said and json.loads(said)["tensors"][0]["name"] == TURNS, repr(said))

    text = r.save_text(folder / "words.txt", 300, 1)
    (folder / "plain").mkdir()
    tok = make_tokenizer(folder / "plain")
    for name in (TURNS, b"\xff".decode(errors="surrogateescape")):
        done = subprocess.run(r.command("preprocess", "--input", text, "--tokenizer", tok, "--output-prefix", folder / name, "--append-eod"), capture_output=True)
        check(done.returncode == 0 and b"\xc2\x9b" not in done.stdout and b"\xff" not in done.stdout and b"\\x" in done.stdout, done)
        merged = subprocess.run(r.command("data", "merge", "--input", folder / f"{name}_text_document", "--output-prefix", folder / f"{name}_all"), capture_output=True)
        check(merged.returncode == 0 and b"\xc2\x9b" not in merged.stdout and b"\xff" not in merged.stdout and b"\\x" in merged.stdout, merged)


def test_small_stacks(folder):
    """`ulimit -s 64`: it works, or says what to raise."""
    if r.sanitized():
        raise r.Skipped("built with AddressSanitizer, which needs more stack than that before the program begins")

    def small():
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10))
    for name, limit in (("hard", small), ("soft", lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, resource.getrlimit(resource.RLIMIT_STACK)[1])))):
        done = subprocess.run(r.command("train", *options(folder, folder / name, train__threads=2)), stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=limit)
        check(done.returncode == 0 or (name == "hard" and done.returncode == 2 and "ulimit -s" in done.stderr), f"{name}: {done.returncode}: {done.stderr[-500:]}")


def test_paths_that_cannot_be_used(folder):
    """Of the user's paths, by name, with status 2: whichever call finds it."""
    (folder / "loop").symlink_to("loop")
    (folder / "file").write_text("")
    long = folder / ("x" * 300)
    for path in (folder / "loop", folder / "loop" / "x", long, folder / "file" / "x"):
        for arguments in (["info", path], ["plot", path], ["tokenizer", "info", "--tokenizer", path], ["tokenizer", "train", "--input", path, "--output", folder / "tok"], ["init", path], ["init", folder / "first", "--data", path],
                          ["data", "index", "--prefix", path, "--samples", "1,,", "--out", folder / "look"], ["preprocess", "--input", path, "--tokenizer", path, "--output-prefix", folder / "p"],
                          ["convert", "--input", path, "--output", folder / "c", "--to", "hf"], ["diff", path, path], ["generate", "--model", path, "--prompt", "x"], ["stop", path],
                          ["trace", "--model", path, "--input", path, "--out", folder / "t.safetensors"], ["train", f"model.path={path}", f"data.train={path}", f"train.output={folder / 'run'}"],
                          ["train", *options(folder, path)]):
            done = subprocess.run(r.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
            check(done.returncode == 2 and "filesystem error" not in done.stderr, f"{arguments}: {done.returncode}: {done.stderr[-500:]}")
            check(path.name[:200] in done.stderr, f"{arguments}: it does not name the path: {done.stderr[-500:]}")


def test_names_that_are_not_utf8(folder):
    text = os.fsencode(folder) + b"/\xff.txt"
    Path(os.fsdecode(text)).write_text(Path(r.save_text(folder / "words.txt", 3000, 1)).read_text())
    done = subprocess.run([*r.command("init", folder / "first", "--data"), text], stdin=subprocess.DEVNULL, capture_output=True)
    check(done.returncode == 2 and b"\\xff.txt" in done.stderr and b"UTF-8" in done.stderr and not (folder / "first").exists(), done)
    tok = make_tokenizer(folder)
    commands = (["info", text], ["info", text, "--json"], ["tokenizer", "train", "--input", text, "--output", folder / "tok2", "--vocab-size", "300"],
                ["preprocess", "--input", text, "--tokenizer", tok, "--output-prefix", folder / "p"],
                ["train", f"model.config={r.save_config(folder / 'config.json', vocab_size=512)}", f"model.tokenizer={tok}", b"data.train=" + text, "data.sequence_length=16", "train.steps=2", "train.global_batch=2",
                 "train.micro_batch=2", "checkpoint.every=1", f"train.output={folder / 'run'}"])
    for arguments in commands:
        done = subprocess.run([*r.command(), *(x if isinstance(x, bytes) else str(x) for x in arguments)], stdin=subprocess.DEVNULL, capture_output=True)
        check(done.returncode in (0, 2) and b"type_error" not in done.stderr and b"json.exception" not in done.stderr, f"{arguments}: {done}")


if __name__ == "__main__":
    r.main(dict(globals()))
