"""`ravine eval`: small benchmarks that this file makes, a tiny model, outputs from a file; what is written, what goes on, what is refused."""
import csv
import gzip
import json
import math
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import ravine_run as r
from chat_model import chat_model
SUBJECTS = ("anatomy", "high_school_geography")


def lines(path):
    return [json.loads(x) for x in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in rows), encoding="utf-8")
    return path


def table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as f:
        csv.writer(f).writerows(rows)


def benchmarks(folder):
    """Each task in the files of its authors."""
    of = folder / "benchmarks"
    if of.exists():
        return of
    write_lines(of / "boolq" / "dev.jsonl", [{"passage": f"The ravine {i} is deep.", "question": "is it deep", "answer": i % 2 == 0} for i in range(6)])
    write_lines(of / "gsm8k" / "test.jsonl", [{"question": f"What is {i} + 1?", "answer": f"Add.\n#### {i + 1}"} for i in range(9)])
    for subject in SUBJECTS:
        for split, count in (("test", 5), ("dev", 5)):
            table(of / "mmlu" / split / f"{subject}_{split}.csv", [[f'Is "{subject}", {i},\nthe one?', "p", "q", "r", "s", "ABCD"[i % 4]] for i in range(count)])
    for split, answered in (("val", True), ("dev", True), ("test", False)):
        head = ["id", "question", "A", "B", "C", "D"] + (["answer"] if answered else []) + (["explanation"] if split == "dev" else [])
        table(of / "ceval" / split / f"law_{split}.csv", [head] + [[i, f"第{i}题", "甲", "乙", "丙", "丁", "C", "因为"][:len(head)] for i in range(5)])
    write_lines(of / "agieval" / "sat-math.jsonl", [{"passage": "", "question": f"{i}?", "options": ["(A)1", "(B)2"], "label": "B", "answer": None} for i in range(3)])
    write_lines(of / "agieval" / "gaokao-mathcloze.jsonl", [{"passage": None, "question": "2 + 2", "options": None, "label": None, "answer": "$4$"}])
    (of / "bbh").mkdir()
    (of / "bbh" / "navigate.json").write_text(json.dumps({"canary": "x", "examples": [{"input": f"{i}?", "target": "No"} for i in range(3)]}))
    write_lines(of / "piqa" / "valid.jsonl", [{"goal": f"Cross {i}", "sol1": "a bridge", "sol2": "a small spoon"} for i in range(4)])
    (of / "piqa" / "valid-labels.lst").write_text("0\n0\n1\n0\n")
    write_lines(of / "hellaswag" / "hellaswag_val.jsonl", [{"activity_label": "Walk", "ctx_a": "One [step] goes.", "ctx_b": "the MAN", "endings": ["a [title] b", "b", "c", "d  e"], "label": 1}])
    write_lines(of / "human_eval" / "HumanEval.jsonl", [{"task_id": f"HumanEval/{i}", "prompt": "def add(a, b):\n    \"\"\" The sum. \"\"\"\n", "entry_point": "add", "test": "def check(f):\n    assert f(2, 3) == 5\n"} for i in range(3)])
    (folder / "few_shot.json").write_text(json.dumps({"gsm8k": {"few_shot": "Q: 1?\n\nA:The answer is 1."}, "bbh": {"navigate": "Go.\n\nQ: 0?\nA: No\n\n"},
                                                      "agieval": {s: ["Problem 1.", "\nChoose:\n", "\nAnswer:"] for s in ("sat-math", "gaokao-mathcloze")}}))
    return of


def model(folder):
    """A model of one step, with a tokenizer."""
    if (folder / "run" / "model").exists():
        return folder / "run" / "model"
    return chat_model(folder, vocab_size=440, max_position_embeddings=512)


def evaluate(folder, out, tasks, *more, status=0):
    data = [] if "--data" in more else ["--data", benchmarks(folder)]
    return r.run("eval", "--tasks", tasks, *data, "--output", folder / out, *more, status=status)


