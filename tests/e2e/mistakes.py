"""Mistakes of a first hour, each with the words that its message must have: what is wrong, where, the rule and the fix. Exit status 2, and nothing lost.

A row is (name, arguments, words), and perhaps the arguments that the message leads to, which must be taken. In all of them, names in braces are places of the folder that `prepare` fills.
Every whole command that a message proposes is run as it stands."""
import json
import os
import pty
import re
import shutil

import ravine_run as r


def prepare(folder):
    """A run, a model folder, texts and tables that are nearly right. Returns their places."""
    text = folder / "book.txt"
    text.write_text("".join(f"Line {i} of a book about ravines, rivers and the number {i * 7919 % 1000}.\n" for i in range(2000)))
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 320)
    config = r.save_config(folder / "config.json", vocab_size=400)
    run = folder / "run"
    settings = {"model.config": config, "model.tokenizer": folder / "tok", "data.train": [str(text)], "data.sequence_length": 32, "train.steps": 2, "train.threads": 1, "schedule.warmup_steps": 1,
                "checkpoint.every": 1, "train.output": run}
    r.run("train", *r.settings(settings))
    for name in ("table.csv", "data.arrow", "paper.pdf", "archive.zip", "notes.md", "table.xlsx"):
        (folder / name).write_text("body,title\nsome text,a title\n")
    (folder / "UPPER.TXT").write_text(text.read_text())
    (folder / "lines.jsonl").write_text('{"txet": "a line"}\n')
    (folder / "more.jsonl").write_text("".join(json.dumps({"txet": f"line {i} of a book about ravines"}) + "\n" for i in range(400)))
    (folder / "good.jsonl").write_text((folder / "more.jsonl").read_text().replace("txet", "text"))
    (folder / "outpt.json").write_text(json.dumps([{"instruction": "Say it.", "input": "", "outpt": "It."}] * 30))
    for name, role in (("roles", "usr"), ("human", "human")):
        turn = [json.dumps({"messages": [{"role": who, "content": "a"}, {"role": "assistant", "content": "b"}]}) + "\n" for who in ("user", role)]
        (folder / f"{name}.jsonl").write_text("".join(turn))
    r.run("init", folder / "prepared", "--data", text)
    adapter = folder / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    megatron = folder / "megatron"
    (megatron / "iter_0000001" / "mp_rank_00").mkdir(parents=True)
    (megatron / "latest_checkpointed_iteration.txt").write_text("1")
    (folder / "run.yaml").write_text(f"model: {{config: {config}, tokenizer: {folder / 'tok'}}}\ndata: {{train: [{text}], sequence_length: 32}}\ntrain: {{steps: 2, output: {folder / 'other'}}}\n")
    (folder / "twice.yaml").write_text("train: {steps: 2}\nmodel: {path: x}\ntrain: {seed: 1}\n")
    (folder / "empty").mkdir()
    (folder / "alpaca.json").write_text(json.dumps([{"instruction": "Say it.", "input": "", "output": "It."}] * 30))
    (folder / "chats").mkdir()
    for name in ("chat.jsonl", "chats/a.jsonl"):
        (folder / name).write_text(json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}) + "\n")
    r.run("preprocess", "--input", text, "--tokenizer", folder / "tok", "--output-prefix", folder / "tokens")
    r.run("preprocess", "--input", text, "--tokenizer", folder / "tok", "--output-prefix", folder / "tokenfiles" / "x")
    (folder / "dotted.yaml").write_text("train.steps: 2\n")
    (folder / "tab.yaml").write_text("train:\n\tsteps: 2\n")
    (folder / "pattern.yaml").write_text("data: {train: [*.txt]}\n")
    shutil.copytree(run, folder / "begun", ignore=shutil.ignore_patterns("model"))
    shutil.copytree(run / "model", folder / "lfs")
    for name in ("model.safetensors", "tokenizer.model"):
        (folder / "lfs" / name).write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize 12345\n")
    shutil.copytree(megatron, folder / "megatron2")
    shutil.copy(config, folder / "megatron2" / "config.json")
    return {"dir": folder, "text": text, "config": config, "run": run, "tok": folder / "tok", "table": folder / "table.csv", "adapter": adapter, "megatron": megatron, "yaml": folder / "run.yaml",
            "checkpoint": run / "checkpoints" / "step_000002", "base": " ".join(r.settings({**settings, "train.output": folder / "new"})).replace(f'data.train=["{text}"]', f"data.train=[{text}]")}


