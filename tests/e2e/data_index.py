"""`ravine data index`: each flag does what it says. Samples are put together here once more from the arrays that the command writes, by Megatron's definition: number i is sample
shuffle[i], which goes from one place of the row of documents to another."""
import array
import json
import math
import struct
import sys

import ravine_run as r
from ravine_run import check, run

EOD, S = 7, 4
DOCUMENTS = [[10, 11, 12, EOD], [20, 21, EOD], [30, 31, 32, 33, 34, EOD], [40, EOD], [50, 51, 52, EOD], [60, 61, EOD], [70, 71, 72, 73, EOD], [80, 81, 82, EOD], [90, 91, EOD], [95, 96, 97, EOD]]


def token_files(prefix, documents):
    ids = sum(documents, [])
    lengths = [len(d) for d in documents]
    pointers = [4 * sum(lengths[:i]) for i in range(len(lengths))]
    prefix.with_suffix(".bin").write_bytes(struct.pack(f"<{len(ids)}i", *ids))
    prefix.with_suffix(".idx").write_bytes(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1) + struct.pack(f"<{len(lengths)}i", *lengths)
                                           + struct.pack(f"<{len(lengths)}q", *pointers) + struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1)))
    return prefix


def npy(path):
    data = path.read_bytes()
    size = struct.unpack_from("<H", data, 8)[0]
    header = eval(data[10:10 + size], {"__builtins__": {}})
    values = array.array({"<i4": "i", "<i8": "q", "<u4": "I", "<i2": "h"}[header["descr"]], data[10 + size:])
    return [list(values[i:i + 2]) for i in range(0, len(values), 2)] if len(header["shape"]) == 2 else list(values)


def samples(out, split):
    """Name -> rows of a split's file; none: it was not written."""
    if not (out / f"{split}-samples.safetensors").exists():
        return None
    rows = {}
    for name, (kind, shape, raw) in load(out / f"{split}-samples.safetensors").items():
        values = list(array.array("i" if kind == "I32" else "B", raw))
        width = len(values) // shape[0]
        rows[name] = values if len(shape) == 1 else [values[i * width:(i + 1) * width] for i in range(shape[0])]
    return rows


def load(path):
    header, body = r.load_raw(path)
    return {n: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for n, t in header.items() if n != "__metadata__"}


def index(folder, *flags, prefix=None, status=0, split="8,1,1", number="6,2,2", name="out"):
    out = folder / name
    words = ["--split", split] if split else []
    done = run("data", "index", "--prefix", *(prefix or [folder / "docs"]), "--sequence-length", S, "--samples", number, "--out", out, "--overwrite", *words, *flags, status=status)
    return out, done


def row_of(out, split, documents, i, extra=1):
    """Tokens of sample i, by the arrays."""
    order, places, shuffle = (npy(out / f"{split}-{what}_index.npy") for what in ("document", "sample", "shuffle"))
    (first, begin), (last, end) = places[shuffle[i]], places[shuffle[i] + 1]
    if first == last:
        return documents[order[first]][begin:end + extra]
    return documents[order[first]][begin:] + sum((documents[order[d]] for d in range(first + 1, last)), []) + documents[order[last]][:end + extra]


def test_samples_are_those_of_the_arrays(folder):
    token_files(folder / "docs", DOCUMENTS)
    out, done = index(folder)
    ranges = {"train": range(0, 8), "valid": range(8, 9), "test": range(9, 10)}
    for split, count in (("train", 6), ("valid", 2), ("test", 2)):
        got = samples(out, split)
        order = npy(out / f"{split}-document_index.npy")
        check(set(order) == set(ranges[split]), f"{split} has documents {sorted(set(order))}")
        tokens = sum(len(DOCUMENTS[d]) for d in ranges[split])
        check(f"{split:<6} {len(npy(out / f'{split}-shuffle_index.npy'))} samples of {S} tokens; one epoch has {tokens} tokens" in done.stdout, done.stdout)
        check(len(got["tokens"]) == min(20, len(npy(out / f"{split}-shuffle_index.npy"))) >= count, f"{split}: {len(got['tokens'])} samples")
        for i, (tokens, labels) in enumerate(zip(got["tokens"], got["labels"])):
            want = row_of(out, split, DOCUMENTS, i)
            check(tokens == want[:-1] and labels == want[1:], f"{split} {i}: {tokens} {labels}, wanted {want}")
            check(got["loss_mask"][i] == [1] * S and got["position_ids"][i] == list(range(S)), f"{split} {i}")
        check("attention_mask" not in got and "dataset_id" not in got, f"{sorted(got)}")