def seam_model(folder, name="seam", merges=()):
    """The model with a toy tokenizer that joins the colon of "Answer:" with the blank and the A of a choice behind it; `merges` come behind these."""
    out = folder / name
    shutil.copytree(model(folder), out)
    for file in out.glob("*token*"):
        file.unlink()
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *(chr(i) for i in range(33, 127)), "▁", "▁A", ":▁A", *(m.replace(" ", "") for m in merges)]
    (out / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "pre_tokenizer": None,
        "added_tokens": [{"id": i, "content": p, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, p in enumerate(pieces[:3])],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                  "ignore_merges": False, "vocab": {p: i for i, p in enumerate(pieces)}, "merges": ["▁ A", ": ▁A", *merges]}}))
    (out / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}))
    return out, {p: i for i, p in enumerate(pieces)}


def tokens_of(toy, text):
    return json.loads(subprocess.run(r.command("tokenizer", "encode", "--tokenizer", toy, "--jsonl"), input=json.dumps({"text": text}) + "\n", capture_output=True, text=True, check=True).stdout)["ids"]


def logprobs_of(folder, toy, prompt, says):
    """Of the tokens `says` behind `prompt`, by the logits of a trace."""
    fed = [*prompt, *says]
    file = r.save_tensors(folder / "fed.safetensors", {"input_ids": ("I32", (1, len(fed)), fed)})
    r.run("trace", "--model", toy, "--input", file, "--out", folder / "fed_trace.safetensors", "--overwrite")
    _, shape, data = r.load_tensors(folder, "fed_trace.safetensors")["logits"]
    values, total = memoryview(data).cast("f"), 0
    for place in range(len(prompt), len(fed)):
        row = values[(place - 1) * shape[2]:place * shape[2]]
        total += row[fed[place]] - math.log(sum(map(math.exp, row)))
    return total


def ranked_row(folder, toy, out):
    """The row of one question about anatomy."""
    table(folder / "one" / "mmlu" / "test" / "anatomy_test.csv", [["Is it deep?", "p", "q", "r", "s", "B"]])
    table(folder / "one" / "mmlu" / "dev" / "anatomy_dev.csv", [["Is it far?", "p", "q", "r", "s", "A"]])
    r.run("eval", "--tasks", "mmlu", "--shots", 0, "--data", folder / "one", "--output", folder / out, "--protocol", "likelihood", "--model", toy)
    return lines(folder / out / "samples_mmlu.jsonl")[0]


def close_to(got, want):
    """Sums of logs of a few tokens, within a few roundings of f32 (2^-24 of logits below 64)."""
    r.check(max(abs(a - b) for a, b in zip(got, want, strict=True)) < 64 * 2.0 ** -20, (got, want))


def test_a_choice_owns_the_token_that_crosses_the_seam(folder):
    toy, ids = seam_model(folder)
    row = ranked_row(folder, toy, "seam_out")
    context = tokens_of(toy, row["prompt"])
    r.check(context[-1] == ids[":"] and tokens_of(toy, row["prompt"] + " A")[-1] == ids[":▁A"], "the A crosses the seam")
    want = [logprobs_of(folder, toy, context[:-1], [ids[":▁A"]]), *(logprobs_of(folder, toy, context, [ids["▁"], ids[c]]) for c in "BCD")]
    close_to(row["logprobs"], want)
    r.check(row["parsed"] == max(range(4), key=lambda i: want[i]), row)
    # Nothing stands before the first token of the choice, or it has none.
    write_lines(folder / "none" / "piqa" / "valid.jsonl", [{"goal": "Cross", "sol1": "A", "sol2": ""}])
    (folder / "none" / "piqa" / "valid-labels.lst").write_text("0\n")
    file = json.loads((toy / "tokenizer.json").read_text())
    file["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": False, "strip_right": True}, file["normalizer"]]}
    (toy / "tokenizer.json").write_text(json.dumps(file))
    said = r.run("eval", "--tasks", "piqa", "--data", folder / "none", "--output", folder / "none_out", "--protocol", "likelihood", "--model", toy, status=2).stderr
    r.check("choice 2 of" in said and "has no token of its own" in said and "correct the choice in the data" in said, said)


