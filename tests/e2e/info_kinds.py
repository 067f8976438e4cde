"""`ravine info` knows every kind of file that Ravine reads or writes, and what a run exports opens elsewhere: tokenizer.json, types of weights."""
import json
import math
import shutil
import struct
import subprocess
from pathlib import Path

import ravine_run as r
from chat_model import GOLDEN, chat_model
from chat_prompts import adapter

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
# Parameters that Transformers 5 counts for configs of this repository: sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters()).
COUNTS = {"llama-1.2b.json": 1204881408, "llama-134m.json": 134105856, "llama-demo.json": 5475584, "models/bloom-176b.json": 176247271424, "models/bloom-7b1.json": 7069016064,
          "models/llama-13b.json": 13015864320, "models/llama-33b.json": 32528943616, "models/llama-65b.json": 65285660672, "models/llama2-34b.json": 33743970304, "models/llama2-70b.json": 68976648192,
          "models/llama2-7b.json": 6738415616}


def info(path, **options):
    shown = r.run("info", path, **options).stdout
    r.check(str(path) in shown, f"{path}: {shown}")
    return json.loads(r.run("info", path, "--json", **options).stdout)


def test_mindrecord(folder):
    """Rows, columns with their types, files and a sample; the same of a folder, of a set of several files, and of one that is called otherwise."""
    rows = [[i, 7, 300 + i, -1, 70000] for i in range(6)]
    path = str(folder / "ids.mindrecord")
    r.save_mindrecord(path, rows)
    shutil.copy(path, folder / "data.json")
    said = info(path)
    r.check((said["kind"], said["rows"], said["files"], said["bytes"]) == ("MindRecord", 6, 1, Path(path).stat().st_size), said)
    r.check(said["columns"] == {"input_ids": {"type": "int32", "least": -1, "most": 70000, "values_of_a_row": {"least": 5, "most": 5}}}, said["columns"])
    r.check([s["ids"] for s in said["samples"]] == rows[:3] and said["lengths"]["most"] == 5 and "data.order=mindspore" in said["to_use_it"], said)
    r.check(info(folder / "data.json")["kind"] == "MindRecord", "it is known by what it holds")
    (folder / "set").mkdir()
    for part in (0, 1):
        r.save_mindrecord(str(folder / "set" / f"{part}.mindrecord"), rows[3 * part:3 * part + 3])
    said = info(folder / "set")
    r.check((said["kind"], said["rows"], said["files"]) == ("MindRecord", 6, 2) and [s["ids"] for s in said["samples"]] == rows[:3], said)


def test_what_a_run_writes(folder):
    (folder / "text.txt").write_text("The ravine is deep and the river runs below.\n" * 60)
    values = {"model.config": r.save_config(folder / "new.json", vocab_size=300), "model.tokenizer": str(folder / "tokenizer"), "data.train": str(folder / "text.txt"), "data.sequence_length": 32,
              "train.steps": 4, "train.global_batch": 2, "train.output": str(folder / "run"), "schedule.warmup_steps": 0, "checkpoint.every": 2}
    r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / "tokenizer", "--vocab-size", 290)
    r.run("train", *r.settings(values))
    run = folder / "run"
    kinds = {run: "run", run / "config.yaml": "options of a run", run / "metrics.jsonl": "metrics of a run", run / "log.txt": "log of a run", run / "tensorboard": "TensorBoard events",
             run / "checkpoints" / "step_000004": "checkpoint", run / "checkpoints" / "latest": "name of the newest checkpoint", run / "checkpoints" / "step_000004" / "manifest.json": "manifest of a checkpoint",
             run / "model": "model", run / "model" / "config.json": "config", run / "model" / "generation_config.json": "defaults of generation", run / "model" / "tokenizer.json": "tokenizer",
             run / "model" / "tokenizer_config.json": "settings of a tokenizer", folder / "tokenizer": "tokenizer", folder / "text.txt": "texts"}
    said = {path: info(path) for path in kinds}
    for path, kind in kinds.items():
        r.check(said[path]["kind"] == kind, f"{path}: {said[path]}")
    rows = list(r.metrics(run).values())
    tags = said[run / "tensorboard"]["tags"]
    loss = next(tags[tag] for tag in tags if tag.split("/")[-1] == "loss")
    single = struct.unpack("f", struct.pack("f", rows[-1]["loss"]))[0]
    r.check(loss["points"] == 4 and loss["first_step"] == 1 and loss["last_step"] == 4 and math.isclose(loss["last"], single, rel_tol=1e-7), f"{tags} {rows[-1]}")
    event = next((run / "tensorboard").iterdir())
    r.check(info(event)["tags"] == tags, "the file alone")
    options = said[run / "config.yaml"]
    r.check(options["main"]["train.steps"] == "4" and options["run"] == str(run) and options["other_than_default"]["checkpoint.every"] == "2", options)
    metrics = said[run / "metrics.jsonl"]
    r.check(metrics["rows"] == 4 and metrics["last_step"] == 4 and metrics["last_values"]["loss"] == rows[-1]["loss"], metrics)
    model, config = said[run / "model"], said[run / "model" / "config.json"]
    r.check(model["parameters"] == config["parameters"], f"{model} {config}")
    # What is still being written, and what is damaged.
    data = event.read_bytes()
    event.write_bytes(data[:-3])
    r.check("not whole" in info(event)["note"], "a cut event file")
    event.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    told = r.run("info", event, status=2).stderr
    r.check("checksum" in told and str(event) in told, told)


