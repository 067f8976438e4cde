"""A model that is talked to: prompts from stdin and from flags, chat templates, answers one by one, what each command's help shows, `--model`
wherever a model is meant, and adapters, which are no models."""
import json
import os
import re
import shutil
import subprocess

import ravine_run as r
from chat_model import chat_model


def feed(text, *arguments, status=0):
    done = subprocess.run(r.command(*arguments), input=text.encode(), capture_output=True, timeout=r.LIMIT)
    r.check(done.returncode == status, f"exit status {done.returncode} instead of {status}: {arguments}\n{done.stdout}{done.stderr}")
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode()


def answers(text):
    return [json.loads(line) for line in text.splitlines()]


def ids_of(tokenizer, text):
    done = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", tokenizer, "--no-special", "--jsonl"), input=json.dumps({"text": text}), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["ids"]


def test_prompts(folder):
    model = chat_model(folder)
    more = ["--model", model, "--max-new-tokens", 3]
    said = r.run("generate", *more, "--json", "--prompt", "The ravine\nis").stdout
    piped, _ = feed("The ravine\nis\n", "generate", *more, "--json", "--prompt", "-")
    r.check(said == piped and answers(said)[0]["prompt_ids"], f"stdin: {piped}\nflag: {said}")
    nothing = feed("", "generate", *more, "--prompt", "-", status=2)[1]
    r.check("the prompt is empty" in nothing and "stdin" in nothing, nothing)
    empty = r.run("generate", *more, "--prompt", "", status=2).stderr
    r.check("--prompt" in empty and "must not be empty" in empty, empty)
    none = r.run("generate", *more, status=2).stderr
    r.check("exactly one of --prompt, --prompts and --prompt-ids" in none, none)


def test_temperature_zero_is_greedy(folder):
    model = chat_model(folder)
    ask = ["generate", "--model", model, "--max-new-tokens", 8, "--json", "--prompt", "The river"]
    greedy = r.run(*ask).stdout
    r.check(r.run(*ask, "--sample", "--seed", 5).stdout != greedy, "drawn text differs here, else this test shows nothing")
    for words in (["--sample", "--temperature", 0], ["--sample", "--temperature", "0.0", "--top-k", 0, "--seed", 5], ["--temperature", 0]):
        done = r.run(*ask, *words)
        r.check(done.stdout == greedy and "no effect" not in done.stderr, f"{words}: {done.stdout}{done.stderr}")


def test_several_answers_are_told_apart(folder):
    model = chat_model(folder)
    (folder / "p.txt").write_text("The ravine\nand\nthe river\n")
    one = r.run("generate", "--model", model, "--prompt", "The ravine", "--max-new-tokens", 3).stdout
    all_ = r.run("generate", "--model", model, "--prompts", folder / "p.txt", "--max-new-tokens", 3).stdout
    r.check("---" not in one and re.findall(r"^--- (\d) of 3$", all_, re.M) == ["1", "2", "3"], f"{one!r} {all_!r}")
    r.check(all_.startswith("--- 1 of 3\n" + one + "\n--- 2 of 3\n"), f"{one!r} {all_!r}")
    r.check(len(r.run("generate", "--model", model, "--prompts", folder / "p.txt", "--max-new-tokens", 3, "--json").stdout.splitlines()) == 3, "JSON stays lines")


def test_chat(folder):
    model = chat_model(folder)
    question = "<|im_start|>user\n{}<|im_end|>\n"
    begin = "<|im_start|>assistant\n"
    more = ["generate", "--chat", "--model", model, "--max-new-tokens", 4, "--json"]
    one = answers(r.run(*more, "--prompt", "Who are you?").stdout)[0]
    r.check(one["prompt_ids"] == ids_of(model, question.format("Who are you?") + begin), one)
    system = answers(r.run(*more, "--prompt", "Who?", "--system", "Be brief.").stdout)[0]
    r.check(system["prompt_ids"] == ids_of(model, "<|im_start|>system\nBe brief.<|im_end|>\n" + question.format("Who?") + begin), system)
    (folder / "p.txt").write_text("Who?\nWhere?\n")
    two = answers(r.run(*more, "--prompts", folder / "p.txt").stdout)
    r.check([t["prompt_ids"] for t in two] == [ids_of(model, question.format(q) + begin) for q in ("Who?", "Where?")], "each prompt is a conversation of its own")
    # Lines of stdin are turns: the second sees the first and its answer.
    said, _ = feed("Who?\n\nWhere?\n", *more)
    turns = answers(said)
    r.check(len(turns) == 2, said)
    told = question.format("Who?") + begin + turns[0]["text"] + "<|im_end|>\n"
    r.check(turns[0]["prompt_ids"] == two[0]["prompt_ids"] and turns[1]["prompt_ids"] == ids_of(model, told + question.format("Where?") + begin), said)
    named = answers(r.run(*more, "--prompt", "Who?", "--template", "alpaca").stdout)[0]
    r.check(named["prompt_ids"] != one["prompt_ids"] and ids_of(model, "### Instruction:\nWho?\n\n### Response:\n") == named["prompt_ids"][-len(ids_of(model, "### Instruction:\nWho?\n\n### Response:\n")):], named)