def test_a_choice_owns_no_token_within_the_prompt(folder):
    """Of [er, :▁A], where the prompt alone ends with [er:] or with [e, r:], the choice is :▁A. The first is lm-evaluation-harness' slice, behind the prompt's own
    tokens; its slice of the second is empty, and the choice follows the tokens of the joined text."""
    for name, merges, alone in (("whole", ["e r", "er :"], ["er:"]), ("cut", ["r :", "e r"], ["e", "r:"])):
        toy, ids = seam_model(folder, name, merges)
        row = ranked_row(folder, toy, name + "_out")
        context, joined = tokens_of(toy, row["prompt"]), tokens_of(toy, row["prompt"] + " A")
        r.check(context[-len(alone):] == [ids[p] for p in alone] and joined[-2:] == [ids["er"], ids[":▁A"]], (name, context, joined))
        slice_there = joined[len(context):]
        before = context if slice_there else joined[:-1]
        r.check(slice_there == ([ids[":▁A"]] if name == "whole" else []), (name, slice_there))
        close_to(row["logprobs"], [logprobs_of(folder, toy, before, [ids[":▁A"]]), *(logprobs_of(folder, toy, context, [ids["▁"], ids[c]]) for c in "BCD")])


def test_outputs_are_parsed_and_scored(folder):
    said = {"anatomy/0": " A", "anatomy/1": "The answer is B.", "anatomy/2": "D", "high_school_geography/3": "no", "test/4": "The answer is $5.", "test/5": "6"}
    given = write_lines(folder / "said.jsonl", [{"id": k, "output": v} for k, v in said.items()])
    evaluate(folder, "out", "gsm8k,mmlu", "--completions", given)
    rows = lines(folder / "out" / "samples_mmlu.jsonl")
    r.check([(x["id"], x["parsed"], x["correct"]) for x in rows] == [("anatomy/0", "A", True), ("anatomy/1", "B", True), ("anatomy/2", "D", False), ("high_school_geography/3", None, False)], rows)
    r.check(rows[0]["prompt"].endswith('Is "anatomy", 0,\nthe one?\nA. p\nB. q\nC. r\nD. s\nAnswer:') and rows[0]["answer"] == "A", rows[0])
    got = json.loads((folder / "out" / "results.json").read_text())["tasks"]
    r.check(got["mmlu"]["accuracy"] == 0.5 and got["mmlu"]["n"] == 4 and abs(got["mmlu"]["stderr"] - math.sqrt(0.25 / 3)) < 1e-12, got)
    r.check(got["mmlu"]["categories"]["stem"] == {"accuracy": 2 / 3, "n": 3} and got["mmlu"]["subjects"]["high_school_geography"]["accuracy"] == 0, got)
    r.check(got["gsm8k"]["accuracy"] == 0.5, got)
    with open(folder / "out" / "results.csv", newline="") as f:
        totals = {x["task"]: x for x in csv.DictReader(f) if x["subject"] == "total"}
    r.check(set(totals) == {"mmlu", "gsm8k"} and float(totals["mmlu"]["accuracy"]) == 0.5, totals)
    wrong = write_lines(folder / "wrong.jsonl", [{"id": "anatomy/99", "output": "A"}, {"id": "anatomy/0", "output": "A"}])
    done = evaluate(folder, "wrong", "mmlu", "--completions", wrong, status=2)
    r.check("1 of 2 outputs have the id of no item" in done.stderr, done.stderr)


