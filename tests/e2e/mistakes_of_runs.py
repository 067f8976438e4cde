"""Mistakes with what runs take and make: adapters, rates, scales, records. Rows as in mistakes.py: (name, arguments, words), and perhaps the arguments that the message leads to.
Then what is no mistake: a run's folder stands for its base and its adapter, and an adapter keeps what it was taught to talk by."""
import json
import shutil

import mistakes as m
import ravine_run as r

QUESTIONS = [{"instruction": f"Say it {i}.", "input": "", "output": f"It is {i}."} for i in range(24)]


def prepare(folder):
    """A base without a chat template, a run of an adapter taught by one, broken adapters, and files of records that training refuses."""
    (folder / "q.json").write_text(json.dumps(QUESTIONS))
    (folder / "book.txt").write_text("".join(f"Line {i} of a book about ravines.\n" for i in range(400)))
    r.run("tokenizer", "train", "--input", folder / "book.txt", "--output", folder / "tok", "--vocab-size", 300)
    config = r.save_config(folder / "config.json", vocab_size=300, max_position_embeddings=256)
    few = {"train.steps": 1, "train.threads": 1, "train.global_batch": 4, "schedule.warmup_steps": 0, "checkpoint.every": 0, "log.tensorboard": False}
    r.run("train", *r.settings({"model.config": config, "model.tokenizer": folder / "tok", "data.train": [str(folder / "book.txt")], "data.sequence_length": 32, "train.output": folder / "base", **few}))
    r.run("init", "lora", folder / "l", "--model", folder / "base" / "model", "--data", folder / "q.json")
    said = r.run("train", "--config", folder / "l" / "run.yaml", *r.settings({**few, "data.sequence_length": 64})).stderr
    (folder / "next").write_text(said)
    adapter = folder / "l" / "run" / "adapter"
    for name, change in (("half", {"r": 8.5}), ("classes", {"task_type": "SEQ_CLS"}), ("dora", {"use_dora": True})):
        shutil.copytree(adapter, folder / name)
        (folder / name / ".ravine").unlink(missing_ok=True)
        config = json.loads((adapter / "adapter_config.json").read_text())
        (folder / name / "adapter_config.json").write_text(json.dumps({**config, **change}))
    shutil.copytree(adapter, folder / "bare")
    (folder / "bare" / "adapter_config.json").unlink()
    turns = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    for name, records in {
        "user": [{"conversations": [{"from": "User:", "value": "a"}, {"from": "gpt", "value": "b"}]}],
        "unanswered": [{"messages": [turns[0]]}],
        "empty": [{"instruction": "Say it.", "output": ""}],
        "dialog": [{"dialog": ["hi", "yo"]}],
        "quoted": [{"messages": json.dumps(turns)}],
        "xtuner": [{"conversation": [{"input": "a", "output": "b"}]}],
        "neither": [{"title": 1, "body": 2}],
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(records * 20))
    (folder / "my data").mkdir()
    shutil.copy(folder / "book.txt", folder / "my data" / "book 1.txt")
    (folder / "cosine.yaml").write_text("schedule:\n  type: cosine\n  warmup_steps: 2\n  min_lr_ratio: 0.1\n")
    return {"dir": folder, "base": folder / "base" / "model", "adapter": adapter, "tok": folder / "tok"}