def test_parts_of_other_programs(folder):
    """Single files that a run leaves in the layouts of other programs, and their configs."""
    base = {"model.config": r.save_config(folder / "new.json"), "data.train": str(r.save_ids(folder / "ids.safetensors", 64, 32)), "data.sequence_length": 32, "train.steps": 2, "train.global_batch": 2, "train.micro_batch": 2,
            "schedule.warmup_steps": 0, "checkpoint.every": 2, "optimizer.type": "adamw"}
    for layout, more in (("trainer", {}), ("deepspeed", {"parallel.zero": 1}), ("megatron", {"parallel.zero": 1}), ("mindformers", {})):
        r.run("train", *r.settings({**base, **more, "checkpoint.layout": layout, "train.output": str(folder / layout)}))
    (folder / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}, "train_batch_size": 4, "bf16": {"enabled": True}}))
    (folder / "health_ckpts.json").write_text(json.dumps([{"is_health": 0, "ckpt_name": "a"}, {"is_health": 1, "ckpt_name": "b"}]))
    (folder / "all_results.json").write_text(json.dumps({"epoch": 1.0, "train_loss": 2.5}))
    parts = {"optimizer.pt": "states of an optimizer", "scheduler.pt": "state of a learning-rate schedule", "rng_state*.pth": "random states", "trainer_state.json": "state of a run of the Trainer",
             "training_args.json": "arguments of a run of the Trainer", "distrib_optim.pt": "distributed optimizer", "*_optim_states.pt": "states of a DeepSpeed optimizer", "*model_states.pt": "DeepSpeed checkpoint",
             "model_optim_rng.pt": "a rank of a Megatron checkpoint", "meta.json": "MindFormers", "health_ckpts.json": "verdicts", "all_results.json": "results of a run", "ds.json": "settings of DeepSpeed",
             "latest_checkpointed_iteration.txt": "tracker file of Megatron", "latest": "tracker file of DeepSpeed"}
    for name, kind in parts.items():
        found = [p for p in folder.rglob(name) if p.is_file()]
        r.check(found, f"no {name} is there")
        said = json.loads(r.run("info", found[0], "--json").stdout)
        r.check(kind in said["kind"], f"{found[0]}: {said}")
    said = info(next(folder.rglob("optimizer.pt")))
    r.check(said["tensors"] > 0 and set(said["holds"]) >= {"state", "param_groups"} and "checkpoint-2" in said["to_use_it"], f"{said}")
    said = info(folder / "health_ckpts.json")
    r.check((said["checkpoints"], said["healthy"]) == (2, 1), f"{said}")
    r.check(info(next(folder.rglob("trainer_state.json")))["values"]["global_step"] == 2, "the step")
    (folder / "scheduler.pt").write_bytes(b"no torch file")
    r.run("info", folder / "scheduler.pt", status=2)


def test_counts_of_bare_configs(folder):
    bare = folder / "bare"
    bare.mkdir()
    for name, count in COUNTS.items():
        shutil.copy(CONFIGS / name, bare / "config.json")
        for path in (CONFIGS / name, bare):
            r.check(info(path)["parameters"] == count, f"{path}: {info(path)['parameters']}, not {count}")
    (bare / "config.json").write_text(json.dumps({**r.TINY, "model_type": "unheard_of"}))
    r.check("unheard_of" in info(bare / "config.json")["parameters_unknown"], "an unknown family")


