"""What people read equals what --json says, or what the page it is made of says: plans, options, manual pages, conversions, curves."""
import json
import math
import re
from pathlib import Path

import ravine_run as r
from figures import SMALL, save_model
from ravine_run import check
from command_edges import CHAT

ROOT = Path(__file__).resolve().parents[2]

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads


def human(n):
    units = ["B", "KiB", "MiB", "GiB"]
    while abs(n) >= 1023.95 and len(units) > 1:
        n, units = n / 1024, units[1:]
    return f"{n:.0f} B" if units[0] == "B" else f"{n:.1f} {units[0]}"


def milliseconds(seconds):
    return f"{seconds * 1000:.0f} ms"


def near_bytes(text, n):
    """Plans of two processes differ by what each has of the program itself."""
    number, unit = text.split()
    return abs(float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit) - n) < 4 * 2 ** 20


def test_layouts_in_words(folder):
    plan = ["plan", f"model.config={r.save_config(folder / 'config.json', hidden_size=256, intermediate_size=512, vocab_size=8192)}", "data.sequence_length=32", "train.global_batch=8", "--ranks", 4, "--layouts"]
    whole = json.loads(r.run(*plan, "--memory", 64, "--json").stdout)["layouts"]
    least, most = (pick(x["memory"] for x in whole) for pick in (min, max))
    check(most - least > 2 ** 24, "what a process is larger by than another is little beside what layouts differ by")
    limit = f"{(least + most) / 2 ** 31:.6f}"
    said, text = json.loads(r.run(*plan, "--memory", limit, "--json").stdout), r.run(*plan, "--memory", limit).stdout
    check(text.startswith(f"4 ranks of {human(int(float(limit) * 2 ** 30))} each; per rank and step"), text.splitlines()[0])
    lines = text.splitlines()[3:]
    rows = lines[:lines.index("")]
    check(len(rows) == len(said["layouts"]) == len(whole), f"{len(rows)} lines of {len(said['layouts'])} layouts")
    for line in rows:
        name = line[:56].strip()
        mesh = {axis: int(n) for axis, n in re.findall(r"(data|tensor|pipeline) (\d+)", name)}
        zero = int((re.search(r"ZeRO (\d)", name) or ["", "0"])[1])
        found = [x for x in said["layouts"] if all(x[a] == mesh.get(a, 1) for a in ("data", "tensor", "pipeline")) and x["zero"] == zero and (x["recompute"] == "full") == ("recompute full" in name)]
        check(len(found) == 1, f"{name}: {found}")
        x, figures = found[0], re.split(r"\s{2,}", line[56:].strip())
        check(near_bytes(figures[0], x["memory"]), f"{line}: {x}")
        sent = [f"{x[key] * 1e-6:.1f}" for key in ("sent_data", "sent_tensor", "sent_pipeline")]
        check(figures[1:4] == sent and figures[4] == f"{100 * x['bubble']:.1f}%" and figures[5] == milliseconds(x["step"]["seconds"]), f"{line}: {x}")
        check((x["leaves"] > x["data"]) == (f"{x['leaves']} leaves" in name), f"{name}: {x['leaves']}")
    check(rows[0].endswith("  best") and sum(line.endswith("  best") for line in rows) == 1 and 0 < sum(line.endswith("  does not fit") for line in rows) < len(rows), text)
    check(f"\nbest: {said['best'].split(', and of its')[0]}" in text, said["best"])