GENERATE = "generate --model {base} --prompt x --max-new-tokens 1 "
LORA = "train model.path={base} data.train={dir}/book.txt data.sequence_length=32 train.output={dir}/none lora.rank=2 "
MISTAKES = [
    # ---- adapters
    ("an adapter that is not there", GENERATE + "--adapter {dir}/l/run/adaptor", ["--adapter={dir}/l/run/adaptor", "no such folder", "did you mean '{adapter}'"]),
    ("a file of an adapter", GENERATE + "--adapter {adapter}/adapter_model.safetensors", ["a file where a folder is needed", "{adapter}"]),
    ("weights without their config", GENERATE + "--adapter {dir}/bare", ["adapter_config.json is missing beside adapter_model.safetensors", "--adapter={dir}/bare"]),
    ("a model as an adapter", GENERATE + "--adapter {base}", ["a model, not an adapter"]),
    ("a run of a whole model as an adapter", GENERATE + "--adapter {dir}/base", ["a run without an adapter", "it trains all weights", "{base}"]),
    ("lora.path to nothing", LORA.replace("lora.rank=2 ", "") + "lora.path={dir}/l/run/adaptor", ["lora.path={dir}/l/run/adaptor", "no such folder", "did you mean"]),
    ("a rank that is no whole number", GENERATE + "--adapter {dir}/half", ['"r" is 8.5', "{dir}/half/adapter_config.json"]),
    ("an adapter of another task", GENERATE + "--adapter {dir}/classes", ["task_type 'SEQ_CLS'", "CAUSAL_LM"]),
    ("targets with a slip", LORA + "lora.targets=[q_projj]", ["lora.targets, command line", "did you mean 'q_proj'?"]),
    ("targets of LLaMA-Factory", LORA + "lora.targets=all", ["did you mean 'all-linear'?"]),
    ("targets with commas", LORA + "lora.targets=q_proj,v_proj", ["write a list: [q_proj, v_proj]"]),
    ("a layer that is not there", LORA + "lora.layers=[9]", ["layer 9 of 2 (lora.layers, command line)"]),
    ("layers as a range", LORA + "lora.layers=0-1", ["write [0, 1]"]),
    ("modules to save with a slip", LORA + "lora.save=[lm_heed]", ["(lora.save, command line)", "did you mean 'lm_head'?"]),
    ("a run of an adapter to measure", "bench decode --model {dir}/l", ["a run of an adapter, not of a model", "merge-lora --model {base} --adapter {adapter}"]),
    # ---- rates
    ("a share of steps with WarmupLR", "config schedule.type=WarmupLR schedule.warmup_ratio=0.5", ["WarmupLR has no such setting", "write schedule.warmup_num_steps, a number of steps"]),
    ("a default of another schedule", "config schedule.type=linear schedule.min_lr_ratio=0.1", ["linear has no such setting, cosine, warmup_stable_decay", "(command line)"]),
    ("steps of a warm-up that counts otherwise", "config schedule.type=WarmupDecayLR schedule.warmup_steps=2", ["WarmupDecayLR has no such setting", "write schedule.warmup_num_steps"]),
    ("a last rate with cosine", "config schedule.end_lr=1e-7", ["cosine has no such setting", "write schedule.min_lr_ratio"]),
    ("patience without validation", "config schedule.patience=10", ["cosine has no such setting, reduce_lr_on_plateau, greedy have"]),
    ("eps of lion at adamw's default", "config optimizer.type=lion optimizer.eps=1e-8", ["optimizer.eps is 1.0e-08, optimizer.type lion", "lion has no such setting"]),
    ("one beta with adamw at its default", "config optimizer.beta1=0.9", ["adamw has no such setting, adafactor, came, cadam have"]),
    ("preferences at their default", "config dpo.beta=0.1", ["causal has no such setting, dpo has", "train.objective=dpo"]),
    ("one eps for adafactor", "config optimizer.type=adafactor optimizer.eps=1e-8", ["adafactor takes 2", "write optimizer.eps=[1e-30, 1e-3], or leave it out"]),
    ("a cycle without its rates", "config schedule.type=OneCycle", ["set schedule.cycle_min_lr", "schedule.cycle_max_lr=0.0003"]),
    ("annealing without its length", "config schedule.type=CosineAnnealingLR", ["for example schedule.t_max=1000"], "config schedule.type=CosineAnnealingLR schedule.t_max=1000"),
    ("base_lr of MindFormers", "config schedule.base_lr=1e-5", ["here it is optimizer.lr"]),
    ("a wrapper of MindFormers", "config schedule.type=LearningRateWiseLayer", ["schedule.lr_scale multiplies"]),
    ("params of DeepSpeed", "config schedule.params=1", ["stands in the section itself"]),
    ("FusedAdam", "config optimizer.type=FusedAdam", ["here it is adamw"], "config optimizer.type=adamw"),
    ("a rate that DeepSpeed fills in", "config optimizer.lr=auto", ["write the rate itself"]),
    # ---- scales and other values
    ("a dynamic scale", "config precision.loss_scale=dynamic", ["here it is 0"], "config precision.loss_scale=0"),
    ("gradients of a type", "config precision.gradients=bf16", ["here it is compute"], "config precision.gradients=compute"),
    ("a power of DeepSpeed", "config precision.initial_scale_power=16", ["precision.scale_initial, 2 to that power: 65536 for 16"]),
    ("a power in signs", "config precision.scale_initial=2^16", ["write 65536"], "config precision.scale_initial=65536"),
    ("a smallest scale above the first", "config precision.scale_min=1e6", ["precision.scale_initial 65536", "set precision.scale_min to 65536 or less"]),
    ("resume by yes", "train model.path={base} data.train={dir}/book.txt train.output={dir}/none checkpoint.resume=latest", ["here it is auto"]),
    ("keep all", "config checkpoint.keep=all", ["here it is 0"], "config checkpoint.keep=0"),
    ("two ranks of an adapter", "config lora.rank=8,16", ["must be a whole number", "write a whole number"]),
    ("a number with a comma behind", "config train.steps=2,", ["write 2"], "config train.steps=2"),
    ("recompute no", "config train.recompute=no", ["here it is none"], "config train.recompute=none"),
    ("a switch with a value", GENERATE + "--do_sample true", ["here it is --sample (a switch)"]),
    ("megatron", "convert --input {base} --output {dir}/none --to megatron", ["did you mean 'megatron-legacy' or 'megatron-mcore' or 'megatron-deepspeed'?"]),
    ("a file's name without its end", "data show data.train={dir}/book model.tokenizer={tok} data.sequence_length=8", ["did you mean '{dir}/book.txt'?"]),
    ("a folder of a tokenizer as data", "data show data.train={tok} model.tokenizer={tok} data.sequence_length=8", ["the folder of a tokenizer, not of data"]),
    ("a path of Windows", "data show data.train=[C:\\Users\\me\\book.txt] model.tokenizer={tok} data.sequence_length=8", ["a path of Windows"]),
    # ---- init
    ("the kind behind the name", "init talk sft --data {dir}/q.json", ["the kind stands first: ravine init sft talk"]),
    ("init finetune", "init finetune {dir}/none", ["did you mean 'sft'?"]),
    ("init LoRA", "init LoRA {dir}/none", ["did you mean 'lora'?"]),
    ("init DPO", "init DPO {dir}/none", ["did you mean 'dpo'?"]),
    ("a speaker that is none", "init sft {dir}/none --data {dir}/user.json", ["unknown speaker 'User:'"]),
    ("questions alone", "init sft {dir}/none --data {dir}/unanswered.json", ["no answers to learn", "assistant"]),
    ("empty answers", "init sft {dir}/none --data {dir}/empty.json", ["no answers to learn", "'output'"]),
    ("turns without speakers", "init sft {dir}/none --data {dir}/dialog.json", ["the turns under 'dialog' have no speakers"]),
    ("a list as text", "init sft {dir}/none --data {dir}/quoted.json", ["'messages' is a text that holds a list"]),
    ("pairs in a list", "init sft {dir}/none --data {dir}/xtuner.json", ["'conversation' holds pairs of input and output"]),
    ("neither text nor conversations", "init sft {dir}/none --data {dir}/neither.json", ["neither conversations nor text", '"instruction"']),
]