def test_other_kinds(folder):
    run = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", GOLDEN / "chat", "--npy", folder / "ids.npy"), input=b"some words", timeout=r.LIMIT)
    r.check(run.returncode == 0, "npy")
    array = info(folder / "ids.npy")
    r.check(array["kind"] == "NumPy array" and array["dtype"] == "i32" and len(array["shape"]) == 1, array)
    r.save_config(folder / "config.json")
    r.run("bench", "train", "--model", folder / "config.json", "--sequence-length", 16, "--steps", 1, "--profile", "--timeline", folder / "time.json")
    timeline = info(folder / "time.json")
    r.check(timeline["kind"] == "timeline (trace events)" and timeline["events"] > 10, timeline)
    (folder / "plan.yaml").write_text("train:\n  steps: 7\n")
    r.check(info(folder / "plan.yaml")["main"]["train.steps"] == "7", "options of nobody")
    (folder / "other.yaml").write_text("jobs: [a]\n")
    r.check("jobs" in info(folder / "other.yaml")["problem"], "a YAML of somebody else")
    (folder / "a.svg").write_text("<svg></svg>")
    (folder / "a.html").write_text("<html><title>two runs</title></html>")
    r.check(info(folder / "a.svg")["kind"] == "picture (SVG)" and info(folder / "a.html")["title"] == "two runs", "pictures")
    (folder / "index.json").write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": {"a": "x.safetensors", "b": "x.safetensors"}}))
    r.check(info(folder / "index.json")["tensors_by_file"] == {"x.safetensors": 2}, "an index")
    (folder / "chat.jinja").write_text("{{ messages }}")
    r.check(info(folder / "chat.jinja")["kind"].startswith("chat template"), "a template")
    (folder / "x.pdf").write_text("no")
    told = r.run("info", folder / "x.pdf", status=2).stderr
    for word in ("safetensors", "metrics.jsonl", "TensorBoard", "config.json", ".npy", ".parquet", "x.pdf"):
        r.check(word in told, f"{word}: {told}")
    (folder / "empty").mkdir()
    told = r.run("info", folder / "empty", status=2).stderr
    r.check("PEFT adapter" in told and "Megatron" in told and "TensorBoard" in told, told)
    r.check(info(adapter(folder / "adapter"))["kind"] == "PEFT adapter (LORA)", "an adapter")


TEXTS = ["a ship", " one", " <s>a", "  two spaces", "a  b   c", "tab\there", "\n\nfoo", "", "   ", "日本 語", "12345 678", "<s>", "<s> a", "a </s> b", "</s>a<s>b", "émigré \u2581x", "x  "]


def encoded(tokenizer):
    done = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", tokenizer, "--jsonl"), input="\n".join(json.dumps({"text": t}) for t in TEXTS), capture_output=True, text=True)
    r.check(done.returncode == 0, done.stderr)
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def sentencepiece_folder(folder, kind, **config):
    folder.mkdir()
    shutil.copy(GOLDEN / "tokenizer" / kind / "tokenizer.model", folder)
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", **config}))
    return folder


def test_tokenizer_json_of_exports(folder):
    """A folder with a tokenizer.model alone gets a tokenizer.json of equal ids, from train and convert; Ravine then reads that one."""
    more = {"additional_special_tokens": ["<|call|>"]}
    cases = {"plain": ("llama", {}), "legacy": ("llama", {"legacy": True, **more}), "not legacy": ("llama", {"legacy": False, **more}), "no bos": ("llama", {"legacy": False, "add_bos_token": False, "add_eos_token": True}),
             "no prefix": ("llama", {"legacy": False, "add_prefix_space": False}), "nfkc": ("nfkc", {"legacy": True})}
    (folder / "text.txt").write_text("The ravine is deep and the river runs below.\n" * 60)
    for number, (case, (kind, config)) in enumerate(r.rows(cases.items(), 2, "the cases take turns")):
        source = sentencepiece_folder(folder / f"tokenizer{number}", kind, **config)
        want = encoded(source)
        out = folder / f"run{number}"
        r.run("train", *r.settings({"model.config": r.save_config(folder / "new.json", vocab_size=100, num_hidden_layers=1), "model.tokenizer": str(source), "data.train": str(folder / "text.txt"),
                                    "data.sequence_length": 16, "train.steps": 1, "train.global_batch": 1, "train.output": str(out), "schedule.warmup_steps": 0, "log.tensorboard": False, "checkpoint.every": 1}))
        made = folder / f"converted{number}"
        r.run("convert", "--input", out / "checkpoints" / "step_000001", "--to", "hf", "--output", made)
        for model in (out / "model", made):
            r.check((model / "tokenizer.json").exists() and (model / "tokenizer.model").exists(), f"{case}: {sorted(p.name for p in model.iterdir())}")
            r.check("tokenizer.json" in info(model)["tokenizer"], f"{case}: {info(model)['tokenizer']}")
            got = encoded(model)
            for text, a, b in zip(TEXTS, want, got):
                r.check(a == b, f"{case}: {text!r}: {a} from tokenizer.model, {b} from tokenizer.json")
        shutil.rmtree(out / "model")
        again = folder / f"again{number}"
        r.run("convert", "--input", out, "--to", "hf", "--output", again)
        r.check(encoded(again) == want, f"{case}: without RUN/model the tokenizer is that of the run's options")


