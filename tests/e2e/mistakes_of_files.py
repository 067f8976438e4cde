"""Mistakes with what files hold and with how values are written: files in another encoding or form, records under other keys, characters of another keyboard, units, names of
other programs. Rows as in mistakes.py; the commands that convert or rename a file are run too, and what they make is taken."""
import gzip
import json
import os
import re

import mistakes as m
import ravine_run as r

TEXT = "岁月如歌，山谷里的河水慢慢地流。第一句话说的是石头，第二句话说的是树。\n" * 60
WESTERN = "Le café de la vallée était fermé, la forêt déserte; où est la rivière?\n" * 60


def prepare(folder):
    places = {k: str(v) for k, v in m.prepare(folder).items()}
    (folder / "gbk.txt").write_bytes(TEXT.encode("gb18030"))
    (folder / "gbk.jsonl").write_bytes("".join(json.dumps({"text": line}, ensure_ascii=False) + "\n" for line in TEXT.splitlines()).encode("gb18030"))
    (folder / "u16.txt").write_bytes(TEXT.encode("utf-16"))
    (folder / "latin.txt").write_bytes(WESTERN.encode("latin-1"))
    (folder / "damaged.txt").write_bytes(TEXT.encode() + b"\xff" + TEXT.encode())
    (folder / "packed.txt").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "noise.txt").write_bytes(bytes((i * 7919 + i // 256 * 31) % 256 for i in range(20000)))
    records = {
        "qa": [{"question": "What is it?", "answer": "A ravine."}] * 30,
        "capitals": [{"Instruction": "Say it.", "Output": "It."}] * 30,
        "prefer": [{"prompt": "Say it.", "chosen": "It.", "rejected": "No."}] * 30,
        "wrapped": {"data": [{"text": "a line"}] * 30},
        "parted": {"train": [{"text": "a line"}], "test": [{"text": "a line"}]},
        "null": [{"instruction": "Say it.", "output": "It."}] * 5 + [{"instruction": "Say it.", "output": None}],
        "unanswered": [{"instruction": "Say it.", "output": ""}] * 30,
        "mute": [{"conversations": [{"from": "human", "value": "Say it."}]}] * 30,
        "speaker": [{"conversations": [{"from": "humna", "value": "Say it."}, {"from": "gpt", "value": "It."}]}] * 30,
        "turns": [{"conversations": [{"role": "user", "content": "Say it."}, {"role": "assistant", "content": "It."}]}] * 30,
        "turned": [{"messages": [{"from": "human", "value": "Say it."}, {"from": "gpt", "value": "It."}]}] * 30,
        "strings": ["a line", "another"],
        "lists": [["a", "b"], ["c", "d"]],
    }
    for name, held in records.items():
        (folder / f"{name}.json").write_text(json.dumps(held))
    (folder / "list.jsonl").write_text(json.dumps([{"text": "a line of a book about ravines"}] * 90))
    (folder / "indented.jsonl").write_text(json.dumps([{"text": "a line of a book about ravines"}] * 90, indent=1))
    (folder / "semicolons.csv").write_text("instruction;output\nSay it.;It.\n")
    (folder / "qa.csv").write_text("question,answer\nWhat?,That.\n")
    for suffix in ("bin", "idx"):
        (folder / f"whole_text_document.{suffix}").write_bytes(b"\0" * 64)
    (folder / "half_text_document.bin").write_bytes(b"\0" * 64)
    hub = folder / "models--gpt2"
    (hub / "snapshots" / "607a30d7").mkdir(parents=True)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("607a30d7")
    for file in (folder / "run" / "model").iterdir():
        (hub / "snapshots" / "607a30d7" / file.name).symlink_to(file)
    (folder / "model.gguf").write_bytes(b"GGUF\3\0\0\0")
    (folder / "parent").mkdir()
    (folder / "parent" / "inner").symlink_to(folder / "run" / "model")
    (folder / "kept").mkdir()
    (folder / "kept" / "tokenizer").symlink_to(folder / "tok")
    yaml = {
        "joined": "train:\n  steps:10\n", "blank": "train:\n  steps 10\n", "dashed": "train:\n  - steps: 10\n", "flow": "train: {steps:10}\n", "wide": "train：\n  steps: 20\n", "widekey": "train:\n  steps： 20\n",
        "nobreak": "train:\n\u00a0 steps: 20\n", "hidden": "train:\n  \u200bsteps: 20\n", "named": "model_name_or_path: x\n", "factory": "model_name_or_path: x\nstage: sft\ncutoff_len: 64\ntemplate: qwen\n"
        "finetuning_type: lora\nlearning_rate: 1.0e-4\n", "betas": "optimizer: {betas: \"(0.9, 0.99)\"}\n", "spaced": "optimizer: {betas: 0.9 0.99}\n", "thousands": "train: {steps: \"1,000\"}\n",
    }
    for name, text in yaml.items():
        (folder / f"{name}.yaml").write_text(text)
    return places


TRAIN = m.TRAIN
CHATS = TRAIN + "data.chat_template=chatml data.train={dir}/"
GENERATE = "generate --model {run} --prompt x --max-new-tokens 2 "
MISTAKES = [
    ("Chinese in GBK", TRAIN + "data.train={dir}/gbk.txt", ["not UTF-8", "gbk.txt:1", "GBK", "iconv -f GB18030 -t UTF-8 {dir}/gbk.txt > {dir}/gbk.utf8.txt"]),
    ("records in GBK", TRAIN + "data.train={dir}/gbk.jsonl", ["not UTF-8", "gbk.jsonl record 1", "iconv -f GB18030 -t UTF-8 {dir}/gbk.jsonl > {dir}/gbk.utf8.jsonl"]),
    ("UTF-16", TRAIN + "data.train={dir}/u16.txt", ["UTF-16", "u16.txt", "iconv -f UTF-16 -t UTF-8 {dir}/u16.txt > {dir}/u16.utf8.txt"]),
    ("Latin-1", TRAIN + "data.train={dir}/latin.txt", ["not UTF-8", "Western", "iconv -f WINDOWS-1252 -t UTF-8 {dir}/latin.txt > {dir}/latin.utf8.txt"]),
    ("one damaged byte", TRAIN + "data.train={dir}/damaged.txt", ["not UTF-8", "damaged.txt:61", "damaged", "iconv -c -f UTF-8"]),
    ("gzip under the name of a text", TRAIN + "data.train={dir}/packed.txt", ["a file of gzip", "mv {dir}/packed.txt {dir}/packed.txt.gz"]),
    ("noise", TRAIN + "data.train={dir}/noise.txt", ["not UTF-8", "not look like text"]),
    ("GBK for init", "init {dir}/i --data {dir}/gbk.txt", ["not UTF-8", "iconv -f GB18030"]),
    ("GBK of prompts", "generate --model {run} --prompts {dir}/gbk.txt", ["not UTF-8", "iconv -f GB18030"]),
    ("UTF-16 of prompts", "generate --model {run} --prompts {dir}/u16.txt", ["UTF-16", "iconv -f UTF-16"]),
    ("questions and answers", TRAIN + "data.train={dir}/qa.json", ["questions and answers", "qa.json:1", "rename 'question' to 'instruction' and 'answer' to 'output'"]),
    ("the same with a template", CHATS + "qa.json", ["rename 'question' to 'instruction'"]),
    ("the same as a table", TRAIN + "data.train={dir}/qa.csv", ["qa.csv:1", "rename 'question' to 'instruction'"]),
    ("the same for init", "init sft {dir}/i --data {dir}/qa.json", ["rename 'question' to 'instruction'"]),
    ("the same for preprocess", "preprocess --input {dir}/qa.json --tokenizer {tok} --output-prefix {dir}/q/x", ["rename 'question' to 'instruction'"]),
    ("keys in capitals", TRAIN + "data.train={dir}/capitals.json", ["rename 'Instruction' to 'instruction' and 'Output' to 'output'"]),
    ("preferences", TRAIN + "data.train={dir}/prefer.json", ["rename 'prompt' to 'instruction' and 'chosen' to 'output'"]),
    ("records under a key", TRAIN + "data.train={dir}/wrapped.json", ["wrapped.json:1", "the records are under 'data'"]),
    ("splits in a file", TRAIN + "data.train={dir}/parted.json", ["the records are under 'train' and 'test'"]),
    ("an answer that is null", CHATS + "null.json", ["'output' is null", "null.json record 6", "fill in 'output'"]),
    ("no answers", CHATS + "unanswered.json", ["no conversation is left", "write the answers under 'output'"]),
    ("no turn of gpt", CHATS + "mute.json", ["no conversation is left", "no turn of 'gpt'"]),
    ("conversations that are too long", CHATS + "alpaca.json data.sequence_length=16 data.too_long=drop", ["no conversation is left", "the longest has", "set data.sequence_length="]),
    ("a slip in a speaker", CHATS + "speaker.json", ["unknown speaker 'humna'", "human or user", "did you mean 'human'"]),
    ("a form that the file has not", CHATS + "turns.json data.format=messages", ["a conversation of the form sharegpt, not messages", "set data.format=sharegpt"]),
    ("text as conversations", CHATS + "book.txt data.format=alpaca", ["plain text, not conversations", "leave data.format out"]),
    ("a list of texts", TRAIN + "data.train={dir}/strings.json", ["a list of something else", "strings.json:1", '[{{"text": ".."}}, ..]']),
    ("a list of lists", TRAIN + "data.train={dir}/lists.json", ["a list of something else", '[{{"text": ".."}}, ..]']),
    ("a list named .jsonl", TRAIN + "data.train={dir}/list.jsonl", ["a list of JSON in a .jsonl", "mv {dir}/list.jsonl {dir}/list.json"]),
    ("an indented list named .jsonl", TRAIN + "data.train={dir}/indented.jsonl", ["a list of JSON in a .jsonl", "mv {dir}/indented.jsonl {dir}/indented.json"]),
    ("semicolons", TRAIN + "data.train={dir}/semicolons.csv", ["semicolons between the fields", "semicolons.csv:1", "commas"]),
    ("another handler's records", "preprocess --input {dir}/chat.jsonl --handler alpaca --template chatml --tokenizer {tok} --output-prefix {dir}/q/x", ["chat.jsonl:1", "write --handler messages"],
     "preprocess --input {dir}/chat.jsonl --handler messages --template chatml --tokenizer {tok} --output-prefix {dir}/q/x"),
    ("the same of ModelLink's", "preprocess --input {dir}/chat.jsonl --handler GeneralInstructionHandler --tokenizer {tok} --output-prefix {dir}/q/x", ["no key 'input'", "write --handler messages"]),
    ("half of the token files", TRAIN + "data.train={dir}/half_text_document", ["half_text_document.idx is missing", "copy it beside"]),
    ("token files by a wrong name", TRAIN + "data.train={dir}/whole_tex_document", ["did you mean '{dir}/whole_text_document'"]),
    ("the .bin of half of them", TRAIN + "data.train={dir}/half_text_document.bin", ["half_text_document.idx is missing"]),
    ("the hub's cache", TRAIN + 'model.config="" model.path={dir}/models--gpt2', ["the hub's cache", "{dir}/models--gpt2/snapshots/607a30d7"], "generate --model {dir}/models--gpt2/snapshots/607a30d7 --prompt x --max-new-tokens 2"),
    ("GGUF", "generate --model {dir}/model.gguf --prompt x", ["GGUF", "safetensors"]),
    ("GGUF that is not there", "generate --model {dir}/other.gguf --prompt x", ["GGUF", "safetensors"]),
    ("a folder around a model", "generate --model {dir}/parent --prompt x", ["no config.json", "did you mean '{dir}/parent/inner'"], "generate --model {dir}/parent/inner --prompt x --max-new-tokens 2"),
    ("a folder around a tokenizer", "tokenizer info --tokenizer {dir}/kept", ["no tokenizer in folder", "{dir}/kept/tokenizer"], "tokenizer info --tokenizer {dir}/kept/tokenizer"),
    ("an address of S3", TRAIN + "data.train=s3://bucket/x.txt", ["aws s3 cp s3://bucket/x.txt ."]),
    ("a config as a tokenizer", TRAIN + "model.tokenizer={yaml}", ["text, not a tokenizer", "tokenizer.json"]),
    ("records as a tokenizer", TRAIN + "model.tokenizer={dir}/alpaca.json", ["not a tokenizer.json", "one object"]),
    ("texts to compare", "diff {yaml} {dir}/alpaca.json", ["no file of tensors", "run.yaml", "name such a file"]),
    ("files to compare that are not there", "diff {dir}/a {dir}/b", ["no such file or folder", "{dir}/a"]),
    ("a model to measure that is not there", "bench decode --model nosuch", ["no such folder", "hf download nosuch"]),
    ("a log to plot", "plot {run}/log.txt", ["a file, not a run", "name the folder: run"], "plot {run}"),
    ("ids of another kind", "generate --model {run} --prompt-ids {run}/model/model.safetensors", ["model.safetensors"]),
    ("no blank behind the colon", "config --config {dir}/joined.yaml", ["joined.yaml:2", "a colon and a blank", "write steps: 10"]),
    ("no colon", "config --config {dir}/blank.yaml", ["blank.yaml:2", "a colon and a blank", "write steps: 10"]),
    ("a list for a section", "config --config {dir}/dashed.yaml", ["dashed.yaml:2", "not a list", "leave out the '-'"]),
    ("no blank within braces", "config --config {dir}/flow.yaml", ["flow.yaml:1", "write steps: 10"]),
    ("a full-width colon", "config --config {dir}/wide.yaml", ["wide.yaml:1", "U+FF1A", "write with plain characters: train:"]),
    ("a full-width colon behind a key", "config --config {dir}/widekey.yaml", ["widekey.yaml:2", "U+FF1A", "write steps: 20"]),
    ("a no-break blank", "config --config {dir}/nobreak.yaml", ["nobreak.yaml:2", "no-break", "U+00A0"]),
    ("a character that nobody sees", "config --config {dir}/hidden.yaml", ["hidden.yaml:2", "nobody sees", "U+200B"]),
    ("a full-width equals sign", TRAIN + "train.steps＝3", ["U+FF1D", "write train.steps=3"]),
    ("a Chinese full stop", TRAIN + "train。steps=3", ["U+3002", "write train.steps=3"]),
    ("a dash of a word processor", TRAIN + "—config {yaml}", ["U+2014", "write --config"]),
    ("a full-width comma between files", TRAIN + "data.train=[{dir}/book.txt，{dir}/book2.txt]", ["U+FF0C", "write '{dir}/book.txt,{dir}/book2.txt'"]),
    ("capitals", TRAIN + "TRAIN.Steps=5", ["write train.steps=5"]),
    ("a colon for the dot", TRAIN + "train:steps=5", ["write train.steps=5"]),
    ("a slash for the dot", TRAIN + "train/steps=5", ["write train.steps=5"]),
    ("a name of others in a file", "config --config {dir}/named.yaml", ["named.yaml:1", "here it is model.path: write model: {{path: x}}"]),
    ("a file of LLaMA-Factory", "config --config {dir}/factory.yaml",
     ["factory.yaml:1", "model: {{path: x}}", "stage: leave it out", "data: {{sequence_length: 64}}", "data: {{chat_template: qwen}}", "finetuning_type: leave it out", "optimizer: {{lr: 1.0e-4}}"]),
    ("betas in parentheses", "config --config {dir}/betas.yaml", ["betas.yaml:1", "a list of numbers", "write [0.9,0.99]"]),
    ("betas with a blank", "config --config {dir}/spaced.yaml", ["a list of numbers", "write [0.9,0.99]"]),
    ("thousands", "config --config {dir}/thousands.yaml", ["thousands.yaml:1", "write 1000"]),
    ("k for thousand", TRAIN + "data.sequence_length=4k", ["data.sequence_length is '4k'", "write 4000 or 4096"]),
    ("a unit of memory", TRAIN + "checkpoint.shard_mb=1GiB", ["write 1024"]),
    ("minutes", TRAIN + "parallel.patience=1m", ["write 60"]),
    ("a decimal comma", TRAIN + "optimizer.lr=0,001", ["write 0.001"]),
    ("per cent", GENERATE + "--sample --top-p 90", ["a share of one: write 0.9"], GENERATE + "--sample --top-p 0.9"),
    ("a share of steps", TRAIN + "schedule.warmup_steps=0.1", ["a share is not taken here"]),
    ("an optimizer of others", TRAIN + "optimizer.type=adamw_torch", ["here it is adamw"]),
    ("a schedule of others", TRAIN + "schedule.type=wsd", ["here it is warmup_stable_decay"]),
    ("an optimizer in capitals", TRAIN + "optimizer.type=AdamW", ["did you mean 'adamw'"]),
    ("a target in capitals", "convert --input {run}/model --output {dir}/c --to HF", ["did you mean 'hf'"], "convert --input {run}/model --output {dir}/c --to hf"),
    ("keys with a comma to plot", "plot {run} --keys loss,lr", ["write --keys loss lr"], "plot {run} --keys loss lr"),
    ("a command behind its flags", "--config {yaml} plan", ["the command comes first", "ravine plan --config {yaml}"]),
    ("a command behind an option", "train.steps=3 config", ["the command comes first", "ravine config train.steps=3"]),
    ("ranks before the command", "-n 2 train", ["mpirun -n 2 ravine train"]),
    ("llama.cpp's context", "generate --model {run} --prompt x -c 2048", ["-c", "max_position_embeddings", "leave it out"]),
    ("a switch with a value", GENERATE + "--sample true", ["--sample is a switch", "leave out 'true'"]),
    ("two files to describe", "info {yaml} {text}", ["one at a time", "ravine info {text}"], "info {text}"),
    ("interactive", "generate --model {run} -i", ["--chat"]),
    ("dry run", TRAIN + "--dry-run", ["ravine plan"]),
    ("LLaMA-Factory's template", TRAIN + "--template qwen", ["data.chat_template=qwen"]),
    ("LLaMA-Factory's length", TRAIN + "--cutoff_len 32", ["data.sequence_length=32"]),
    ("DeepSpeed's batch", TRAIN + "--train_batch_size 8", ["train.global_batch=8"]),
    ("frozen by a word", TRAIN + "train.freeze=embed", ["train.freeze='embed'", "write '*embed*', which matches model.embed_tokens.weight"]),
    ("a group of nothing", TRAIN + 'optimizer.groups=[{{"match":"nosuch"}}]', ["optimizer.groups[0].match='nosuch'", "for example 'model."]),
    ("flags of beams", GENERATE + "--num-return 2", ["--num-return without --beams", "add --beams 4"], GENERATE + "--num-return 2 --beams 4"),
    ("stop without a folder", "stop", ["DIR is missing", "for example"]),
    ("a vocabulary that is too small", "tokenizer train --input {text} --output {dir}/t --vocab-size 100", ["--vocab-size is 100", "write --vocab-size 1000"]),
    ("a flag of one value twice", GENERATE + "--max-new-tokens 3 4", ["--max-new-tokens", "it takes one value", "give it once"]),
]


def test_every_mistake_is_told_what_to_do(folder):
    folder, places = m.prepared(folder, prepare)
    _, fixed = m.check_mistakes(folder, places, MISTAKES)
    r.check(not r.FULL or len(fixed) >= 10, f"fixed: {list(fixed)}")


def test_the_commands_that_convert_make_what_is_taken(folder):
    """iconv and mv as the message spells them; init then takes the file."""
    folder, places = m.prepared(folder, prepare)
    for name, made in (("gbk.txt", TEXT), ("u16.txt", TEXT), ("latin.txt", WESTERN), ("packed.txt", None), ("list.jsonl", None), ("indented.jsonl", None)):
        said = r.run("init", folder / "i", "--data", folder / name, status=2).stderr
        command = re.search(r"((?:iconv|mv) .*)$", said.strip()).group(1)
        r.subprocess.run(["sh", "-c", command], check=True, cwd=folder)
        file = command.split(" ")[-1]
        if made:
            r.check(open(file, encoding="utf-8").read() == made, command)
        r.run("init", folder / "i", "--data", file)
        m.forget(folder)
    r.check(places["dir"] == str(folder), "places")


def test_turns_of_both_spellings_are_learned(folder):
    folder, places = m.prepared(folder, prepare)
    config = json.loads(open(places["config"]).read())
    (folder / "wide.json").write_text(json.dumps({**config, "max_position_embeddings": 128}))
    for name in ("turns", "turned"):
        done = r.run(*m.words_of(CHATS + f"{name}.json train.output={folder}/{name} data.sequence_length=128 model.config={folder}/wide.json", places))
        log = done.stdout + done.stderr
        r.check("30 conversations" in log and "left out" not in log, log)


def test_what_of_records_is_not_used_is_said(folder):
    folder, places = m.prepared(folder, prepare)
    said = r.run(*m.words_of(TRAIN + f"data.train={folder}/qa.json data.text_key=answer data.chat_template=chatml train.output={folder}/o", places))
    both = said.stdout + said.stderr
    r.check("the text under 'answer'; not used: question" in both and "only 'answer' is trained on" in both and "data.chat_template=chatml has no effect" in both, both)
    said = r.run(*m.words_of(TRAIN + f"data.train={folder}/alpaca.json data.text_key=output train.output={folder}/p", places))
    both = said.stdout + said.stderr
    r.check("not used: instruction, input" in both and "conversations (alpaca)" in both, both)
    said = r.run(*m.words_of(TRAIN + f"data.train={folder}/good.jsonl train.output={folder}/q", places))
    r.check("the text under 'text'" in said.stdout + said.stderr and "trained on, as" not in said.stdout + said.stderr, said.stdout)


def test_files_of_tensors_side_by_side_are_listed(folder):
    folder, places = m.prepared(folder, prepare)
    side = folder / "side"
    side.mkdir()
    for name in ("a.safetensors", "b.safetensors"):
        (side / name).write_bytes((folder / "run" / "model" / "model.safetensors").read_bytes())
    said = r.run("info", side).stdout
    r.check("a.safetensors" in said and "b.safetensors" in said and "remove" not in said, said)
    j = json.loads(r.run("info", side, "--json").stdout)
    r.check(sorted(j["tensor_files"]) == ["a.safetensors", "b.safetensors"], j)
    r.run("info", places["run"])


def test_lengths_and_line_ends_are_advised(folder):
    folder, places = m.prepared(folder, prepare)
    (folder / "windows.txt").write_bytes(b"".join(b"Line %d of a book about ravines.\r\n" % i for i in range(500)))
    said = r.run("config", *m.words_of("{base} " + f"data.train={folder}/windows.txt", places)).stderr
    r.check("lines end with \\\\r\\\\n" in said or "lines end with \\r\\n" in said, said)
    command = re.search(r"(tr -d .*)$", said.strip().splitlines()[-1]).group(1).replace("\\\\", "\\")
    r.subprocess.run(["sh", "-c", command], check=True, cwd=folder)
    r.check("lines end with" not in r.run("config", *m.words_of("{base} " + f"data.train={folder}/windows.lf.txt", places)).stderr, "the copy")
    long = [{"instruction": "Say it.", "output": "It is a long answer. " * (1 + i % 3)} for i in range(40)]
    (folder / "long.json").write_text(json.dumps(long))
    line = "{base} " + f"data.train={folder}/long.json data.chat_template=chatml data.sequence_length=16 model.config={folder}/wide.json"
    config = json.loads(open(places["config"]).read())
    (folder / "wide.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    said = r.run("config", *m.words_of(line, places)).stderr
    length = re.search(r"data.sequence_length=(\d+) would keep (\d+) %", said)
    r.check(length and int(length.group(2)) >= 95, said)
    r.check("longer than" not in r.run("config", *m.words_of(line + f" data.sequence_length={length.group(1)}", places)).stderr, "the length that was proposed")


def test_a_conversation_ends_by_the_words_that_people_type(folder):
    import pty
    folder, places = m.prepared(folder, prepare)
    for word in ("exit", "quit", ":q", "/bye"):
        above, below = pty.openpty()
        done = r.subprocess.Popen(r.command("generate", "--model", places["run"], "--chat", "--template", "chatml", "--max-new-tokens", "2"), stdin=below, stdout=r.subprocess.PIPE, stderr=r.subprocess.PIPE)
        os.close(below)
        os.write(above, b"/help\n" + word.encode() + b"\n")
        out, err = done.communicate(timeout=60)
        os.close(above)
        r.check(done.returncode == 0 and not out.strip() and err.count(b"/quit or Ctrl-D") == 2, (word, out, err))


def test_effects_that_are_missing_are_named_by_the_flags_given(folder):
    folder, places = m.prepared(folder, prepare)
    said = r.run("generate", "--model", places["run"], "--prompt", "x", "--max-new-tokens", "2", "--top-k", "3").stderr
    r.check("no effect of --top-k" in said and "--temperature" not in said, said)


def test_a_resume_with_another_tokenizer_names_it(folder):
    folder, places = m.prepared(folder, prepare)
    config = json.loads(open(places["config"]).read())
    (folder / "small.json").write_text(json.dumps({**config, "vocab_size": 300.0}))
    r.run("tokenizer", "train", "--input", places["text"], "--output", folder / "tok2", "--vocab-size", 330)
    line = "{base} " + f"model.config={folder}/small.json train.output={folder}/small"
    said = r.run("train", *m.words_of(line, places))
    r.check("not the 300 of" in said.stdout + said.stderr, said.stdout)
    said = r.run("train", *m.words_of(line + f" train.steps=3 model.tokenizer={folder}/tok2", places), status=2).stderr
    r.check(f"model.tokenizer={folder}/tok2" in said and f"set model.tokenizer={folder}/tok" in said and "(model.tokenizer=" in said, said)


def test_a_folder_that_may_not_be_read_is_told_from_one_without_a_tokenizer(folder):
    folder, places = m.prepared(folder, prepare)
    (folder / "locked").mkdir(mode=0)
    words = r.command("tokenizer", "info", "--tokenizer", folder / "locked")
    if os.geteuid() == 0:  # root without the capability to read everything
        words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search", *map(str, words)]
    done = r.subprocess.run(words, stdin=r.subprocess.DEVNULL, capture_output=True, text=True)
    r.check(done.returncode == 2 and "Permission denied" in done.stderr and "permissions" in done.stderr, done.stderr)
    r.check(places["tok"], "places")


def test_words_for_ids_are_sent_the_other_way(folder):
    folder, places = m.prepared(folder, prepare)
    done = r.subprocess.run(r.command("tokenizer", "decode", "--tokenizer", places["tok"]), input="Hello there\n", capture_output=True, text=True)
    r.check(done.returncode == 2 and "no token ids (stdin:1)" in done.stderr and "ravine tokenizer encode" in done.stderr, done.stderr)


def test_a_tokenizer_without_an_end_token_is_told_how_to_get_one(folder):
    """The byte-level tokenizer.json alone, as gpt2's lies in many folders: no template can help."""
    folder, places = m.prepared(folder, prepare)
    r.run("tokenizer", "train", "--input", places["text"], "--output", folder / "bytes", "--type", "byte-bpe", "--vocab-size", 300)
    alone = folder / "alone"
    alone.mkdir()
    j = json.loads((folder / "bytes" / "tokenizer.json").read_text())
    j["added_tokens"] = []
    (alone / "tokenizer.json").write_text(json.dumps(j))
    said = r.run(*m.words_of(CHATS + f"alpaca.json model.tokenizer={alone}/tokenizer.json", places), status=2).stderr
    r.check("no end token" in said and "tokenizer_config.json" in said and "set data.chat_template" not in said, said)


if __name__ == "__main__":
    r.main(globals())
