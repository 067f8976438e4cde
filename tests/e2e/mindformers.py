"""`ravine mindformers`: the examples run as their users run them; files go on, on other ranks too; what stops a run says so; the way back."""
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "mindformers"
LENGTH = 32


def prepare(folder, rows=16):
    """A job's folder: the examples, and rows of seq_length + 1 ids."""
    for file in EXAMPLES.iterdir():
        shutil.copy(file, folder)
    draw = random.Random(1)
    r.save_mindrecord(str(folder / "data.mindrecord"), [[draw.randrange(1, 256) for _ in range(LENGTH + 1)] for _ in range(rows)])


def line(folder, *flags, config="pretrain_llama.yaml", status=0, ranks=1):
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    words = [*launch, r.PROGRAM, "mindformers", "--config", config, "--train_dataset_dir", "data.mindrecord", *flags]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"exit {done.returncode} (is {status}): {' '.join(flags)}\n{done.stderr[-2000:]}")
    return done


def losses(folder, run):
    return [(m["step"], m["loss"], m["grad_norm"]) for m in map(json.loads, (folder / run / "metrics.jsonl").read_text().splitlines()) if "loss" in m]


def state(folder, run, step, prefix="llama_small", epoch=1, rank=0):
    return r.load_tensors(folder / run / "checkpoint" / f"rank_{rank}", f"{prefix}_rank_{rank}-{epoch}_{step}.safetensors")


def test_the_example_trains_and_goes_on(folder):
    """Sixteen steps in two epochs; a run that stopped after eight of them, and one that goes on, give the same bits."""
    prepare(folder)
    done = line(folder)
    check(len(re.findall(r"\{ Epoch:\[  [12]/  2\], step:\[    \d/    8\], loss:\[\d\.\d{3}/\d\.\d{3}\], per_step_time: \d+ms, lr: ", done.stderr)) == 16, done.stderr[-1500:])
    check("100.0% |" + "█" * 50 + "|" in done.stderr, done.stderr[-500:])
    files = sorted(os.listdir(folder / "runs/mf/checkpoint/rank_0"))
    check(files == ["llama_small_rank_0-1_8.safetensors", "llama_small_rank_0-2_4.safetensors", "llama_small_rank_0-2_8.safetensors", "meta.json"], files)
    check(not {"checkpoints", "model", ".saving"} & set(os.listdir(folder / "runs/mf")), "folders of Ravine's own layout")
    whole = losses(folder, "runs/mf")
    again = line(folder, "--output_dir", "runs/on", "--load_checkpoint", "runs/mf/checkpoint", "--resume_training", "llama_small_rank_0-1_8.safetensors")
    check("Epoch:[  2/  2], step:[    1/    8]" in again.stderr, again.stderr[-800:])
    check(losses(folder, "runs/on") == whole[8:], f"{losses(folder, 'runs/on')[:2]} {whole[8:10]}")
    a, b = state(folder, "runs/mf", 8, epoch=2), state(folder, "runs/on", 8, epoch=2)
    check(a.keys() == b.keys() and all(a[k] == b[k] for k in a if not k.startswith(("loss", "scale"))), "the last files differ")
    check({"model.tok_embeddings.embedding_weight", "adam_m.model.layers.1.attention.wq.weight", "adam_v.lm_head.weight", "global_step", "epoch_num"} <= a.keys(), sorted(a))
    # what was saved is what another program reads: the weights, and nothing missing
    r.run("convert", "--input", folder / "runs/mf/checkpoint/rank_0/llama_small_rank_0-2_8.safetensors", "--model-config", write_config(folder), "--to", "hf", "--output", folder / "hf")
    line(folder, "--output_dir", "runs/tuned", "--run_mode", "finetune", "--load_checkpoint", "hf", "--epochs", "1", "--lr_schedule.learning_rate", "1e-9")
    check(abs(losses(folder, "runs/tuned")[0][1] - whole[-1][1]) < 0.5 and losses(folder, "runs/tuned")[0][1] < whole[0][1], "fine-tuning does not begin with the weights")