def test_both_protocols_on_a_model(folder):
    few = ["--template", folder / "few_shot.json", "--model", model(folder), "--max-new-tokens", 4]
    evaluate(folder, "said", "boolq,mmlu,ceval,agieval,bbh,gsm8k", *few)
    for task, count in r.rows((("boolq", 6), ("mmlu", 10), ("ceval", 5), ("agieval", 4), ("bbh", 3), ("gsm8k", 9)), 3, "one way of asking"):
        rows = lines(folder / "said" / f"samples_{task}.jsonl")
        r.check(len(rows) == count and all(set(x) == {"id", "prompt", "output", "parsed", "answer", "correct"} for x in rows), f"{task}: {rows[:1]}")
        # What the model is said to have answered, it answers when it is asked alone.
        ids = folder / "prompt.jsonl"
        write_lines(ids, [{"prompt": rows[1]["prompt"]}])
        alone = json.loads(r.run("generate", "--model", model(folder), "--prompts", ids, "--json", "--max-new-tokens", 1 if task == "boolq" else 4).stdout)
        r.check(alone["text"].strip() == rows[1]["output"].strip(), f"{task}: {rows[1]['output']!r}, alone {alone['text']!r}")
    ranked = evaluate(folder, "ranked", "boolq,mmlu,ceval,agieval,piqa,hellaswag", "--protocol", "likelihood", "--model", model(folder))
    r.check("acc_norm" in ranked.stdout, ranked.stdout)
    alone = evaluate(folder, "alone", "boolq,mmlu,ceval,agieval,piqa,hellaswag", "--protocol", "likelihood", "--batch", 1, "--model", model(folder))
    for task in ("boolq", "mmlu", "ceval", "agieval", "piqa", "hellaswag"):
        a, b = lines(folder / "ranked" / f"samples_{task}.jsonl"), lines(folder / "alone" / f"samples_{task}.jsonl")
        for x, y in zip(a, b, strict=True):
            # Sums of logs of some 20 tokens, each within a few roundings of f32 (2^-24 of logits below 64).
            r.check(max(abs(p - q) for p, q in zip(x["logprobs"], y["logprobs"], strict=True)) < 20 * 64 * 2.0 ** -22, f"{task} {x['id']}: {x['logprobs']}, alone {y['logprobs']}")
            r.check(x["parsed"] == max(range(len(x["logprobs"])), key=lambda i: x["logprobs"][i]), x)
    hellaswag = lines(folder / "ranked" / "samples_hellaswag.jsonl")[0]
    r.check(hellaswag["prompt"] == "Walk: One goes. The man" and hellaswag["answer"] == 1, hellaswag)
    agieval = lines(folder / "ranked" / "samples_agieval.jsonl")
    r.check([x["id"] for x in agieval] == ["sat-math/0", "sat-math/1", "sat-math/2"] and agieval[0]["answer"] == [1], agieval)
    evaluate(folder, "few", "mmlu", "--protocol", "likelihood", "--shots", 2, "--limit", 1, "--model", model(folder))
    few = lines(folder / "few" / "samples_mmlu.jsonl")
    r.check([x["id"] for x in few] == ["anatomy/0", "high_school_geography/0"] and few[0]["prompt"].count("Answer:") == 3, few)
    r.check("mmlu" in alone.stdout, alone.stdout)


def test_a_stopped_run_goes_on(folder):
    words = ["--template", folder / "few_shot.json", "--model", model(folder), "--max-new-tokens", 40, "--batch", 1]
    evaluate(folder, "whole", "gsm8k", *words)
    want = (folder / "whole" / "samples_gsm8k.jsonl").read_bytes()
    for name in ("INT", "KILL"):
        out = folder / name
        job = r.start("eval", "--tasks", "gsm8k", "--data", benchmarks(folder), "--output", out, *words)
        path, until = out / "samples_gsm8k.jsonl", time.time() + r.LIMIT
        while job.poll() is None and time.time() < until and not (path.exists() and path.read_bytes().count(b"\n") >= 2):
            time.sleep(0.005)
        job.send_signal(getattr(signal, "SIG" + name))
        said = job.communicate()[0]
        r.check(job.returncode in ((130, 0) if name == "INT" else (-9, 0)), f"{name}: {job.returncode} {said}")
        with open(path, "ab") as f:
            f.write(b'{"id": "cut')  # what a kill within a write leaves
        evaluate(folder, name, "gsm8k", *words)
        r.check(path.read_bytes() == want, f"{name}: another file than without it")
    done = evaluate(folder, "INT", "gsm8k", *words, "--limit", 2, status=2)
    r.check("another 'limit'" in done.stderr and "--overwrite" in done.stderr, done.stderr)
    evaluate(folder, "INT", "gsm8k", *words, "--limit", 2, "--overwrite")
    r.check(len(lines(folder / "INT" / "samples_gsm8k.jsonl")) == 2, "the new evaluation is there")


