"""Figures that `info`, `diff`, `plan` and `generate` make of files and limits, each counted here once more."""
import json
import math
import re
import struct
import subprocess
import sys

import ravine_run as r
from figures import SMALL, save_model
from inputs import sealed
from ravine_run import check

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads


def info(path, *words):
    return json.loads(r.run("info", path, "--json", *words).stdout)


def test_lengths_fields_and_samples(folder):
    """Records by powers of two, what they are made of, and samples cut between two characters."""
    (folder / "a").mkdir()
    lines = ["x" * n for n in (1, 2, 3, 4, 7, 8, 8)] + ["y" * 399 + "é" * 50]
    (folder / "a" / "one.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    (folder / "rows.jsonl").write_bytes(b'{"text":"a","id":1}\n{"text":"b"}\n{"text":"bb\x80","id":3}\n')
    said = info(folder / "rows.jsonl")
    check(said["records"] == 3 and said["fields_of_the_first"] == {"id": 2, "text": 3} and said["bad_utf8"] == 1 and said["files"] == 1, said)
    check(said["bytes"] == (folder / "rows.jsonl").stat().st_size, said)
    check([len(info(folder / "rows.jsonl", "--samples", n)["samples"]) for n in (0, 2, 9)] == [0, 2, 3], "as many samples as are asked for")
    said = info(folder / "a", "--samples", 100)
    sizes = [x["count"] for x in said["lengths"]["histogram"]]
    check(said["records"] == sum(sizes) and said["lengths"]["unit"] == "bytes of a record", said)
    found = [s["text"] for s in said["samples"]]
    long = [t for t in found if t.endswith(" ..")]
    check(all(t == "y" * 399 + " .." or len(t.encode()) <= 403 for t in long) and long, long)
    # The bars of the histogram: 40 signs for the fullest.
    text = r.run("info", folder / "a", "--samples", 0).stdout
    bars = re.findall(r"^ +(\d+) - (\d+) +(\d+)  (#*)$", text, re.M)
    most = max(int(b[2]) for b in bars)
    check([(int(a), int(b), int(c)) for a, b, c, _ in bars] == [(x["from"], x["to"], x["count"]) for x in said["lengths"]["histogram"]], text)
    for low, high, count, bar in bars:
        check(len(bar) == math.ceil(40 * int(count) / most) and (int(high) == 2 * int(low) - 1 or high == "0"), text)
    lengths = said["lengths"]
    check(f"lengths (bytes of a record): {lengths['least']} to {lengths['most']}, mean {lengths['mean']:.1f}" in text, text)


def test_a_list_on_one_line(folder):
    """Samples of a list are headed by their numbers, those of lines by their lines."""
    rows = [{"instruction": "a", "output": "b"}, {"instruction": "c", "output": "d"}]
    (folder / "al.json").write_text(json.dumps(rows))
    (folder / "al.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows))
    check([s["where"] for s in info(folder / "al.json")["samples"]] == [f"{folder / 'al.json'} record {i}" for i in (1, 2)], "a list")
    check([s["where"] for s in info(folder / "al.jsonl")["samples"]] == [f"{folder / 'al.jsonl'}:{i}" for i in (1, 2)], "lines")


def test_token_files(folder):
    """Lengths of documents, those without tokens, and the ids of the first sequences."""
    lengths, documents = [3, 0, 5, 1], [0, 1, 2, 4]  # of sequences; where documents begin
    ids = list(range(100, 109))
    pointers = [4 * sum(lengths[:i]) for i in range(4)]
    (folder / "t.bin").write_bytes(struct.pack("<9i", *ids))
    (folder / "t.idx").write_bytes(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, 4, 4) + struct.pack("<4i", *lengths) + struct.pack("<4q", *pointers) + struct.pack("<4q", *documents))
    said = info(folder / "t", "--samples", 2)
    check((said["documents"], said["sequences"], said["tokens"], said["empty_documents"]) == (3, 4, 9, 1), said)
    check((said["lengths"]["least"], said["lengths"]["most"], said["lengths"]["mean"]) == (0, 6, 3.0), said)
    check([(x["from"], x["to"], x["count"]) for x in said["lengths"]["histogram"]] == [(0, 0, 1), (2, 3, 1), (4, 7, 1)], said)
    check([(s["sequence"], s["tokens"], s["ids"]) for s in said["samples"]] == [(0, 3, [100, 101, 102]), (1, 0, [])], said)


def test_what_is_trained_of_fixed_batches(folder):
    """Labels stand at their tokens in the file; the first token of a row is nobody's answer."""
    (folder / "text.txt").write_text("to be or not to be that is the question " * 50)
    r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / "tok", "--vocab-size", 290)
    said = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", folder / "tok", "--no-special"), input="to be or not to be", capture_output=True, text=True, check=True).stdout
    ids = json.loads(said.splitlines()[0])
    n = len(ids)
    check(n >= 6, f"{said}")
    for learned in (range(3, 6), range(n - 2, n), range(1, 2), range(0, n)):
        labels = [t if i in learned else -100 for i, t in enumerate(ids)]
        r.save_tensors(folder / "rows.safetensors", {"input_ids": ("I32", (1, n), ids), "labels": ("I64", (1, n), labels)})
        said = info(folder / "rows.safetensors", "--tokenizer", folder / "tok", "--samples", 1)
        count = len([i for i in learned if i > 0])
        check(said["learned_tokens"] == count, f"{learned}: {said}")
        whole = "".join(p["text"] for p in said["samples"][0]["parts"])
        check(whole == "to be or not to be", f"{learned}: {said}")
        texts = [subprocess.run(r.command("tokenizer", "decode", "--tokenizer", folder / "tok"), input=json.dumps([t]), capture_output=True, text=True, check=True).stdout.rstrip("\n") for t in ids]
        want = "".join(t for i, t in enumerate(texts) if i in learned and i > 0)
        got = "".join(p["text"] for p in said["samples"][0]["parts"] if p["trained"])
        check(got.replace(" ", "") == want.replace(" ", ""), f"{learned}: {got!r}, not {want!r}")  # a piece by itself has no blank before it