def test_states_of_other_optimizers(folder):
    """Adam, Lamb, SGD: a run goes on from its files bit for bit; they have MindFormers' names; those of another optimizer are refused."""
    prepare(folder)
    kinds = {"Adam": {"moment1.", "moment2."}, "Lamb": {"lamb_m.", "lamb_v."}, "SGD": {"accum.", "stat."}, "Momentum": {"accum.", "stat."}}
    weight = "model.layers.1.attention.wq.weight"
    for kind, names in kinds.items():
        betas = ("--optimizer.betas", "[0.9, 0.95]") if kind in ("Adam", "Lamb") else ("--optimizer.betas", "null", "--optimizer.eps", "null", "--optimizer.momentum", "0.9")
        flags = ("--optimizer.type", kind, *betas, "--lr_schedule.learning_rate", "0.01", "--output_dir")
        done = line(folder, *flags, kind)
        check(("write optimizer.type: SGD" in done.stderr) == (kind == "Momentum"), done.stderr[:500])
        a = state(folder, kind, 8, epoch=2)
        check({k[:-len(weight)] for k in a if k.endswith(weight)} == {"", *names}, sorted(a))
        line(folder, *flags, kind + "-on", "--load_checkpoint", kind + "/checkpoint", "--resume_training", "llama_small_rank_0-1_8")
        b = state(folder, kind + "-on", 8, epoch=2)
        check(losses(folder, kind + "-on") == losses(folder, kind)[8:] and all(a[k] == b[k] for k in a), f"{kind}: resumed, it differs")
        if kind == "Adam":
            check([abs(struct.unpack("<f", a[f"beta{i}_power"][2])[0] - beta**16) < 1e-6 for i, beta in ((1, 0.9), (2, 0.95))] == [True, True], a["beta1_power"])
        if kind == "SGD":
            check(set(a["stat." + weight][2]) == {0} and struct.unpack("<f", a["momentum"][2])[0] == struct.unpack("<f", struct.pack("<f", 0.9))[0], "accum would count for nothing")
        refused = line(folder, "--output_dir", "no", "--load_checkpoint", kind + "/checkpoint", "--resume_training", "True", status=2)
        check("optimizer.type" in refused.stderr and {"Adam": "adam", "Lamb": "lamb"}.get(kind, "sgd") in refused.stderr, refused.stderr)
    # without momentum there is a state too, which counts nothing
    flags = ("--optimizer.type", "SGD", "--optimizer.betas", "null", "--optimizer.eps", "null", "--output_dir")
    line(folder, *flags, "plain")
    check("accum." + weight in state(folder, "plain", 8, epoch=2), "MindFormers misses accum")
    line(folder, *flags, "plain-on", "--load_checkpoint", "plain/checkpoint", "--resume_training", "llama_small_rank_0-1_8")
    check(losses(folder, "plain-on") == losses(folder, "plain")[8:], "resumed, it differs")
    refused = line(folder, "--optimizer.type", "Came", "--optimizer.betas", "null", "--optimizer.eps", "null", status=2)
    check("adamw, adam, lamb and sgd" in refused.stderr, refused.stderr)