TRAIN = "train {base} "
MISTAKES = [
    ("tensor ranks without mpirun", TRAIN + "parallel.tensor=2 parallel.data=1", ["parallel.tensor=2", "mpirun -n 2"]),
    ("pipeline without mpirun", TRAIN + "parallel.pipeline=2", ["mpirun -n 2", "one rank"]),
    ("a run to go on from", TRAIN + "checkpoint.resume={run}", ["a run, not a checkpoint", "{run}/checkpoints/step_000002"]),
    ("a model folder to go on from", TRAIN + "checkpoint.resume={run}/model", ["not a checkpoint", "model.path"]),
    ("a checkpoint by its name alone", TRAIN + "train.output={run} checkpoint.resume=step_000001", ["no such folder", "did you mean {run}/checkpoints/step_000001?"]),
    ("a checkpoint that is not there", TRAIN + "checkpoint.resume={run}/checkpoints/step_000009", ["no such folder", "step_000009"]),
    ("a run without a model as --model", "generate --model {dir}/begun --prompt x", ["a run without a model", "--model={dir}/begun", "ravine convert --input {dir}/begun"], "convert --input {dir}/begun --output {dir}/c --to hf"),
    ("a folder of init before its run as --model", "generate --model {dir}/prepared --prompt x", ["nothing has run here yet", "{dir}/prepared", "ravine train --config {dir}/prepared/run.yaml"]),
    ("a folder of init to plot", "plot {dir}/prepared", ["nothing has run here yet", "ravine train --config {dir}/prepared/run.yaml"]),
    ("a folder of init to stop", "stop {dir}/prepared", ["nothing has run here yet", "ravine train --config"]),
    ("a folder of init to convert", "convert --input {dir}/prepared --to hf --output {dir}/c", ["nothing has run here yet", "ravine train --config"]),
    ("two runs to compare", "diff {run} {run}", ["two runs", "ravine diff {run}/model {run}/model", "ravine plot {run} {run}"]),
    ("a run as model.path", TRAIN + 'model.config="" model.path={run}', ["model.path={run}", "a run, not a model", "{run}/model"]),
    ("a checkpoint as --model", "generate --model {checkpoint} --prompt x", ["Ravine checkpoint", "ravine convert --input {checkpoint}", "--to hf"], "convert --input {checkpoint} --output {dir}/c --to hf"),
    ("a Megatron folder as model.path", TRAIN + 'model.config="" model.path={megatron}', ["Megatron", "ravine convert --input {megatron}"]),
    ("an adapter as --model", "generate --model {adapter} --prompt x", ["an adapter, not a model", "{adapter}"]),
    ("a name of the hub", TRAIN + 'model.config="" model.path=meta-llama/Llama-2-7b-hf', ["model.path", "hub", "hf download meta-llama/Llama-2-7b-hf"]),
    ("a name of the hub as --model", "generate --model gpt/gpt2 --prompt x", ["--model", "hf download"]),
    ("a weight file as --model", "generate --model {run}/model/model.safetensors --prompt x", ["a file where a folder is needed", "name its folder"]),
    ("an empty folder as --model", "generate --model {dir}/empty --prompt x", ["no config.json"]),
    ("no such folder as --model", "generate --model {dir}/nothing/here --prompt x", ["no such folder", "{dir}/nothing/here", "check the path"]),
    ("a table without text", TRAIN + "data.train=[{table}]", ["no column 'text'", "{table}", "body, title", "data.text_key"]),
    ("records under another key", TRAIN + "data.train=[{dir}/lines.jsonl]", ["no key 'text'", "lines.jsonl:1", "did you mean 'txet'", "data.text_key"]),
    ("an arrow file", TRAIN + "data.train=[{dir}/data.arrow]", ["data.arrow"]),
    ("a PDF", TRAIN + "data.train=[{dir}/paper.pdf]", ["paper.pdf", "pdftotext"]),
    ("an archive", TRAIN + "data.train=[{dir}/archive.zip]", ["archive.zip", "unpack"]),
    ("a page of Markdown", TRAIN + "data.train=[{dir}/notes.md]", ["notes.md", ".txt"]),
    ("a spreadsheet", TRAIN + "data.train=[{dir}/table.xlsx]", ["table.xlsx", ".csv"]),
    ("data that are not there", TRAIN + "data.train=[{dir}/boook.txt]", ["no such data", "{dir}/boook.txt", "did you mean '{dir}/book.txt'"]),
    ("betas without brackets", TRAIN + "optimizer.betas=0.9,0.95", ["optimizer.betas", "list", "[0.9,0.95]"]),
    ("a model's config as --config", "train --config {config}", ["a model's config.json", "{config}", "model.config="]),
    ("a config without --config", "train {yaml}", ["run.yaml", "--config {yaml}"]),
    ("a section twice", "train --config {dir}/twice.yaml", ["train", "twice.yaml", "3", "1"]),
    ("Transformers' learning rate", TRAIN + "--learning_rate 3e-4", ["--learning_rate", "optimizer.lr"]),
    ("Transformers' batch", TRAIN + "--per_device_train_batch_size 4", ["train.micro_batch"]),
    ("Megatron's tensor ranks", TRAIN + "--tensor-model-parallel-size 2", ["parallel.tensor"]),
    ("Megatron's steps", TRAIN + "--train-iters 10", ["train.steps"]),
    ("a rate without its section", TRAIN + "learning_rate=3e-4", ["learning_rate", "optimizer.lr"]),
    ("llama.cpp's model", "generate -m {run}/model -p x", ["-m", "--model"]),
    ("llama.cpp's length", "generate --model {run}/model --prompt x -n 4", ["-n", "--max-new-tokens"], "generate --model {run}/model --prompt x --max-new-tokens 4"),
    ("fp16", TRAIN + "precision.compute=fp16", ["precision.compute", "fp16", "f16"]),
    ("bfloat16", TRAIN + "precision.compute=bfloat16", ["precision.compute", "here it is bf16"]),
    ("float32", TRAIN + "precision.compute=float32", ["here it is f32"]),
    ("cuda", TRAIN + "--backend cuda", ["backend", "cpu, ref"]),
    ("a slip in a key", TRAIN + "optimizer.learing_rate=1", ["optimizer.learing_rate"]),
    ("a slip in a section", TRAIN + "trian.steps=3", ["trian", "did you mean 'train'"]),
    ("a slip in a command", "trian {base}", ["trian", "did you mean 'train'"]),
    ("a slip in a flag", "generate --model {run}/model --promt x", ["--promt", "did you mean '--prompt'"]),
    ("a number that is a word", TRAIN + "train.steps=many", ["train.steps", "many", "whole number"]),
    ("no model at all", "train data.train=[{text}] train.output={dir}/new", ["model.path", "model.config"]),
    ("two models", TRAIN + "model.path={run}/model", ["model.path and model.config are both given", "one of them"]),
    ("no tokenizer", TRAIN + 'model.tokenizer=""', ["model.tokenizer"]),
    ("a tokenizer that is not there", TRAIN + "model.tokenizer={dir}/tokk", ["{dir}/tokk"]),
    ("sequences beyond the positions", TRAIN + "data.sequence_length=4096", ["data.sequence_length", "max_position_embeddings = 64"]),
    ("a batch that does not divide", TRAIN + "train.global_batch=7 train.micro_batch=2", ["train.global_batch", "train.micro_batch", "multiple"]),
    ("another rate on resume", "train {base} train.output={run} optimizer.lr=0.5 train.steps=4", ["optimizer.lr is 0.5, was 0.0003", "set optimizer.lr=0.0003", "another train.output"]),
    ("another optimizer on resume", "train {base} train.output={run} optimizer.type=sgd train.steps=4", ["optimizer.type is sgd, was adamw", "set optimizer.type=adamw", "another train.output"]),
    ("a base model as output", 'train {base} model.config="" model.path={run}/model train.output={run}', ["train.output", "model"]),
    ("a tokenizer over another", "tokenizer train --input {text} --output {tok} --vocab-size 320", ["{tok}", "--overwrite"]),
    ("plot of a folder without metrics", "plot {dir}/empty", ["metrics.jsonl"]),
    ("info of nothing", "info {dir}/nothing", ["no such file or folder", "{dir}/nothing"]),
    ("stop of a run that has ended", "stop {run}", ["{run}"]),
    ("init into a full folder", "init pretrain {run}", ["not empty", "{run}"]),
    ("temperature below zero", "generate --model {run}/model --prompt x --sample --temperature -1", ["temperature", "-1"]),
    ("conversations without a handler", "preprocess --input {dir}/alpaca.json --tokenizer {tok} --output-prefix {dir}/q/x", ["no key 'text'", "alpaca.json:1", "instruction", "--handler"]),
    ("messages without a handler", "preprocess --input {dir}/chat.jsonl --tokenizer {tok} --output-prefix {dir}/q/x", ["chat.jsonl:1", "--handler messages"]),
    ("keys with commas", "preprocess --input {dir}/lines.jsonl --json-keys a,b --tokenizer {tok} --output-prefix {dir}/q/x", ["'a,b'", "lines.jsonl:1", "--json-keys a b"]),
    ("Megatron's flags without a tokenizer", "preprocess --input {text} --json-key text --output-prefix {dir}/q/x", ["--tokenizer-name-or-path is not given", "name its folder"]),
    ("Megatron's flags, and a tokenizer of each", "preprocess --input {text} --tokenizer-model {tok} --tokenizer {tok} --output-prefix {dir}/q/x", ["--tokenizer", "twice"]),
    ("an output for a prefix", "preprocess --input {text} --tokenizer {tok} --output {dir}/q/x", ["here it is --output-prefix {dir}/q/x"]),
    ("a file without --input", "preprocess {text}", ["{text}", "--input {text}"]),
    ("preprocess without a tokenizer", "preprocess --input {text} --output-prefix {dir}/q/x", ["--tokenizer is missing", "for example"]),
    ("token files without the end of their name", TRAIN + "data.train=[{dir}/tokens]", ["{dir}/tokens", "did you mean '{dir}/tokens_text_document'"]),
    ("an index without the end of the name", "data index --prefix {dir}/tokens --split 1,0,0 --sequence-length 8 --seed 1 --samples 1,, --out {dir}/q", ["did you mean '{dir}/tokens_text_document'"]),
    ("files with a comma", TRAIN + "data.train=a.txt,b.txt", ["a.txt,b.txt", "data.train=[a.txt,b.txt]"]),
    ("files with a comma to preprocess", "preprocess --input a.txt,b.txt --tokenizer {tok} --output-prefix {dir}/q/x", ["--input a.txt b.txt"]),
    ("a pattern without quotes", TRAIN + "data.train=[*.txt]", ["data.train", "quotes", "['*.txt']"]),
    ("a pattern without quotes in a file", "train --config {dir}/pattern.yaml", ["pattern.yaml:1", "quotes", "['*.txt']"]),
    ("a pattern that fits nothing", TRAIN + "data.train=['{dir}/*.none']", ["*.none", "quotes"]),
    ("a file without data.train", TRAIN + "book.txt", ["'book.txt'", "data.train=book.txt"]),
    ("a blank behind =", TRAIN + "data.train= {text}", ["no blank behind '='", "data.train={text}"]),
    ("blanks around =", TRAIN + "train.steps = 3", ["no blanks around '='", "train.steps=3"]),
    ("a prompt without a flag", "generate --model {run}/model hello", ["'hello'", "--prompt hello"], "generate --model {run}/model --prompt hello --max-new-tokens 2"),
    ("a prompt without quotes", "generate --model {run}/model --prompt Once upon a time", ["'upon'", "quotes", '--prompt "Once upon']),
    ("a model without a flag", "generate {run}/model --prompt x", ["--model {run}/model"], "generate --model {run}/model --prompt x --max-new-tokens 2"),
    ("a name of the hub without an owner", TRAIN + 'model.config="" model.path=gpt2', ["model.path=gpt2", "folders", "hf download gpt2"]),
    ("the same as --model", "generate --model gpt2 --prompt x", ["--model=gpt2", "hf download gpt2"]),
    ("a dataset of the hub", TRAIN + "data.train=[Salesforce/wikitext]", ["Salesforce/wikitext", "hf download Salesforce/wikitext --repo-type dataset"]),
    ("a dataset without an owner", TRAIN + "data.train=[wikitext]", ["wikitext", "--repo-type dataset"]),
    ("an address as data", TRAIN + "data.train=[https://example.org/a.txt]", ["download it first", "wget https://example.org/a.txt"]),
    ("an address as a model", TRAIN + 'model.config="" model.path=https://huggingface.co/openai/gpt2', ["hf download openai/gpt2"]),
    ("a tokenizer of the hub", TRAIN + "model.tokenizer=meta-llama/Llama-2-7b-hf", ["no such tokenizer", "hf download meta-llama/Llama-2-7b-hf"]),
    ("preferences", "dpo {base}", ["dpo", "ravine train train.objective=dpo"]),
    ("a reference model", TRAIN + "train.objective=dpo --ref-model {base}", ["dpo.reference"]),
    ("adapters", TRAIN + "--lora", ["--lora", "adapters", "lora.rank=8"]),
    ("a device", TRAIN + "--device cuda", ["--device", "CPU", "leave it out"]),
    ("a server", "server --model {run}/model", ["server", "ravine serve"]),
    ("a server without a model", "serve", ["--model"]),
    ("an address that is not here", "serve --model {run}/model --host 192.0.2.1 --port 1", ["nothing can listen there", "192.0.2.1", "--port"]),
    ("a talk", "talk {run}/model", ["talk", "ravine chat"]),
    ("a template of chat that is not there", "chat --model {run}/model --template none.jinja", ["none.jinja"]),
    ("stop texts by another name", "generate --model {run}/model --prompt x --stop-strings y", ["--stop"]),
    ("eval", "eval --model {run}/model", ["--tasks is not given", "ravine eval --model"]),
    ("finetune", "finetune {base}", ["finetune", "ravine train", "ravine init sft"]),
    ("run", "run {run}/model", ["'run'", "ravine generate"]),
    ("torchrun", "torchrun {base}", ["torchrun", "mpirun -n N ravine train"]),
    ("download", "download gpt2", ["download", "hf download"]),
    ("export", "export {run}", ["export", "ravine convert"]),
    ("a text for sft", "init sft {dir}/i --data {text}", ["text, not conversations", "ravine init pretrain"]),
    ("an output as a flag", TRAIN + "-o {dir}/new", ["-o", "train.output={dir}/new"]),
    ("data as a flag", TRAIN + "--data {text}", ["--data", "data.train={text}"]),
    ("steps as a flag", TRAIN + "--steps 3", ["--steps", "train.steps=3"]),
    ("passes", TRAIN + "--epochs 3", ["--epochs", "train.epochs=3"]),
    ("a rate as a flag", TRAIN + "--lr 3e-4", ["--lr", "optimizer.lr=3e-4"]),
    ("a batch as a flag", TRAIN + "--batch-size 4", ["train.global_batch", "train.micro_batch"]),
    ("a path of data", TRAIN + "data.path={text}", ["data.path", "here it is data.train"]),
    ("a beta", TRAIN + "optimizer.beta1=0.8", ["optimizer.beta1", "optimizer.type"]),
    ("dotted keys in a file", "train --config {dir}/dotted.yaml", ["train.steps", "dotted.yaml:1", "train: {{steps: VALUE}}"]),
    ("a tab in a file", "train --config {dir}/tab.yaml", ["tab.yaml:2", "no tabs"]),
    ("a slip in the name of a config", "train --config {dir}/runn.yaml", ["runn.yaml", "did you mean '{dir}/run.yaml'"]),
    ("a slip in the name of a folder", TRAIN + "data.train=[{dir}/chatz/a.jsonl]", ["{dir}/chatz/a.jsonl", "did you mean '{dir}/chats/a.jsonl'"]),
    ("a pointer of Git LFS", "generate --model {dir}/lfs --prompt x", ["Git LFS", "{dir}/lfs/model.safetensors", "git lfs pull"]),
    ("a pointer for a tokenizer", "tokenizer info --tokenizer {dir}/lfs/tokenizer.model", ["Git LFS", "git lfs pull"]),
    ("llama.cpp's temperature", "generate --model {run}/model --prompt x --temp 0.8", ["--temp", "--temperature 0.8"]),
    ("vLLM's tensor ranks", "generate --model {run}/model --prompt x --tp 2", ["--tp", "parallel.tensor=2"]),
    ("a file of prompts", "generate --model {run}/model --prompt-file {text}", ["--prompts {text}"]),
    ("Transformers' length", "generate --model {run}/model --prompt x --max_length 30", ["--max-new-tokens 30"]),
    ("a Megatron folder that lacks a file", TRAIN + 'model.config="" model.path={dir}/megatron2', ["model_optim_rng.pt", "{dir}/megatron2", "each rank's folder holds it"]),
    ("a run's config as a model's", TRAIN + "model.config={yaml}", ["model.config={yaml}", "--config {yaml}"]),
    ("a folder as a model's config", TRAIN + "model.config={run}/model", ["a folder", "model.path={run}/model", "{run}/model/config.json"]),
    ("a file in place of init's folder", "init {text}", ["a file has this name", "--data {text}"]),
    ("conversations for pretrain", "init {dir}/i --data {dir}/alpaca.json", ["conversations", "alpaca.json", "ravine init sft"]),
    ("a table for a tokenizer", "tokenizer train --input {table} --output {dir}/t", ["no column 'text'", "body, title", "--text-key COLUMN"], "tokenizer train --input {table} --output {dir}/t --vocab-size 300 --text-key body"),
    ("records for a tokenizer", "tokenizer train --input {dir}/lines.jsonl --output {dir}/t", ["did you mean 'txet'", "add --text-key txet"], "tokenizer train --input {dir}/more.jsonl --output {dir}/t --vocab-size 300 --text-key txet"),
    ("conversations for a tokenizer", "tokenizer train --input {dir}/alpaca.json --output {dir}/t", ["a conversation (alpaca)", "alpaca.json:1", "--text-key"],
     "tokenizer train --input {dir}/alpaca.json --output {dir}/t --vocab-size 270 --text-key output"),
    ("a table for init", "init {dir}/i --data {table}", ["body, title", "--text-key COLUMN"], "init {dir}/i --data {table} --text-key body"),
    ("records for init", "init {dir}/i --data {dir}/more.jsonl", ["did you mean 'txet'", "add --text-key txet"], "init {dir}/i --data {dir}/more.jsonl --text-key txet"),
    ("records in place of init's folder", "init {dir}/good.jsonl", ["a file has this name", "--data {dir}/good.jsonl"]),
    ("conversations in place of init's folder", "init {dir}/alpaca.json", ["a file has this name", "ravine init sft first --data {dir}/alpaca.json"]),
    ("a handler without a template", "preprocess --input {dir}/alpaca.json --handler alpaca --tokenizer {tok} --output-prefix {dir}/q/x", ["no chat template", "add --template chatml"],
     "preprocess --input {dir}/alpaca.json --handler alpaca --tokenizer {tok} --output-prefix {dir}/q/x --template chatml"),
    ("conversations without a handler, as told", "preprocess --input {dir}/chat.jsonl --tokenizer {tok} --output-prefix {dir}/q/x", ["--handler messages", "--template chatml"],
     "preprocess --input {dir}/chat.jsonl --handler messages --template chatml --tokenizer {tok} --output-prefix {dir}/q/x"),
    ("a template that is not there", "preprocess --input {dir}/alpaca.json --handler alpaca --template chatlm --tokenizer {tok} --output-prefix {dir}/q/x", ["no chat template 'chatlm'", "--template", "did you mean 'chatml'"]),
    ("chat with a model without a template", "generate --chat --model {run} --prompt x", ["no chat template", "add --template chatml"], "generate --chat --model {run} --prompt x --template chatml --max-new-tokens 2"),
    ("render without a template", "tokenizer render --jsonl", ["--tokenizer DIR, or --template chatml"], "tokenizer render --jsonl --template chatml"),
    ("render with a tokenizer without a template", "tokenizer render --jsonl --tokenizer {tok}", ["no chat template", "add --template chatml"], "tokenizer render --jsonl --tokenizer {tok} --template chatml"),
    ("render with two ends", "tokenizer render --jsonl --tokenizer {tok} --template chatml --eos-token x", ["--bos-token and --eos-token with --tokenizer", "leave them out"], "tokenizer render --jsonl --tokenizer {tok} --template chatml"),
    ("tensor ranks of generate without mpirun", "generate --model {run} --prompt x parallel.tensor=2", ["parallel.tensor=2", "on one rank", "mpirun -n 2", "leave parallel.* out"], "generate --model {run} --prompt x --max-new-tokens 2"),
    ("two prompts", "generate --model {run} --prompt x --prompt y", ["--prompt is given twice", "--prompts FILE.txt"]),
    ("a role that nobody has", TRAIN + "data.chat_template=chatml data.train={dir}/roles.jsonl", ["unknown role 'usr'", "roles.jsonl record 2, message 1", "did you mean 'user'"]),
    ("a role of ShareGPT", TRAIN + "data.chat_template=chatml data.train={dir}/human.jsonl", ["unknown role 'human'", "did you mean 'user'"]),
    ("a slip in a key of conversations", TRAIN + "data.chat_template=chatml data.train={dir}/outpt.json", ["no key 'output'", "outpt.json:1", "'outpt' is nearly that", "rename"]),
    ("the same for init", "init sft {dir}/i --data {dir}/outpt.json", ["no key 'output'", "outpt.json:1", "rename"]),
    ("the same for preprocess", "preprocess --input {dir}/outpt.json --tokenizer {tok} --output-prefix {dir}/q/x", ["no key 'output'", "outpt.json:1", "rename"]),
    ("a tokenizer without a flag", "tokenizer info {tok}", ["--tokenizer {tok}"], "tokenizer info --tokenizer {tok}"),
    ("ids in quotes", ["tokenizer", "decode", "--tokenizer", "{tok}", "1 2 3"], ["ids come from stdin", "echo '[1, 2, 3]' | ravine tokenizer decode --tokenizer {tok}"]),
    ("ids as words", "tokenizer decode --tokenizer {tok} [1, 2,3]", ["echo '[1, 2, 3]' | ravine tokenizer decode"]),
    ("a text as a word", "tokenizer encode --tokenizer {tok} Hello", ["text comes from stdin", "echo Hello | ravine tokenizer encode --tokenizer {tok}"]),
    ("threads of preprocess", "preprocess --threads 2 --input {text} --tokenizer {tok} --output-prefix {dir}/q/x", ["--threads", "here it is --workers 2"], "preprocess --workers 2 --input {text} --tokenizer {tok} --output-prefix {dir}/q/x"),
    ("a list of ids for trace", "trace --model {run} --input {dir}/x.json --out {dir}/o.safetensors", ["not a safetensors file", "x.json", "input_ids", "save_file"]),
    ("a config before the command", "--config {yaml} train", ["'--config' where a command is expected", "the command comes first", "write: ravine train --config {yaml}"]),
    ("an option before the command", "train.steps=3 train --config {yaml}", ["'train.steps=3' where a command is expected", "write: ravine train train.steps=3 --config {yaml}"]),
    ("a part of a parameter's name", TRAIN + "train.freeze=[embed]", ["train.freeze='embed'", "write '*embed*'", "model.embed_tokens.weight"], "plan {base} train.freeze=['*embed*']"),
    ("a group of no parameter", ["train", "{base}", "optimizer.groups=[{{match: norm}}]"], ["optimizer.groups[0].match='norm'", "write '*norm*'"], ["plan", "{base}", "optimizer.groups=[{{match: '*norm*'}}]"]),
    ("everything frozen", TRAIN + "train.freeze=['*']", ["nothing is left to train", "train.freeze", "leave some out"]),
    ("neither model nor config", "check determinism data.train=[{text}]", ["no model (", "model.path=FOLDER", "model.config=FILE.json"]),
    ("a folder of init as a config", "train --config {dir}/prepared", ["it is a folder", "write --config {dir}/prepared/run.yaml"]),
    ("a folder of init to train", "train {dir}/prepared", ["--config {dir}/prepared/run.yaml"]),
    ("a folder of init as a model's config", "plan model.config={dir}/prepared", ["model.config={dir}/prepared/model.json"], "plan model.config={dir}/prepared/model.json data.sequence_length=64"),
    ("a folder of init as a tokenizer", "tokenizer info --tokenizer {dir}/prepared", ["its tokenizer is {dir}/prepared/tokenizer"], "tokenizer info --tokenizer {dir}/prepared/tokenizer"),
    ("a number of eights", TRAIN + "train.steps=010", ["train.steps is '010'", "write 10, or 8"]),
    ("a folder of token files", TRAIN + "data.train=[{dir}/tokenfiles]", ["token files are named one by one", "name {dir}/tokenfiles/x_text_document"]),
    ("convert without a target", "convert --input {run}/model --output {dir}/c --to huggingface", ["--to", "hf"]),
]