def test_decisions_and_steps_in_words(folder):
    plan = ["plan", f"model.config={r.save_config(folder / 'config.json')}", "data.sequence_length=32", "train.global_batch=8", "--ranks", 2]
    said, text = json.loads(r.run(*plan, "--decide", "--memory", 64, "--json").stdout), r.run(*plan, "--decide", "--memory", 64).stdout
    check(text.startswith("2 ranks of 64.0 GiB each, data 2; what saves memory") and f"\nuse {' '.join(said['choice'])}\n" in text, text)
    lines = re.findall(r"^(\S+=\S+) +(\S+ \S+)  (fits|does not fit) +\((.+)\)$", text, re.M)
    check([(a, c == "fits", d) for a, _, c, d in lines] == [(s["setting"], s["fits"], s["why"]) for s in said["steps"]] and all(near_bytes(b, s["memory"]) for (_, b, _, _), s in zip(lines, said["steps"])), text)
    text = r.run(*plan, "--decide", "--memory", 0.001).stdout
    said = json.loads(r.run(*plan, "--decide", "--memory", 0.001, "--json").stdout)
    least = re.search(r"nothing fits: the least is (\S+ \S+); ", text)
    check(said["choice"] is None and "use " not in text and least and near_bytes(least[1], min(s["memory"] for s in said["steps"])), text)
    # The step that is predicted, part by part; and the sums of leaves.
    for more, leaves in (([], 0), (["parallel.sum_leaves=4"], 2), (["parallel.pipeline=2", "parallel.sum_leaves=1"], 0)):
        step, text = json.loads(r.run(*plan, *more, "--json").stdout)["step"], r.run(*plan, *more).stdout
        line = re.search(r"^predicted step (.+): arithmetic (.+?)(?:, (.+))?$", text, re.M)
        check(line[1] == milliseconds(step["seconds"]) and line[2] == milliseconds(step["compute"]), f"{line[0]}: {step}")
        for what, key in (("messages between stages", "pipeline"), ("sums over tensor ranks", "tensor"), ("exchange between data ranks", "data"), ("sums over leaves", "leaves"), ("update", "update")):
            check((f"{what} {milliseconds(step[key])}" in line[0]) == (step[key] > 0), f"{what}: {line[0]}: {step}")
        check(("waiting in the pipeline" in line[0]) == (step["bubble"] > 0) == ("parallel.pipeline=2" in more), line[0])
        check("messages between ranks are a guess: `mpirun -n 2 ravine bench messages` measures them\n" in text, text)
        keeps = re.search(r"^parallel\.sum_leaves=(\d+): a rank keeps the sums of (\d+) leaves, up to (\d+) sets of gradients", text, re.M)
        check(keeps is None if leaves == 0 else keeps.groups() == ("4", "2", "2"), text)


def test_options_explained(folder):
    (folder / "run.yaml").write_text("data:\n  sequence_length: 7\ntrain: {steps: 5}\n")
    text = r.run("config", "--explain", "train.steps", "--config", folder / "run.yaml").stdout
    check("  default: 1000\n" in text and f"  value:   5 ({folder / 'run.yaml'}:3)\n" in text and "  resume:  may change\n" in text, text)
    check("  value:   9 (command line)\n" in r.run("config", "--explain", "train.steps", "--config", folder / "run.yaml", "train.steps=9").stdout, "the command line wins")
    text = r.run("config", "--explain", "train.seed").stdout
    check("  value:   42 (default)\n" in text and "  resume:  fixed\n" in text, text)
    check("  resume:  may change, other bits\n" in r.run("config", "--explain", "precision.bf16_products").stdout, "bits")
    text = r.run("config", "--explain", "data.train").stdout
    check(all(f"  field {field}: " in text for field in ("path", "weight", "format")), text)
    text = r.run("config", "--explain", "train", "train.steps=6").stdout
    check(text.startswith("train: ") and "\n  steps: 6 " in text, text)
    for key, want in (("steps", "did you mean 'train.steps'?"), ("train.stepz", "did you mean 'train.steps'?"), ("qqqqqqqqqqqqqqq", "see `ravine config --list`")):
        check(want in r.run("config", "--explain", key, status=2).stderr, key)
    text = r.run("config", "--list").stdout
    check(re.search(r"^  seed: 42 +# .+ \(.+\)$", text, re.M) and len(re.findall(r"^# (\w+): .+\n\1:$", text, re.M)) == len(re.findall(r"^\w+:$", text, re.M)) > 8, text[:500])


def test_manual_pages_are_the_help_pages(folder):
    r.run("man", "--output", folder / "man")
    pages = sorted(p.name for p in (folder / "man").iterdir() if p.name[0] != ".")
    check("ravine.1" in pages and "ravine-bench-train.1" in pages and "ravine-tokenizer-encode.1" in pages, pages)
    for name in pages:
        words = name[:-2].replace("merge-lora", "merge_lora").split("-")[1:]
        words = [w.replace("_", "-") for w in words]
        page = (folder / "man" / name).read_text()
        shown = re.search(r"\n\.SH DESCRIPTION\n\.nf\n(.*)\.fi\n\.SH SEE ALSO\n", page, re.S)[1]
        check(not re.search(r"^[.']", shown, re.M), f"{name}: a line would be taken for a request")
        plain = re.sub(r"^\\&", "", shown, flags=re.M).replace("\\-", "-").replace("\\e", "\\")
        check(plain == r.run(*words, "--help-all").stdout, f"{name} is not the help page")
        check(page.startswith(f".TH {name[:-2].upper()} 1 ".replace("-", "\\-")), page[:80])
        if words and len(words) == 1:
            check(r.run("man", *words).stdout == page, name)
    check(all(f".BR ravine\\-{p[7:-2]} (1)" in (folder / "man" / "ravine.1").read_text() for p in pages if p.replace("merge-lora", "").count("-") == 1), "the program's page names those of the commands")