def test_evaluation(folder):
    """run_mode eval: the loss of weights on rows as they are, on one rank and on two, and nothing is written."""
    prepare(folder)
    line(folder, "--epochs", "1")
    weights = "runs/mf/checkpoint/rank_0/llama_small_rank_0-1_8.safetensors"
    there = sorted(p for p in folder.rglob("*"))
    flags = ("--run_mode", "eval", "--eval_dataset.data_loader.type", "MindDataset", "--eval_dataset_dir", "data.mindrecord", "--load_checkpoint", weights)
    done = line(folder, *flags)
    got = json.loads(done.stdout)
    check(f"PerplexityMetric = {{'PerplexityMetric': {{'loss': {got['loss']}, 'PPL': {got['perplexity']}}}}}" in done.stderr and "Evaluate Over" in done.stderr, done.stderr[-500:])
    check(abs(math.exp(got["loss"]) - got["perplexity"]) < 1e-9 and got["labels"] == 16 * LENGTH, got)
    check(sorted(p for p in folder.rglob("*")) == there, "an evaluation writes")
    # the loss of a step that does not move the weights is that of its rows: the mean over all steps is the evaluation
    line(folder, "--epochs", "1", "--run_mode", "finetune", "--load_checkpoint", weights, "--lr_schedule.learning_rate", "1e-12", "--lr_schedule.lr_end", "0", "--output_dir", "runs/still")
    still = [x for _, x, _ in losses(folder, "runs/still")]
    check(abs(sum(still) / len(still) - got["loss"]) < 1e-6, f"{still} {got}")
    two = line(folder, *flags, "--use_parallel", "True", "--parallel.parallel_mode", "1", "--parallel_config.data_parallel", "2", "--parallel.full_batch", "True", ranks=2)
    check(abs(json.loads(two.stdout)["loss"] - got["loss"]) < 1e-6, two.stdout)
    # rows of seq_length ids, as MindFormers evaluates: the last id of each is left out
    draw = random.Random(1)
    rows = [[draw.randrange(1, 256) for _ in range(LENGTH + 1)] for _ in range(15)]
    r.save_mindrecord(str(folder / "short.mindrecord"), [row[:LENGTH] for row in rows])
    cut = json.loads(line(folder, *flags, "--eval_dataset_dir", "short.mindrecord").stdout)
    check(cut["labels"] == 14 * (LENGTH - 1), f"whole batches of 2 rows, of which the first id is not predicted: {cut}")
    check("load_checkpoint" in line(folder, *flags[:-2], status=2).stderr, "weights are named")


def test_a_run_stands_for_its_newest(folder):
    """Its weights lie in its checkpoints: who asks for those of the run gets the newest, and the way to a model."""
    prepare(folder)
    line(folder, "--epochs", "1")
    run, newest = folder / "runs/mf", "checkpoint/rank_0/llama_small_rank_0-1_8.safetensors"
    told = json.loads(r.run("info", run, "--json").stdout)
    check(told["latest"] == newest and told["checkpoints"][-1] == newest and f"ravine convert --input {run}" in told["to_use_it"], f"{told}")
    said = r.run("generate", "--model", run, "--prompt", "x", status=2).stderr
    check("a run without a model" in said and f"ravine convert --input {run}" in said and "let the run finish" not in said, said)
    r.run("convert", "--input", run, "--output", folder / "of-run", "--to", "hf")
    r.run("convert", "--input", run / newest, "--model-config", write_config(folder), "--output", folder / "of-step", "--to", "hf")
    check((folder / "of-run/model.safetensors").read_bytes() == (folder / "of-step/model.safetensors").read_bytes(), "the newest one")


def test_what_is_not_finite_is_refused(folder):
    """Weights and moments of a checkpoint that a run goes on from, whatever its losses are scaled by."""
    prepare(folder)
    line(folder, "--epochs", "1")
    file = folder / "runs/mf/checkpoint/rank_0/llama_small_rank_0-1_8.safetensors"
    header, body = r.load_raw(file)
    for name in ("adam_v.model.layers.1.attention.wq.weight", "model.layers.1.attention.wq.weight"):
        begin = header[name]["data_offsets"][0]
        r.save_raw(file, header, body[:begin] + struct.pack("<f", math.nan) + body[begin + 4:])
        said = line(folder, "--output_dir", "runs/on", "--load_checkpoint", "runs/mf/checkpoint", "--resume_training", file.name, status=2).stderr
        check(file.name in said and ("v/" if name.startswith("adam") else "weights/") + "model.layers.1.self_attn.q_proj.weight" in said and "earlier checkpoint" in said, said)