def words_of(line, places):
    """Arguments as a list; {base} stands for several."""
    out = []
    for a in line if isinstance(line, list) else [a for a in line.split(" ") if a]:
        out += places["base"].split(" ") if a == "{base}" else [a.format(**places)]
    return out


PREPARED = {}


def prepared(folder, make):
    """(the folder, its places): what `make` fills a folder with. In the full tier each test has its own, in the short one the tests of a script share that of the first."""
    if r.FULL:
        return folder, make(folder)
    if make not in PREPARED:
        PREPARED[make] = folder, make(folder)
    return PREPARED[make]


def start(words, folder):
    if r.SERVED:
        return r.SERVED.run([str(x) for x in words], folder, None)
    return r.subprocess.run(r.command(*words), stdin=r.subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT, cwd=folder)


def proposed(said):
    """The whole commands of a message: in backticks, or up to its end. Examples, names of commands alone, and those with places to be filled in (DIR, ..), are left out."""
    commands = re.findall(r"`(ravine [^`]+)`", said) + re.findall(r"(?:(?<!for example): |write )((?:echo .* \| )?ravine [^`;)]+)$", said)
    return [c for c in commands if not re.search(r"\b[A-Z]{2,}\b|\.\.(?:$| )", c) and not re.fullmatch(r"ravine [a-z]+(-[a-z]+)*( [a-z]+)?", c)]