def test_an_answer_ends_with_the_end_of_the_template(folder):
    """Also where the model's own settings do not name that token."""
    model = chat_model(folder)
    end = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]["<|im_end|>"]
    settings = json.loads((model / "generation_config.json").read_text()) if (model / "generation_config.json").exists() else {}
    config = json.loads((model / "config.json").read_text())
    r.check(end not in (settings.get("eos_token_id"), config.get("eos_token_id")), f"{settings} {config}")
    more = ["generate", "--model", model, "--max-new-tokens", 6, "--json", "--prompt", "Who?"]
    said = answers(r.run(*more, "--chat").stdout)[0]
    first = said["ids"][0]
    r.check(len(said["ids"]) == 6 and first != end, said)
    # The head's rows of the two tokens change places: the end comes first.
    header, body = r.load_raw(model / "model.safetensors")
    head, body = header["lm_head.weight"], bytearray(body)
    row = (head["data_offsets"][1] - head["data_offsets"][0]) // head["shape"][0]
    a, b = (slice(head["data_offsets"][0] + t * row, head["data_offsets"][0] + (t + 1) * row) for t in (first, end))
    body[a], body[b] = body[b], body[a]
    r.save_raw(model / "model.safetensors", header, bytes(body))
    said = answers(r.run(*more, "--chat").stdout)[0]
    r.check(len(said["ids"]) <= 1 and "<|im_end|>" not in said["text"], said)
    prompt = "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
    turns = answers(feed("Who?\n\nWhere?\n", *more[:-2], "--chat")[0])
    told = prompt + turns[0]["text"] + "<|im_end|>\n<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    r.check(turns[1]["prompt_ids"] == ids_of(model, told), f"one end of the first answer: {turns}")
    plain = answers(r.run(*more[:-1], prompt).stdout)[0]
    r.check(plain["prompt_ids"][-len(said["prompt_ids"]):] == said["prompt_ids"] and len(plain["ids"]) == 6, f"without --chat nothing ends there: {plain}")


def test_chat_on_a_terminal(folder):
    turns = [("You >> ", 1, b"Who?\n"), ("You >> ", 2, b"Who?\n"), ("You >> ", 3, b"\x04")]
    status, seen = r.on_terminal(["generate", "--chat", "--model", chat_model(folder), "--max-new-tokens", 3], turns)
    r.check(status == 0 and seen.count("You >> ") == 3, seen)


def rendered(*turns, system=""):
    """The text of the template of chat_model: turns of the user and the assistant in turn, then the beginning of an answer."""
    text = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    for i, turn in enumerate(turns):
        text += f"<|im_start|>{('user', 'assistant')[i % 2]}\n{turn}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


