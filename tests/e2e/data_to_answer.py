"""From nothing to a model that answers, as a newcomer goes: each command is the one that the last named, from whatever folder, and what is typed twice, piped in or misspelled is told."""
import json
import os
import re
import shlex
import shutil
import subprocess

import ravine_run as r

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads

SPECIAL = ("<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>")


def named_command(text, head):
    """The command behind the last line that begins with `head`, as words without the program, which is named as it was called."""
    line = [x for x in text.splitlines() if x.startswith(head)][-1]
    words = shlex.split(line[len(head):])
    r.check(words[0] == r.PROGRAM, line)
    return words[1:]


def trained(folder, *init, cwd=None, steps=6, more=()):
    """`init`, then the training it names, which is made short. Returns the folder's last words."""
    out = r.run("init", *init, cwd=cwd or folder).stdout
    return r.run(*named_command(out, "  "), f"train.steps={steps}", "schedule.warmup_steps=1", "log.tensorboard=false", *more, cwd=cwd or folder).stderr


def conversations(path, count=40, **fields):
    rows = [{"instruction": f"What is stone {i}?", "input": "", "output": f"Stone {i} is grey and lies in the river.", **fields} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) if path.suffix == ".jsonl" else json.dumps(rows))
    return path


def test_sft_talks(folder):
    """The command that a run of `init sft` names last gives words that a person can read, and stops where the answer ends."""
    said = trained(folder, "sft", "s", steps=8)
    r.check("answers end with <|im_end|>" in said and "no special token" not in said, said)
    words = named_command(said, "next     ")
    r.check("--chat" in words, words)
    for more in r.rows(([], ["--seed", 1], ["--seed", 2]), 1, "draws take turns"):
        text = r.run(*words, *more, "--max-new-tokens", 60, cwd=folder).stdout
        r.check(text.strip() and not any(s in text for s in SPECIAL), repr(text))
    tokenizer = folder / "s" / "tokenizer"
    for path in (tokenizer, folder / "s" / "run" / "model"):
        ids = json.loads(subprocess.run(r.command("tokenizer", "encode", "--tokenizer", path, "--no-special"), input="<|im_start|>user\nHi<|im_end|>\n", capture_output=True, text=True, check=True).stdout.splitlines()[0])
        r.check(len(ids) >= 2 and ids[0] == 3, f"<|im_start|> is one token: {ids}")
    end = json.loads((folder / "s" / "run" / "model" / "generation_config.json").read_text())["eos_token_id"]
    r.check(4 in (end if isinstance(end, list) else [end]), f"<|im_end|> ends: {end}")
    settings = json.loads((tokenizer / "tokenizer_config.json").read_text())
    r.check(settings["added_tokens_decoder"]["4"]["content"] == "<|im_end|>" and settings["added_tokens_decoder"]["4"]["special"], settings)
    # A model that was taught one answer for long says it, and no more.
    rows = [{"instruction": "Who are you?", "input": "", "output": "I am a ravine."}] * 16
    (folder / "one.json").write_text(json.dumps(rows))
    said = trained(folder, "sft", "one", "--data", "one.json", steps=40, more=["optimizer.lr=3e-3", "data.sequence_length=32", "data.pack=false", "train.global_batch=4"])
    words = [w for w in named_command(said, "next     ") if w != "--sample"]
    words[words.index("TEXT")] = "Who are you?"
    r.check(r.run(*words, cwd=folder).stdout == "I am a ravine.\n", r.run(*words, "--json", cwd=folder).stdout)


def test_pretraining_talks(folder):
    r.save_text(folder / "book.txt", 4000, 1)
    said = trained(folder, "b", "--data", "book.txt")
    words = named_command(said, "next     ")
    r.check("--chat" not in words and r.run(*words, "--max-new-tokens", 8, cwd=folder).stdout.strip(), words)
    r.check("book.txt: text that runs on from line to line" in said, said)


