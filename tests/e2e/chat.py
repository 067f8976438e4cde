"""Instruction data end to end: an Alpaca JSON to a trained model folder, what `data show` and `config` say, and resumes that change the blend."""
import array
import json
import shutil
import struct
import subprocess
from pathlib import Path

import ravine_run
from ravine_run import Skipped, check, command, main, metrics, run, same_run, save_config, settings

if not ravine_run.FULL:
    ravine_run.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "chat"


def tokenizer(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / name, folder / name)
    return folder


def alpaca(path, count, what="What is"):
    rows = [{"instruction": f"{what} {i}?", "input": "" if i % 3 else "山谷", "output": f"It is {i} and a river " + "of stones " * (i % 5)} for i in range(count)]
    Path(path).write_text(json.dumps(rows, ensure_ascii=False))
    return str(path)


def options(folder, name, **more):
    values = {"model.config": save_config(folder / "config.json", vocab_size=520, max_position_embeddings=128), "model.tokenizer": str(tokenizer(folder)),
              "data.sequence_length": 64, "train.steps": 6, "train.global_batch": 4, "train.micro_batch": 2, "train.output": str(folder / name),
              "checkpoint.every": 2, "schedule.warmup_steps": 0, "log.tensorboard": False}
    values.update({k.replace("__", "."): v for k, v in more.items()})
    return settings(values)


def seen(words):
    """Of the words of a run, those that `data show` takes."""
    return [w for w in words if w.split(".")[0] in ("model", "data", "train", "parallel")]


def test_alpaca_to_model_folder(folder):
    data = alpaca(folder / "a.json", 40)
    for pack in (True, False):
        name = f"pack-{pack}"
        done = run("train", *options(folder, name, data__train=[data], data__pack=pack))
        check("a.json (alpaca): 40 conversations" in done.stderr, done.stderr)
        check("answers end with <|im_end|>" in done.stderr, done.stderr)
        losses = [m["loss"] for m in metrics(folder / name).values()]
        check(len(losses) == 6 and losses[-1] < losses[0], f"losses {losses}")
        model = folder / name / "model"
        end = json.loads((GOLDEN / "tokenizer.json").read_text())["model"]["vocab"]["<|im_end|>"]
        check(json.loads((model / "generation_config.json").read_text())["eos_token_id"] == end, "the end token is in generation_config.json")
        check(not (model / "chat_template.jinja").exists() and (model / "tokenizer_config.json").exists(), "the tokenizer's own template stays")
    steps = [json.loads(line) for line in (folder / "pack-False" / "metrics.jsonl").read_text().splitlines()]
    tokens = [b["tokens"] - a["tokens"] for a, b in zip([{"tokens": 0}] + steps, steps)]
    check(all(t % 64 == 0 and t <= 4 * 64 for t in tokens), f"micro batches of two rows, each a multiple of 32 wide: {tokens}")
    run("train", *options(folder, "named", data__train=[data], data__chat_template="alpaca"))
    template = (folder / "named" / "model" / "chat_template.jinja").read_text()
    check("### Instruction:" in template, template)


def test_end_tokens_of_a_model_stay(folder):
    """Fine-tuning adds the template's end token to those that generation ended at before; one that is there already is not added again."""
    run("train", *options(folder, "base", data__train=[alpaca(folder / "a.json", 12)], train__steps=1))
    end = json.loads((GOLDEN / "tokenizer.json").read_text())["model"]["vocab"]["<|im_end|>"]
    for before, after in ((7, [end, 7]), ([7, 9], [end, 7, 9]), ([9, end], [end, 9]), (end, end), (-1, end), ([9, -1], [end, 9])):
        model = folder / "base" / "model"
        shutil.rmtree(folder / "old", ignore_errors=True)
        shutil.copytree(model, folder / "old")
        (folder / "old" / ".ravine").unlink(missing_ok=True)
        (folder / "old" / "generation_config.json").write_text(json.dumps({"eos_token_id": before, "top_k": 5}))
        shutil.rmtree(folder / "tuned", ignore_errors=True)
        words = [w for w in options(folder, "tuned", data__train=[str(folder / "a.json")], train__steps=1) if not w.startswith(("model.config", "model.tokenizer"))]
        run("train", *words, f"model.path={folder / 'old'}")
        said = json.loads((folder / "tuned" / "model" / "generation_config.json").read_text())
        check(said["eos_token_id"] == after and said["top_k"] == 5, f"{before} became {said}")


