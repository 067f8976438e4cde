"""Shared by the end-to-end tests: runs the built program, makes tiny models and data, reads what a run wrote.

A test program is `python3 NAME.py PATH_OF_RAVINE [FUNCTION ..]`; each of its functions `test_*` gets a folder of its own.

Two tiers. The short one, which scripts/test runs, proves every mechanism once, as cheaply as it can. What repeats a proof on more rows, families, sizes or for
longer is of the full one (RAVINE_FULL=1, set by scripts/test --full): a function says so by @full("why"), a table by `rows`. A function that is named on the
command line runs in any case, and a table is whole then.
"""
import array
import collections
import fcntl
import hashlib
import json
import os
import pty
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import this_change  # noqa: E402

PROGRAM = ""
FOLDER = ""  # of all that this run makes
LIMIT = 600  # seconds for one command; builds with sanitizers on a busy machine are slow
TERMINAL_LIMIT = 300  # seconds for one conversation on a terminal
COMPARED = ("loss", "lr", "grad_norm", "tokens", "valid_loss")
FULL = bool(os.environ.get("RAVINE_FULL"))
TYPES = {"F64": "d", "F32": "f", "I64": "q", "I32": "i"}

TINY = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
}


class Skipped(Exception):
    """This machine or build lacks what a test needs: the text says what."""


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def full(why):
    """Marks a test of the full tier. why: what the short tier has instead, in a line."""
    def mark(function):
        function.full = why
        return function
    return mark


def text_of(row):
    """A row's own text: its words and numbers, without the folder of this run and without functions."""
    if isinstance(row, (str, Path)):
        return str(row).replace(str(FOLDER), "")
    if isinstance(row, dict):
        return text_of(list(row.items()))
    if isinstance(row, (list, tuple, set, frozenset)):
        return " ".join(map(text_of, sorted(row, key=text_of) if isinstance(row, (set, frozenset)) else row))
    return repr(row) if row is None or isinstance(row, (bool, int, float, bytes)) else ""


def touched(texts):
    """Numbers of the rows whose subject the change under test touches: a word that it adds or removes, and that few other rows have."""
    words = [this_change.words_of(text) for text in texts]
    seen = collections.Counter(w for row in words for w in row)
    return {i for i, row in enumerate(words) if any(seen[w] <= 2 and w in this_change.words() for w in row)}


def rows(table, short, why):
    """The rows of a table that are tried: all in the full tier. Short: the same on any day, chosen by a hash of the row's own text, so that a new row brings in no
    other; `short` of them, or a share below 1. Rows whose subject this change touches come beside them. why: in a line."""
    table = list(table)
    if FULL or len(table) <= short:
        return table
    texts = [text_of(row) for row in table]
    drawn = sorted((int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64, i) for i, text in enumerate(texts))
    kept = [i for part, i in drawn if part < short] or [drawn[0][1]] if short < 1 else [i for _, i in drawn[:short]]
    kept = sorted({*kept, *touched(texts)})
    print(f"    {len(kept)} of {len(table)} rows: {why}", flush=True)
    return [table[i] for i in kept]


def command(*arguments):
    return [PROGRAM, *map(str, arguments)]


def start(*arguments, **options):
    return subprocess.Popen(command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, **options)


class Commands:
    """Runs commands in children of one process that has the program loaded (tests/commands.cpp): nothing is started anew. Messages name it as the program."""

    def __init__(self, server):
        self.folder = Path(tempfile.mkdtemp(prefix="ravine-commands-"))
        self.job = subprocess.Popen([PROGRAM, PROGRAM], executable=server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, arguments, cwd, env):
        streams = {name: str(self.folder / name) for name in ("stdout", "stderr")}
        self.job.stdin.write(json.dumps({"args": arguments, "cwd": str(cwd or os.getcwd()), "env": dict(env or os.environ), "stdin": os.devnull, **streams}) + "\n")
        self.job.stdin.flush()
        child = int(self.job.stdout.readline())
        clock = threading.Timer(LIMIT, os.kill, (child, 9))
        clock.start()
        try:
            status = int(self.job.stdout.readline())
        except BaseException:  # this script is being ended
            os.kill(child, 9)
            raise
        finally:
            clock.cancel()
        said = {name: Path(path).read_text() for name, path in streams.items()}
        return subprocess.CompletedProcess(command(*arguments), status, said["stdout"], said["stderr"])

    def close(self):
        self.job.stdin.close()
        self.job.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