def test_conversions_in_words(folder):
    save_model(folder / "m", SMALL)
    bytes_of = sum(int(t["data_offsets"][1]) - int(t["data_offsets"][0]) for t in r.load_raw(folder / "m" / "model.safetensors")[0].values())
    tensors = len(r.load_raw(folder / "m" / "model.safetensors")[0])
    for dtype, size in (([], bytes_of), (["--dtype", "bf16"], bytes_of // 2)):
        done = r.run("convert", "--input", folder / "m", "--output", folder / "no", "--to", "hf", "--dry-run", *dtype)
        check(f"would write {tensors} tensors, {human(size)}\n" in done.stderr and not (folder / "no").exists(), f"{dtype}: {done.stderr}")
    done = r.run("convert", "--input", folder / "m/", "--output", folder / "out", "--to", "hf")
    check(f"{tensors} tensors, {human(bytes_of)} in {folder / 'out'}\n" in done.stderr and "to go on" not in done.stderr, done.stderr)
    done = r.run("convert", "--input", folder / "m", "--output", folder / "run", "--to", "ravine")
    go_on = re.search(r"to go on: ravine (train model\.config=(\S+) train\.output=(\S+)) \.\.\.", done.stderr)
    check(go_on and go_on[3] == str(folder / "run"), done.stderr)
    data = r.save_ids(folder / "ids.safetensors", 4, 8, vocabulary=SMALL["vocab_size"])
    log = r.run(*go_on[1].split(), f"data.train={data}", "data.sequence_length=8", "train.steps=1", "train.global_batch=1", "schedule.warmup_steps=0", "train.threads=1", "log.tensorboard=false").stderr
    check("resume   from" in log, "what it proposes goes on")
    told = r.run("trace", "--model", folder / "m", "--input", data, "--out", folder / "t.safetensors", "--backward", status=2).stderr
    check("--backward without labels" in told and not (folder / "t.safetensors").exists(), told)


def test_curves_are_of_what_the_log_shows(folder):
    def run(name, rows):
        (folder / name).mkdir()
        (folder / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder / name
    steps = [{"step": s, "loss": x} for s, x in ((1, 9.0), (2, 3.0), (3, 7.0), (4, 1.0))]
    means = [{**row, **({"mean_loss": m} if m else {})} for row, m in zip(steps, (None, 6.0, None, 4.0))]
    a, shown = run("a", means), run("b", [{"step": row["step"], "loss": row.get("mean_loss", row["loss"])} for row in means])

    def curves(*words):
        r.run("plot", *words, "--output", folder / "x.svg", "--overwrite")
        text = (folder / "x.svg").read_text()
        return re.findall(r'points="([^"]*)"|<path[^>]* d="([^"]*)"', text), re.findall(r"<text[^>]*>([^<]*)</text>", text)

    check(curves(a)[0] == curves(shown)[0] != curves(a, "--keys", "loss")[0], "means where the log has them")
    check(curves(a, "--keys", "loss")[0] == curves(run("c", steps), "--keys", "loss")[0], "who asks for loss gets it")
    valid = run("v", [{**steps[0], "valid_loss": 8.0}, steps[1], steps[2], {**steps[3], "valid_loss": 2.0}])
    joined = run("w", [{**row, "valid_loss": v} for row, v in zip(steps, (8.0, 6.0, 4.0, 2.0))])
    lines, names = curves(valid)
    check(len(lines) == len(curves(joined)[0]) and "loss" in names and "valid_loss" in names and "v" not in names, f"one line from validation to validation: {names}")
    names = curves(valid, a)[1]
    check("v" in names and "v valid" in names and "a" in names and "a valid" not in names, names)


def test_what_preprocess_reports(folder):
    """Repaired and left out records with the first of each, over all files; and what a .txt file is taken as."""
    (folder / "a.txt").write_bytes(b"the ship\n\nsank\xff twice\n")
    (folder / "b.jsonl").write_bytes(b'{"text":"one"}\n{"text":""}\n{"text":"b\x80d"}\n{"text":"c\x81"}\n{"text":""}\n')
    a, b = folder / "a.txt", folder / "b.jsonl"
    lines = "each line of a .txt file is a document here"

    def made(prefix, *words):
        done = r.run("preprocess", "--input", *words, "--tokenizer", CHAT, "--output-prefix", folder / prefix, "--workers", 1)
        found = re.search(rf"^{re.escape(str(folder / prefix))}_text_document: (\d+) documents?, (\d+) sequences?, (\d+) tokens? \(uint16\)$", done.stdout, re.M)
        said = json.loads(r.run("info", folder / f"{prefix}_text_document", "--json").stdout)
        check(tuple(map(int, found.groups())) == (said["documents"], said["sequences"], said["tokens"]), f"{done.stdout}{said}")
        return done.stderr, said["documents"], said["tokens"]

    said, documents, tokens = made("both", a, b)
    for part in (f"3 of 7 records had bad UTF-8, replaced by U+FFFD (first: {a}:3)", f"left out: 2 times empty text (first: {b}:2)", "7 records of 2 files in ", lines):
        check(part in said, f"{part}: {said}")
    check(documents == 5, documents)
    said, one, fewer = made("texts", b)
    check(f"2 of 5 records had bad UTF-8, replaced by U+FFFD (first: {b}:3)" in said and "5 records of 1 file in " in said and lines not in said and one == 3, said)
    said, whole, _ = made("whole", a, "--split-by-document")
    check(f"1 record had bad UTF-8, replaced by U+FFFD (first: {a}:1)" in said and "1 record of 1 file in " in said and lines not in said and whole == 1, said)
    told = r.run("preprocess", "--input", b, "--tokenizer", CHAT, "--output-prefix", folder / "strict", "--strict", status=2).stderr
    check(f"{b}:2" in told and not (folder / "strict_text_document.bin").exists(), told)
    done = r.run("data", "merge", "--input", folder / "both_text_document", folder / "texts_text_document", "--output-prefix", folder / "all")
    check(done.stdout == f"{folder / 'all'}: 8 documents, 8 sequences, {tokens + fewer} tokens (uint16)\n", done.stdout)
    check([("records_of_txt" in json.loads(r.run("info", path, "--json").stdout)) for path in (a, b)] == [True, False], "said of .txt alone")


def test_what_bench_takes_where_nothing_is_said(folder):
    model = r.save_config(folder / "config.json", max_position_embeddings=2048)
    for words, want in ((["decode"], (1, 128)), (["decode", "--micro-batch", 3], (3, 128)), (["decode", "--micro-batch", 3, "--batch", 2, "--sequence-length", 5], (2, 5)), (["prefill"], (1, 1024)), (["prefill", "--batch", 2, "--sequence-length", 7], (2, 7))):
        said = json.loads(r.run("bench", *words, "--model", model, "--steps", 1, "--threads", 1, "--json").stdout)
        check((said["batch"], said["length"]) == want and ("sol" in said) == (words[0] == "prefill") and ("cache_bytes" in said) == (words[0] == "decode"), f"{words}: {said}")


def test_bench_recomputes_as_little_as_fits(folder):
    model = r.save_config(folder / "config.json", num_hidden_layers=4, hidden_size=64, intermediate_size=128)
    planned = lambda *words: json.loads(r.run("bench", "train", "--model", model, "--sequence-length", 64, "--micro-batch", 16, "--steps", 1, "--threads", 1, "--json", *words).stdout)["planned_memory_mb"]
    none, full = planned("train.recompute=none"), planned("train.recompute=full")
    check(full < none - 3, f"{none} MiB, recomputed {full}")
    for limit, like in ((math.ceil(full) + 1, full), (math.ceil(none) + 1, none)):
        auto = planned("train.recompute=auto", f"train.memory_mb={limit}")
        check(abs(auto - like) < 0.5, f"within {limit} MiB: {auto} of {full} to {none}")
    said = r.run("bench", "train", "--model", model, "--sequence-length", 64, "train.recompute=auto", "train.memory_mb=1", status=2).stderr
    check("train.memory_mb=1" in said and "train.memory_mb=" in said.split(";")[-1], said)


def test_help_pages_name_options_that_they_have(folder):
    """What an option's line says of another option can be done with this command."""
    every = set(re.findall(r"^\| `(\w+\.\w+)` \|", (ROOT / "docs" / "options.md").read_text(), re.M))
    pages = [[c] for c in re.findall(r"^  ([a-z][a-z-]*) ", r.run("--help").stdout.split("Usage:")[1], re.M)]
    looked, wrong = 0, []
    for words in pages:
        text = r.run(*words, "--help-all").stdout
        if " ACTION [" in text:
            pages += [[*words, a] for a in re.findall(r"^  ([a-z][a-z-]*) ", text[text.index("Actions:"):], re.M)]
        lines = re.findall(r"^  (\w+\.\w+)=(.*)$", text, re.M)
        there = {name for name, _ in lines} | set(re.findall(r"same as (\w+\.\w+)", text))
        there.add("parallel.split")  # of training alone; the line of parallel.stage_layers names it as the default
        looked += len(lines)
        wrong += [f"{' '.join(words)}: {name} speaks of {other}" for name, line in lines for other in re.findall(r"\b[a-z]+\.[a-z_]+\b", line) if other in every - there]
    check(len(pages) > 25 and looked > 300, f"{len(pages)} pages, {looked} options")
    check(not wrong, "\n".join(wrong))


if __name__ == "__main__":
    r.main(globals())