def test_the_end_that_documents_teach_ends_generation(folder):
    """The tokenizer's eos stands behind documents: where config.json or generation_config.json name another end, it is said, and the exported folder ends with both."""
    (folder / "book.txt").write_text("The ravine is deep and the river runs below.\n" * 60)
    first = dict(data__train=[str(folder / "book.txt")], train__steps=1)
    run("train", *options(folder, "base", **first))
    settings, vocabulary = json.loads((folder / "tokenizer_config.json").read_text()), json.loads((folder / "tokenizer.json").read_text())
    piece = settings["eos_token"] if isinstance(settings["eos_token"], str) else settings["eos_token"]["content"]
    eos = {**vocabulary["model"]["vocab"], **{t["content"]: t["id"] for t in vocabulary["added_tokens"]}}[piece]
    for config, generation, ends, where in ((7, None, [eos, 7], "config.json"), (eos, [8, 9], [eos, 8, 9], "generation_config.json"), (7, eos, eos, ""), (-1, -1, eos, ""), (None, None, eos, "")):
        shutil.rmtree(folder / "old", ignore_errors=True)
        shutil.copytree(folder / "base" / "model", folder / "old")
        for file, value in (("config.json", config), ("generation_config.json", generation)):
            path = folder / "old" / file
            held = json.loads(path.read_text())
            held.pop("eos_token_id", None)
            path.write_text(json.dumps({**held, **({} if value is None else {"eos_token_id": value})}))
        (folder / "old" / ".ravine").unlink(missing_ok=True)
        shutil.rmtree(folder / "tuned", ignore_errors=True)
        words = [w for w in options(folder, "tuned", **first) if not w.startswith(("model.config", "model.tokenizer"))]
        said = run("train", *words, f"model.path={folder / 'old'}").stderr
        told = f"documents end with {piece} (id {eos}), where {folder / 'old'}/{where} names"
        check((told in said) == bool(where) and ("documents end with" in said) == bool(where), f"{config} {generation}: {said}")
        made = json.loads((folder / "tuned" / "model" / "generation_config.json").read_text())["eos_token_id"]
        check(made == ends, f"{config} {generation}: {made} instead of {ends}")
        run("generate", "--model", folder / "tuned" / "model", "--prompt", "The", "--max-new-tokens", 2)


def test_show_marks_what_is_learned(folder):
    data = alpaca(folder / "a.json", 8)
    words = seen(options(folder, "x", data__train=[data], data__shuffle=False, data__pack=False))
    plain = run("data", "show", "--step", "1", *words).stdout
    check("<|im_start|>assistant\n⟦It is 0 and a river <|im_end|>⟧" in plain, plain)
    colour = run("data", "show", "--step", "1", "--color", "always", *words).stdout
    check("\033[32mIt is 0 and a river <|im_end|>\033[0m" in colour, repr(colour))
    whole = [json.loads(line) for line in run("data", "show", "--step", "2", "--json", *words).stdout.splitlines()]
    parts = [json.loads(line) for r in (0, 1) for line in run("data", "show", "--step", "2", "--json", "--rank", r, "--ranks", "2", *words).stdout.splitlines()]
    check(len(whole) == 4 and whole == parts, "the ranks together show the step")
    bad = run("data", "show", "--step", "2", "--rank", "3", "--ranks", "2", *words, status=2)
    check("rank 3 (--rank)" in bad.stderr, bad.stderr)