def test_convert_takes_the_tokenizer_of_a_run(folder):
    model = chat_model(folder)
    r.run("train", f"model.path={model}", *r.settings({"data.train": str(folder / "text.txt"), "data.sequence_length": 32, "train.steps": 1, "train.global_batch": 1, "train.output": str(folder / "more"),
                                                       "log.tensorboard": False, "checkpoint.every": 1, "schedule.warmup_steps": 0}))
    out = folder / "hf"
    r.run("convert", "--input", folder / "more", "--to", "hf", "--output", out)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        r.check((out / name).exists(), f"{name} is not there: {sorted(p.name for p in out.iterdir())}")
    r.run("generate", "--model", out, "--chat", "--prompt", "Who?", "--max-new-tokens", 2)


def test_type_of_exports(folder):
    """The model that a run exports has the type of the weights it began from, as config.json says; checkpoints keep f32."""
    model = chat_model(folder)
    for kind, word, key in (("bf16", "bfloat16", "BF16"), ("f16", "float16", "F16"), ("f32", "float32", "F32")):
        source, out = folder / f"source-{kind}", folder / f"out-{kind}"
        r.run("convert", "--input", model, "--to", "hf", "--dtype", kind, "--output", source)
        done = r.run("train", f"model.path={source}", *r.settings({"data.train": str(folder / "text.txt"), "data.sequence_length": 32, "train.steps": 1, "train.global_batch": 1, "train.output": str(out),
                                                                   "log.tensorboard": False, "checkpoint.every": 1, "schedule.warmup_steps": 0, "optimizer.lr": 0}))
        config = json.loads((out / "model" / "config.json").read_text())
        types = {t[0] for t in r.load_tensors(out / "model").values()}
        r.check(types == {key} and word in (config.get("torch_dtype"), config.get("dtype")) and {config.get("torch_dtype"), config.get("dtype")} <= {word, None}, f"{kind}: {types} {config}")
        r.check(r.load_tensors(out / "model") == r.load_tensors(source), f"{kind}: a step of rate 0 keeps the bits")
        r.check((f"in {kind}" in done.stderr) == (kind != "f32"), done.stderr)
        r.run("convert", "--input", out, "--to", "hf", "--output", folder / f"masters-{kind}")
        r.check({t[0] for t in r.load_tensors(folder / f"masters-{kind}").values()} == {"F32"}, "masters")
    asked = {"data.train": str(folder / "text.txt"), "data.sequence_length": 32, "train.global_batch": 1, "train.output": str(folder / "asked"), "log.tensorboard": False, "checkpoint.every": 1,
             "schedule.warmup_steps": 0, "optimizer.lr": 0}
    for steps, wanted, given, key in ((1, "bf16", {"checkpoint.model_dtype": "f32"}, "F32"), (2, "bf16", {}, "F32"), (3, "bf16", {"checkpoint.model_dtype": "f16"}, "F16"),
                                      (3, "bf16", {"checkpoint.model_dtype": "bf16"}, "BF16")):
        r.run("train", f"model.path={folder / f'source-{wanted}'}", *r.settings({**asked, **given, "train.steps": steps}))
        r.check({t[0] for t in r.load_tensors(folder / "asked" / "model").values()} == {key}, f"step {steps}: what was asked for holds until something else is")
    wide = folder / "source-f32" / "model.safetensors"
    header, body = r.load_raw(wide)
    at = header["model.embed_tokens.weight"]["data_offsets"][0]
    r.save_raw(wide, header, body[:at] + struct.pack("<f", 1e5) + body[at + 4:])
    said = r.run("train", f"model.path={wide.parent}", *r.settings({**asked, "train.output": str(folder / "wide"), "train.steps": 1, "checkpoint.model_dtype": "f16"})).stderr
    r.check("1 weight is beyond f16 (65504), infinite in the file: export as bf16 or f32 (checkpoint.model_dtype)" in said, said)
    r.save_raw(wide, header, body[:at] + struct.pack("<3f", 1e5, -1e5, -65520) + body[at + 12:])
    said = r.run("train", f"model.path={wide.parent}", *r.settings({**asked, "train.output": str(folder / "both"), "train.steps": 1, "checkpoint.model_dtype": "f16"})).stderr
    r.check("3 weights are beyond f16 (65504)" in said, f"below and above: {said}")


if __name__ == "__main__":
    r.main(globals())