def test_rows_of_two_runs_do_not_mix(folder):
    """metrics.jsonl of a run that goes on from elsewhere begins anew; the folder of a run takes none with another layout of checkpoints."""
    prepare(folder)
    line(folder)
    line(folder, "--epochs", "1", "--output_dir", "runs/on", "--lr_schedule.learning_rate", "1e-3")
    said = line(folder, "--output_dir", "runs/on", "--load_checkpoint", "runs/mf/checkpoint", "--resume_training", "llama_small_rank_0-1_8.safetensors").stderr
    check("rows of another one lay here" in said and losses(folder, "runs/on") == losses(folder, "runs/mf")[8:], said[-800:])
    line(folder, "--output_dir", "runs/on", "--load_checkpoint", "runs/on/checkpoint", "--resume_training", "True", "--epochs", "3")
    check([step for step, _, _ in losses(folder, "runs/on")] == list(range(9, 25)), "its own rows stay")
    before = (folder / "runs/mf/metrics.jsonl").read_text()
    r.save_ids(folder / "ids.safetensors", 16, 16)
    said = r.run("trainer", "--config_name", write_config(folder), "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", 2, "--output_dir", folder / "runs/mf", status=2).stderr
    check("checkpoint.layout=mindformers" in said and "--output_dir" in said and (folder / "runs/mf/metrics.jsonl").read_text() == before, said)


def test_data_sets_of_several_files(folder):
    """Files of a list, and of folders below dataset_dir, in the order of their paths."""
    prepare(folder)
    draw = random.Random(1)
    rows = [[draw.randrange(1, 256) for _ in range(LENGTH + 1)] for _ in range(16)]
    for at, part in enumerate(("set/a/x.mindrecord", "set/b/x.mindrecord", "set/c.mindrecord")):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        r.save_mindrecord(str(folder / part), [rows[:6], rows[6:10], rows[10:]][at])
    plain = ("--epochs", "1", "--train_dataset.data_loader.shuffle", "False", "--output_dir")
    line(folder, *plain, "one")
    line(folder, *plain, "below", "--train_dataset_dir", "set")
    check(losses(folder, "below") == losses(folder, "one"), "folders below dataset_dir")
    files = ("--train_dataset_dir=", "--train_dataset.data_loader.dataset_files")
    line(folder, *plain, "list", *files, json.dumps(["set/a/x.mindrecord", "set/b/x.mindrecord", "set/c.mindrecord"]))
    check(losses(folder, "list") == losses(folder, "one"), "dataset_files")
    line(folder, *plain, "turned", *files, json.dumps(["set/c.mindrecord", "set/a/x.mindrecord", "set/b/x.mindrecord"]))
    check(len(losses(folder, "turned")) == 8 and losses(folder, "turned") != losses(folder, "one"), "files are read in the order of the list")
    done = line(folder, *plain, "no", "--train_dataset.input_columns", '["input_ids", "labels"]', status=2)
    check("input_columns has labels" in done.stderr and not (folder / "no").exists(), done.stderr)


def test_new_weights_are_said(folder):
    """Fine-tuning asks for weights; a training that speaks of some and names none is told."""
    prepare(folder)
    said = line(folder, "--run_mode", "finetune", "--output_dir", "no", status=2).stderr
    check("load_checkpoint" in said and "run_mode to train" in said and not (folder / "no").exists(), said)
    r.save_config(folder / "hf" / "config.json", vocab_size=256)
    said = line(folder, "--run_mode", "finetune", "--output_dir", "no", "--pretrained_model_dir", "hf", status=2).stderr
    check("set load_checkpoint to hf" in said, said)
    for words, told in (([], False), (["--auto_trans_ckpt", "True"], True)):
        said = line(folder, "--epochs", "1", "--output_dir", f"new{told}", *words).stderr
        check(("begins with new weights" in said) == told, f"{words}: {said[:800]}")


def test_all_sizes_that_are_wrong_come_at_once(folder):
    prepare(folder)
    at = "--model.model_config."
    said = line(folder, "--output_dir", "no", at + "hidden_size", "66", at + "seq_length", "77", at + "n_kv_heads", "3", status=2).stderr
    for words in ("hidden_size 66", "seq_length is 77", f"rows have {LENGTH + 1} ids", f"set seq_length to {LENGTH}", "n_kv_heads 3"):
        check(words in said, said)