def test_a_run_and_its_files(folder):
    options = r.options(folder, folder / "run", train__steps=3, log__tensorboard=True, checkpoint__keep=0)
    r.run("train", *options)
    run = folder / "run"
    said = info(run)
    check(said["checkpoints"] == [f"step_{i:06}" for i in (1, 2, 3)] and said["latest"] == "step_000003" and said["final_model"] is True, said)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    with open(run / "metrics.jsonl", "a") as f:
        f.write(json.dumps({**rows[-1], "step": 4, "loss": None}) + '\n{"step": 5, "lo')
    said = info(run)
    check(said["last_step"]["step"] == 4, said)
    said = info(run / "metrics.jsonl")
    check((said["rows"], said["first_step"], said["last_step"], said["last_values"]["loss"]) == (4, 1, 4, rows[-1]["loss"]), said)
    tags = info(run / "tensorboard")["tags"]
    check((tags["train/loss"]["points"], tags["train/loss"]["first_step"], tags["train/loss"]["last_step"]) == (3, 1, 3), tags)
    said = info(run / "config.yaml")
    check(said["main"]["train.global_batch"] == "2" and "train.seed" not in said.get("other_than_default", {}) and said["other_than_default"]["train.threads"] == "1", said)
    # A checkpoint says which ranks wrote it.
    manifest = run / "checkpoints" / "step_000002" / "manifest.json"
    good = manifest.read_text()
    check(info(manifest.parent)["manifest"]["layout"] == "one rank, 1 micro batch each", "the layout of one rank")
    for layout, words in (({"data": 2, "tensor": 3, "pipeline": 4, "virtual": 2, "zero": 1, "sequence": True, "stage_layers": [1, 1, 2, 2], "micro_batches": 5},
                           "data 2 x tensor 3 x pipeline 4 of 2 parts each, ZeRO 1, sequence, layers [1,1,2,2], 5 micro batches each"),
                          ({"data": 1, "tensor": 2, "pipeline": 1, "virtual": 2, "zero": 0, "sequence": False, "stage_layers": [4]}, "tensor 2"), ({"zero": 3, "data": 2, "micro_batches": 1}, "data 2, ZeRO 3, 1 micro batch each")):
        def change(scalars):
            scalars["layout"] = layout
        manifest.write_text(good)
        sealed(manifest, change)
        got = info(manifest.parent)["manifest"]
        check(got["layout"] == words, f"{got['layout']}, wanted {words}")
    check((got["tokens"], got["global_batch"], got["seed"], got["step"]) == (2 * 2 * 16, 2, 42, 2), got)