def test_each_mistake_is_said_as_it_must_be(folder):
    folder, places = m.prepared(folder, prepare)
    places = {k: str(v) for k, v in places.items()}
    wrong = []
    for name, line, words, *fixed in r.rows(MISTAKES, 1 / 2, "each is a message of its own"):
        done = m.start([w.format(**places) for w in line.split(" ") if w], folder)
        if done.returncode != 2 or (folder / "none").exists():
            wrong.append(f"{name}: status {done.returncode}: {done.stderr[-300:]}")
        wrong += [f"{name}: '{w.format(**places)}' is not in {done.stderr}" for w in words if w.format(**places) not in done.stderr]
        for right in fixed:
            again = m.start(right.format(**places).split(" "), folder)
            if again.returncode != 0:
                wrong.append(f"{name}: {right}: {again.stderr}")
    said = r.run("data", "show", "data.train=my", "data/book", "1.txt", status=2, cwd=folder).stderr
    if "a path with blanks stands in quotes: 'data.train=my data/book 1.txt'" not in said:
        wrong.append(said)
    line = [*LORA.format(**places).split(), "lora.rank_pattern={'(': 4}"]
    said = m.start(line, folder).stderr
    if "lora.rank_pattern, command line" not in said or "'('" not in said:
        wrong.append(said)
    r.check(not wrong, "\n".join(wrong))