def test_the_folder_of_init_stands_for_its_run(folder):
    """Every command that takes a run or its model takes the folder that init made, from any folder; before the run it says what to do."""
    r.save_text(folder / "book.txt", 3000, 1)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    made = folder / "made"
    r.run("init", "made", "--data", "book.txt", cwd=folder)
    for words in (["generate", "--model", made, "--prompt", "x"], ["plot", made], ["stop", made], ["convert", "--input", made, "--to", "hf", "--output", "c"]):
        told = r.run(*words, cwd=elsewhere, status=2).stderr
        r.check("nothing has run here yet" in told and f"ravine train --config {made}/run.yaml" in told, told)
    r.check("run to come" in r.run("info", made).stdout, "info before the run")
    # The command of init, in another folder than init's.
    r.run("train", "--config", made / "run.yaml", "train.steps=2", "schedule.warmup_steps=1", "log.tensorboard=false", cwd=elsewhere)
    r.check((made / "run" / "model" / "config.json").exists() and not any(elsewhere.iterdir()), "the run is where init said")
    info = json.loads(r.run("info", "../made", "--json", cwd=elsewhere).stdout)
    r.check(info["kind"] == "run" and info["final_model"], info)
    r.check("loss" in r.run("plot", made, cwd=elsewhere).stdout, "plot")
    r.check("no run is alive" in r.run("stop", made, cwd=elsewhere, status=2).stderr, "stop")
    r.run("convert", "--input", made, "--to", "hf", "--output", "c", cwd=elsewhere)
    answers = [r.run("generate", "--model", path, "--prompt", "a", "--max-new-tokens", 4, cwd=elsewhere).stdout for path in (made, made / "run", made / "run" / "model", "../made/")]
    r.check(len(set(answers)) == 1, answers)
    r.check("model.path" in r.run("train", f"model.path={made}", f"data.train={folder / 'book.txt'}", status=2, cwd=elsewhere).stderr, "train")
    told = r.run("diff", made, made, status=2).stderr
    r.check("two runs" in told and f"ravine plot {made / 'run'} {made / 'run'}" in told and f"ravine diff {made / 'run'}/model" in told, told)
    # A run without a model, and a folder that was moved.
    shutil.move(made / "run" / "model", folder / "model")
    told = r.run("generate", "--model", made, "--prompt", "a", status=2).stderr
    r.check("a run without a model" in told and "ravine convert --input" in told, told)
    shutil.move(folder / "model", made / "run" / "model")
    shutil.move(made, folder / "moved")
    r.check(r.run("generate", "--model", folder / "moved", "--prompt", "a", "--max-new-tokens", 4).stdout == answers[0], "a moved folder")


def test_a_table_or_records_with_another_key(folder):
    (folder / "t.csv").write_text("body,title\n" + "".join(f"some text {i} about ravines and rivers,a title\n" for i in range(400)))
    told = r.run("init", "d", "--data", "t.csv", cwd=folder, status=2).stderr
    r.check("--text-key COLUMN" in told and "body, title" in told, told)
    trained(folder, "d", "--data", "t.csv", "--text-key", "body", steps=2)
    r.check('text_key: "body"' in (folder / "d" / "run.yaml").read_text(), (folder / "d" / "run.yaml").read_text())
    told = r.run("tokenizer", "train", "--input", "t.csv", "--output", "tok", "--vocab-size", 300, cwd=folder, status=2).stderr
    r.check("--text-key COLUMN" in told, told)
    conversations(folder / "a.jsonl")
    told = r.run("init", "a.jsonl", cwd=folder, status=2).stderr
    r.check("ravine init sft first --data a.jsonl" in told, told)