def test_a_conversation_that_just_fits(folder):
    """n tokens make n - 1 columns: such a conversation is whole, its end token learned, and one column less cuts it or leaves it out. From records and
    from instruction files."""
    golden = json.loads((GOLDEN / "expected.json").read_text())["chats"][0]
    last = max(i for i, learned in enumerate(golden["mask"]) if learned)  # what the template writes behind it is nobody's
    ids, answer = golden["ids"][:last + 1], [t for t, learned in zip(golden["ids"], golden["mask"]) if learned]
    rows = [{"messages": golden["messages"]}] * 4
    Path(folder / "a.json").write_text(json.dumps(rows))
    run("preprocess", "--input", folder / "a.json", "--tokenizer", tokenizer(folder), "--handler", "messages", "--output-prefix", folder / "files")
    fits = len(ids) - 1
    for source, pack in (("a.json", False), ("files", True)):
        ask = lambda columns, status=0, **more: run("data", "show", "--step", "1", "--json", *seen(options(
            folder, "x", data__train=[str(folder / source)], data__pack=pack, data__sequence_length=columns, train__global_batch=1, train__micro_batch=1, **more)), status=status)
        for keep in ("cut", "drop"):
            said = ask(fits, data__too_long=keep)
            row = json.loads(said.stdout)
            check(row["ids"] == ids[:-1] and [t for t in row["labels"] if t != -100] == answer, f"{source}, {keep}: {row}")
            check("4 conversations" in said.stderr and "cut at" not in said.stderr and "left out" not in said.stderr, said.stderr)
        said = ask(fits - 1, data__too_long="cut")
        row = json.loads(said.stdout)
        check(row["ids"] == ids[:-2] and [t for t in row["labels"] if t != -100] == answer[:-1] and "4 cut at data.sequence_length" in said.stderr, f"{source}: {row}{said.stderr}")
        check("no conversation is left" in ask(fits - 1, 2, data__too_long="drop").stderr, source)


def test_weights_change_on_resume(folder):
    a, b = alpaca(folder / "a.json", 50), alpaca(folder / "b.json", 50, "Why is")
    common = dict(data__pack=False, data__sequence_length=96)
    mix = lambda x, y: [{"path": a, "weight": x}, {"path": b, "weight": y}]
    run("train", *options(folder, "one", train__steps=8, data__train=mix(3, 1), **common))
    run("train", *options(folder, "two", train__steps=4, schedule__steps=8, data__train=mix(3, 1), **common))
    again = options(folder, "two", train__steps=8, schedule__steps=8, data__train=mix(3, 1), **common)
    run("train", *again)
    difference = same_run(folder / "one", folder / "two")
    check(difference == "", f"stopped and resumed in a blend: {difference}")
    run("train", *options(folder, "three", train__steps=4, schedule__steps=8, data__train=mix(3, 1), **common))
    changed = options(folder, "three", train__steps=8, schedule__steps=8, data__train=mix(1, 3), **common)
    done = run("train", *changed)
    check("another batch, other sources or weights from step 5 on, sample 16" in done.stderr, done.stderr)
    # Stopped once more behind the change: the history has both blends, and the run is the one that was changed and left alone.
    run("train", *options(folder, "four", train__steps=4, schedule__steps=8, data__train=mix(3, 1), **common))
    for steps in (6, 8):
        run("train", *options(folder, "four", train__steps=steps, schedule__steps=8, data__train=mix(1, 3), **common))
    difference = same_run(folder / "three", folder / "four")
    check(difference == "", f"stopped behind the change: {difference}")
    taken = []
    for step in range(1, 9):
        for line in run("data", "show", "--json", "--step", step, *seen(changed)).stdout.splitlines():
            taken.append(json.loads(line)["origin"])
    check(len(taken) == 32 and len(set(taken)) == 32, f"no sample twice: {sorted(taken)}")
    early, late = (sum("a.json" in s for s in part) for part in (taken[:16], taken[16:]))
    check((early, late) == (12, 4), f"shares of a before and after: {early} and {late} of 16")


def test_a_name_is_no_answer(folder):
    """An empty answer teaches nothing, also where its message says who gave it."""
    rows = [{"messages": [{"role": "user", "content": f"Q {i}?"}, {"role": "assistant", "content": "An answer." if i % 2 else "", **({"name": "Ann"} if i < 4 else {})}]} for i in range(8)]
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = run("data", "show", *seen(options(folder, "x", data__train=[str(folder / "m.jsonl")]))).stderr
    check("8 conversations" in said and "4 left out: 4 without an answer to learn" in said, said)


