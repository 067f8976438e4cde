"""What people of other programs tried and were not told, or were told wrongly. Rows as in mistakes.py: (name, arguments, words), and perhaps the arguments that the message leads to.
Then what goes on, but not as meant, and what no longer does: byte order marks, old adapters, other bases, foreign tokenizers, options without effect, steps without a label."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import mistakes as m
import ravine_run as r

BOM = b"\xef\xbb\xbf"
QUESTIONS = [{"instruction": f"Say it {i}.", "input": "", "output": f"It is {i}."} for i in range(24)]
FEW = {"train.steps": 1, "train.threads": 1, "train.global_batch": 4, "schedule.warmup_steps": 0, "checkpoint.every": 0, "log.tensorboard": False}


def text_of(seed):
    return "".join(f"Line {i} of a book about {('ravines', 'kitchens')[seed]} and the number {i * 7919 % 1000}.\n" for i in range(600))


def prepare(folder):
    """A base with a chat template, a run of an adapter beside it, token files of conversations, data with slips. Returns their places."""
    (folder / "q.json").write_text(json.dumps(QUESTIONS))
    for seed, name in enumerate(("book", "other")):
        (folder / f"{name}.txt").write_text(text_of(seed))
        r.run("tokenizer", "train", "--input", folder / f"{name}.txt", "--output", folder / f"tok_{name}", "--vocab-size", 400, "--special-tokens", "<|im_start|>", "<|im_end|>")
    config = r.save_config(folder / "config.json", vocab_size=400, max_position_embeddings=1024)
    base = {"model.config": config, "model.tokenizer": folder / "tok_book", "data.train": [str(folder / "book.txt")], "data.sequence_length": 32, **FEW}
    for name, seed in (("base", 1), ("twin", 2)):
        r.run("train", *r.settings({**base, "train.output": folder / name, "train.seed": seed}))
    model = folder / "base" / "model"
    tune = {"model.path": model, "data.train": [str(folder / "q.json")], "data.chat_template": "chatml", "data.sequence_length": 64, "lora.rank": 2, "lora.targets": ["all-linear"], **FEW}
    r.run("train", *r.settings({**tune, "train.output": folder / "tune"}))
    r.run("preprocess", "--input", folder / "q.json", "--handler", "GeneralInstructionHandler", "--tokenizer", folder / "tok_book", "--append-eod", "--output-prefix", folder / "al")
    r.run("preprocess", "--input", folder / "book.txt", "--tokenizer", folder / "tok_book", "--output-prefix", folder / "ids")
    for name in ("half", "begun_ids"):  # stopped later and earlier: before its first save a work folder has its mark alone
        (folder / f"{name}.preprocess").mkdir()
        (folder / f"{name}.preprocess" / ".ravine").write_text(json.dumps({"format": "ravine-folder", "version": 1, "run": "0" * 32, "files": {}, "kind": "preprocess"}))
    (folder / "half.preprocess" / "state.json").write_text(json.dumps({"settings": "1 400 false false text false 0  text:uint16", "version": 1, "files": [], "file": 0, "record": 1, "lists": [[0, 0, 0]],
                                                                       "records": 5, "left_out": {}, "first": {}, "repaired": 0, "first_repaired": "", "written": False}))
    fewer = folder / "fewer"
    shutil.copytree(model, fewer)
    (fewer / ".ravine").unlink(missing_ok=True)
    (fewer / "config.json").write_text(json.dumps({**json.loads((model / "config.json").read_text()), "num_hidden_layers": 1}))
    example = (Path(__file__).resolve().parents[2] / "examples" / "mindformers" / "pretrain_llama.yaml").read_text()
    r.save_mindrecord(folder / "ids.mindrecord", [list(range(3, 68))] * 8)
    for name, text in (("comma", "data: {sequence_length: 1,024}\n"), ("decimal", "optimizer: {weight_decay: 0,1}\n"), ("dash", "data:\n  train:\n  -book.txt\n  sequence_length: 8\n"),
                       ("factory", "lora_target: all\n"), ("formers", example.replace("dataset_dir: ''", f"dataset_dir: {folder}/ids.mindrecord"))):
        (folder / f"{name}.yaml").write_text(text)
    (folder / "nothing.yaml").write_text("# no option yet\n")
    (folder / "half.json").write_text('{"version": "1.0", "model": {"type": "BPE", "vo')
    (folder / "number.jsonl").write_text('{"prompt": "a", "chosen": 5, "rejected": "b"}\n' * 8)
    (folder / "mixed").mkdir()
    shutil.copy(folder / "book.txt", folder / "mixed" / "a.txt")
    shutil.copy(folder / "q.json", folder / "mixed" / "b.json")
    (folder / "word.jsonl").write_text('{"messages": "hi"}\n' * 30)
    (folder / "chinese.jsonl").write_text('{"指令": "说", "输出": "好"}\n' * 30)
    (folder / "gbk.txt").write_bytes("\n".join(f"第{i}行，这是一段中文文字。" for i in range(100)).encode("gbk"))
    (folder / "pairs.json").write_text(json.dumps([{"prompt": "Who?", "chosen": "I.", "rejected": "You."}] * 8))
    r.run("init", "pretrain", folder / "first")
    (folder / "python.jsonl").write_text("{'instruction': 'a'}\n")
    shutil.copytree(folder / "base", folder / "begun", ignore=shutil.ignore_patterns("model", "checkpoints", "exported", ".ravine"))
    (folder / "far.json").write_text(json.dumps([{"instruction": "Say it again and again. " * 150, "input": "", "output": "No."}] * 8))
    r.run("convert", "--input", model, "--output", folder / "mega", "--to", "megatron-mcore", "--tensor", 2)
    shutil.rmtree(next((folder / "mega").rglob("mp_rank_01")))
    wide = r.save_config(folder / "qwen.json", model_type="qwen2", vocab_size=400, num_hidden_layers=1)
    r.run("train", *r.settings({**base, "model.config": wide, "train.output": folder / "qwen"}))
    return {"dir": folder, "model": model, "adapter": folder / "tune" / "adapter", "tok": folder / "tok_book", "base": " ".join(r.settings({**base, "train.output": folder / "new"})).replace('"', "")}


TRAIN = "train {base} "
TUNE = "train model.path={model} data.train=[{dir}/q.json] data.chat_template=chatml train.output={dir}/new train.steps=1 schedule.warmup_steps=0 "
MISTAKES = [
    ("token files whose answers lie behind the cut, under Megatron's order", "train model.path={model} data.train=[{dir}/al] data.order=megatron data.split=100,0,0 data.sequence_length=8 train.output={dir}/new",
     ["no conversation is left", "24 with the answer after data.sequence_length", "set data.sequence_length="]),
    ("the same under the program's own order", "train model.path={model} data.train=[{dir}/al] data.sequence_length=8 train.output={dir}/new", ["no conversation is left", "set data.sequence_length="]),
    ("a template longer than the model", TUNE + "data.train=[{dir}/far.json] data.sequence_length=16", ["the longest has", "set data.sequence_length=1024, the most that the model takes"]),
    ("a split without Megatron's order", TRAIN + "data.split=90,10", ["data.split", "set data.valid_fraction"], "config data.valid_fraction=0.1"),
    ("norms of parameters by a part of a name", TRAIN + "log.local_norms=embed", ["log.local_norms='embed'", "write '*embed*'"]),
    ("a run without a checkpoint to convert", "convert --input {dir}/begun --output {dir}/c --to hf", ["a run without a checkpoint", "ravine train --config {dir}/begun/config.yaml"]),
    ("an adapter to convert", "convert --input {adapter} --output {dir}/c --to hf", ["an adapter, not a model", "--input {model} --adapter {adapter}"], "convert --input {model} --adapter {adapter} --output {dir}/c --to hf"),
    ("an adapter to train", "train model.path={adapter} data.train=[{dir}/book.txt] train.output={dir}/new", ["model.path={model} lora.path={adapter}"]),
    ("an adapter to measure", "bench decode --model {adapter}", ["an adapter, not a model", "merge-lora --model {model} --adapter {adapter}"]),
    ("a run of an adapter to convert", "convert --input {dir}/tune --output {dir}/c --to hf", ["a run of an adapter, not of a model", "merge-lora --model {dir}/tune --adapter {dir}/tune"], "merge-lora --model {dir}/tune --adapter {dir}/tune --output {dir}/c"),
    ("a flag of one number without it", "generate --model {model} --prompt x --max-new-tokens", ["it needs one; write --max-new-tokens=N"]),
    ("a list without commas", ["train", "{base}", "data.train=[{dir}/book.txt {dir}/q.json]"], ["several are a list with commas: data.train='[{dir}/book.txt, {dir}/q.json]'"]),
    ("Megatron's blend as a list", ["train", "{base}", "data.train=[0.3 {dir}/ids_text_document 0.7 {dir}/book.txt]"], ["path: {dir}/ids_text_document, weight: 0.3", "path: {dir}/book.txt, weight: 0.7"]),
    ("Megatron's blend as a flag", "train {base} --data-path 0.3 a 0.7 b", ["here it is data.train='[", "path: a, weight: 0.3", "path: b, weight: 0.7"]),
    ("two files behind a flag", "train {base} --data-path a b", ["here it is data.train='[a, b]'"]),
    ("token files that are not finished", TRAIN + "data.train=[{dir}/half]", ["token files that are not finished", "{dir}/half.preprocess", "the same ravine preprocess command resumes it"]),
    ("their whole name", TRAIN + "data.train=[{dir}/half_text_document]", ["token files that are not finished"]),
    ("their description", "info {dir}/half", ["token files that are not finished"]),
    ("token files that are hardly begun", TRAIN + "data.train=[{dir}/begun_ids]", ["token files that are not finished", "{dir}/begun_ids.preprocess"]),
    ("an unfinished preprocess with other options", "preprocess --input {dir}/book.txt --tokenizer {tok} --output-prefix {dir}/half", ["an earlier run cannot be resumed", "another tokenizer"]),
    ("more layers in the file than in the config", "generate --model {dir}/fewer --prompt x", ["surplus tensor", "has 1 layer by its config, the file holds layer 1", "config.json"]),
    ("convert --tp", "convert --input {model} --output {dir}/c --to megatron-mcore --tp 2", ["here it is --tensor 2"], "convert --input {model} --output {dir}/c --to megatron-mcore --tensor 2"),
    ("Megatron's converter", "convert --target-tensor-parallel-size 2 --input {model}", ["here it is --tensor 2"]),
    ("its loader", "convert --loader llama2 --input {model}", ["the layout of the input is recognised"]),
    ("its folder", "convert --load-dir {model}", ["here it is --input"]),
    ("mcore", "convert --input {model} --output {dir}/c --to mcore", ["here it is megatron-mcore"], "convert --input {model} --output {dir}/c --to megatron-mcore"),
    ("huggingface", "convert --input {model} --output {dir}/c --to huggingface", ["here it is hf"], "convert --input {model} --output {dir}/c --to hf"),
    ("merge", "merge", ["ravine merge-lora --model BASE", "ravine data merge"]),
    ("all targets of LLaMA-Factory", TRAIN + "--lora_target all", ["here it is lora.targets=all-linear"]),
    ("the loss of DPO", "config train.objective=dpo dpo.loss=dpo", ["here it is sigmoid"], "config train.objective=dpo dpo.loss=sigmoid"),
    ("PEFT's rank", TRAIN + "lora.r=8", ["here it is lora.rank"]),
    ("PEFT's targets", TRAIN + "lora.target_modules=[q_proj]", ["here it is lora.targets"]),
    ("a file of MindFormers", "train --config {dir}/formers.yaml", ["names of this file are another program's", "`ravine mindformers --config {dir}/formers.yaml` takes it as it is"]),
    ("MindFormers' tensor ranks", "config parallel.model_parallel=2", ["here it is parallel.tensor"]),
    ("Megatron's layers", TRAIN + "--num-layers 2", ["model.config", "num_hidden_layers"]),
    ("Megatron's vocabulary", TRAIN + "--vocab-file x", ["here it is model.tokenizer"]),
    ("Megatron's warm-up", TRAIN + "--lr-warmup-fraction 0.1", ["here it is schedule.warmup_ratio=0.1"]),
    ("Megatron's finetune", TRAIN + "--finetune", ["leave it out"]),
    ("resume without a value", TRAIN + "--resume", ["leave it out: the same command goes on"]),
    ("the type of a tokenizer", "preprocess --tokenizer-type HF --input {dir}/book.txt", ["--tokenizer-type is HF", "PretrainedFromHF"]),
    ("thousands in a file", "config --config {dir}/comma.yaml", ["comma.yaml:1", "sequence_length: 1,024", "write 1024"]),
    ("a decimal comma in a file", "config --config {dir}/decimal.yaml", ["weight_decay: 0,1", "write 0.1"]),
    ("a list dash without a blank", "config --config {dir}/dash.yaml", ["dash.yaml:3", "a blank stands between the '-'", "write - book.txt"]),
    ("a folder of mixed data", TRAIN + "data.train=[{dir}/mixed]", ["its files are of several kinds: text ({dir}/mixed/a.txt), conversations ({dir}/mixed/b.json)"]),
    ("a run as data", TRAIN + "data.train=[{dir}/base]", ["a run, not data", "config.yaml"]),
    ("weights as data", TRAIN + "data.train=[{model}/model.safetensors]", ["weights, not data", "model.path"]),
    ("a model's config as a tokenizer", TRAIN + "model.tokenizer={model}/config.json", ["a model's config, not a tokenizer", "name its folder, {model}"]),
    ("messages that are a word", TRAIN + "data.train=[{dir}/word.jsonl]", ["'messages' is a text", '"role"']),
    ("questions under Chinese keys", TRAIN + "data.train=[{dir}/chinese.jsonl]", ["rename '指令' to 'instruction' and '输出' to 'output'"]),
    ("quotes of Python", TRAIN + "data.train=[{dir}/python.jsonl]", ["double quotes", "json.dumps"]),
    ("a file under another field", ["train", "{base}", "data.train=[{{file: {dir}/book.txt}}]"], ["unknown field 'file'", "did you mean 'path'?"]),
    ("a name in other letters", TRAIN + "data.train=[{dir}/BOOK.TXT]", ["did you mean '{dir}/book.txt'?"]),
    ("a vocabulary that is too small", "tokenizer train --input {dir}/book.txt --output {dir}/t --vocab-size 270", ["vocabulary too small", "raise --vocab-size to ", " or more"]),
    ("an adapter beside another family", "generate --model {dir}/qwen/model --adapter {adapter} --prompt x", ["trained on another base model", "base_model_name_or_path"]),
    ("a rank that is not there", "convert --input {dir}/mega --output {dir}/c --to hf", ["missing rank", "mp_rank_01 is not there"]),
    ("ids on the command line", "generate --model {model} --prompt-ids [[1,2]]", ["ids instead of a file name", "ids.json"]),
    ("options of a section", "config lora", ["ravine config --explain lora"]),
    ("what an option is", "config optimizer.lr", ["ravine config --explain optimizer.lr"]),
    ("a folder of runs to plot", "plot {dir}", ["a folder of runs", "{dir}/base"]),
    ("data for more positions than the model has", "data show model.path={model} data.train=[{dir}/book.txt] data.sequence_length=2048", ["max_position_embeddings = 1024", "set data.sequence_length=1024"]),
    ("a module with an adapter and trained whole", TUNE + "lora.rank=2 lora.targets=[q_proj,v_proj] lora.save=[q_proj]", ["q_proj gets an adapter and is trained whole", "leave it out of lora.save"]),
    ("two adapters to merge", "merge-lora --model {model} --adapter {adapter} --adapter {dir}/tune --output {dir}/c", ["2 adapters", "one is merged at a time"]),
    ("a prefix without a name", "preprocess --input {dir}/book.txt --tokenizer {tok} --output-prefix {dir}/pp/", ["must end with the beginning of a file name", "write --output-prefix {dir}/pp/text"]),
    ("text that is not UTF-8 to preprocess", "preprocess --input {dir}/gbk.txt --tokenizer {tok} --output-prefix {dir}/gbk", ["text is not UTF-8", "gbk.txt:64", "the 63 records before it", "likely GBK", "iconv"]),
    ("pairs of answers for sft", "init sft {dir}/pairs --data {dir}/pairs.json", ["pairs of answers, not conversations", "ravine init dpo {dir}/pairs"]),
    ("a model's folder as output", TRAIN + "train.output={dir}/fewer", ["train.output holds a model"]),
    ("a folder of init as output", TRAIN + "train.output={dir}/first", ["train.output is a folder of `ravine init`", "set train.output={dir}/first/run"]),
    ("token files and a share held out", TRAIN + "data.train=[{dir}/ids_text_document] data.valid_fraction=0.05", ["token files are taken whole", "set data.valid_fraction=0"], TRAIN + "data.train=[{dir}/ids_text_document] data.valid_fraction=0"),
    ("4 bits of LLaMA-Factory", TRAIN + "--quantization_bit 4", ["lora.base=nf4 keeps the base in 4 bits"]),
    ("4 bits by another name", TUNE + "lora.rank=2 lora.base=4bit", ["here it is nf4"]),
    ("DoRA", TUNE + "lora.rank=2 lora.use_dora=true", ["there is no DoRA here"]),
    ("biases of PEFT", TUNE + "lora.rank=2 lora.bias=none", ["biases are not trained beside adapters"]),
    ("a config with one dash", "train -config {dir}/comma.yaml", ["did you mean '--config'?"]),
    ("a new output of Transformers", TRAIN + "--overwrite_output_dir", ["remove what the earlier run has left there"]),
    ("Megatron's experts", TRAIN + "--num-experts 8", ["config.json says it"]),
    ("Megatron's choices", TRAIN + "--moe-router-topk 2", ["num_experts_per_tok"]),
    ("Megatron's loss of load", TRAIN + "--moe-aux-loss-coeff 0.01", ["here it is moe.aux_loss"]),
    ("Megatron's rounds of validation", TRAIN + "--eval-iters 3", ["here it is train.valid_batches"]),
    ("a table smaller than the tokenizer", "convert --input {model} --output {dir}/c --to hf --resize-vocab 100", ["--resize-vocab 100", "every id must have a row"]),
    ("a file without options", "train --config {dir}/nothing.yaml", ["a file without options", "nothing.yaml", "ravine init DIR"]),
    ("an option with a colon", ["config", "train.steps:", "10"], ["write train.steps=10"], "config train.steps=10"),
    ("typographic quotes around an option", ["config", "\u2018train.steps=3\u2019"], ["write train.steps=3"], "config train.steps=3"),
    ("a list that the shell has cut", ["config", "optimizer.groups=[{{match:", "norm,", "lr_mult:", "1}}]"], ["a value with blanks stands in quotes", "'optimizer.groups=[{{match: norm, lr_mult: 1}}]'"]),
    ("a map without its blank", TUNE + "lora.rank=2 lora.rank_pattern={{q_proj:8}}", ["a blank stands behind the colon", "write {{q_proj: 8}}"]),
    ("an answer that is a number", "train {base} train.objective=dpo data.train=[{dir}/number.jsonl] data.chat_template=chatml", ["'chosen' is no answer", "a text, a message or a list of messages", "number"]),
    ("a text as a model", "generate --model {dir}/book.txt --prompt x", ["book.txt", "name"]),
    ("a broken tokenizer", "tokenizer encode --tokenizer {dir}/half.json", ["half.json", "line 1"]),
    ("too few characters", "tokenizer train --input {dir}/book.txt --output {dir}/t --character-coverage 0.9", ["0.98"]),
]


def test_each_is_told(folder):
    folder, places = m.prepared(folder, prepare)
    places = {k: str(v) for k, v in places.items()}
    commands, _ = m.check_mistakes(folder, places, MISTAKES)
    r.check(not r.FULL or len(commands) >= 2, commands)
    r.check("work folder of ravine preprocess" in r.run("info", folder / "half.preprocess").stdout, "its work folder is known")


def test_rows_of_token_files_without_a_label_are_counted(folder):
    folder, _ = m.prepared(folder, prepare)
    records = [*QUESTIONS[:16], *({"instruction": "Say it again and again. " * 80, "input": "", "output": "No."} for _ in range(8))]
    (folder / "long.json").write_text(json.dumps(records))
    r.run("preprocess", "--input", folder / "long.json", "--handler", "GeneralInstructionHandler", "--tokenizer", folder / "tok_book", "--append-eod", "--output-prefix", folder / "long")
    (folder / "base" / "model" / "chat_template.jinja").write_text("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    words = r.settings({"model.path": folder / "base" / "model", "data.train": [str(folder / "long")], "data.order": "megatron", "data.split": "100,0,0", "data.sequence_length": 512, **FEW, "train.global_batch": 1, "train.steps": 12})
    said = r.run("train", *words, f"train.output={folder / 'o'}").stderr
    r.check("8 of them have no label to learn" in said and re.search(r"warning: .*8 of 24 conversations \(33 %\) teach nothing", said), said)
    empty = [json.loads(line)["step"] for line in (folder / "o" / "metrics.jsonl").read_text().splitlines() if json.loads(line)["loss"] is None]
    r.check(empty and said.count(f"step {empty[0]} has no label to learn") == 1 and said.count("has no label to learn") == 1, (empty, said))
    losses = [json.loads(line)["loss"] for line in (folder / "o" / "metrics.jsonl").read_text().splitlines()]
    counted = [loss for loss in losses if loss is not None]
    done = re.search(r"done +12 steps, loss ([0-9.]+) on average over the last (\d+)", said)
    r.check(done and int(done[2]) == len(counted) and abs(float(done[1]) - sum(counted) / len(counted)) < 1e-4, (done, losses))
    r.check("only weight decay" not in said and "what the optimizer kept of steps before" in said, said)
    r.check("--chat" not in said.split("next ")[-1], "no chat template has rendered them")


def test_byte_order_marks_are_no_text(folder):
    folder, places = m.prepared(folder, prepare)
    model = places["model"]
    generate = ("generate", "--model", model, "--max-new-tokens", 1, "--json")
    (folder / "marked.txt").write_bytes(BOM + b"Line 1\r\n")
    (folder / "plain.txt").write_bytes(b"Line 1\r\n")
    r.check(r.run(*generate, "--prompts", folder / "marked.txt").stdout == r.run(*generate, "--prompts", folder / "plain.txt").stdout, "--prompts")

    def given(words, text):
        done = subprocess.run(r.command(*words), input=text, capture_output=True, timeout=r.LIMIT)
        r.check(done.returncode == 0, done.stderr)
        return done.stdout
    for words in ((*generate, "--prompt", "-"), ("tokenizer", "encode", "--tokenizer", model), (*generate[:-1], "--chat", "--template", "chatml")):
        r.check(given(words, BOM + b"Line 1\n") == given(words, b"Line 1\n"), words)
    template = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    show = ("data", "show", f"model.path={model}", f"data.train=[{folder / 'q.json'}]", "data.sequence_length=64")
    for name, mark in (("a", ""), ("b", "\ufeff")):
        (folder / f"{name}.jinja").write_text(mark + template)
    shown = [r.run(*show, f"data.chat_template={folder / name}.jinja").stdout for name in "ab"]
    r.check(shown[0] == shown[1] and "<|im_start|>" in shown[0], shown[1])
    line = json.dumps({"messages": [{"role": "user", "content": "x"}]}) + "\n"
    rendered = [given(("tokenizer", "render", "--jsonl", "--template", folder / f"{name}.jinja"), line.encode()) for name in "ab"]
    r.check(rendered[0] == rendered[1], rendered)


def test_an_adapter_of_an_earlier_end_and_another_base_are_told(folder):
    folder, places = m.prepared(folder, prepare)
    model, adapter, twin = places["model"], places["adapter"], folder / "twin" / "model"
    ask = ("--prompt", "Line", "--max-new-tokens", 1)
    said = r.run("generate", "--model", model, "--adapter", adapter, *ask).stderr
    r.check("warning" not in said, said)
    shutil.copytree(model, folder / "copy")
    r.check("warning" not in r.run("generate", "--model", folder / "copy", "--adapter", adapter, *ask).stderr, "a copy of the base has its weights")
    for words in (("generate", "--model", twin, "--adapter", adapter, *ask), ("generate", "--model", twin, "--adapter", f"a={adapter}", "--use", "a", *ask), ("merge-lora", "--model", twin, "--adapter", adapter, "--output", folder / "m1"),
                  ("convert", "--input", twin, "--adapter", adapter, "--output", folder / "m2", "--to", "hf"),
                  ("train", *r.settings({"model.path": twin, "lora.path": adapter, "data.train": [str(folder / "q.json")], "data.chat_template": "chatml", "data.sequence_length": 64, "train.output": folder / "t", **FEW}))):
        said = r.run(*words).stderr
        r.check(f"was trained beside {model}, and {twin} has other weights" in said, (words, said))
    run = folder / "again"
    tune = {"model.path": model, "data.train": [str(folder / "q.json")], "data.chat_template": "chatml", "data.sequence_length": 64, "lora.rank": 2, "lora.targets": ["all-linear"], **FEW, "checkpoint.every": 1, "train.output": run}
    r.run("train", *r.settings(tune))
    r.run("train", *r.settings({**tune, "lora.merge": True, "train.steps": 2}))
    said = r.run("generate", "--model", model, "--adapter", run, *ask).stderr
    r.check(f"{run / 'adapter'} is of an earlier end of its run" in said and f"name {run / 'model'}" in said, said)
    r.run("train", *r.settings({**tune, "lora.merge": False, "train.steps": 3}))
    said = r.run("generate", "--model", run / "model", *ask).stderr
    r.check("is of an earlier end of its run" in said and f"name {run / 'adapter'}" in said, said)


def test_a_foreign_tokenizer_is_told(folder):
    folder, places = m.prepared(folder, prepare)
    model = places["model"]
    foreign = f"model.tokenizer={folder / 'tok_other'}"
    words = r.settings({"model.path": model, "data.train": [str(folder / "book.txt")], "data.sequence_length": 32, **FEW})
    said = r.run("config", *words, foreign).stderr
    told = re.search(r"tok_other is not the tokenizer in \S+model: (\d+) of (\d+) ids have another meaning", said)
    pieces = [json.loads(r.run("tokenizer", "info", "--tokenizer", place, "--json").stdout)["size"] for place in (folder / "tok_book", folder / "tok_other")]
    r.check(told and int(told[2]) == min(pieces) and 1 < int(told[1]) < min(pieces), (said, pieces))
    said = r.run("generate", "--model", model, foreign, "--prompt", "Line", "--max-new-tokens", 1).stderr
    r.check("have another meaning there" in said, said)
    for own in (folder / "tok_book", folder / "tok_book" / "tokenizer.model"):
        r.check("another meaning" not in r.run("config", *words, f"model.tokenizer={own}").stderr, own)


def test_options_without_effect_are_named(folder):
    folder, places = m.prepared(folder, prepare)
    model = places["model"]
    text = {"model.path": model, "data.train": [str(folder / "book.txt")], "data.sequence_length": 32, **FEW, "checkpoint.resume": "none"}
    chats = {**text, "data.train": [str(folder / "q.json")], "data.chat_template": "chatml", "data.sequence_length": 64}
    for options, more, wanted in ((text, {"data.loss_on": "last"}, "data.loss_on=last has no effect"), (text, {"data.too_long": "drop"}, "data.too_long=drop has no effect"), (chats, {"data.loss_on": "last"}, ""),
                                  (chats, {"data.text_key": "foo"}, "data.text_key=foo has no effect"), (text, {"train.valid_batches": 4}, "train.valid_batches=4 has no effect"),
                                  (text, {"optimizer.lr": 0}, "optimizer.lr=0: no weight is changed"), (text, {}, "")):
        said = r.run("train", *r.settings({**options, **more, "train.output": folder / "o"})).stderr
        r.check(wanted in said if wanted else "has no effect" not in said and "optimizer.lr=0" not in said, (more, said))
        shutil.rmtree(folder / "o")


def test_line_ends_in_records_are_told(folder):
    folder, places = m.prepared(folder, prepare)
    model = places["model"]
    (folder / "w.jsonl").write_text("".join(json.dumps({"instruction": f"hi\r\nthere {i}", "output": "yo\r\nyes"}) + "\n" for i in range(30)))
    words = [f"model.path={model}", f"data.train=[{folder / 'w.jsonl'}]", "data.chat_template=chatml", "data.sequence_length=64"]
    said = r.run("config", *words).stderr
    command = re.search(r"(sed .*)$", said, re.M).group(1)
    subprocess.run(["sh", "-c", command], check=True, cwd=folder)
    copy = folder / "w.lf.jsonl"
    r.check(json.loads(copy.read_text().splitlines()[0])["instruction"] == "hi\nthere 0", copy.read_text()[:200])
    r.check("\\r" not in r.run("config", *words[:1], f"data.train=[{copy}]", *words[2:]).stderr, "the copy")


def test_a_run_that_goes_on_is_told_from_one_that_ended(folder):
    words = r.options(folder, folder / "live", train__steps=1000000, train__global_batch=2, checkpoint__every=0)
    job = r.start("train", *words)
    try:
        for line in job.stdout:
            if line.startswith("step"):
                break
        said = r.run("generate", "--model", folder / "live", "--prompt", "hi", status=2).stderr
        r.check("a run that is still running" in said and f"ravine stop {folder / 'live'}" in said and "no checkpoint yet" in said and "train --config" not in said, said)
        said = r.run("convert", "--input", folder / "live", "--output", folder / "c", "--to", "hf", status=2).stderr
        r.check("a run that is still running" in said and "unknown layout" not in said, said)
    finally:
        job.terminate()
        job.communicate(timeout=60)


def test_launchers_of_others_are_told(folder):
    def said(**more):
        return r.run("train", *r.options(folder, folder / "run", train__steps=1, checkpoint__resume="none", checkpoint__every=0), env={**os.environ, **more}).stderr
    r.check("WORLD_SIZE=2 is set, and this process is one alone" in said(RANK="0", WORLD_SIZE="2"), "torchrun")
    shutil.rmtree(folder / "run")
    r.check("one alone" not in said(), "nothing is set")
    for words in (("convert", "--input", "x"), ("preprocess", "--input", "x"), ("diff", "x", "y"), ("data", "index", "--prefix", "x"), ("data", "merge", "--input", "x")):
        told = r.run(*words, status=2, env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}).stderr
        r.check("run it without mpirun" in told, (words, told))


def test_what_is_said_is_said_once_and_works(folder):
    folder, places = m.prepared(folder, prepare)
    said = r.run("config", f"model.path={places['model']}", f"data.train=[{folder / 'nofile'}]").stderr
    r.check(said.count("no such data") == 1, said)
    use = json.loads(r.run("info", places["adapter"], "--json").stdout)["to_use_it"]
    r.check(use.endswith(f"generate --model {places['model']} --adapter {places['adapter']} --prompt TEXT"), use)


if __name__ == "__main__":
    r.main(globals())