def test_every_mistake_is_told_what_to_do(folder):
    folder, places = prepared(folder, prepare)
    commands, fixed = check_mistakes(folder, {k: str(v) for k, v in places.items()}, MISTAKES)
    r.check(not r.FULL or (len(commands) >= 10 and len(fixed) >= 18), f"proposed: {list(commands)}")


def check_mistakes(folder, places, mistakes):
    """Runs the rows, then what their messages propose and their own corrections. Returns both."""
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    wrong, commands, fixed = [], {}, {}
    for name, line, words, *right in r.rows(mistakes, 1 / 4, "each is a message of its own"):
        done = start(words_of(line, places), folder)
        said = done.stderr.splitlines()[-1] if done.stderr else ""
        missing = [w.format(**places) for w in words if w.format(**places) not in said]
        if done.returncode != 2 or missing or not said.startswith("error: ") or ";" not in said:
            wrong.append(f"{name}: exit status {done.returncode}, without {missing}: {said[:400]}")
        commands.update({c: name for c in proposed(said)})
        fixed.update({name: words_of(x, places) for x in right})
    r.check(not wrong, "\n".join(wrong))
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    changed = [str(p) for p, data in before.items() if after.get(p) != data and p.name not in ("log.txt",)]
    r.check(not changed, f"lost or changed: {changed}")
    r.check(not (folder / "new" / "checkpoints").exists(), "a run has begun")
    r.check(not (folder / "q").exists() and not (folder / "t").exists() and not (folder / "i").exists(), "a refusal has left folders")
    # What the messages lead to is taken: what they propose as it stands, and the rows' own corrections.
    wrong = []
    (folder / "bin").mkdir()
    (folder / "bin" / "ravine").symlink_to(r.PROGRAM)
    path = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    for command, name in commands.items():
        done = r.subprocess.run(["sh", "-c", command + short(command)], stdin=r.subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd=folder, env=path)
        if done.returncode != 0:
            wrong.append(f"{name}: proposed `{command}`, exit status {done.returncode}: {done.stderr[-300:]}")
        forget(folder)
    for name, words in fixed.items():
        done = start(words, folder)
        if done.returncode != 0:
            wrong.append(f"{name}: corrected to {words}, exit status {done.returncode}: {done.stderr[-300:]}")
        forget(folder)
    r.check(not wrong, "\n".join(wrong))
    return commands, fixed