SERVED = None  # Commands, where the program is not started anew for each


def run(*arguments, status=0, **options):
    """Runs to the end; the exit status must be `status`. Returns the finished process with .stdout and .stderr as text."""
    if SERVED and options.keys() <= {"cwd", "env"}:
        done = SERVED.run([str(x) for x in arguments], **{"cwd": None, "env": None, **options})
    else:
        done = subprocess.run(command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, **options)
    check(done.returncode == status,
          f"exit status {done.returncode} instead of {status}: {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done


def on_terminal(words, typed, cwd=None, own_group=False):
    """Runs on a pseudo terminal and types each (after these words are seen, this). own_group: what Ctrl-C sends goes to the program alone. Returns (status, what was seen)."""
    parent, child = pty.openpty()
    def owns_terminal():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background has it ignored
        if own_group:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    job = subprocess.Popen(command(*words), stdin=child, stdout=child, stderr=child, close_fds=True, cwd=cwd, start_new_session=own_group, preexec_fn=owns_terminal)
    os.close(child)
    seen, until, rest = "", time.time() + TERMINAL_LIMIT, list(typed)
    while time.time() < until:
        if select.select([parent], [], [], 0.2)[0]:
            try:
                data = os.read(parent, 4096)
            except OSError:
                break
            if not data:
                break
            seen += data.decode("utf-8", "replace")
        if rest and seen.count(rest[0][0]) >= rest[0][1]:
            os.write(parent, rest.pop(0)[2])
    else:
        job.kill()
    status = job.wait()
    os.close(parent)
    assert time.time() < until, f"still there after {TERMINAL_LIMIT} s, {len(rest)} of {len(typed)} not typed; seen: {seen}"
    return status, seen


def settings(values):
    """{"train.steps": 3} as arguments of the command line."""
    def text(v):
        return json.dumps(v) if isinstance(v, (bool, list)) else str(v)
    return [f"{key}={text(value)}" for key, value in values.items()]


def save_mindrecord(path, rows, column="input_ids"):
    """A MindRecord file with one column of int32, numbers packed as MindSpore packs them."""
    body = b""
    for row in rows:
        sizes = [next(k for k in range(4) if -(1 << (8 << k) - 1) <= v < 1 << (8 << k) - 1) for v in row]
        bits = bytearray((len(row) + 3) // 4)
        for i, k in enumerate(sizes):
            bits[i // 4] |= k << 2 * (3 - i % 4)
        packed = struct.pack(">I", len(row)) + bytes(bits) + b"".join(v.to_bytes(1 << k, "little", signed=True) for v, k in zip(row, sizes))
        body += struct.pack("<Q", len(packed)) + packed
    header = json.dumps({"header_size": 16384, "page_size": 1 << 25, "compression_size": 1, "page": [{"page_id": 0, "page_type": "BLOB_DATA", "page_size": len(body), "start_row_id": 0, "end_row_id": len(rows)}],
                         "schema": [{"blob_fields": [column], "schema": {column: {"type": "int32", "shape": [-1]}}}], "shard_addresses": [os.path.basename(path)], "version": "3.0"}).encode()
    with open(path, "wb") as f:
        f.write((struct.pack("<Q", len(header)) + header).ljust(16384, b"\0") + body)


def save_parquet(path, columns):
    """{name: texts} as a Parquet file of one row group: columns that may be null, plain pages in Snappy's form, literals alone."""
    def varint(n):
        return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])
    def struct_of(*fields):  # Thrift's compact protocol; fields: (id, (type, body))
        out, last = b"", 0
        for number, (kind, body) in fields:
            out, last = out + bytes([number - last << 4 | kind]) + body, number
        return 12, out + b"\0"
    def text(value):
        return 8, varint(len(value.encode())) + value.encode()
    def items(values):
        return 9, bytes([len(values) << 4 | values[0][0]]) + b"".join(body for _, body in values)
    def i32(n):
        return 5, varint(n << 1)
    def i64(n):
        return 6, varint(n << 1)
    rows, data, chunks = len(next(iter(columns.values()))), b"PAR1", []
    for name, values in columns.items():
        levels = varint(rows << 1) + b"\1"  # a run: none is null
        page = struct.pack("<I", len(levels)) + levels + b"".join(struct.pack("<I", len(v.encode())) + v.encode() for v in values)
        packed = varint(len(page)) + b"".join(bytes([61 << 2]) + struct.pack("<H", len(page[at:at + 65536]) - 1) + page[at:at + 65536] for at in range(0, len(page), 65536))
        head = struct_of((1, i32(0)), (2, i32(len(page))), (3, i32(len(packed))), (5, struct_of((1, i32(rows)), (2, i32(0)), (3, i32(3)), (4, i32(3)))))[1]
        sizes = [(6, i64(len(head) + len(page))), (7, i64(len(head) + len(packed))), (9, i64(len(data)))]
        chunks.append(struct_of((2, i64(len(data))), (3, struct_of((1, i32(6)), (2, items([i32(0), i32(3)])), (3, items([text(name)])), (4, i32(1)), (5, i64(rows)), *sizes))))
        data += head + packed
    schema = [struct_of((4, text("schema")), (5, i32(len(columns)))), *(struct_of((1, i32(6)), (3, i32(1)), (4, text(name)), (6, i32(0))) for name in columns)]
    groups = [struct_of((1, items(chunks)), (2, i64(len(data) - 4)), (3, i64(rows)))]
    foot = struct_of((1, i32(1)), (2, items(schema)), (3, i64(rows)), (4, items(groups)))[1]
    Path(path).write_bytes(data + foot + struct.pack("<I", len(foot)) + b"PAR1")
    return str(path)


def save_config(path, **fields):
    """TINY with other fields; a field that is None is left out."""
    config = {**TINY, **fields}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return str(path)


def save_tensors(path, tensors):
    """{name: (type, shape, numbers)} as a safetensors file."""
    header, body = {}, b""
    for name, (kind, shape, numbers) in tensors.items():
        data = array.array(TYPES[kind], numbers).tobytes()
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    save_raw(path, header, body)
    return str(path)


def save_raw(path, header, body):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)
    (Path(path).parent / ".ravine").unlink(missing_ok=True)  # weights that a run has exported are the test's own now