def test_each_source_has_an_order_of_its_own(folder):
    """Two sources of as many conversations, in a blend: the order of one says nothing of that of the other."""
    a, b = alpaca(folder / "a.json", 24), alpaca(folder / "b.json", 24, "Why is")
    words = seen(options(folder, "x", train__steps=12, data__train=[{"path": a, "weight": 2}, {"path": b, "weight": 2}], data__pack=False, data__sequence_length=96))
    taken = [json.loads(line)["origin"] for step in range(1, 13) for line in run("data", "show", "--json", "--step", step, *words).stdout.splitlines()]
    orders = [[s.replace(str(folder / name), "") for s in taken if name in s] for name in ("a.json", "b.json")]
    check(sorted(orders[0]) == sorted(orders[1]) and len(set(orders[0])) == 24, f"one pass of each: {orders}")
    check(orders[0] != orders[1], f"both in the same order: {orders}")


def token_files(prefix, name):
    """Sequences of PREFIX_name_document.bin/.idx, which hold int32."""
    idx, data = (Path(f"{prefix}_{name}_document.{s}").read_bytes() for s in ("idx", "bin"))
    check(idx[:9] == b"MMIDIDX\0\0" and idx[17] == 4, "an index of int32")
    n = struct.unpack_from("<Q", idx, 18)[0]
    ids, out, at = array.array("i", data).tolist(), [], 0
    for length in struct.unpack_from(f"<{n}i", idx, 34):
        out.append(ids[at:at + length])
        at += length
    return out


def test_handlers_write_token_files(folder):
    rows = [r for r in json.loads((GOLDEN / "expected.json").read_text())["handlers"] if r["append_eod"]]
    for handler in sorted({r["handler"] for r in rows}):
        mine = [r for r in rows if r["handler"] == handler]
        (folder / "set.jsonl").write_text("".join(json.dumps(r["record"]) + "\n" for r in mine))
        prefix = folder / handler
        run("preprocess", "--input", folder / "set.jsonl", "--tokenizer", tokenizer(folder), "--handler", handler, "--append-eod", "--output-prefix", prefix)
        if "Pretrain" in handler:
            check(Path(f"{prefix}_text_document.bin").exists(), handler)
            continue
        for name in ("ids", "labels"):
            want = [s for r in mine for s in r[name]]
            got = token_files(prefix, "packed_input_ids" if name == "ids" else "packed_labels")
            check(got == want, f"{handler}: {name}")
        check(token_files(prefix, "packed_attention_mask") == [[1] * len(s) for r in mine for s in r["ids"]], f"{handler}: mask")
    (folder / "set.jsonl").write_text(json.dumps({"instruction": "Why?", "output": "The sea"}) + "\n")
    run("preprocess", "--input", folder / "set.jsonl", "--tokenizer", tokenizer(folder), "--handler", "alpaca", "--output-prefix", folder / "chat")
    learned = [t for t in token_files(folder / "chat", "packed_labels")[0] if t != -100]
    check(len(learned) >= 2 and token_files(folder / "chat", "packed_input_ids")[0][-len(learned):] == learned, "the answer is learned")


def test_training_on_instruction_files(folder):
    data = alpaca(folder / "a.json", 40)
    words = options(folder, "json", data__train=[data])
    run("train", *words)
    run("preprocess", "--input", data, "--tokenizer", folder, "--handler", "alpaca", "--output-prefix", folder / "set", "--workers", "2")
    for path in (folder / "set", folder / "set_packed_labels_document.idx"):
        done = run("train", *options(folder, "files", data__train=[str(path)], checkpoint__resume="none"))
        check("(instruction files): 40 conversations" in done.stderr, done.stderr)
        difference = same_run(folder / "json", folder / "files")
        check(difference == "", f"token files and records train alike: {difference}")
        shutil.rmtree(folder / "files")
    ends = [json.loads((folder / "json" / "model" / "generation_config.json").read_text())["eos_token_id"]]
    run("train", *options(folder, "files", data__train=[str(folder / "set")], data__pack=False))
    ends.append(json.loads((folder / "files" / "model" / "generation_config.json").read_text())["eos_token_id"])
    check(ends[0] == ends[1], f"end tokens {ends}")
    for order in ("megatron", "megatron-2023"):
        more = dict(data__train=[str(folder / "set")], data__order=order, data__split="80,20,0", train__valid_every=3, train__valid_batches=2)
        done = run("train", *options(folder, order, **more))
        check("(train, instruction files): 32 of 40 conversations" in done.stderr and "(valid, instruction files): 8 of 40" in done.stderr, done.stderr)
        shown = [json.loads(x)["origin"] for step in range(1, 7) for x in run("data", "show", "--json", "--step", step, *seen(options(folder, "none", **more))).stdout.splitlines()]
        check(len(set(shown)) == 24 and all(int(s.split()[-1]) < 32 for s in shown), f"{shown}")
    info = json.loads(run("info", folder / "set", "--tokenizer", folder, "--json").stdout)
    check(info["kind"] == "instruction files" and info["documents"] == 40 and 0 < info["learned_tokens"] < info["tokens"], str(info))
    check("".join(p["text"] for p in info["samples"][0]["parts"] if p["trained"]) == "It is 0 and a river <|im_end|>", str(info["samples"][0]))
    (folder / "set_packed_labels_document.bin").unlink()
    done = run("train", *options(folder, "none", data__train=[str(folder / "set")]), status=2)
    check("instruction files are not complete" in done.stderr and "set_packed_labels_document.bin" in done.stderr, done.stderr)