def test_settings_of_a_file_are_for_the_type_that_it_names(folder):
    """Another type on the command line leaves aside what it does not take; a run's config.yaml, which has all of them, asks for none."""
    folder, places = m.prepared(folder, prepare)
    said = r.run("config", "--config", folder / "cosine.yaml", "schedule.type=WarmupDecayLR")
    r.check("note: schedule.warmup_steps of" in said.stderr and "cosine.yaml:3 has no effect with schedule.type=WarmupDecayLR" in said.stderr, said.stderr)
    r.check("warmup_steps: 100" in said.stdout and "min_lr_ratio: 0.1" in said.stdout, said.stdout)
    said = r.run("config", "--config", folder / "base" / "config.yaml", "optimizer.type=lion").stderr
    r.check("error" not in said, said)
    r.run("config", "--config", folder / "base" / "config.yaml")
    r.run("config", "--config", places["dir"] / "l" / "run" / "config.yaml")


def test_what_has_no_effect_is_said(folder):
    r.save_ids(folder / "ids.safetensors", 8, 16)
    for words, wanted in ((["precision.gradients=compute"], "precision.gradients=compute has no effect with precision.compute=f32"), (["precision.scale_window=10"], "precision.scale_window has no effect"),
                          (["precision.compute=f16", "precision.scale_rule=mindformers", "precision.scale_hysteresis=5"], "it belongs to precision.scale_rule=deepspeed or"),
                          (["optimizer.type=onebit_adam"], "optimizer.type=onebit_adam on one data rank: nothing is sent")):
        said = r.run("train", *r.options(folder, folder / "run", train__steps=1, checkpoint__resume="none"), *words).stderr
        r.check(wanted in said, f"{words}: {said}")
        shutil.rmtree(folder / "run")


def test_an_adapter_keeps_what_it_was_taught_to_talk_by(folder):
    folder, places = m.prepared(folder, prepare)
    base, adapter, run = places["base"], places["adapter"], folder / "l"
    said = (folder / "next").read_text()
    r.check(f"--adapter {adapter} --chat --prompt TEXT" in said, said)
    template = (adapter / "chat_template.jinja").read_text()
    r.check("im_start" in template and not (base / "chat_template.jinja").exists(), template)
    ask = ("--chat", "--prompt", "Say it 3.", "--max-new-tokens", 2, "--json")
    beside = r.run("generate", "--model", base, "--adapter", adapter, *ask).stdout
    r.check(r.run("generate", "--model", base, "--adapter", adapter, "--template", "chatml", *ask).stdout == beside, beside)
    # A folder of init and its run stand for base and adapter.
    for words in (["--model", run], ["--model", run / "run"], ["--model", run, "--adapter", run], ["--model", base, "--adapter", run / "run"]):
        r.check(r.run("generate", *words, *ask).stdout == beside, words)
    merged = folder / "merged"
    said = r.run("merge-lora", "--model", run, "--adapter", run, "--output", merged).stderr
    r.check("--chat" in said and "warning" not in said and "--from" not in said, said)
    r.check((merged / "chat_template.jinja").read_text() == template, "the template goes with the merged model")
    r.check((merged / "generation_config.json").read_bytes() == (adapter / "generation_config.json").read_bytes(), "and the token that ends an answer")
    r.run("generate", "--model", merged, *ask)
    told = json.loads(r.run("info", run, "--json").stdout)
    r.check(told["final_adapter"] is True and told["base_model"] == str(base) and f"--model {base} --adapter {adapter}" in told["to_use_it"] and "convert" not in told["to_use_it"], told)
    told = json.loads(r.run("info", adapter, "--json").stdout)
    r.check(f"--model {base} " in told["to_use_it"] and told["target_modules"] == 14 and len(told["targets"]) == 7, told)
    told = json.loads(r.run("info", folder / "dora", "--json").stdout)
    r.check("DoRA" in told["problem"] and "to_use_it" not in told, told)
    said = r.run("diff", run, run, status=2).stderr
    r.check(f"ravine diff {adapter} {adapter}" in said, said)