def load_raw(path):
    data = Path(path).read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def load_tensors(folder, files="*.safetensors"):
    """{name: (type, shape, bytes)} of all files of a folder; each name is there once."""
    out = {}
    for file in sorted(Path(folder).glob(files)):
        header, body = load_raw(file)
        for name, t in header.items():
            if name != "__metadata__":
                check(name not in out, f"{folder}: {name} is stored twice")
                out[name] = (t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
    return out


def sanitized():
    """The program was built with AddressSanitizer, which takes an address space that no limit allows."""
    return subprocess.run(["grep", "-q", "-a", "-F", "__asan_init", PROGRAM]).returncode == 0  # not in here: what this process holds counts as its children's


def shared(*names):
    """A folder of data recorded outside this repository; without one the test is skipped."""
    root = os.environ.get("RAVINE_SHARED")
    if not root:
        raise Skipped("RAVINE_SHARED names no folder of recorded data")
    return Path(root, *names)


def save_ids(path, rows, columns, vocabulary=256, seed=1, ragged=False):
    """ragged: rows that differ widely in how many of their tokens are learned."""
    draw = random.Random(seed)
    ids = [draw.randrange(3, vocabulary) for _ in range(rows * columns)]
    tensors = {"input_ids": ("I32", (rows, columns), ids)}
    if ragged:
        ends = [draw.choice((2, 3, columns // 2, columns)) for _ in range(rows)]
        tensors["labels"] = ("I32", (rows, columns), [ids[i] if i % columns < ends[i // columns] else -100 for i in range(rows * columns)])
    return save_tensors(path, tensors)


def options(folder, output, **more):
    """Of a run of two steps of a tiny model; data__pack=True sets one more, None leaves one out."""
    base = {
        "model.config": save_config(folder / "config.json"), "data.train": [save_ids(folder / "ids.safetensors", 16, 16)],
        "data.sequence_length": 16, "train.steps": 2, "train.global_batch": 2, "train.micro_batch": 2, "schedule.warmup_steps": 0, "schedule.steps": 100,
        "checkpoint.every": 1, "checkpoint.keep": 0, "train.threads": 1, "log.tensorboard": False, "train.output": output,
    }
    base.update({key.replace("__", "."): value for key, value in more.items()})
    return settings({key: value for key, value in base.items() if value is not None})


def save_text(path, words, seed):
    """Words of a small made-up language, in short paragraphs."""
    draw = random.Random(seed)
    language = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    lexicon = ["".join(language.choices(letters, k=language.randint(2, 8))) for _ in range(200)]
    text = " ".join(draw.choice(lexicon) + ("\n\n" if i % 50 == 49 else "") for i in range(words))
    Path(path).write_text(text)
    return str(path)


def metrics(output):
    """Step -> the numbers that must repeat; each step is there once, in order."""
    rows = [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]
    steps = [row["step"] for row in rows]
    check(steps == sorted(set(steps)), f"{output}/metrics.jsonl: steps are not each there once and in order: {steps}")
    return {row["step"]: {key: row[key] for key in COMPARED if key in row} for row in rows}


def weights(output):
    return (Path(output) / "model" / "model.safetensors").read_bytes()


def same_run(a, b):
    """What differs between two finished runs, in words; "" if nothing does."""
    left, right = metrics(a), metrics(b)
    if left.keys() != right.keys():
        return f"steps {sorted(left)} and {sorted(right)}"
    for step in left:
        if left[step] != right[step]:
            return f"step {step}: {left[step]} and {right[step]}"
    return "" if weights(a) == weights(b) else "the final weights"


def checkpoints(output):
    folder = Path(output) / "checkpoints"
    return sorted(p.name for p in folder.glob("step_*") if not p.name.endswith(".tmp")) if folder.exists() else []


def serve():
    """From here on `run` starts nothing anew. Not for what asks how much memory or time children took, or limits them."""
    global SERVED
    server = Path(PROGRAM).with_name("ravine_commands")
    if not FULL and server.exists() and not SERVED:
        SERVED = Commands(str(server))


class Peaks:
    """What programs have measured of this machine, kept beside the program as long as that is the same, so that not each script measures it again."""

    def __init__(self, cache):
        self.kept = Path(PROGRAM).with_name("peaks_for_tests.json")
        self.cache = cache
        if self.kept.exists() and self.kept.stat().st_mtime > os.stat(PROGRAM).st_mtime:
            cache.parent.mkdir(parents=True)
            shutil.copy(self.kept, cache)

    def keep(self):
        """Peaks only: not the share of them that steps of a test reach, nor rates of messages."""
        try:
            found = {k: v for file in (self.kept, self.cache) if file.exists() for k, v in json.loads(file.read_text()).items() if isinstance(v, dict) and "f32_flops" in v}
            part = self.kept.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(found))
            part.rename(self.kept)
        except (ValueError, OSError):
            return


def main(functions):
    """Runs the functions named test_* (or those named on the command line); exit status 1 if one fails, 77 if none ran."""
    global PROGRAM, FULL, FOLDER
    PROGRAM = os.path.abspath(sys.argv[1])
    if functions.get("SERVED_COMMANDS", True):
        serve()
    FULL = FULL or len(sys.argv) > 2
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C does: what a script has made goes with it
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    names = sys.argv[2:] or [n for n in functions if n.startswith("test_")]
    for name in names:
        if not callable(functions.get(name)):
            sys.exit(f"{Path(sys.argv[0]).name}: no function '{name}'; there are: {', '.join(n for n in functions if n.startswith('test_'))}")
    root = Path(tempfile.mkdtemp(prefix="ravine-e2e-"))
    FOLDER = root
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")  # the program keeps the peaks of the machine there
    peaks = Peaks(root / "cache" / "ravine" / "machine.json") if not FULL and functions.get("SHARED_PEAKS", True) and SERVED else None  # beside a build of tests alone
    failed = skipped = 0
    try:
        for name in names:
            began = time.monotonic()
            folder = root / name
            folder.mkdir()
            try:
                if why := not FULL and getattr(functions[name], "full", ""):
                    skipped += 1
                    print(f"full    {name}: {why}", flush=True)
                    continue
                functions[name](folder)
                print(f"passed  {name}  {time.monotonic() - began:.1f} s", flush=True)
            except Skipped as why:
                skipped += 1
                print(f"SKIPPED: {name}: {why}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    finally:
        if SERVED:
            SERVED.close()
        if peaks:
            peaks.keep()
        shutil.rmtree(root, ignore_errors=True)
    sys.exit(1 if failed or not names else 77 if skipped == len(names) else 0)
