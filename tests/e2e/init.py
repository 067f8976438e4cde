"""`ravine init`: what it writes trains as it is, and nothing that was there is touched."""
import json
import shutil
import subprocess

import ravine_run as r

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads


SHORTER = [] if r.FULL else ["train.global_batch=1", "train.micro_batch=1", "log.tensorboard=false", "checkpoint.every=0"]


def trained(folder, config):
    r.run("train", "--config", config, "train.steps=2", *SHORTER, "train.valid_every=2" if "valid_fraction" in config.read_text() else "log.every=1", "schedule.warmup_steps=1", cwd=folder)
    rows = [json.loads(line) for line in (config.parent / "run" / "metrics.jsonl").read_text().splitlines()]
    r.check(rows and rows[-1]["step"] == 2, f"metrics: {rows}")
    r.run("generate", "--model", config.parent / "run" / "model", "--prompt", "ravine", "--max-new-tokens", 2, cwd=folder)


def test_pretrain_on_the_manual(folder):
    out = r.run("init", "pretrain", folder / "a").stdout
    config = folder / "a" / "run.yaml"
    r.check(f"ravine train --config {config}" in out, out)
    text = config.read_text()
    r.check(text.startswith("# Pretraining") and "# sequences of a step" in text, text)
    r.check("--max-new-tokens" in (folder / "a" / "manual.txt").read_text(), "the manual lacks help pages")
    r.run("plan", "--config", config)
    trained(folder, config)


def test_pretrain_is_the_default_and_takes_a_text(folder):
    book = folder / "book of mine.txt"
    book.write_text("".join(f"Line {i} of a book about ravines and rivers number {i * i}.\n" for i in range(3000)))
    out = r.run("init", "first one", "--data", book, cwd=folder).stdout
    r.check("ravine train --config 'first one/run.yaml'" in out, out)
    r.check("control character" in r.run("init", "a\nb", cwd=folder, status=2).stderr, "a name of two lines")
    config = folder / "first one" / "run.yaml"
    r.check("book of mine.txt" in config.read_text() and not (config.parent / "manual.txt").exists(), config.read_text())
    trained(folder, config)


def test_sft(folder):
    r.run("init", "sft", folder / "s")
    config = folder / "s" / "run.yaml"
    rows = json.loads((folder / "s" / "instructions.json").read_text())
    r.check({"instruction": "What is train.steps?", "input": "", "output": "optimizer steps of the whole run"} in rows, "no such question")
    trained(folder, config)
    r.run("init", "sft", folder / "t", "--model", folder / "s" / "run" / "model")
    config = folder / "t" / "run.yaml"
    r.check("path:" in config.read_text() and not (folder / "t" / "model.json").exists(), config.read_text())
    trained(folder, config)


def test_lora(folder):
    r.run("init", "lora", folder / "l")
    config, base = folder / "l" / "run.yaml", folder / "l" / "base"
    r.check("path:" in config.read_text() and "rank: 8" in config.read_text() and (base / "config.json").exists(), config.read_text())
    before = (base / "model.safetensors").read_bytes()
    said = r.run("train", "--config", config, "train.steps=2", *SHORTER, "log.every=1", "schedule.warmup_steps=1", cwd=folder).stderr
    adapter = folder / "l" / "run" / "adapter"
    settings = json.loads((adapter / "adapter_config.json").read_text())
    r.check((settings["r"], settings["lora_alpha"], len({m.split(".")[-1] for m in settings["target_modules"]})) == (8, 16, 7), settings)
    r.check(f"--adapter {adapter}" in said, said)
    r.check((base / "model.safetensors").read_bytes() == before, "the base was changed")
    r.run("generate", "--model", base, "--adapter", adapter, "--prompt", "ravine", "--max-new-tokens", 2, "--chat", cwd=folder)
    r.run("init", "lora", folder / "m", "--model", base)
    config = folder / "m" / "run.yaml"
    r.check(str(base) in config.read_text() and not (folder / "m" / "base").exists(), config.read_text())
    r.run("train", "--config", config, "train.steps=2", *SHORTER, "schedule.warmup_steps=1", "lora.merge=true", cwd=folder)
    r.run("generate", "--model", folder / "m" / "run" / "model", "--prompt", "ravine", "--max-new-tokens", 2, cwd=folder)