def test_the_chat_command(folder):
    """What it says is what generate says to the rendered conversation, and stdout has nothing else."""
    model = chat_model(folder)
    few = ["--model", model, "--max-new-tokens", 4]

    def wanted(*turns, system=""):
        (folder / "ids.json").write_text(json.dumps([ids_of(model, rendered(*turns, system=system))]))
        return answers(r.run("generate", *few, "--prompt-ids", folder / "ids.json", "--json").stdout)[0]["text"]

    first = wanted("Who?")
    second, alone, brief = wanted("Who?", first, "Where?"), wanted("Where?"), wanted("Where?", system="Be brief.")
    saved = folder / "talk.json"
    said, told = feed(f"Who?\n\nWhere?\n/save {saved}\n/reset\nWhere?\n/system Be brief.\nWhere?\n/nonsense\n/load {folder}/none.json\n/quit\nWho?\n", "chat", *few)
    r.check(said == "".join(x + "\n" for x in (first, second, alone, brief)), f"{said!r}")
    r.check("/nonsense" in told and "none.json" in told, told)
    turns = [("user", "Who?"), ("assistant", first), ("user", "Where?"), ("assistant", second)]
    r.check(json.loads(saved.read_text()) == [{"role": a, "content": b} for a, b in turns], saved.read_text())
    said, _ = feed(f"/load {saved}\nAnd?", "chat", *few)
    r.check(said == wanted("Who?", first, "Where?", second, "And?") + "\n", f"{said!r}")
    (folder / "other.txt").write_text("not a conversation")
    said, told = feed(f"/save {folder / 'other.txt'}\n/help\n", "chat", *few)
    r.check(said == "" and "nothing is overwritten unasked" in told and "/system TEXT" in told and (folder / "other.txt").read_text() == "not a conversation", told)
    before = saved.read_text()
    said, told = feed(f"/save {saved}\n", "chat", *few)
    r.check("there already" in told and "--overwrite" in told and saved.read_text() == before, f"a conversation too: {told}")
    said, told = feed(f"/save --overwrite {saved}\n/save --overwrite\n", "chat", *few)
    r.check(json.loads(saved.read_text()) == [] and "without a file" in told, told)
    r.check("none.jinja" in feed("", "chat", *few, "--template", folder / "none.jinja", status=2)[1], "a template that is not there")


def test_a_long_conversation_loses_its_oldest_turns(folder):
    """Whole turns, and it is said; what is left is answered as a conversation of its own."""
    model = chat_model(folder)  # 256 positions
    few = ["--model", model, "--max-new-tokens", 4]
    long = "The ravine is deep and the river runs below. " * 4
    said, told = feed((long + "\n") * 4, "chat", *few)
    replies = said.splitlines()
    r.check("positions: its oldest" in told and "left out" in told, told)
    r.check(len(said) > 0 and len(replies) >= 4, said)
    said, told = feed("word " * 400 + "\nWho?\n", "chat", *few)
    r.check("max_position_embeddings" in told and said.count("\n") >= 1, f"one turn that is too long is refused, the next one answered: {told} {said!r}")


def test_the_chat_command_on_a_terminal(folder):
    """The prompt, a line that is called back, and Ctrl-C at the prompt."""
    words = ["chat", "--model", chat_model(folder), "--max-new-tokens", 3]
    status, seen = r.on_terminal(words, [("You >> ", 1, b"Who?\n"), ("You >> ", 2, b"/quit\n")])
    r.check(status == 0 and "/help tells more" in seen, seen)
    status, seen = r.on_terminal(words, [("You >> ", 1, b"\x04")])
    r.check(status == 0, seen)
    # Ctrl-C just after an answer: the talk is kept, and the next turn is answered.
    saved = words[2].parent / "kept.json"
    status, seen = r.on_terminal(words, [("You >> ", 1, b"Who?\n"), ("You >> ", 2, b"\x03"), ("You >> ", 3, f"/save {saved}\n".encode()), ("You >> ", 4, b"/exit\n")], own_group=True)
    r.check(status == 0 and len(json.loads(saved.read_text())) == 2, f"{status} {seen}")
    status, seen = r.on_terminal(words, [("You >> ", 1, b"\x03"), ("once more ends", 1, b"\x03")], own_group=True)
    r.check(status == 130, f"{status} {seen}")


def test_stop_texts(folder):
    """An answer ends before them, wherever tokens begin and end."""
    model = chat_model(folder)
    letters = ids_of(model, "abcdefghijklm")  # of which the text is made, each once
    base = ["generate", "--model", model, "--max-new-tokens", 12, "--json", "--prompt", "The ravine", "--logit-bias", json.dumps({str(i): 1000 for i in letters}), "--presence-penalty", 100]
    whole = answers(r.run(*base).stdout)[0]
    text = whole["text"]
    r.check(len(text) > 6 and text.isprintable(), f"a text to cut: {text!r}")
    for stop in (text[2:4], text[3:6], text[-1]):
        cut = answers(r.run(*base, "--stop", "never met", stop).stdout)[0]
        r.check(cut["text"] == text[:text.index(stop)] and cut["finish"] == "stop" and cut["ids"] == whole["ids"][:len(cut["ids"])], f"{stop!r}: {cut}")
        plain = r.run(*[w for w in base if w != "--json"], "--stop", stop).stdout
        r.check(plain == cut["text"] + "\n", f"{stop!r}: {plain!r}")
    none = answers(r.run(*base, "--stop", "never met").stdout)[0]
    r.check(none == whole, f"{none}")
    (model / "generation_config.json").write_text(json.dumps({"stop_strings": [text[3:6]]}))
    r.check(answers(r.run(*base).stdout)[0]["text"] == text[:text.index(text[3:6])], "stop_strings of the model")
    r.check("--stop with --beams" in r.run(*base, "--stop", "x", "--beams", 2, status=2).stderr, "--beams")
    ends = answers(r.run(*base, "--stop", "never met", "--stop-ids", whole["ids"][2]).stdout)[0]
    r.check(ends["finish"] == "eos" and ends["ids"] == whole["ids"][:whole["ids"].index(whole["ids"][2]) + 1], f"{ends}")