def test_data_of_another_kind_is_told(folder):
    """What is given as MindRecord and is none is called what it is."""
    prepare(folder)
    for name, text, words in (("a.jsonl", '{"text": "a line"}\n' * 9, "it is JSON"), ("b.json", '\n[{"text": "a"}, {"text": "b"}]', "it is JSON"), ("c.txt", "The river is long.\n", "it is a text")):
        (folder / name).write_text(text)
        said = line(folder, "--output_dir", "no", "--train_dataset_dir", name, status=2).stderr
        check(f"not a MindRecord file ({name}): {words}" in said and "damaged" not in said, said)


def test_weights_that_do_not_fit(folder):
    """What is wrong is named as MindFormers names it, and as it is called here."""
    prepare(folder)
    line(folder, "--epochs", "1")
    kept = state(folder, "runs/mf", 8)
    weights = {k: v for k, v in kept.items() if k.startswith(("model.", "lm_head."))}
    r.save_tensors(folder / "lacks.safetensors", {k: v for k, v in weights.items() if "layers.1.attention.wq" not in k})
    done = line(folder, "--output_dir", "no", "--run_mode", "finetune", "--load_checkpoint", "lacks.safetensors", status=2)
    check("model.layers.1.attention.wq.weight" in done.stderr and "model.layers.1.self_attn.q_proj.weight" in done.stderr, done.stderr)
    wide = line(folder, "--output_dir", "no", "--run_mode", "finetune", "--load_checkpoint", "runs/mf/checkpoint/rank_0/llama_small_rank_0-1_8.safetensors", "--model.model_config.intermediate_size", "256", status=2)
    check(re.search(r"model\.layers\.0\.feed_forward\.w\d\.weight", wide.stderr) and "model.layers.0.mlp." in wide.stderr, wide.stderr)


def strategy(cuts):
    """A strategy file of two devices: {name: axis of each dim, 0: over the devices, -1: whole}."""
    def part(number, body):
        return bytes([number << 3 | 2, len(body)]) + body
    numbers = lambda values: b"".join(b"\x08" + (b"\xff" * 9 + b"\x01" if v < 0 else bytes([v])) for v in values)
    items = [part(1, name.encode()) + part(2, part(1, numbers([2])) + part(2, numbers(axes)) + b"\x28\x00\x30\x00\x38\x00") for name, axes in cuts.items()]
    return b"\x08\x01" + b"".join(part(3, item) for item in items)