def test_conversations_are_encoded_once(folder):
    data = alpaca(folder / "a.json", 40)
    run("train", *options(folder, "x", data__train=[data], train__steps=4, schedule__steps=6))
    kept = list((folder / "x" / "tokens").glob("*.safetensors"))
    check(len(kept) == 1, f"{kept}")
    done = run("train", *options(folder, "x", data__train=[data]))
    check("a.json (alpaca): 40 conversations" in done.stderr, done.stderr)
    run("train", *options(folder, "y", data__train=[data], data__cache=False))
    check(not (folder / "y" / "tokens").exists(), "data.cache=false keeps nothing")
    check(same_run(folder / "x", folder / "y") == "", "tokens from the cache are those of the records")


def test_info_shows_what_is_learned(folder):
    data = alpaca(folder / "a.json", 4)
    tokenizer(folder)
    info = json.loads(run("info", data, "--tokenizer", folder, "--json").stdout)
    check(info["kind"] == "conversations (alpaca)" and info["records"] == 4, str(info))
    check("".join(p["text"] for p in info["samples"][1]["parts"] if p["trained"]) == "It is 1 and a river of stones <|im_end|>", str(info["samples"][1]))
    check("[[It is 0 and a river <|im_end|>]]" in run("info", data, "--tokenizer", folder).stdout, "what is learned is marked")
    done = run("info", data, "--tokenizer", folder / "tokenizer.json", status=2)
    check("no chat template" in done.stderr, done.stderr)
    check("### Response:" in run("info", data, "--tokenizer", folder, "--template", "alpaca").stdout, "--template")


def test_tables_of_conversations(folder):
    (folder / "a.csv").write_text("instruction,input,output\n" + "".join(f'What is {i}?,,"It is {i}, and a river"\n' for i in range(20)))
    done = run("train", *options(folder, "x", data__train=[str(folder / "a.csv")], train__steps=2))
    check("a.csv (alpaca): 20 conversations" in done.stderr, done.stderr)
    files = GOLDEN.parent / "files"
    for form in ("alpaca", "sharegpt", "messages"):
        common = dict(model__config=save_config(folder / "long.json", vocab_size=520, max_position_embeddings=512), data__chat_template="chatml", data__sequence_length=256, train__steps=2, checkpoint__every=0)
        run("train", *options(folder, form, data__train=[str(files / f"chat_{form}.jsonl")], **common))
        words = options(folder, form + "-table", data__train=[str(files / f"chat_{form}.parquet")], **common)
        done = subprocess.run(command("train", *words), capture_output=True, text=True)
        if done.returncode == 2 and "Apache Arrow" in done.stderr:
            raise Skipped("built without Apache Arrow (scripts/build --without-parquet)")
        check(done.returncode == 0 and f"chat_{form}.parquet ({form})" in done.stderr, done.stderr)
        check(same_run(folder / form, folder / f"{form}-table") == "", f"{form}: parquet and jsonl train alike")