def test_biases_and_penalties(folder):
    model = chat_model(folder)
    base = ["generate", "--model", model, "--max-new-tokens", 8, "--json", "--prompt", "The ravine"]
    whole = answers(r.run(*base).stdout)[0]["ids"]
    other = answers(r.run(*base, "--logit-bias", f"{{{whole[0]}: -1000}}").stdout)[0]["ids"]
    r.check(whole[0] not in other, f"{other}")
    always = answers(r.run(*base, "--logit-bias", "{7: 1000}").stdout)[0]["ids"]
    r.check(always == [7] * 8, f"{always}")
    once = answers(r.run(*base, "--logit-bias", "{7: 50}", "--presence-penalty", 100).stdout)[0]["ids"]
    r.check(once.count(7) == 1 and once[0] == 7, f"{once}")
    drawn = answers(r.run(*base, "--sample", "--min-p", 1, "--top-k", 0).stdout)[0]["ids"]
    r.check(drawn == whole, "min-p of 1 leaves the most likely token")
    r.check("'x' is no token" in r.run(*base, "--logit-bias", "{x: 1}", status=2).stderr, "--logit-bias")


def test_chat_mistakes(folder):
    model = chat_model(folder)
    said = json.loads((model / "tokenizer_config.json").read_text())
    del said["chat_template"]
    (model / "tokenizer_config.json").write_text(json.dumps(said))
    none = r.run("generate", "--chat", "--model", model, "--prompt", "x", status=2).stderr
    r.check("no chat template" in none and "add --template chatml" in none, none)
    r.run("generate", "--chat", "--model", model, "--prompt", "x", "--template", "chatml", "--max-new-tokens", 2)
    r.check("--system without --chat" in r.run("generate", "--model", model, "--prompt", "x", "--system", "y", status=2).stderr, "--system")
    ids = folder / "ids.json"
    ids.write_text("[[1, 2]]")
    r.check("--chat with --prompt-ids" in r.run("generate", "--chat", "--model", model, "--prompt-ids", ids, status=2).stderr, "--prompt-ids")


def test_stdin_that_cannot_be_read(folder):
    """A folder as stdin, or none, is no endless conversation of empty turns, and what came before an error is no prompt."""
    model = chat_model(folder)
    for flags in (("--chat",), ("--prompt", "-")):
        for stdin in (os.open(folder, os.O_RDONLY), None):
            done = subprocess.run(r.command("generate", "--model", model, *flags, "--max-new-tokens", 3), stdin=stdin, preexec_fn=(lambda: os.close(0)) if stdin is None else None,
                                  capture_output=True, text=True, timeout=60)
            r.check(done.returncode == 2 and "stdin cannot be read" in done.stderr, f"{flags} {stdin}: {done.returncode} {done.stderr}")


def test_help_shows_what_a_command_takes(folder):
    page = r.run("generate", "--help").stdout
    shown = set(re.findall(r"^  ([a-z]+\.[a-z0-9_]+)=", page, re.M))
    r.check(len(shown) <= 20 and {"precision.compute", "parallel.tensor", "data.text_key", "model.tokenizer"} <= shown, f"{len(shown)}: {sorted(shown)}")
    r.check(not any(s.startswith(("train.", "optimizer.", "schedule.", "checkpoint.")) or s in ("data.train", "data.shuffle", "parallel.sum_leaves") for s in shown), sorted(shown))
    trace = r.run("trace", "--help").stdout
    r.check("parallel.sequence=" in trace and "parallel.sum_leaves" not in trace and "--adapter" in trace and re.findall(r"lora\.\w+", trace) == ["lora.base"], trace)
    bench = r.run("bench", "train", "--help").stdout
    r.check("train.recompute=" in bench and "train.output" not in bench and "train.steps" not in bench, bench)
    for option in ("data.train=x", "parallel.sum_leaves=2", "train.steps=3"):
        told = r.run("generate", "--model", folder, "--prompt", "x", option, status=2).stderr
        r.check(option.split("=")[0] in told and "generate takes" in told, told)


