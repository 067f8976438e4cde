"""Small files that ask for much: each is read or refused within a few bytes of memory per byte of it, and in a time that does not grow with
its square. The bounds of every reader are in tests/unit/alone/reader_bounds.cpp; here are whole commands."""
import json
import os
import resource
import struct
import subprocess
import tempfile

import ravine_run as r

MIB = 1 << 20
START = 160 * MIB  # what the program itself takes, tables and threads included


def spend(*arguments, stdin=b"", status=(0, 2), limit=6 << 30):
    """Runs a command; (CPU seconds of its own, the most memory it had, what it wrote to stderr)."""
    def bound():
        resource.setrlimit(resource.RLIMIT_CPU, (120, 130))
        if not r.sanitized():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # the machine survives a test that fails
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        child = subprocess.Popen(r.command(*arguments), stdin=given, stdout=subprocess.DEVNULL, stderr=err, preexec_fn=bound)
        _, code, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(code)
        err.seek(0)
        text = err.read().decode(errors="replace")
    r.check(child.returncode in status, f"exit status {child.returncode}: {' '.join(map(str, arguments))}\n{text[-2000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, text


def within(memory, *arguments, words=(), **options):
    """The command needs at most `memory` bytes above the program's own, and says each word when it refuses."""
    _, peak, text = spend(*arguments, **options)
    if not r.sanitized():
        r.check(peak <= START + memory, f"{peak // MIB} MiB, at most {(START + memory) // MIB} are stated: {' '.join(map(str, arguments))}\n{text[-500:]}")
    for word in words:
        r.check(word in text, f"'{word}' is not in: {text[-1000:]}")


def grows(make, arguments, size, **options):
    """Four times the input takes less than eight times the time; the square would be sixteen. The fastest of three each; in the short tier one each where that is enough."""
    def best(n, tries):
        made = make(n)
        return min(spend(*arguments, stdin=made if isinstance(made, bytes) else b"", **options)[0] for _ in range(tries))
    if not r.FULL:
        size //= 2
        if best(4 * size, 1) < 8 * best(size, 1) + 0.05:
            return
    small, large = best(size, 3), best(4 * size, 3)
    r.check(large < 8 * small + 0.05, f"{small:.2f} s, for four times the input {large:.2f} s: {' '.join(map(str, arguments))}")


def test_a_replay_of_many_small_parameters(folder):
    """Buffers are shared by many: a parameter of one number has no pages of its own, and none looks at all others."""
    def file(n):
        tensors = {f"{kind}.{i}": ("F32", shape, [0.0]) for i in range(n) for kind, shape in (("p", (1,)), ("g", (1, 1)))}
        return r.save_tensors(folder / "many.safetensors", tensors)
    replay = ["replay", "optimizer", "--out", folder / "out.safetensors", "--overwrite", "--threads", 1, "--input", folder / "many.safetensors"]
    (few, small), (many, large) = ((os.path.getsize(file(n)), spend(*replay, status=(0,))[1]) for n in ((2500, 20000) if r.FULL else (500, 4000)))
    if not r.sanitized():
        r.check(large - small <= 40 * (many - few), f"{(large - small) / (many - few):.1f} bytes per byte, at most 40 are stated")
    grows(file, replay, 5000 if r.FULL else 2000, status=(0,))


def le(value, width):
    return value.to_bytes(width, "little")


def zipped(members):
    out = directory = b""
    for name, body in members:
        name = name.encode()
        common = bytes(8) + bytes(4) + le(len(body), 4) * 2 + le(len(name), 2) + bytes(2)
        directory += le(0x02014b50, 4) + le(20, 2) * 2 + common + bytes(10) + le(len(out), 4) + name
        out += le(0x04034b50, 4) + le(20, 2) + common + name + body
    return out + directory + le(0x06054b50, 4) + bytes(4) + le(len(members), 2) * 2 + le(len(directory), 4) + le(len(out), 4) + bytes(2)


def text(s):
    return b"X" + le(len(s), 4) + s.encode()


def number(v):
    return b"J" + le(v, 4)


def tensor(storage, size, stride):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nByteStorage\n" + text("0") + text("cpu") + number(storage) + b"tQ" + number(0) + b"(" + number(size) +
            b"t(" + number(stride) + b"t\x89}tR")


def torch_file(path, pickle, storage):
    path.write_bytes(zipped([("a/data.pkl", pickle), ("a/byteorder", b"little"), ("a/data/0", bytes(storage))]))
    return path


def test_a_torch_file_that_says_one_dict_many_times(folder):
    pickle = b"}(" + b"".join(text(str(i)) + tensor(8, 8, 1) for i in range(100)) + b"ur" + le(0, 4) + b"0"
    for level in range(1, 3):
        pickle += b"}(" + b"".join(text("x" * 150 + str(i)) + b"j" + le(level - 1, 4) for i in range(100)) + b"ur" + le(level, 4) + b"0"
    file = torch_file(folder / "x.bin", pickle + b"j" + le(2, 4) + b".", 8)
    within(64 * MIB + 256 * file.stat().st_size, "diff", file, file, words=("in many places",))


def test_a_torch_file_that_repeats_its_storage(folder):
    storage = 200_000
    file = torch_file(folder / "x.bin", b"}(" + b"".join(text(str(i)) + tensor(storage, 60 * storage, 0) for i in range(200)) + b"u.", storage)
    within(64 * MIB + 256 * file.stat().st_size, "diff", file, file, words=("repeat what is stored",))


def test_an_index_of_brackets(folder):
    model = folder / "m"
    model.mkdir()
    (model / "model.safetensors.index.json").write_bytes(b"[" * (40 * MIB))
    r.save_config(model / "config.json")
    for command in r.rows((("diff", model, model), ("convert", "--input", model, "--from", "hf", "--to", "megatron-legacy", "--dry-run")), 1, "one reader of an index"):
        within(64 * MIB + 2 * 40 * MIB, *command, words=("nested too deeply",))


def test_a_json_file_of_many_keys(folder):
    file = folder / "config.json"

    def make(n):
        file.write_text(json.dumps({**r.TINY, **{f"unknown_{i}": 0 for i in range(n)}}))
    grows(make, ("info", file), 20_000)
    make(40_000)
    within(64 * file.stat().st_size, "info", file)


def test_a_table_of_many_columns(folder):
    tokenizer = small_tokenizer(folder)
    file = folder / "x.csv"

    def make(n):
        file.write_text(",".join(f"c{i}" for i in range(n)) + "\n" + ",".join("1" for _ in range(n)) + "\n")
    grows(make, ("info", file, "--tokenizer", tokenizer), 15_000)
    make(70_000)
    within(64 * file.stat().st_size, "info", file, "--tokenizer", tokenizer, words=("too many columns",))


def small_tokenizer(folder, **parts):
    file = folder / "t" / "tokenizer.json"
    file.parent.mkdir(exist_ok=True)
    model = {"type": "BPE", "vocab": {**{chr(97 + i): i for i in range(26)}, "ab": 26}, "merges": ["a b"]}
    file.write_text(json.dumps({"version": "1.0", "model": model, **parts}))
    return file


def test_a_normalizer_that_makes_much_of_little(folder):
    for parts in r.rows((1, 2), 1, "one bound of both"):
        replace = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 200_000}
        file = small_tokenizer(folder, normalizer=replace if parts == 1 else {"type": "Sequence", "normalizers": [replace, replace]})
        within(64 * MIB, "tokenizer", "encode", "--tokenizer", file, stdin=b"a" * 100_000 + b"\n", status=(2,), words=("the normalizer makes too much text",))