ASKED = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% for c in m.tool_calls or [] %}{{ c.function.name }}CALL{% endfor %}{{ m.content }}{{ '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def test_calls_of_tools(folder):
    """Arguments as a map and as text, for templates that take the one, the other, or both; what cannot be written is refused by its place."""
    takes = {"map": "{{ c.function.arguments|tojson }}", "items": "{% for k, v in c.function.arguments|items %}{{ k }}: {{ v }}{% endfor %}", "text": "{{ '' + c.function.arguments }}",
             "both": "{{ c.function.arguments if c.function.arguments is string else c.function.arguments|tojson }}"}
    call = lambda arguments: [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": arguments}}]}]
    for name, how in takes.items():
        (folder / "t.jinja").write_text(ASKED.replace("CALL", how))
        want = "<|im_start|>user\nRain?<|im_end|><|im_start|>assistant\nf" + ("city: Paris" if name == "items" else '{"city": "Paris"}') + "<|im_end|>"
        for form in ({"city": "Paris"}, '{"city": "Paris"}'):
            line = json.dumps({"messages": call(form)})
            said = subprocess.run(command("tokenizer", "render", "--template", folder / "t.jinja", "--jsonl"), input=line, capture_output=True, text=True)
            check(json.loads(said.stdout).get("text") == want, f"{name}, {form!r}: {said.stdout}{said.stderr}")
            (folder / "a.jsonl").write_text(line + "\n")
            info = json.loads(run("info", folder / "a.jsonl", "--tokenizer", tokenizer(folder), "--template", folder / "t.jinja", "--json").stdout)
            check("".join(p["text"] for p in info["samples"][0]["parts"]) == want, f"{name}, {form!r}: {info['samples']}")
    (folder / "t.jinja").write_text(ASKED.replace("CALL", takes["map"]))
    (folder / "a.jsonl").write_text(json.dumps({"messages": call({"a": 1})}) + "\n" + json.dumps({"messages": call('{"a": ')}) + "\n")
    said = run("train", *options(folder, "x", data__train=[str(folder / "a.jsonl")], data__chat_template=folder / "t.jinja"), status=2).stderr
    for part in (f"{folder / 'a.jsonl'} record 2", "message 2, tool_calls[0].function.arguments: not valid JSON", "correct the record"):
        check(part in said, f"'{part}' is missing in {said}")
    texts = {}
    for kind in ("jsonl", "parquet"):
        done = subprocess.run(command("info", GOLDEN.parent / "files" / f"chat_tools.{kind}", "--tokenizer", folder, "--template", folder / "t.jinja", "--json"), capture_output=True, text=True)
        if done.returncode == 2 and "Apache Arrow" in done.stderr:
            raise Skipped("built without Apache Arrow (scripts/build --without-parquet)")
        texts[kind] = ["".join(p["text"] for p in s["parts"]) for s in json.loads(done.stdout)["samples"]]
    check(texts["jsonl"] == texts["parquet"] and 'weather{"city": "Paris"}' in texts["parquet"][0], str(texts))


def test_tools_as_text(folder):
    """Tools as JSON text are the list that they spell, in render as in info; whole numbers that would lose digits are refused by their place."""
    (folder / "t.jinja").write_text("{% if tools %}{{ tools|length }} {{ tools[0].name }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}")
    render = lambda **more: subprocess.run(command("tokenizer", "render", "--template", folder / "t.jinja", "--jsonl"), input=json.dumps({"messages": [{"role": "user", "content": "?"}], **more}), capture_output=True, text=True)
    for tools, want in (("[]", "?"), ("", "?"), ([], "?"), ('[{"name": "f"}]', "1 f?"), (['{"name": "f"}'], "1 f?"), ([{"name": "f"}], "1 f?")):
        said = render(tools=tools)
        check(said.returncode == 0 and json.loads(said.stdout) == {"text": want}, f"{tools!r}: {said.stdout}{said.stderr}")
    for tools, want in (([{"n": 2**64}], "stdin:1: tools[0].n"), ('[{"n": 18446744073709551616}]', "stdin:1: tools: [0].n"), ("[{", "stdin:1: tools"), ('{"name": "f"}', "'tools' is no list (stdin:1)")):
        said = render(tools=tools)
        check(said.returncode == 2 and want in said.stderr, f"{tools!r}: {said.stdout}{said.stderr}")


def test_a_chat_template_that_has_changed(folder):
    """The same path, or the tokenizer's own, with another text in it: a resume would train on other conversations."""
    data = alpaca(folder / "a.json", 40)
    chatml = json.loads((GOLDEN / "expected.json").read_text())["templates"]["chatml"]
    for name, file in (("given", "t.jinja"), ("own", "chat_template.jinja")):
        more = dict(data__train=[data], schedule__steps=6, **({"data__chat_template": str(folder / file)} if name == "given" else {}))
        (folder / file).write_text(chatml)
        run("train", *options(folder, name, train__steps=2, **more))
        before = {p: p.stat().st_mtime_ns for p in (folder / name / "checkpoints").rglob("*")}
        (folder / file).write_text(chatml.replace("<|im_start|>' + m.role", "<|im_start|>the ' + m.role"))
        said = run("train", *options(folder, name, train__steps=4, **more), status=2).stderr
        check("another chat template than the checkpoint's (data.chat_template, or the one of the tokenizer): step_000002" in said, said)
        check({p: p.stat().st_mtime_ns for p in (folder / name / "checkpoints").rglob("*")} == before, "a refused start wrote something")
        if name == "own":
            run("train", *options(folder, name, train__steps=3, checkpoint__other_data=True, **more))
        else:
            (folder / file).write_text(chatml)
            run("train", *options(folder, name, train__steps=3, **more))


def test_skipped_steps(folder):
    data = alpaca(folder / "a.json", 40)
    run("train", *options(folder, "x", data__train=[data], data__skip_steps=[3]))
    rows = [json.loads(line) for line in (folder / "x" / "metrics.jsonl").read_text().splitlines()]
    check([r["step"] for r in rows if r.get("skipped")] == [3], rows)


def test_config_warns(folder):
    Path(folder / "long.json").write_text(json.dumps([{"instruction": "x" * 400, "output": "y"}] * 20))
    words = options(folder, "x", data__train=[str(folder / "long.json")], schedule__warmup_steps=6, train__valid_every=5, data__sequence_length=256, data__skip_steps=[9])
    save_config(folder / "config.json", vocab_size=400, max_position_embeddings=128)
    said = run("config", *words).stderr
    for text in ("100 % of the first 20 conversations are longer than data.sequence_length=256 and are cut",
                 "above the model's max_position_embeddings=128", "never reaches optimizer.lr", "nothing to validate on", "skip_steps names step 9"):
        check(text in said, f"'{text}' is missing in:\n{said}")
    check("ids beyond it" not in said, f"a new model has a row for each id of its tokenizer:\n{said}")
    # With weights that are there, it has not.
    weighty = [w for w in words if not w.startswith("model.")] + [f"model.path={folder}"]
    said = run("config", *weighty).stderr
    check("the tokenizer has 440 ids, the model a vocabulary of 400" in said, said)
    no_eos = json.loads((folder / "tokenizer_config.json").read_text())
    no_eos.pop("eos_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(no_eos))
    said = run("config", *words).stderr
    check("no end token (eos)" in said, said)
    good = options(folder, "x", data__train=[alpaca(folder / "a.json", 20)])
    save_config(folder / "config.json", vocab_size=520, max_position_embeddings=128)
    check(run("config", *good).stderr == "", "a config without mistakes has no warnings")


def test_mistakes(folder):
    def fails(text, **more):
        more.setdefault("data__train", [str(folder / "x.json")])
        done = run("train", *options(folder, "x", **more), status=2)
        check(text in done.stderr, f"'{text}' is missing in:\n{done.stderr}")
        check(not (folder / "x").exists(), "nothing is written")
    Path(folder / "x.json").write_text('[{"instruction": "a", "output": "b"}, {"instruction": "a", "outptu": "b"}]')
    fails("x.json record 2): the record must have it, it has instruction, outptu; did you mean 'outptu'? rename 'outptu' to 'output'")
    Path(folder / "x.json").write_text('[{"instruction": "a", "output": "b"}')
    fails("the array does not end")
    Path(folder / "x.json").write_text('[{"instruction": "a", "output": "b"}]')
    fails("did you mean 'chatml'?", data__chat_template="chatlm")
    Path(folder / "t.jinja").write_text("{{ raise_exception('never') }}")
    fails("never", data__chat_template=str(folder / "t.jinja"))
    fails("no conversation is left", data__sequence_length=4)


if __name__ == "__main__":
    main(globals())