def test_a_newline_that_ends_a_prompt(folder):
    """A newline is a byte token where the tokenizer has no piece for it, and is held back until it is certain: it belongs to the prompt all the same."""
    model = folder / "s" / "run" / "model"
    trained(folder, "sft", "s", "--data", conversations(folder / "a.json"), steps=2)
    # Ids of an answer as they are, without the prompt before them.
    for prompt in ("one\n", "one\n\n", "one"):
        (folder / "p.jsonl").write_text(json.dumps({"prompt": prompt}) + "\n")
        row = json.loads(r.run("generate", "--model", model, "--prompts", folder / "p.jsonl", "--json", "--max-new-tokens", 6, "--sample", "--seed", 3, "--temperature", 5).stdout)
        whole, before = ["".join(json.loads(line)["text"] for line in subprocess.run(
            r.command("tokenizer", "decode", "--tokenizer", model, "--jsonl", "--skip-special"), input=json.dumps({"ids": ids}) + "\n", capture_output=True, text=True, check=True).stdout.splitlines())
            for ids in (row["prompt_ids"] + row["ids"], row["prompt_ids"])]
        r.check(before.endswith(prompt) and (not whole.startswith(before) or row["text"] == whole[len(before):]), f"{prompt!r}: {row['text']!r} of {whole!r}")
    shown = r.run("data", "show", "--step", 1, "--config", folder / "s" / "run.yaml", "data.pack=false").stdout
    r.check(len(re.findall(r"<\|im_start\|>assistant\n⟦Stone \d+ is grey and lies in the river\.<\|im_end\|>⟧", shown)) == shown.count("⟦") > 0, shown)
    parts = json.loads(r.run("info", folder / "a.json", "--tokenizer", model, "--json").stdout)["samples"][0]["parts"]
    r.check([p["text"] for p in parts if p["trained"]] == ["Stone 0 is grey and lies in the river.<|im_end|>"], parts)
    r.check("".join(p["text"] for p in parts) == "<s><|im_start|>user\nWhat is stone 0?<|im_end|>\n<|im_start|>assistant\nStone 0 is grey and lies in the river.<|im_end|>", parts)
    # The label of a row's last column is shown behind it, with the blank before it.
    (folder / "words.txt").write_text("alpha beta " * 400)
    r.run("tokenizer", "train", "--input", folder / "words.txt", "--output", folder / "tok", "--vocab-size", 280)
    shown = r.run("data", "show", "--step", 1, f"model.config={folder / 's' / 'model.json'}", f"model.tokenizer={folder / 'tok'}", f"data.train={folder / 'words.txt'}", "data.sequence_length=9", "data.shuffle=false",
                  "train.global_batch=1").stdout
    text = re.sub(r"^.*\n.*\n", "", shown).strip("\n").replace("<s>", "")
    r.check(text.strip() in "alpha beta " * 400 and text.count("beta") >= 2, repr(shown))


def test_stdin(folder):
    trained(folder, "sft", "s", "--data", conversations(folder / "a.json"), steps=2)
    model = folder / "s"
    few = ["--max-new-tokens", 3]
    # One Ctrl-D ends a prompt that is typed.
    status, seen = r.on_terminal(["generate", "--model", model, "--prompt", "-", *few], [("", 0, b"stone\n"), ("stone", 1, b"\x04")])
    r.check(status == 0, seen)
    # A conversation says how it is left, and is left so.
    status, seen = r.on_terminal(["generate", "--model", model, "--chat", *few], [("You >> ", 1, b"Who?\n"), ("You >> ", 2, b"/exit\n")])
    r.check(status == 0 and "/quit or Ctrl-D" in seen and seen.count("You >> ") == 2, seen)

    def piped(text, *words, status=0):
        read, write = os.pipe()
        os.write(write, text)  # is there before the program looks
        done = subprocess.run(r.command("generate", "--model", model, *few, *words), stdin=read, capture_output=True, text=True, timeout=r.LIMIT)
        os.close(read)
        os.close(write)
        r.check(done.returncode == status, done.stderr)
        return done.stderr

    r.check("--prompt - takes the text that is piped in" in piped(b"stone\n", status=2), "no prompt, but a pipe")
    r.check("note: stdin is not read: --prompt -" in piped(b"stone\n", "--prompt", "x"), "a prompt and a pipe")
    r.check("stdin" not in r.run("generate", "--model", model, "--prompt", "x", *few).stderr, "no word about a stdin that gives nothing")
    told = r.run("generate", "--model", model, "--prompt", "x", "--prompt", "y", status=2).stderr
    r.check("--prompt is given twice" in told and "--prompts FILE.txt" in told, told)