def test_dpo(folder):
    r.run("init", "dpo", folder / "d")
    config, base = folder / "d" / "run.yaml", folder / "d" / "base"
    text = config.read_text()
    r.check("objective: dpo" in text and "beta: 0.1" in text and (base / "config.json").exists(), text)
    rows = json.loads((folder / "d" / "preferences.json").read_text())
    r.check(all(set(row) == {"prompt", "chosen", "rejected"} and row["chosen"] != row["rejected"] for row in rows), rows[:2])
    r.run("plan", "--config", config)
    trained(folder, config)
    (folder / "pairs.jsonl").write_text("".join(json.dumps({"prompt": f"Is {i} even?", "chosen": " Yes.", "rejected": " No."}) + "\n" for i in range(0, 80, 2)))
    r.run("init", "dpo", folder / "e", "--model", base, "--data", folder / "pairs.jsonl")
    config = folder / "e" / "run.yaml"
    r.check(str(base) in config.read_text() and not (folder / "e" / "base").exists(), config.read_text())
    trained(folder, config)
    (folder / "alpaca.json").write_text(json.dumps([{"instruction": "Say it.", "input": "", "output": "It."}] * 3))
    (folder / "book.txt").write_text("Words.\n")
    (folder / "half.json").write_text(json.dumps([{"prompt": "a", "chosen": "b"}]))
    for data, words in (("alpaca.json", ["conversations, not pairs", "ravine init sft f --data alpaca.json"]), ("book.txt", ["text, not pairs", "ravine init pretrain f --data book.txt"]),
                        ("half.json", ["no key 'rejected'"])):
        said = r.run("init", "dpo", "f", "--data", data, cwd=folder, status=2).stderr
        r.check(all(w in said for w in words) and not (folder / "f").exists(), said)


def test_mistakes(folder):
    (folder / "full").mkdir()
    (folder / "full" / "mine").write_text("x")
    for arguments, word in ([["full"], "not empty"], [["pretrain"], "the folder to make"], [["pretrian", "x"], "did you mean 'pretrain'?"], [["x", "--data", "none"], "no such data"],
                            [["x", "--model", "none"], "no such folder"]):
        said = r.run("init", *arguments, cwd=folder, status=2).stderr
        r.check(word in said, said)
    r.check([p.name for p in (folder / "full").iterdir()] == ["mine"] and not (folder / "x").exists(), "something was written")


def test_a_model_decides_what_is_written(folder):
    """Fewer positions than usual, no template: the run says what fits. No tokenizer, data of the other kind, a folder that is a file: refused with what to do."""
    r.save_text(folder / "book.txt", 4000, 1)
    r.run("tokenizer", "train", "--input", folder / "book.txt", "--output", folder / "tok", "--vocab-size", 400)
    r.save_config(folder / "config.json", vocab_size=400, max_position_embeddings=48)
    r.run("train", "model.config=config.json", "model.tokenizer=tok", "data.train=book.txt", "data.sequence_length=48", "train.steps=1", "schedule.warmup_steps=0", "train.output=made", cwd=folder)
    (folder / "made" / "model").rename(folder / "short")
    r.run("init", "a", "--model", "short", "--data", "book.txt", cwd=folder)
    r.check("sequence_length: 48 " in (folder / "a" / "run.yaml").read_text(), (folder / "a" / "run.yaml").read_text())
    trained(folder, folder / "a" / "run.yaml")
    r.run("init", "sft", "b", "--model", "short", cwd=folder)
    r.check("chat_template: chatml" in (folder / "b" / "run.yaml").read_text(), (folder / "b" / "run.yaml").read_text())
    (folder / "alpaca.json").write_text(json.dumps([{"instruction": "Say it.", "input": "", "output": "It."}] * 30))
    shutil.copytree(folder / "short", folder / "bare")
    for file in (folder / "bare").glob("tokenizer*"):
        file.unlink()
    for arguments, words in ((["c", "--model", "bare"], ["--model=bare", "tokenizer", "copy"]), (["c", "--data", "alpaca.json"], ["ravine init sft c --data alpaca.json"]),
                             (["sft", "c", "--data", "book.txt"], ["ravine init pretrain c --data book.txt"]), (["book.txt"], ["--data book.txt"]), (["c", "--data", "bok.txt"], ["did you mean 'book.txt'"]),
                             (["sft", "short/c", "--model", "short"], ["folder is inside --model"])):
        said = r.run("init", *arguments, cwd=folder, status=2).stderr
        r.check(all(w in said for w in words), said)
        r.check(not (folder / "c").exists() and not (folder / "short" / "c").exists(), f"{arguments}: something was written")