def test_each_flag(folder):
    token_files(folder / "docs", DOCUMENTS)
    plain = samples(index(folder)[0], "train")
    # As many as are asked for, none of a split without samples, and one epoch where nothing is said.
    check(len(samples(index(folder, "--first", 2, name="two")[0], "train")["tokens"]) == 2, "--first")
    out, _ = index(folder, number="6,0,2", name="none")
    check(samples(out, "valid") is None and samples(out, "test") and samples(out, "train") == plain, "no validation samples are asked for")
    out, _ = index(folder, number=",,", name="epoch")
    check(len(npy(out / "train-shuffle_index.npy")) == (sum(map(len, DOCUMENTS[:8])) - 1) // S, "one epoch of training documents")
    check(len(npy(out / "train-document_index.npy")) == 8, "each document once")
    # Another seed is another order of the same; the same seed is the same.
    other = samples(index(folder, "--seed", 5, name="seed")[0], "train")
    check(other != plain and samples(index(folder, "--seed", 1234, name="again")[0], "train") == plain, "--seed, which is 1234 by itself")
    # The split that is the default, and one of two parts.
    thousand = token_files(folder / "many", [[i % 90 + 10, i % 80 + 10, EOD] for i in range(1000)])
    for words, ends in ((None, (969, 999, 1000)), ("90,10,0", (900, 1000, None)), ("1", (1000, None, None))):
        out, _ = index(folder, prefix=[thousand], split=words, number=",,", name=f"split{ends[0]}")
        begin = 0
        for split, end in zip(("train", "valid", "test"), ends):
            if end is None:
                check(not list(out.glob(f"{split}-*")), f"{words}: {split}")
                continue
            got = set(npy(out / f"{split}-document_index.npy"))
            check(got == set(range(begin, end)), f"--split {words}: {split} has {min(got)} to {max(got)}, not {begin} to {end - 1}")
            begin = end
    # What ends of documents do, by the id and by a tokenizer's.
    marks = {"--eod-mask-loss": "loss_mask", "--reset-position-ids": "position_ids", "--reset-attention-mask": "attention_mask"}
    for flag, name in marks.items():
        out, _ = index(folder, flag, "--eod", EOD, name=name)
        got = samples(out, "train")
        check({k: v for k, v in got.items() if k not in (name,)} == {k: v for k, v in plain.items() if k != name}, f"{flag} changes {name} only")
        for i, tokens in enumerate(got["tokens"]):
            segment, begin, positions, hidden = 0, 0, [], []
            for c, t in enumerate(tokens):
                positions.append(c - begin)
                bits = [k > c or k < begin for k in range(S)]
                hidden.append(sum(b << k for k, b in enumerate(bits)))
                if t == EOD:
                    begin = c + 1
            want = {"loss_mask": [int(t != EOD) for t in tokens], "position_ids": positions, "attention_mask": hidden}[name]
            check(got[name][i] == want, f"{flag} {i}: {got[name][i]} of {tokens}, wanted {want}")
        done = index(folder, flag, name="x", status=2)[1]
        check("end-of-document id" in done.stderr, done.stderr)
    tokenizer = {"version": "1.0", "added_tokens": [{"id": EOD, "content": "</s>", "special": True}], "model": {"type": "WordPiece", "vocab": {f"w{i}": i for i in range(EOD)}, "unk_token": "w0"}}
    (folder / "tok").mkdir()
    (folder / "tok" / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tok" / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    check(samples(index(folder, "--eod-mask-loss", "--tokenizer", folder / "tok", name="eos")[0], "train") == samples(folder / "loss_mask", "train"), "--tokenizer")
    check(samples(index(folder, "--eod-mask-loss", "--tokenizer", folder / "tok", "--eod", 999, name="first")[0], "train") == plain, "--eod comes before the tokenizer's")


def test_samples_that_do_not_overlap_and_those_that_are_partial(folder):
    token_files(folder / "docs", DOCUMENTS)
    out, _ = index(folder, "--no-extra-token", number=",,")
    got = samples(out, "train")
    check(len(npy(out / "train-shuffle_index.npy")) == sum(map(len, DOCUMENTS[:8])) // S, "every token once")
    for i, tokens in enumerate(got["tokens"]):
        check(tokens == row_of(out, "train", DOCUMENTS, i, extra=0)[:S] and got["labels"][i][:-1] == tokens[1:] and got["loss_mask"][i] == [1] * (S - 1) + [0], f"{i}: {tokens} {got['labels'][i]}")
    # A validation document of 3 + 4 tokens: one whole sample, and with the flag what is left of them.
    whole, _ = index(folder, split="8,2,0", number=",,", name="whole")
    part, _ = index(folder, "--partial-validation", split="8,2,0", number=",,", name="part")
    a, b = samples(whole, "valid"), samples(part, "valid")
    check(len(a["tokens"]) == 1 and len(b["tokens"]) == 2, f"{len(a['tokens'])} and {len(b['tokens'])} samples")
    check(sorted(map(sum, b["loss_mask"])) == [2, 4], f"7 tokens predict 6: {b['loss_mask']}")
    check(samples(whole, "train") == samples(part, "train"), "training samples stay whole")


def test_orders_and_blends(folder):
    a, b = token_files(folder / "a", DOCUMENTS), token_files(folder / "b", [[t + 100 for t in d] for d in DOCUMENTS])
    for flags, shares in (((), (0.5, 0.5)), (("--weights", 3, 1), (0.75, 0.25)), (("--weights", 1, 9), (0.1, 0.9))):
        out, _ = index(folder, *flags, "--first", 40, prefix=[a, b], number="40,0,0" if flags else "8,0,0", split="1,0,0", name=f"blend{len(flags)}{shares[0]}")
        got, source = samples(out, "train"), npy(out / "train-dataset_index.npy")
        check(got["dataset_id"] == source[:len(got["dataset_id"])], "the source of each sample")
        for tokens, where in zip(got["tokens"], got["dataset_id"]):
            check(all((t >= 100) == (where == 1) for t in tokens), f"{tokens} of source {where}")
        for k in (0, 1):
            check(abs(source.count(k) - shares[k] * len(source)) <= 1, f"{flags}: {source.count(k)} of {len(source)} samples of source {k}")
            numbers = [n for s, n in zip(source, npy(out / "train-dataset_sample_index.npy")) if s == k]
            check(numbers == list(range(len(numbers))), f"{flags}: samples of source {k} are {numbers}")
    # Of 2023: half a percent more samples than are asked for, rounded up for each source.
    for order, more in (("megatron", 1.0), ("megatron-2023", 1.005)):
        out, _ = index(folder, "--order", order, "--weights", 1, 2, prefix=[a, b], number="1000,0,0", split="1,0,0", name=order)
        check(len(npy(out / "train-dataset_index.npy")) == sum(math.ceil(1000 * w * more) for w in (1 / 3, 2 / 3)), f"{order}: {len(npy(out / 'train-dataset_index.npy'))} samples")
    core = samples(index(folder, prefix=[a], number="30,0,0", split="1,0,0", name="core")[0], "train")
    # Index files: written, and read back without the documents' order being drawn again.
    cache = ("--cache", folder / "cache")
    one = samples(index(folder, *cache, prefix=[a], number="30,0,0", split="1,0,0", name="c1")[0], "train")
    files = sorted((folder / "cache").iterdir())
    check(one == core and len(files) == 4, f"{files}")
    before = [f.stat().st_mtime_ns for f in files]
    check(samples(index(folder, *cache, prefix=[a], number="30,0,0", split="1,0,0", name="c2")[0], "train") == core and [f.stat().st_mtime_ns for f in files] == before, "the cache is read")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