def test_a_decoder_that_makes_much_of_little(folder):
    doubles = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    file = small_tokenizer(folder, decoder={"type": "Sequence", "decoders": [doubles] * 40})
    within(64 * MIB, "tokenizer", "decode", "--tokenizer", file, stdin=b"[0,0,0]\n", status=(2,), words=("the decoder makes too much text",))


def test_added_tokens_within_each_other(folder):
    file = folder / "t" / "tokenizer.json"

    def make(n):
        small_tokenizer(folder, added_tokens=[{"id": 0, "content": "a" * n + "Z"}])
        return b"a" * n + b"\n"
    grows(make, ("tokenizer", "encode", "--tokenizer", file), 20_000)
    small_tokenizer(folder, added_tokens=[{"id": 0, "content": "a" * i + "Z"} for i in range(1, 1500)])
    within(64 * MIB + 256 * 4_000_000, "tokenizer", "encode", "--tokenizer", file, stdin=b"a" * 4_000_000 + b"\n")


def test_patterns_that_backtrack(folder):
    for pattern in r.rows(("a(?=.*b)", "a(?=[^z]*[bc])", "(?:a|aa)+(?:c|d)"), 1, "work is counted alike"):
        file = small_tokenizer(folder, pre_tokenizer={"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False})
        grows(lambda n: b"a" * n + b"\n", ("tokenizer", "encode", "--tokenizer", file), 20_000)
        _, _, said = spend("tokenizer", "encode", "--tokenizer", file, stdin=b"a" * 400_000 + b"\n", status=(2,))
        r.check(pattern in said and "too much work" in said, f"the pattern {pattern} is not named: {said}")


def test_word_pieces_of_any_length(folder):
    file = folder / "tokenizer.json"
    model = {"type": "WordPiece", "unk_token": "a", "max_input_chars_per_word": 2_000_000_000, "continuing_subword_prefix": "##", "vocab": {"a": 0, "##a": 1, "##" + "a" * 1000 + "b": 2}}
    file.write_text(json.dumps({"version": "1.0", "model": model}))
    grows(lambda n: b"a" * n + b"\n", ("tokenizer", "encode", "--tokenizer", file), 10_000)
    model["vocab"]["##" + "a" * 100_000] = 3
    file.write_text(json.dumps({"version": "1.0", "model": model}))
    _, _, said = spend("tokenizer", "encode", "--tokenizer", file, stdin=b"a\n", status=(2,))
    r.check("bytes; at most" in said, said)


def test_a_plan_of_many_layers(folder):
    """Twice as many layers take twice the time and a little: each kept activation is not compared with all others."""
    def plan(layers):
        config = r.save_config(folder / f"{layers}.json", num_hidden_layers=layers)
        return min(spend("plan", f"model.config={config}", "data.sequence_length=32", "train.global_batch=1", "train.steps=1", status=(0,))[0] for _ in range(2))
    few = 150 if r.FULL else 40
    small, large = plan(few), plan(4 * few)
    r.check(large < 8 * small + 0.2, f"{few} layers {small:.2f} s, {4 * few} layers {large:.2f} s")


if __name__ == "__main__":
    r.main(dict(globals()))