def test_strategy_files(folder):
    """A strategy that agrees with the files of weights is passed over; one of other weights, or none, is refused by name."""
    prepare(folder)
    line(folder, "--epochs", "1")
    r.run("convert", "--input", folder / "runs/mf/checkpoint/rank_0/llama_small_rank_0-1_8.safetensors", "--model-config", write_config(folder), "--to", "mindformers", "--tensor", "2", "--output", folder / "cut")
    (folder / "strategy").mkdir()
    right = {"model.norm_out.weight": [-1], "model.layers.0.attention.wq.weight": [0, -1], "model.layers.1.attention.wo.weight": [-1, 0]}
    (folder / "strategy/ckpt_strategy_rank_0.ckpt").write_bytes(strategy(right))
    (folder / "whole.ckpt").write_bytes(strategy({name: [-1] * len(axes) for name, axes in right.items()}))
    (folder / "turned.ckpt").write_bytes(strategy({"0-model.layers.1.attention.wo.weight": [0, -1]}))
    (folder / "damaged.ckpt").write_bytes(strategy(right)[:-3])
    finetune = ("--run_mode", "finetune", "--epochs", "1", "--output_dir", "on", "--load_checkpoint", "cut", "--auto_trans_ckpt", "True", "--src_strategy_path_or_dir")
    for name, words in (("whole.ckpt", "of other weights"), ("turned.ckpt", "attention.wo.weight"), ("damaged.ckpt", "damaged strategy file"), ("no.ckpt", "no no.ckpt"), ("cut", "no strategy")):
        done = line(folder, *finetune, name, status=2)
        check(words in done.stderr and not (folder / "on").exists(), f"{name}: {done.stderr}")
    line(folder, *finetune, "strategy")
    shown = subprocess.run([r.PROGRAM, "mindformers", "--config", "pretrain_llama.yaml", "--train_dataset_dir", "data.mindrecord", *finetune, "turned.ckpt", "--explain"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout
    check([x["status"] for x in map(json.loads, shown.splitlines()) if x["key"] == "src_strategy_path_or_dir"] == ["refused"], shown[-500:])


def write_config(folder):
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "intermediate_size": 128,
                                "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 32, "tie_word_embeddings": False}))
    return path


def test_files_that_were_there_stay(folder):
    """Of MindFormers itself, or of a run before: neither `keep` nor a step of the same name takes them."""
    prepare(folder)
    there = folder / "runs/mf/checkpoint/rank_0"
    there.mkdir(parents=True)
    for step in (1, 2, 4):
        (there / f"llama_small_rank_0-1_{step}.safetensors").write_text(f"mine {step}")
    line(folder, "--epochs", "1", "--callbacks[1].keep_checkpoint_max", "1")
    check(all((there / f"llama_small_rank_0-1_{step}.safetensors").read_text() == f"mine {step}" for step in (1, 2, 4)), os.listdir(there))
    check(json.loads((there / "meta.json").read_text())["last_ckpt_file"] == "llama_small_rank_0-1_8.safetensors" and len(os.listdir(there)) == 5, os.listdir(there))


def test_the_most_that_stay_counts_over_all_starts(folder):
    """keep_checkpoint_max over resumes in place; what another hand has changed, or another run has made, stays."""
    prepare(folder)
    there = folder / "runs/mf/checkpoint/rank_0"
    saved = lambda: sorted(p.name for p in there.iterdir() if p.suffix == ".safetensors")
    flags = ("--callbacks[1].keep_checkpoint_max", "2", "--callbacks[1].save_checkpoint_steps", "4")
    on = ("--load_checkpoint", "runs/mf/checkpoint", "--resume_training", "True")
    line(folder, *flags, "--epochs", "1")
    check(saved() == ["llama_small_rank_0-1_4.safetensors", "llama_small_rank_0-1_8.safetensors"], saved())
    os.utime(there / "llama_small_rank_0-1_4.safetensors", (1, 1))
    for epochs in ("2", "3"):
        line(folder, *flags, "--epochs", epochs, *on)
        check(saved() == ["llama_small_rank_0-1_4.safetensors", *(f"llama_small_rank_0-{epochs}_{step}.safetensors" for step in (4, 8))], saved())


def test_the_file_that_is_read_is_named(folder):
    prepare(folder)
    line(folder, "--epochs", "1")
    said = line(folder, "--epochs", "1", "--output_dir", "runs/tuned", "--load_checkpoint", "runs/mf/checkpoint").stderr
    check("weights  from runs/mf/checkpoint/rank_0/llama_small_rank_0-1_8.safetensors, read in" in said, said[-1500:])


def test_health_is_read_in_the_folder_of_the_run(folder):
    """As in MindFormers: verdicts that lie beside the loaded checkpoints alone are named, and a file may be named by them."""
    prepare(folder)
    line(folder, "--epochs", "1", config="guarded.yaml", ranks=2)
    on = ("--epochs", "1", "--output_dir", "runs/on", "--resume_training", "True", "--load_checkpoint")
    record = folder / "runs/guarded/health_ckpts.json"
    verdicts = json.loads(record.read_text())
    record.write_text(json.dumps([verdicts[0], {**verdicts[1], "is_health": 1}]))
    said = line(folder, *on, "runs/guarded/checkpoint/", config="guarded.yaml", ranks=2, status=2).stderr
    check("there is no runs/on/health_ckpts.json" in said and "runs/guarded/health_ckpts.json has the verdicts" in said, said)
    said = line(folder, *on, "runs/guarded/checkpoint/rank_0/llama_small_rank_0-1_2.safetensors", config="guarded.yaml", ranks=2).stderr
    check("llama_small_rank_0-1_2.safetensors" in said and losses(folder, "runs/on") == losses(folder, "runs/guarded")[2:], said[-1500:])
    record.unlink()
    said = line(folder, *on[:2], "--output_dir", "runs/none", *on[4:], "runs/guarded/checkpoint", config="guarded.yaml", ranks=2, status=2).stderr
    check("there is no runs/none/health_ckpts.json" in said, said)


def test_another_batch_counts_steps_anew(folder):
    prepare(folder)
    line(folder, "--epochs", "1")
    done = line(folder, "--epochs", "1", "--output_dir", "runs/on", "--batch_size", "1", "--load_checkpoint", "runs/mf/checkpoint", "--resume_training", "llama_small_rank_0-1_4")
    check([s for s, _, _ in losses(folder, "runs/on")] == list(range(9, 17)), f"{losses(folder, 'runs/on')} {done.stderr[-500:]}")
    newest = json.loads((folder / "runs/on/checkpoint/rank_0/meta.json").read_text())
    updates = state(folder, "runs/on", newest["last_step"], epoch=newest["last_epoch"])["global_step"][2]
    check(int.from_bytes(updates, "little") == 16, f"4 updates of twice the batch are 8, and 8 more: {updates} in {newest}")
    skipped = line(folder, "--output_dir", "runs/data", "--load_checkpoint", "runs/mf/checkpoint", "--resume_training", "True", "--ignore_data_skip", "True")
    check("step:[    1/    8]" in skipped.stderr, skipped.stderr[-500:])


def test_the_guarded_example_on_two_stages(folder):
    """Data skip and health of checkpoints, as the page of the two has them: from the launch script, on two ranks."""
    prepare(folder)
    done = line(folder, "--epochs", "1", config="guarded.yaml", ranks=2)
    check(len(re.findall(r"embedding_local_norm: \d", done.stderr)) == 4 and " norm_size: (" in done.stderr, done.stderr[-1500:])
    health = json.loads((folder / "runs/guarded/health_ckpts.json").read_text())
    check([h["ckpt_name"] for h in health] == ["llama_small_rank_0-1_2.safetensors", "llama_small_rank_0-1_4.safetensors"] and all(h["is_health"] == 0 for h in health), health)
    for rank in (0, 1):
        meta = json.loads((folder / f"runs/guarded/checkpoint/rank_{rank}/meta.json").read_text())
        check(meta == {"last_epoch": 1, "last_step": 4, "last_ckpt_file": f"llama_small_rank_{rank}-1_4.safetensors"}, meta)
    first, second = state(folder, "runs/guarded", 4), state(folder, "runs/guarded", 4, rank=1)
    check("model.tok_embeddings.embedding_weight" in first and "model.layers.0.attention.wq.weight" in first and "lm_head.weight" in second and "model.layers.1.attention.wq.weight" in second, "stages hold the layers of others")
    check(not {k for k in first if k in second and "layers" in k}, "a layer lies on both stages")
    # the two stages' files go on, on one rank too, with the same numbers
    line(folder, "--output_dir", "runs/two", "--load_checkpoint", "runs/guarded/checkpoint", "--resume_training", "llama_small_rank_0-1_2.safetensors", "--epochs", "1", config="guarded.yaml", ranks=2)
    check(losses(folder, "runs/two") == losses(folder, "runs/guarded")[2:], "resumed on two ranks")
    line(folder, "--output_dir", "runs/one", "--load_checkpoint", "runs/guarded/checkpoint", "--resume_training", "llama_small_rank_0-1_2.safetensors", "--epochs", "1", "--use_parallel", "True",
         "--parallel_config.pipeline_stage", "1", "--runner_config.gradient_accumulation_steps", "2", "--use_checkpoint_health_monitor", "False", config="guarded.yaml")
    for (s, a, b), (t, x, y) in zip(losses(folder, "runs/one"), losses(folder, "runs/guarded")[2:], strict=True):
        check(s == t and abs(a - x) < 1e-5 * x and abs(b - y) < 1e-4 * y, f"step {s}: {a} {b}, on two ranks {x} {y}")
    # no checkpoint is healthy: the run is not gone on with unless one is named
    (folder / "runs/guarded/health_ckpts.json").write_text(json.dumps([{**h, "is_health": 1} for h in health]))
    refused = line(folder, "--load_checkpoint", "runs/guarded/checkpoint", "--resume_training", "True", config="guarded.yaml", ranks=2, status=2)
    check("no healthy checkpoints" in refused.stderr, refused.stderr)


def test_spikes_are_skipped_and_end_a_run(folder):
    prepare(folder)
    quiet = ("--use_skip_data_by_global_norm", "True", "--monitor_config.monitor_on", "True", "--monitor_config.global_norm_spike_threshold", "0.001")
    done = line(folder, *quiet, "--monitor_config.global_norm_spike_count_threshold", "3", status=1)
    check(done.stderr.count("is_skip: [ True]") == 3 and "of step 3 has been 3 consecutive times greater than threshold 0.001, stop training" in done.stderr, done.stderr[-1500:])
    check(done.stderr.count("{ Epoch:[") == 3, "the step that ends the run has its line")
    step = re.search(r"step:\[    1/    8\].*\n.*\n.*opt_global_step: 0, .*\n.*of step 1 has been 1 consecutive times greater than threshold: 0.001", done.stderr)
    check(step, "the lines of a skipped step stand behind its own")
    stop = ("--output_dir", "runs/tre", "--monitor_config.monitor_on", "True", "--monitor_config.check_for_global_norm", "True", "--monitor_config.global_norm_spike_threshold", "0.001")
    line(folder, *stop, status=1)
    check(list(json.loads((folder / "runs/tre/abnormal_global_norm.json").read_text())) == ["1"], "the step that ended the run")
    done = line(folder, *stop, status=1)
    check("TREError" in done.stderr and list(json.loads((folder / "runs/tre/abnormal_global_norm.json").read_text())) == ["1", "2"], "past the step that is recorded, up to the next")


def test_a_launch_script_is_the_job(folder):
    prepare(folder)
    done = subprocess.run([r.PROGRAM, "mindformers", "--script", "launch.sh", "--print-config"], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
    check(done.startswith("# mpirun -n 2 ravine mindformers --script launch.sh"), done[:200])
    (folder / "printed.yaml").write_text(done)
    shown = subprocess.run([r.PROGRAM, "mindformers", "--script", "launch.sh", "--explain"], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [json.loads(t) for t in shown.splitlines()]
    check({x["status"] for x in lines} <= {"used", "inert", "default", "derived"} and all(x["reason"] for x in lines if x["status"] == "inert"), "a line without a reason")
    check(any(x["key"] == "callbacks[1].prefix" and x["option"] == "checkpoint.prefix" for x in lines), "callbacks are keys")


def test_the_way_back(folder):
    """The config of a run, in MindFormers' words, comes to the same run."""
    prepare(folder)
    line(folder, "--epochs", "1")
    said = r.run("config", "--to", "mindformers", "--config", folder / "runs/mf/config.yaml")
    (folder / "back.yaml").write_text(said.stdout)
    done = line(folder, "--output_dir", "runs/back", config="back.yaml")
    check(losses(folder, "runs/back") == losses(folder, "runs/mf"), f"{said.stderr} {done.stderr[-400:]}")


def test_a_checkpoint_that_is_not_one(folder):
    prepare(folder)
    line(folder, "--epochs", "1")
    newest = folder / "runs/mf/checkpoint/rank_0/llama_small_rank_0-1_8.safetensors"
    (folder / "cut.safetensors").write_bytes(newest.read_bytes()[:-100])
    for name, words in (("cut.safetensors", "cut.safetensors"), ("config.json", "config.json"), ("data.mindrecord", "data.mindrecord")):
        write_config(folder)
        for resume in ("True", "False"):
            done = line(folder, "--output_dir", "runs/no", "--load_checkpoint", name, "--resume_training", resume, status=2)
            check(words in done.stderr, f"{name} {resume}: {done.stderr}")
    os.truncate(folder / "data.mindrecord", 17000)
    done = line(folder, "--output_dir", "runs/no", status=2)
    check("data.mindrecord" in done.stderr and "cut" in done.stderr, done.stderr)


if __name__ == "__main__":
    import sys
    sys.exit(r.main(globals()))