def test_timelines_and_types(folder):
    events = [{"name": "a", "ts": 1500, "dur": 500}, {"name": "b", "ts": 1000, "dur": 4000}, {"name": "a", "ts": 4000}, {"ph": "M"}]
    (folder / "t.json").write_text(json.dumps({"traceEvents": events}))
    said = info(folder / "t.json")
    check((said["events"], said["names"], said["milliseconds"]) == (4, 2, 4.0), said)
    r.save_tensors(folder / "x.safetensors", {"a": ("F32", (3, 2), [0] * 6), "b": ("I64", (5,), [0] * 5), "c": ("F32", (4,), [0] * 4)})
    said = info(folder / "x.safetensors")
    check((said["tensors"], said["parameters"], said["bytes"], said["elements_by_dtype"]) == (3, 15, 80, {"f32": 10, "i64": 5}), said)
    text = r.run("info", folder / "x.safetensors").stdout
    check(re.search(r"^bytes +80 \(80 B\)$", text, re.M) and re.search(r"^f32 +\[3,2\] +a$", text, re.M), text)


def test_diff_names_the_largest(folder):
    a = {"x": ("F32", (2,), [1.0, 2.0]), "y": ("F32", (2,), [1.0, 2.0]), "z": ("F32", (1,), [5.0])}
    b = {"x": ("F32", (2,), [1.0, 2.25]), "y": ("F32", (2,), [1.5, 2.125]), "z": ("F32", (1,), [5.0])}
    left, right = r.save_tensors(folder / "a.safetensors", a), r.save_tensors(folder / "b.safetensors", b)
    text = r.run("diff", left, right, status=1).stdout
    check("1 of 3 tensors are bitwise equal, 2 are not; largest distance 0.5 in y" in text and "z" not in text.splitlines()[0] and len(text.splitlines()) == 3, text)
    check(len(r.run("diff", left, right, "--all", status=1).stdout.splitlines()) == 4, "--all lists equal tensors too")
    said = json.loads(r.run("diff", left, right, "--only", "x,z", "--json", status=1).stdout)
    check((said["tensors_compared"], said["tensors_equal"]) == (2, 1), said)


def test_memory_of_a_plan_is_in_gib(folder):
    plan = ("plan", f"model.config={r.save_config(folder / 'config.json')}", "data.sequence_length=32", "train.global_batch=8", "train.micro_batch=2", "--ranks", 2)
    total = json.loads(r.run(*plan, "--json").stdout)["total"]
    for gib in (0.75, 3.0):
        said = json.loads(r.run(*plan, "--decide", "--json", "--memory", gib).stdout)
        check(said["memory_available"] == int(gib * 2 ** 30) and said["ranks"] == 2, said)
        check(all(s["fits"] == (s["memory"] <= said["memory_available"]) for s in said["steps"]), said)
    first = said["steps"][0]["memory"]  # with what the program itself takes, which is not the same each time
    for more, fits in ((1.2, True), (0.8, False)):
        said = json.loads(r.run(*plan, "--decide", "--json", "--memory", f"{first * more / 2 ** 30:.9f}").stdout)
        check(said["steps"][0]["fits"] is fits, f"{first * more / 2**30} GiB for {first} bytes: {said['steps'][0]}")
    check(abs(total - first) < 0.5 * first, f"{total} and {first}")


def test_limits_of_generation(folder):
    """max_length counts the prompt too, max_new_tokens does not; flags come before both, and the model's positions end all."""
    model = folder / "model"
    save_model(model, {**SMALL, "max_position_embeddings": 40})
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps([[1, 2, 3], [4]]))

    def lengths(config, *flags, given=prompts):
        (model / "generation_config.json").write_text(json.dumps(config))
        out = r.run("generate", "--model", model, "--prompt-ids", given, "--json", *flags).stdout
        return [len(json.loads(line)["ids"]) for line in out.splitlines()]

    check(lengths({}) == [37, 39], "to the end of the positions")
    check(lengths({"max_length": 10}) == [7, 9], lengths({"max_length": 10}))
    check(lengths({"max_new_tokens": 6}) == [6, 6], "max_new_tokens")
    check(lengths({"max_new_tokens": 6, "max_length": 5}) == [6, 6], "max_new_tokens before max_length")
    check(lengths({"max_new_tokens": 6, "max_length": 5}, "--max-new-tokens", 2) == [2, 2], "a flag before both")
    check(lengths({"max_length": 60}) == [37, 39], "never beyond the positions")
    check(lengths({"max_length": 3}) == [37, 39], "a limit that no prompt is below is none")
    save_model(folder / "wide", {**SMALL, "max_position_embeddings": 400})
    out = r.run("generate", "--model", folder / "wide", "--prompt-ids", prompts, "--json").stdout
    check([len(json.loads(line)["ids"]) for line in out.splitlines()] == [128, 128], "128 where nothing says how many")