def test_nothing_is_advertised_that_is_not_there(folder):
    pages = [r.run("--help").stdout]
    for command in re.findall(r"^  ([a-z-]+) {2,}", pages[0].split("\nUsage:", 1)[1], re.M):
        pages.append(r.run(command, "--help").stdout)
        if "\nActions:\n" in pages[-1]:
            pages += [r.run(command, action, "--help").stdout for action in re.findall(r"^  ([a-z-]+) {2,}", pages[-1].split("\nActions:\n")[1], re.M)]
    r.check(len(pages) > 20, f"{len(pages)} pages")
    for page in pages:
        r.check(not re.search(r"later release|cuda", page), page)


def test_model_everywhere(folder):
    model = chat_model(folder)
    run = folder / "run"
    data = f"data.train={folder / 'text.txt'}"
    resolved = r.run("config", "--model", model).stdout
    r.check(f"path: {model}" in resolved, resolved)
    plan = json.loads(r.run("plan", "--model", model, "data.sequence_length=32", "--json").stdout)
    r.check(plan["parameters"] > 0, plan)
    r.run("data", "show", "--model", model, data, "data.sequence_length=32", "train.global_batch=2")
    r.run("train", "--model", model, data, "data.sequence_length=32", "train.global_batch=2", "train.steps=1", f"train.output={folder / 'second'}", "log.tensorboard=false")
    r.run("check", "determinism", "--help")
    for words in (["plan"], ["train", data, f"train.output={folder / 'no'}"], ["data", "show", data]):
        told = r.run(*words, "--model", run, status=2).stderr
        r.check("a run, not a model" in told and str(run / "model") in told, f"{words}: {told}")
    told = r.run("plan", "--model", folder / "new.json", status=2).stderr
    r.check("model.config=" in told, told)


def adapter(folder, kind="safetensors"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "base_model_name_or_path": "some/base", "r": 4, "lora_alpha": 8, "lora_dropout": 0.05, "target_modules": ["v_proj", "q_proj"], "task_type": "CAUSAL_LM",
        "bias": "none", "modules_to_save": None}))
    if kind == "safetensors":
        prefix = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
        r.save_tensors(folder / "adapter_model.safetensors", {prefix + "A.weight": ("F32", [4, 32], [0.5] * 128), prefix + "B.weight": ("F32", [32, 4], [0.0] * 128)})
    return folder


def test_an_adapter_is_no_model(folder):
    path = adapter(folder / "adapter")
    info = json.loads(r.run("info", path, "--json").stdout)
    r.check(info["kind"] == "PEFT adapter (LORA)" and info["base_model"] == "some/base" and info["rank"] == 4 and info["alpha"] == 8 and info["targets"] == ["v_proj", "q_proj"]
            and info["parameters"] == 256 and info["file"] == "adapter_model.safetensors", info)
    before = sorted(p.name for p in folder.iterdir())
    data = folder / "t.txt"
    commands = [["convert", "--input", path, "--to", to, "--output", folder / "out"] for to in ("hf", "ravine", "megatron-mcore")]
    commands += [["convert", "--from", "hf", "--input", path, "--to", "hf", "--output", folder / "out"], ["convert", "--input", path, "--to", "hf", "--dry-run"],
                 ["generate", "--model", path, "--prompt", "x"], ["trace", "--model", path, "--input", data, "--out", folder / "o"], ["plan", f"model.path={path}"],
                 ["train", f"model.path={path}", f"data.train={data}", f"train.output={folder / 'run'}"], ["bench", "train", "--model", path]]
    for words in commands:
        told = r.run(*words, status=2).stderr
        r.check("an adapter, not a model" in told and "some/base" in told and "merge-lora" in told and str(path) in told, f"{words}: {told}")
    r.check(sorted(p.name for p in folder.iterdir()) == before, "nothing was written")
    # Beside the weights of a whole model it is a file that is passed over.
    shutil.copy(path / "adapter_model.safetensors", path / "model.safetensors")
    r.check(json.loads(r.run("info", path, "--json").stdout)["kind"] == "model", "a model with an adapter beside it")


if __name__ == "__main__":
    r.main(globals())