def test_what_is_given_twice(folder):
    said = r.run("config", "model.path=x", "data.train=a", "train.steps=3", "train.steps=4").stderr
    r.check("note: train.steps is given twice, 3 and 4: the last counts" in said, said)
    r.check("twice" not in r.run("config", "model.path=x", "data.train=a", "train.steps=4", "train.steps=4").stderr, "the same value twice is no news")
    r.check("twice" not in r.run("config", "model.path=x", "data.train=a", "train.steps=4", env={**os.environ, "PMI_RANK": "1"}).stderr, "once")
    r.check("twice" not in r.run("config", "model.path=x", "data.train=a", "train.steps=3", "train.steps=4", env={**os.environ, "PMI_RANK": "1"}).stderr, "the first rank speaks")


def test_conversations_with_slips(folder):
    base = ["model.config=" + r.save_config(folder / "config.json", vocab_size=400), f"model.tokenizer={folder / 'tok'}", "data.chat_template=chatml", "data.sequence_length=64", "train.steps=1", "schedule.warmup_steps=0",
            "log.tensorboard=false"]
    r.save_text(folder / "text.txt", 2000, 1)
    r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / "tok", "--vocab-size", 400, "--special-tokens", "<|im_start|>", "<|im_end|>")
    turn = lambda role: json.dumps({"messages": [{"role": role, "content": "a"}, {"role": "assistant", "content": "b"}]}) + "\n"
    for role, near in (("usr", "user"), ("human", "user"), ("asistant", "assistant"), ("User", "user")):
        (folder / "roles.jsonl").write_text(turn("user") * 3 + turn(role))
        told = r.run("train", *base, f"data.train={folder / 'roles.jsonl'}", f"train.output={folder / 'o'}", status=2).stderr
        r.check(f"unknown role '{role}'" in told and "roles.jsonl record 4, message 1" in told and f"did you mean '{near}'" in told, told)
        told = r.run("preprocess", "--input", folder / "roles.jsonl", "--handler", "messages", "--template", "chatml", "--tokenizer", folder / "tok", "--output-prefix", folder / "p" / "x", status=2).stderr
        r.check(f"unknown role '{role}'" in told and "roles.jsonl:4" in told and not (folder / "p").exists(), told)
    # A template that names a role knows it.
    (folder / "own.jinja").write_text("{% for m in messages %}{% if m.role == 'usr' %}Q{% endif %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    (folder / "roles.jsonl").write_text(turn("usr") * 4)
    r.run("train", *base, f"data.chat_template={folder / 'own.jinja'}", f"data.train={folder / 'roles.jsonl'}", f"train.output={folder / 'own'}")
    # Answers without words are not learned, and said.
    rows = json.loads(conversations(folder / "a.json").read_text())
    for i in (3, 5):
        rows[i]["output"] = " "
    (folder / "a.json").write_text(json.dumps(rows))
    said = r.run("train", *base, f"data.train={folder / 'a.json'}", f"train.output={folder / 'e'}").stderr
    r.check("2 left out: 2 without an answer to learn" in said and "a.json record 4" in said, said)
    said = r.run("preprocess", "--input", folder / "a.json", "--handler", "alpaca", "--template", "chatml", "--tokenizer", folder / "tok", "--output-prefix", folder / "pe").stderr
    r.check("left out: 2 times without an answer to learn (first: " in said, said)
    # One key misspelled.
    for row in rows:
        row["outpt"] = row.pop("output")
    (folder / "b.json").write_text(json.dumps(rows))
    for words in (["train", *base, f"data.train={folder / 'b.json'}", f"train.output={folder / 'o'}"], ["init", "sft", folder / "i", "--data", folder / "b.json"], ["init", folder / "i", "--data", folder / "b.json"],
                  ["preprocess", "--input", folder / "b.json", "--tokenizer", folder / "tok", "--output-prefix", folder / "p" / "x"], ["tokenizer", "train", "--input", folder / "b.json", "--output", folder / "i"]):
        told = r.run(*words, status=2).stderr
        r.check("no key 'output'" in told and "'outpt' is nearly that" in told and "b.json" in told and "rename 'outpt' to 'output'" in told, f"{words[:2]}: {told}")
        r.check(not (folder / "i").exists() and not (folder / "p").exists(), f"{words[:2]} left something")


def test_lines_of_a_text(folder):
    """A .txt file is one text for train, and a document per line for preprocess and info: each says so. What is refused leaves nothing."""
    (folder / "book.txt").write_text("A line of the book.\n" * 500)
    r.run("tokenizer", "train", "--input", folder / "book.txt", "--output", folder / "tok", "--vocab-size", 300)
    done = r.run("preprocess", "--input", folder / "book.txt", "--tokenizer", folder / "tok", "--output-prefix", folder / "data" / "book")
    r.check("each line of a .txt file is a document here; --split-by-document" in done.stderr and "500 documents" in done.stdout, done.stderr + done.stdout)
    done = r.run("preprocess", "--input", folder / "book.txt", "--tokenizer", folder / "tok", "--output-prefix", folder / "data" / "whole", "--split-by-document")
    r.check("each line" not in done.stderr and "1 document, 1 sequence," in done.stdout, done.stderr + done.stdout)
    r.check("train takes a text as it runs on" in r.run("info", folder / "book.txt").stdout, "info")
    for name in ("book", "book_text_document", "book_text_document.bin"):
        info = json.loads(r.run("info", folder / "data" / name, "--json").stdout)
        r.check(info["kind"] == "token files" and info["documents"] == 500, f"{name}: {info}")
    (folder / "bad.jsonl").write_text('{"text": "x"}\n{"txt": 1}\n')
    r.run("preprocess", "--input", folder / "bad.jsonl", "--tokenizer", folder / "tok", "--output-prefix", folder / "new" / "deep" / "x", status=2)
    r.check(not (folder / "new").exists(), "folders of a refusal")
    before = sorted(p.name for p in (folder / "data").iterdir())
    r.run("preprocess", "--input", folder / "bad.jsonl", "--tokenizer", folder / "tok", "--output-prefix", folder / "data" / "x", status=2)
    r.run("preprocess", "--input", folder / "book.txt", "--tokenizer", folder / "tok", "--output-prefix", folder / "data" / "book", status=2)
    r.check(sorted(p.name for p in (folder / "data").iterdir()) == before, "a work folder of a refusal")


def test_one_of_a_thing(folder):
    """Numbers and their nouns."""
    conversations(folder / "a.json", 4)
    said = r.run("train", *r.options(folder, folder / "o", train__steps=1, train__threads=1, train__global_batch=1, train__micro_batch=1, schedule__warmup_steps=0)).stderr
    said += r.run("train", *r.options(folder, folder / "o", train__steps=1, train__threads=1, train__global_batch=1, train__micro_batch=1, schedule__warmup_steps=0)).stderr
    said += r.run("plan", *r.options(folder, folder / "o", train__global_batch=1, train__micro_batch=1)).stdout
    r.check("1 thread)" in said and "1 step of 1 sequence (" in said and "done     1 step," in said and "1 micro batch per step" in said, said)
    wrong = re.findall(r"\b1 (?:steps|threads|sequences|tokens|files|records|documents|ranks|leaves|micro batches|layers|heads|conversations)\b", said)
    r.check(not wrong, f"{wrong} in\n{said}")


def test_render_with_a_template_of_its_own(folder):
    r.save_text(folder / "text.txt", 2000, 1)
    r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / "tok", "--vocab-size", 300)
    line = json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}) + "\n"
    render = lambda *words: subprocess.run(r.command("tokenizer", "render", "--jsonl", *words), input=line, capture_output=True, text=True, timeout=r.LIMIT)
    told = render("--tokenizer", folder / "tok")
    r.check(told.returncode == 2 and "add --template chatml" in told.stderr, told.stderr)
    both = render("--tokenizer", folder / "tok", "--template", "vicuna")
    r.check(both.returncode == 0 and json.loads(both.stdout)["text"].startswith("<s>A chat") and json.loads(both.stdout)["text"].endswith(" b</s>"), both.stdout + both.stderr)
    alone = render("--template", "vicuna", "--eos-token", "</E>")
    r.check(alone.returncode == 0 and json.loads(alone.stdout)["text"].endswith(" b</E>"), alone.stdout + alone.stderr)
    told = render("--tokenizer", folder / "tok", "--template", "vicuna", "--eos-token", "</E>")
    r.check(told.returncode == 2 and "--eos-token" in told.stderr, told.stderr)


if __name__ == "__main__":
    r.main(globals())