def short(command):
    """A training that is proposed is made short; one by another program's file is explained."""
    return " train.steps=2 schedule.warmup_steps=1" if command.startswith("ravine train") else " --explain" if command.startswith("ravine mindformers") else ""


def forget(folder):
    for name in ("i", "q", "t", "c", "first"):
        shutil.rmtree(folder / name, ignore_errors=True)


def test_suffixes_in_capitals_are_taken(folder):
    folder, places = prepared(folder, prepare)
    base = [a for a in places["base"].split(" ") if not a.startswith("data.train=")]
    r.run("train", *base, f"data.train=[{folder / 'UPPER.TXT'}]")


def test_the_table_is_long(folder):
    r.check(len(MISTAKES) >= 145 and len({row[0] for row in MISTAKES}) == len(MISTAKES), f"{len(MISTAKES)} mistakes")


def test_what_is_no_mistake(folder):
    version = r.run("--version").stdout
    for word in ("-v", "-V", "version"):
        r.check(r.run(word).stdout == version, word)
    r.check(r.run("man", "train").stdout.startswith(".TH"), "roff where nobody reads it")
    above, below = pty.openpty()
    done = r.subprocess.Popen(r.command("man", "train"), stdin=r.subprocess.DEVNULL, stdout=below)
    os.close(below)
    page = b""
    try:
        while part := os.read(above, 65536):
            page += part
    except OSError:  # the other side is closed
        pass
    r.check(done.wait() == 0 and b"Example:" in page[:16] and b"\\-" not in page, page[:200])
    r.check("did you mean 'ravine-train'" in r.run("man", "trian", status=2).stderr, "a slip in a page's name")


def test_init_in_a_job_of_ranks(folder):
    done = r.run("init", folder / "q", status=2, env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}).stderr
    r.check("run it without mpirun" in done and not (folder / "q").exists(), done)


if __name__ == "__main__":
    r.main(globals())