def test_files_of_others_stay(folder):
    """A compressed copy beside its file, samples that are no samples, samples that have another name elsewhere."""
    given = write_lines(folder / "said.jsonl", [{"id": "test/4", "output": "The answer is $5."}])
    out = folder / "out"
    evaluate(folder, "out", "gsm8k", "--completions", given)
    path = out / "samples_gsm8k.jsonl"
    good = path.read_text()
    for text in (good.replace('"correct":true', '"correct":1', 1), good.replace(',"correct":true', "", 1)):
        r.check(text != good, good)
        path.write_text(text)
        said = evaluate(folder, "out", "gsm8k", "--completions", given, status=2).stderr
        r.check("samples_gsm8k.jsonl:" in said and "correct" in said, said)
        path.write_text(good)
    mine = folder / "mine"
    mine.write_text("mine")
    path.unlink()
    for link in (os.link, os.symlink):
        link(mine, path)
        said = evaluate(folder, "out", "gsm8k", "--completions", given, status=2).stderr
        r.check("it must be a plain file of one name" in said and mine.read_text() == "mine", said)
        path.unlink()
    data = folder / "twice" / "gsm8k"
    shutil.copytree(benchmarks(folder), folder / "twice")
    plain = next(data.rglob("*.jsonl"))
    (plain.parent / (plain.name + ".gz")).write_bytes(gzip.compress(plain.read_bytes()))
    said = r.run("eval", "--tasks", "gsm8k", "--data", folder / "twice", "--output", folder / "o2", "--completions", given, status=2).stderr
    r.check(plain.name in said and plain.name + ".gz" in said and "remove one of them" in said, said)


def test_other_arithmetic_is_another_evaluation(folder):
    """What changes the numbers of a model is a setting, with the content of files beside their names."""
    words = ["--protocol", "likelihood", "--model", model(folder), "--limit", 2]
    evaluate(folder, "out", "piqa", *words)
    for option, value in (("lora.base", "nf4"), ("precision.recipes", '[{path: "*", op: "*", round: bf16}]'), ("precision.unfused", "[attention]"), ("precision.compute", "bf16"), ("precision.bf16_products", "widen")):
        said = evaluate(folder, "out", "piqa", *words, f"{option}={value}", status=2).stderr
        r.check(f"another '{option}'" in said, f"{option}: {said}")
    tokenizer = folder / "tok"
    shutil.copytree(model(folder), tokenizer)
    evaluate(folder, "own", "piqa", *words, f"model.tokenizer={tokenizer}")
    evaluate(folder, "own", "piqa", *words, f"model.tokenizer={tokenizer}")
    (tokenizer / "tokenizer_config.json").write_text("{}")
    said = evaluate(folder, "own", "piqa", *words, f"model.tokenizer={tokenizer}", status=2).stderr
    r.check("another 'tokenizer'" in said, said)


def test_tasks_of_one_folder_stand_together(folder):
    words = ["--protocol", "likelihood", "--model", model(folder), "--limit", 1]
    evaluate(folder, "out", "piqa", *words)
    evaluate(folder, "out", "boolq,mmlu", *words)
    got = json.loads((folder / "out" / "results.json").read_text())["tasks"]
    r.check(set(got) == {"piqa", "boolq", "mmlu"}, got)
    evaluate(folder, "all", "piqa,boolq,mmlu", *words)
    r.check(got == json.loads((folder / "all" / "results.json").read_text())["tasks"], got)
    tables = [sorted((folder / x / "results.csv").read_text().splitlines()) for x in ("out", "all")]
    r.check(tables[0] == tables[1] and len(tables[0]) == 6, tables[0])


def test_odd_names_and_texts(folder):
    """A subject with a comma, a quote and an escape; one that is not UTF-8; more options than letters."""
    name = 'a,b"c\x1b[2J'
    table(folder / "odd" / "mmlu" / "test" / f"{name}_test.csv", [["one?", "p", "q", "r", "s", "A"]])
    table(Path(os.fsdecode(os.fsencode(folder / "odd" / "mmlu" / "test") + b"/caf\xe9_test.csv")), [["two?", "p", "q", "r", "s", "B"]])
    words = ["eval", "--data", folder / "odd", "--protocol", "likelihood", "--model", model(folder), "--shots", 0, "--tasks"]
    for _ in range(2):  # a finished evaluation is gone on with
        r.run(*words, "mmlu", "--output", folder / "out")
    text = (folder / "out" / "results.csv").read_text()
    rows = list(csv.reader(text.splitlines()))
    r.check("\x1b" not in text and all(len(x) == 7 for x in rows) and 'a,b"c\\x1b[2J' in {x[1] for x in rows}, text)
    write_lines(folder / "odd" / "agieval" / "sat-math.jsonl", [{"question": "q", "options": [f"({i})x" for i in range(n)], "label": "A"} for n in (26, 27)])
    said = r.run("eval", "--data", folder / "odd", "--protocol", "likelihood", "--model", model(folder), "--tasks", "agieval", "--output", folder / "two", status=2).stderr
    r.check("27 options" in said and "sat-math.jsonl:2" in said, said)