def learned_by_heart(folder, kind, *shorter):
    """init and the command that it prints, as printed in the full tier; then every sixth question of its data, by the likeliest tokens: how many are answered right, and of how many."""
    said = r.run("init", kind, "talk", cwd=folder).stdout
    r.run(*said.splitlines()[-1].split()[1:], *([] if r.FULL else ["train.global_batch=4", *shorter]), cwd=folder)
    rows = json.loads((folder / "talk" / ("preferences.json" if kind == "dpo" else "instructions.json")).read_text())[::6]
    asked = [(row["instruction"], row["output"]) if "instruction" in row else (row["prompt"][0]["content"], row["chosen"][0]["content"]) for row in rows]
    (folder / "questions.jsonl").write_text("".join(json.dumps({"prompt": q}) + "\n" for q, _ in asked))
    out = r.run("generate", "--model", folder / "talk", "--chat", "--prompts", folder / "questions.jsonl", "--json").stdout
    return sum(json.loads(line)["text"].strip() == answer for line, (_, answer) in zip(out.splitlines(), asked)), len(asked)


def test_what_sft_makes_answers(folder):
    right, of = learned_by_heart(folder, "sft", "train.steps=220")
    r.check(right >= 0.8 * of, f"{right} of {of} questions of its own data are answered right")
    rows = json.loads((folder / "talk" / "instructions.json").read_text())
    said = subprocess.run(r.command("chat", "--model", "talk"), input=rows[0]["instruction"] + "\n", capture_output=True, text=True, timeout=r.LIMIT, cwd=folder).stdout
    r.check(rows[0]["output"] in said, said)
    model = str(folder / "talk" / "run" / "model")  # the folder that init made, and its run, stand for it
    for kind, given in (("lora", "talk"), ("sft", "talk"), ("dpo", "talk/run"), ("pretrain", "talk/run/model")):
        r.run("init", kind, f"from-{kind}", "--model", given, cwd=folder)
        text = (folder / f"from-{kind}" / "run.yaml").read_text()
        r.check(model in text and "ftx" not in text and "small model" not in text and not (folder / f"from-{kind}" / "base").exists(), f"{kind}: another model than that of {given}: {text}")
    said = r.run("init", "sft", "x", "--model", "from-lora", cwd=folder, status=2).stderr
    r.check("nothing has run here yet" in said and "ravine train --config from-lora/run.yaml" in said and not (folder / "x").exists(), said)


@r.full("it trains for a minute; test_lora makes and trains one as well")
def test_what_lora_makes_answers(folder):
    right, of = learned_by_heart(folder, "lora")
    r.check(right >= 0.6 * of, f"{right} of {of} questions of its own data are answered right")
    said = r.run("init", "sft", "x", "--model", "talk", cwd=folder, status=2).stderr
    r.check("an adapter, not of a model" in said and "merge-lora" in said and not (folder / "x").exists(), said)


def test_what_dpo_makes_prefers_and_answers(folder):
    right, of = learned_by_heart(folder, "dpo", "train.steps=60")
    rows = [json.loads(line) for line in (folder / "talk" / "run" / "metrics.jsonl").read_text().splitlines()][-3:]
    r.check(all(row["rewards/accuracies"] >= 0.9 and row["rewards/margins"] > 1 for row in rows), rows)
    r.check(right >= 0.6 * of or not r.FULL, f"{right} of {of} questions of its own data are answered right")


if __name__ == "__main__":
    r.main(globals())