def test_beams_by_the_models_own_defaults(folder):
    model = folder / "model"
    save_model(model, {**SMALL, "max_position_embeddings": 40})
    (folder / "p.json").write_text("[[1, 2, 3]]")

    def beams(config, *flags):
        (model / "generation_config.json").write_text(json.dumps(config))
        return json.loads(r.run("generate", "--model", model, "--prompt-ids", folder / "p.json", "--json", "--beams", 3, "--num-return", 3, "--max-new-tokens", 4, *flags).stdout)

    for config, flags, penalty in (({}, (), 1.0), ({"length_penalty": 2.0}, (), 2.0), ({"length_penalty": 2.0}, ("--length-penalty", 0.5), 0.5)):
        said = beams(config, *flags)
        check(len(said["beams"]) == 3 and said["ids"] == said["beams"][0]["ids"], said)
        best = said["beams"][0]
        check(abs(best["score"] - said["logprob"] / len(best["ids"]) ** penalty) <= 1e-5 * abs(best["score"]), f"{config} {flags}: {said}")
        check(all(a["score"] >= b["score"] for a, b in zip(said["beams"], said["beams"][1:])), said)


def test_flags_of_generation(folder):
    """Each flag does what it says, and comes before the model's own defaults."""
    model = folder / "model"
    save_model(model, {**SMALL, "max_position_embeddings": 40})
    (folder / "p.json").write_text("[[1, 2, 3], [5], [4, 4]]")

    def ids(*flags, config=None):
        (model / "generation_config.json").write_text(json.dumps(config or {}))
        lines = r.run("generate", "--model", model, "--prompt-ids", folder / "p.json", "--json", "--max-new-tokens", 6, *flags).stdout.splitlines()
        rows = [json.loads(line) for line in lines]
        check([row["prompt_ids"] for row in rows] == [[1, 2, 3], [5], [4, 4]], rows)
        return [row["ids"] for row in rows], [row["finish"] for row in rows]

    greedy, _ = ids()
    for flags, config in ((("--batch", 1), {}), (("--sample", "--top-k", 1, "--seed", 5), {}), (("--sample", "--top-p", 0), {}), (("--sample", "--temperature", "1e-6"), {}), (("--sample", "--temperature", 0), {}),
                          (("--sample",), {"top_k": 1}), (("--sample", "--top-k", 1), {"top_k": 0, "temperature": 90.0}), ((), {"do_sample": True, "temperature": 90.0, "top_k": 0})):
        check(ids(*flags, config=config)[0] == greedy, f"{flags} {config} is not greedy")
    hot = ("--sample", "--temperature", 90, "--top-k", 0)
    check(ids(*hot)[0] == ids(*hot, "--batch", 2)[0] != greedy and ids(*hot)[0] != ids(*hot, "--seed", 1)[0], "draws")
    check(ids(*hot, config={"top_k": 1})[0] == ids(*hot)[0], "--top-k 0 comes before top_k of the model")
    for flags, config in ((("--no-repeat-ngram-size", 1), {}), (("--repetition-penalty", 1e6), {}), ((), {"no_repeat_ngram_size": 1}), ((), {"repetition_penalty": 1e6})):
        for prompt, new in zip(([1, 2, 3], [5], [4, 4]), ids(*flags, config=config)[0]):
            check(len(set(new) | set(prompt)) == len(new) + len(set(prompt)), f"{flags} {config}: {prompt} {new}")
    check(ids("--no-repeat-ngram-size", 0, config={"no_repeat_ngram_size": 1})[0] == greedy, "a flag of 0 takes it back")
    for end in ([greedy[0][2]], [greedy[0][2], greedy[1][0]]):
        got, why = ids(config={"eos_token_id": end})
        for new, all_of, finish in zip(got, greedy, why):
            stop = next((i + 1 for i, t in enumerate(all_of) if t in end), None)
            check(new == all_of[:stop] and finish == ("eos" if stop else "length"), f"{end}: {new} of {all_of}, {finish}")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