def test_a_prompt_that_is_too_long_keeps_its_end(folder):
    """What is asked stands last: of a prompt beyond max_position_embeddings, less the new tokens, the beginning goes."""
    long = folder / "long.json"
    long.write_text(json.dumps({"gsm8k": {"few_shot": "Q: 1?\n\nA:The answer is 1.\n\n" * 60}}))
    evaluate(folder, "long", "gsm8k", "--template", long, "--limit", 3, "--model", model(folder), "--max-new-tokens", 4)
    rows = lines(folder / "long" / "samples_gsm8k.jsonl")
    ids = [json.loads(x)["ids"] for x in subprocess.run(r.command("tokenizer", "encode", "--tokenizer", model(folder), "--jsonl"), input="".join(json.dumps({"text": x["prompt"]}) + "\n" for x in rows),
                                                         capture_output=True, text=True, check=True).stdout.splitlines()]
    r.check(all(len(x) > 512 for x in ids), f"prompts of {[len(x) for x in ids]} tokens")
    outputs = {}
    for name, cut in (("last", [x[-508:] for x in ids]), ("first", [x[:508] for x in ids])):
        (folder / "cut.json").write_text(json.dumps(cut))
        said = r.run("generate", "--model", model(folder), "--prompt-ids", folder / "cut.json", "--json", "--max-new-tokens", 4).stdout
        outputs[name] = [json.loads(x)["text"].strip() for x in said.splitlines()]
    r.check(outputs["last"] != outputs["first"], f"the model tells them apart: {outputs}")
    r.check([x["output"].strip() for x in rows] == outputs["last"], f"{[x['output'] for x in rows]}, not {outputs['last']}")


def test_normalised_by_characters(folder):
    """acc_norm divides by the characters of a choice, as lm-evaluation-harness does by len() of its text: of Chinese choices each has three bytes."""
    pairs = [("过桥", "a bridge that is long"), ("造一条船过河去", "a boat"), ("走", "wade"), ("游过去吧", "to swim across it"), ("桥", "a bridge"), ("从上面的桥走过去", "go by the bridge")]
    write_lines(folder / "own" / "piqa" / "valid.jsonl", [{"goal": f"Cross {i}", "sol1": a, "sol2": b} for i, (a, b) in enumerate(pairs)])
    (folder / "own" / "piqa" / "valid-labels.lst").write_text("0\n" * len(pairs))
    r.run("eval", "--tasks", "piqa", "--data", folder / "own", "--output", folder / "normalised", "--protocol", "likelihood", "--model", model(folder))
    rows = lines(folder / "normalised" / "samples_piqa.jsonl")
    best = lambda size: [max((0, 1), key=lambda c: x["logprobs"][c] / size(pair[c])) for x, pair in zip(rows, pairs, strict=True)]
    r.check(best(len) != best(lambda text: len(text.encode())), f"some choice depends on it: {rows}")
    r.check([x["parsed_norm"] for x in rows] == best(len), f"{[x['parsed_norm'] for x in rows]}, not {best(len)}")
    got = json.loads((folder / "normalised" / "results.json").read_text())["tasks"]["piqa"]
    r.check(got["accuracy_norm"] == best(len).count(0) / len(pairs), got)


def test_submission_of_ceval(folder):
    evaluate(folder, "out", "ceval", "--split", "test", "--model", model(folder))
    got = json.loads((folder / "out" / "ceval_submission.json").read_text())
    r.check(set(got) == {"law"} and sorted(got["law"]) == ["0", "1", "2", "3", "4"] and all(isinstance(x, str) for x in got["law"].values()), got)


def test_two_evaluations_are_compared(folder):
    def answers(name, right):
        given = write_lines(folder / f"{name}.jsonl", [{"id": f"test/{i}", "output": f"The answer is {i + 1 if i in right else 0}."} for i in range(9)])
        evaluate(folder, name, "gsm8k", "--completions", given)
    answers("a", {0, 1, 2, 3, 4, 5, 6})
    answers("b", {0, 7})
    got = json.loads(r.run("eval", "--compare", folder / "a", folder / "b", "--json").stdout)["tasks"]["gsm8k"]
    # 6 of 7 items that differ: 2 (1 + 7) / 2^7
    r.check((got["both"], got["only_first"], got["only_second"]) == (1, 6, 1) and abs(got["p"] - 16 / 128) < 1e-12 and got["won"] == ["test/7"], got)
    r.check("gsm8k" in r.run("eval", "--compare", folder / "a", folder / "b").stdout, "a table")
    (folder / "empty").mkdir()
    r.check("no evaluation" in r.run("eval", "--compare", folder / "a", folder / "empty", status=2).stderr, "an empty folder is refused")