def test_a_model_of_an_earlier_end_is_told(folder):
    output = folder / "run"
    words = r.options(folder, output, checkpoint__every=1)
    r.run("train", *words)
    (folder / "ids.json").write_text("[[3, 4]]")
    generate = ("generate", "--model", output, "--prompt-ids", folder / "ids.json", "--max-new-tokens", 1)
    r.check("warning" not in r.run(*generate).stderr, "the model is that of the run")
    newer = output / "checkpoints" / "step_000004"
    r.run("train", *r.options(folder, folder / "further", train__steps=4, checkpoint__every=2))
    shutil.copytree(folder / "further" / "checkpoints" / "step_000004", newer)
    shutil.copy(folder / "further" / "checkpoints" / "latest", newer.parent)
    for model in (output, output / "model"):
        said = r.run("generate", "--model", model, *generate[3:]).stderr
        r.check(f"{output / 'model'} is of step 2, its run has come to step 4" in said and "ravine train --config" in said and f"ravine convert --input {output} " in said, said)


GENERATION = ({"eos_token_id": 300}, {"eos_token_id": [3, 999]}, {"temperature": -1}, {"max_new_tokens": 0}, {"repetition_penalty": 0}, {"top_p": "high"}, [3])


def test_defaults_that_generate_refuses_begin_no_run(folder):
    """The exported folder has the generation_config.json of model.path: train refuses at its start what generate refuses, and by the same words."""
    r.run("train", *r.options(folder, folder / "first", checkpoint__every=0))
    base, file = folder / "base", folder / "base" / "generation_config.json"
    shutil.copytree(folder / "first" / "model", base)
    (folder / "ids.json").write_text("[[3, 4]]")
    words = r.options(folder, folder / "run", model__config=None, model__path=base)
    for fields in GENERATION:
        file.write_text(json.dumps(fields))
        wanted = r.run("generate", "--model", base, "--prompt-ids", folder / "ids.json", "--max-new-tokens", 1, status=2).stderr.splitlines()[-1]
        for more in ([], ["lora.rank=2", "lora.targets=[q_proj]"]):
            said = r.run("train", *words, *more, status=2).stderr
            r.check(wanted in said and str(file) in said and "step" not in said, f"{fields}: {said}\nwanted: {wanted}")
    file.write_text(json.dumps({"eos_token_id": -1, "temperature": 0.5, "max_new_tokens": 1}))
    r.run("train", *words)
    r.run("generate", "--model", folder / "run" / "model", "--prompt-ids", folder / "ids.json")
    r.check(json.loads((folder / "run" / "model" / "generation_config.json").read_text())["temperature"] == 0.5, "what it says is kept")
    # More rows than model.path has: an id of theirs ends generation in the exported folder.
    file.write_text(json.dumps({"eos_token_id": 300}))
    r.run("train", *r.options(folder, folder / "larger", model__config=None, model__path=base, train__steps=1), "model.vocabulary=320", "model.tokenizer=" + str(file_of_ids(folder, 320)))
    r.run("generate", "--model", folder / "larger" / "model", "--prompt-ids", folder / "ids.json")


def file_of_ids(folder, count):
    """A tokenizer of so many words."""
    (folder / "tok").mkdir()
    (folder / "tok" / "vocab.txt").write_text("".join(f"{w}\n" for w in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(count - 5))]))
    return folder / "tok"


if __name__ == "__main__":
    r.main(globals())