def test_wrong_input_is_refused(folder):
    benchmarks(folder)
    (folder / "broken.json").write_text('{"gsm8k": ')
    (folder / "riddles").mkdir()
    (folder / "riddles" / "riddles.json").write_text(json.dumps({"examples": [{"input": "?", "target": "No"}]}))
    (folder / "nothing").mkdir()
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("x")
    given = write_lines(folder / "said.jsonl", [{"id": "anatomy/0", "output": "A"}])
    with_model = ["--model", model(folder)]
    for tasks, more, said in (("boolqq", with_model, "did you mean boolq"), ("piqa", with_model, "--protocol likelihood"), ("gsm8k", [*with_model, "--protocol", "likelihood"], "--protocol generate"),
                              ("boolq", [*with_model, "--data", folder / "nothing"], "dev.jsonl"), ("gsm8k", [*with_model, "--template", folder / "broken.json"], "broken.json"),
                              ("bbh", [*with_model, "--data", folder / "riddles"], "no few-shot text for bbh.riddles"), ("human_eval", with_model, "--allow-code"),
                              ("boolq", [*with_model, "--split", "test"], "ceval"), ("mmlu", [*with_model, "--shots", 9], "--shots 5"), ("boolq", [], "--model is not given"),
                              ("mmlu", ["--completions", given, "--output", folder / "mine"], "thesis.txt")):
        done = evaluate(folder, "refused", tasks, *more, status=2)
        r.check(said in done.stderr, f"{tasks} {more}: {done.stderr}")
    r.check(not (folder / "refused").exists(), "nothing is written before a refusal")


def test_code_runs_in_a_sandbox(folder):
    said = {"HumanEval/0": "    return a + b\n\nprint('more')\n", "HumanEval/1": "return a - b", "HumanEval/2": f"    open({str(folder / 'out.txt')!r}, 'w').write('x')\n    return a + b\n"}
    given = write_lines(folder / "said.jsonl", [{"id": k, "output": v} for k, v in said.items()])
    done = subprocess.run(r.command("eval", "--tasks", "human_eval", "--data", benchmarks(folder), "--output", folder / "out", "--completions", given, "--allow-code"), capture_output=True, text=True, timeout=r.LIMIT)
    if done.returncode == 2 and "no sandbox on this machine" in done.stderr:
        raise r.Skipped("this machine has no sandbox")
    r.check(done.returncode == 0, done.stderr)
    rows = lines(folder / "out" / "samples_human_eval.jsonl")
    r.check([x["parsed"] for x in rows] == ["passed", "failed", "failed"], rows)
    r.check(not (folder / "out.txt").exists(), "a file was written outside")
    temporary = folder / "tmp"
    temporary.mkdir()
    write_lines(folder / "slow.jsonl", [{"id": "HumanEval/0", "output": "    import time\n    time.sleep(30)\n    return a + b\n"}])
    job = r.start("eval", "--tasks", "human_eval", "--data", benchmarks(folder), "--output", folder / "killed", "--completions", folder / "slow.jsonl", "--allow-code", env={**os.environ, "TMPDIR": str(temporary)})
    until = time.time() + r.LIMIT
    children = lambda: [int(x) for x in (Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split())]
    while time.time() < until and not ((folder / "killed" / "samples_human_eval.jsonl").exists() and children()):
        time.sleep(0.01)
    inside = children()
    job.kill()
    job.communicate()
    until = time.time() + 20
    while time.time() < until and any(os.path.exists(f"/proc/{x}") for x in inside):
        time.sleep(0.01)
    r.check(inside and not any(os.path.exists(f"/proc/{x}") for x in inside), f"{inside} outlive a killed eval")
    r.check(not list(temporary.iterdir()), f"left: {list(temporary.iterdir())}")


if __name__ == "__main__":
    r.main(globals())
