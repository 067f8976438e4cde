"""checkpoint.layout=megatron: a run leaves iter_NNNNNNN and latest_checkpointed_iteration.txt as a run of Megatron does, and goes on from them, on other ranks too; `ravine megatron --load` goes on as Megatron does. What Megatron
makes of them is judged by tools/golden/judge_megatron.py."""
import contextlib
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import ravine_run as r
from megatron_files import load
from ravine_run import check

TRACKER = "latest_checkpointed_iteration.txt"
ROUND = 2**-20  # relative: sums over ranks lie in another order
SHAPE = ["--num-layers", 4, "--hidden-size", 32, "--ffn-hidden-size", 64, "--num-attention-heads", 4, "--seq-length", 16, "--max-position-embeddings", 64, "--position-embedding-type", "rope", "--normalization", "RMSNorm",
         "--swiglu", "--disable-bias-linear", "--untie-embeddings-and-output-weights", "--attention-dropout", 0, "--hidden-dropout", 0, "--make-vocab-size-divisible-by", 128, "--vocab-size", 255,
         "--tokenizer-type", "NullTokenizer"]


def ranked(ranks, words, status=0):
    launch = ["mpirun", "--oversubscribe", "-n", str(ranks), *(["--allow-run-as-root"] if os.geteuid() == 0 else [])] if ranks > 1 else []
    done = subprocess.run([*launch, r.PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"exit {done.returncode}: {' '.join(map(str, words))}\n{done.stderr[-3000:]}")
    return done


def train(folder, output="out", ranks=1, status=0, **more):
    base = {"model.config": str(folder / "config.json"), "data.train": [str(folder / "ids.safetensors")], "data.sequence_length": 16, "train.steps": 8, "train.global_batch": 4, "train.micro_batch": 2, "train.threads": 1,
            "optimizer.type": "adamw", "optimizer.lr": 3e-3, "checkpoint.every": 2, "checkpoint.keep": 0, "checkpoint.layout": "megatron", "log.tensorboard": False, "train.output": str(folder / output)}
    base.update({key.replace("__", "."): value for key, value in more.items()})
    return ranked(ranks, ["train", *r.settings({k: v for k, v in base.items() if v is not None})], status)


def prepare(folder, **fields):
    r.save_config(folder / "config.json", num_hidden_layers=4, num_key_value_heads=2, **fields)
    r.save_ids(folder / "ids.safetensors", 64, 16)


def losses(output):
    return [row["loss"] for row in r.metrics(output).values() if "loss" in row]


def steps(output):
    return sorted(p.name for p in output.iterdir() if p.name.startswith("iter_"))


def named(*numbers):
    return [f"iter_{n:07}" for n in numbers]


def back_to(output, step):
    """As if the run had been killed behind this step."""
    for name in steps(output):
        if name > named(step)[0]:
            shutil.rmtree(output / name)
    shutil.rmtree(output / "model")
    (output / TRACKER).write_text(str(step))


def close(a, b):
    return len(a) == len(b) > 0 and all(abs(x - y) <= ROUND * abs(y) for x, y in zip(a, b))


def test_a_run_goes_on_from_what_it_left(folder):
    for zero, compute in ((0, "f32"), (1, "f32"), (0, "bf16"), (1, "f16")):
        at = folder / f"{zero}-{compute}"
        at.mkdir()
        prepare(at)
        more = {"parallel.zero": zero, "precision.compute": compute}
        train(at, **more)
        out = at / "out"
        check(steps(out) == named(2, 4, 6, 8) and (out / TRACKER).read_text() == "8", f"{steps(out)}")
        check(not (out / ".saving").exists() and not (out / "checkpoints").exists() and (out / "model" / "config.json").exists(), f"{os.listdir(out)}")
        files = sorted(p.name for p in (out / "iter_0000004" / "mp_rank_00").iterdir())
        check(files == (["distrib_optim.pt"] if zero else []) + ["model_optim_rng.pt"], f"{files}")
        state, _ = load(out / "iter_0000004" / "mp_rank_00" / "model_optim_rng.pt")
        a = state["args"]
        check(state["iteration"] == a.iteration == 4 and a.consumed_train_samples == 16 and a.use_distributed_optimizer == (zero == 1), f"{vars(a)}")
        check((a.bf16, a.fp16) == (compute == "bf16", compute == "f16") and a.tensor_model_parallel_size == 1, f"{vars(a)}")
        optimizer = state["optimizer"] if "param_groups" in state["optimizer"] else state["optimizer"]["optimizer"]
        rate = r.metrics(out)[5]["lr"]
        check(all(abs(group["lr"] - rate) < 1e-12 and group["step"] == 4 for group in optimizer["param_groups"]), f"{optimizer['param_groups']} and {rate}")
        whole, model = losses(out), r.weights(out)
        back_to(out, 4)
        said = train(at, **more)
        check("iter_0000004 after step 4" in said.stderr + said.stdout, said.stderr + said.stdout)
        check(losses(out) == whole and r.weights(out) == model, f"{zero} {compute}: {losses(out)} and {whole}")


def test_other_ranks_go_on(folder):
    """From 2 tensor ranks x 2 stages to 2 data ranks and 1 rank, and the other way round."""
    prepare(folder)
    train(folder)
    whole = losses(folder / "out")
    four = {"parallel.tensor": 2, "parallel.pipeline": 2}
    train(folder, "four", ranks=4, **four, train__steps=4, schedule__steps=8)
    check(sorted(p.name for p in (folder / "four/iter_0000004").glob("mp_*")) == [f"mp_rank_0{t}_00{p}" for t in (0, 1) for p in (0, 1)], "a folder for each tensor rank and stage")
    check(close(losses(folder / "four"), whole[:4]), f"{losses(folder / 'four')} and {whole}")
    train(folder, "two", ranks=2, checkpoint__resume=str(folder / "four"), parallel__zero=1)
    check(close(losses(folder / "two"), whole[4:]) and steps(folder / "two") == named(6, 8), f"{losses(folder / 'two')} and {whole}")
    check((folder / "two/iter_0000006/mp_rank_00/distrib_optim.pt").exists(), "the distributed optimizer's file")
    train(folder, "one", checkpoint__resume=str(folder / "two" / "iter_0000006"))
    check(close(losses(folder / "one"), whole[6:]), f"{losses(folder / 'one')} and {whole}")
    train(folder, "stages", ranks=4, checkpoint__resume=str(folder / "out" / "iter_0000004"), **four)
    check(close(losses(folder / "stages"), whole[4:]), f"{losses(folder / 'stages')} and {whole}")


def test_the_names_of_2023_stay(folder):
    prepare(folder)
    train(folder, "own", checkpoint__layout="ravine")
    whole = losses(folder / "own")
    r.run("convert", "--input", folder / "own/checkpoints/step_000004", "--output", folder / "old", "--to", "megatron-legacy", "--optimizer")
    train(folder, "old")
    check(losses(folder / "old") == whole[4:] and steps(folder / "old") == named(4, 6, 8), f"{losses(folder / 'old')} and {whole}")
    for step in (4, 6):
        names = load(folder / "old" / named(step)[0] / "mp_rank_00" / "model_optim_rng.pt")[0]["model"]
        check(list(names) == ["language_model"], f"{step}: {list(names)}")


def test_experts_go_on(folder):
    """A model with experts on one expert rank; several are refused, as its files have all experts for each tensor rank."""
    prepare(folder, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2)
    train(folder, train__steps=4)
    whole, out = losses(folder / "out"), folder / "out"
    back_to(out, 2)
    train(folder, train__steps=4)
    check(losses(out) == whole, f"{losses(out)} and {whole}")
    check("parallel.expert 2" in train(folder, "no", ranks=2, status=2, parallel__expert=2).stderr and not (folder / "no").exists(), "experts over ranks")


def test_the_limit_spares_what_is_not_as_the_run_made_it(folder):
    prepare(folder)
    out = folder / "out"
    train(folder, train__steps=4, schedule__steps=8, checkpoint__keep=1)
    check(steps(out) == named(4), f"{steps(out)}")
    (out / "iter_0000004" / "mp_rank_00" / "notes.txt").write_text("mine")
    train(folder, schedule__steps=8, checkpoint__keep=1)
    check(steps(out) == named(4, 8) and (out / "iter_0000004/mp_rank_00/notes.txt").read_text() == "mine", f"{steps(out)}")
    back_to(out, 4)
    (out / "iter_0000006").mkdir()
    (out / "iter_0000006" / "notes.txt").write_text("mine")
    said = train(folder, schedule__steps=8, status=2).stderr
    check("iter_0000006" in said and "not this run's own" in said and (out / "iter_0000006/notes.txt").exists(), said)
    shutil.rmtree(out / "iter_0000006")
    (out / "iter_0000004/mp_rank_00/notes.txt").unlink()
    for make in (lambda to: to.symlink_to(out / "iter_0000004"), lambda to: shutil.copytree(out / "iter_0000004", to)):
        make(out / "iter_0000006")
        said = train(folder, schedule__steps=8, status=2).stderr
        check("iter_0000006" in said and "not this run's own" in said and len(losses(out)) == 8, said)
        (out / "iter_0000006").unlink() if (out / "iter_0000006").is_symlink() else shutil.rmtree(out / "iter_0000006")


def test_set_back_by_the_tracker_file(folder):
    """The file decides, not the largest number; what is behind it is replaced as the run comes there, and no limit takes what was just written."""
    prepare(folder)
    out = folder / "out"
    train(folder)
    whole = losses(out)
    (out / TRACKER).write_text("2\n")
    shutil.rmtree(out / "model")
    train(folder, checkpoint__keep=1, train__steps=4, schedule__steps=8)
    check(steps(out) == named(4, 6, 8) and (out / TRACKER).read_text() == "4" and losses(out) == whole[:4], f"{steps(out)} {losses(out)}")


def test_what_is_wrong_is_said(folder):
    prepare(folder)
    out = folder / "out"
    train(folder, train__steps=4, schedule__steps=8)
    for more, words in (({"optimizer.type": "lion"}, ["adamw and adam", "checkpoint.layout=ravine"]), ({"lora.rank": 2, "lora.targets": ["q_proj"]}, ["an adapter"]), ({"parallel.zero": 2}, ["parallel.zero=1"]),
                        ({"train.freeze": ["*norm*"]}, ["train.freeze"]), ({"optimizer.groups": [{"match": "*norm*", "lr_mult": 0.5}]}, ["optimizer.groups"]), ({"health.embedding_norm": 1.0}, ["health.embedding_norm=0"])):
        said = train(folder, "no", status=2, **more).stderr
        check(all(w in said for w in ["checkpoint.layout is megatron", *words]) and not (folder / "no").exists(), f"{more}: {said}")
    said = train(folder, status=2, checkpoint__resume="none").stderr
    check("already holds checkpoints" in said and "iter_*" in said, said)
    file = out / "iter_0000004" / "mp_rank_00" / "model_optim_rng.pt"
    whole = file.read_bytes()
    for size in (len(whole) // 2, len(whole) - 1, 0):
        file.write_bytes(whole[:size])
        said = train(folder, status=2).stderr
        check("model_optim_rng.pt" in said and losses(out), f"{size}: {said}")
    file.write_bytes(whole)
    (out / TRACKER).write_text("3")
    check("iter_0000003" in train(folder, status=2).stderr, "a step that is not there")
    (folder / "empty").mkdir()
    for resume, words in ((folder / "gone", "no such folder"), (folder / "empty", "no checkpoint of Megatron")):
        check(words in train(folder, "other", status=2, checkpoint__resume=str(resume)).stderr, words)
    r.run("convert", "--input", out / "model", "--output", folder / "release", "--to", "megatron-mcore")
    check("model.weights=" in train(folder, "other", status=2, checkpoint__resume=str(folder / "release")).stderr, "weights alone")


def test_answers_of_a_step(folder):
    """Each step is a model for other commands, with or without the folder around it."""
    prepare(folder, rope_scaling={"rope_type": "linear", "factor": 2.0})
    train(folder, train__steps=2)
    (folder / "ids.json").write_text("[[1, 2, 3, 4]]")
    said = [r.run("generate", "--model", folder / "out" / where, "--prompt-ids", folder / "ids.json", "--max-new-tokens", 8, "--json").stdout for where in ("iter_0000002", "model")]
    check(said[0] == said[1] and said[0], f"{said}")
    said = r.run("info", folder / "out", "--json").stdout
    check('"kind":"run"' in said.replace(" ", ""), f"a run, whatever its checkpoints are: {said}")
    shutil.copytree(folder / "out" / "iter_0000002", folder / "alone" / "iter_0000002")
    (folder / "alone" / TRACKER).write_text("2")
    r.run("convert", "--input", folder / "alone", "--output", folder / "hf", "--to", "hf")
    check('"factor": 2.0' in (folder / "hf" / "config.json").read_text(), "the scaling of positions, which arguments do not carry")


def documents(folder):
    """An indexed dataset: 40 documents of 40 ids."""
    prefix = folder / "data_document"
    lengths, ids = [40] * 40, [(i * 7 + i // 40) % 250 + 1 for i in range(1600)]
    (folder / "data_document.bin").write_bytes(struct.pack("<1600i", *ids))
    (folder / "data_document.idx").write_bytes(struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 4, 40, 41) + struct.pack("<40i", *lengths) + struct.pack("<40q", *range(0, 6400, 160)) + struct.pack("<41q", *range(41)))
    return prefix


def megatron(folder, *flags, ranks=1, iters=8, status=0, **more):
    words = ["megatron", *SHAPE, "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", iters, "--lr-decay-iters", 8, "--lr", "3e-3", "--lr-decay-style", "linear", "--data-path", folder / "data_document", "--split", "1,0,0",
             "--log-interval", 1, "--save-interval", 2, *flags, "train.threads=1"]
    return ranked(ranks, words, status)


def blend_files(folder):
    """a: 6 short documents; b: 40 longer ones."""
    for name, documents, length in (("a", 6, 18), ("b", 40, 40)):
        n, ids = documents * length, [(i * 7 + i // 40 + (100 if name == "a" else 0)) % 250 + 1 for i in range(documents * length)]
        (folder / f"{name}.bin").write_bytes(struct.pack(f"<{n}i", *ids))
        (folder / f"{name}.idx").write_bytes(struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 4, documents, documents + 1) + struct.pack(f"<{documents}i", *[length] * documents)
                                             + struct.pack(f"<{documents}q", *range(0, 4 * n, 4 * length)) + struct.pack(f"<{documents + 1}q", *range(documents + 1)))
    return folder / "a", folder / "b"


def test_a_weight_of_one_is_a_weight(folder):
    """1 a 1 b is half and half, by flags and in YAML, and `data index` has the same samples; a b goes by size."""
    a, b = blend_files(folder)
    got = {}
    for name, words in (("size", [a, b]), ("half", [0.5, a, 0.5, b]), ("one", [1, a, 1, b]), ("whole", ["1.0", a, "1.0", b])):
        megatron(folder, "--data-path", *words, "--save", folder / name)
        got[name] = losses(folder / name)
    check(got["one"] == got["half"] == got["whole"] != got["size"], f"{got}")
    sources = {"given": f"[{{path: {a}, weight: 1}}, {{path: {b}, weight: 1}}]", "none": f"[{a}, {b}]"}
    ids = {}
    for name, text in sources.items():
        shown = r.run("data", "show", "--step", 1, "--json", f"data.train={text}", *r.settings({"model.config": str(r.save_config(folder / "config.json")), "data.order": "megatron", "data.split": "1,0,0", "data.sequence_length": 16,
                      "train.seed": 1234, "train.steps": 8, "train.global_batch": 4, "train.micro_batch": 2, "train.output": str(folder / "none")})).stdout
        ids[name] = [json.loads(line)["ids"] for line in shown.splitlines()]
        flags = ["--weights", 1, 1] if name == "given" else []
        r.run("data", "index", "--prefix", a, b, *flags, "--split", "1,0,0", "--sequence-length", 16, "--seed", 1234, "--samples", "32,0,0", "--out", folder / f"index-{name}")
        header, body = r.load_raw(folder / f"index-{name}" / "train-samples.safetensors")
        begin, end = header["tokens"]["data_offsets"]
        rows = struct.unpack(f"<{(end - begin) // 4}i", body[begin:end])
        check(ids[name] == [list(rows[16 * i:16 * (i + 1)]) for i in range(4)], f"{name}: {ids[name]}")
    check(ids["given"] != ids["none"], "a weight that is given")


def test_load_goes_on(folder):
    documents(folder)
    megatron(folder, "--save", folder / "whole")
    whole = losses(folder / "whole")
    # in place, as scripts that are sent off again have it: nothing there, then the newest
    d = folder / "d"
    for iters in (4, 8):
        shutil.rmtree(d / "model", ignore_errors=True)
        megatron(folder, "--load", str(d) + "/", "--save", d, iters=iters)
    check(losses(d) == whole and steps(d) == named(2, 4, 6, 8) and (d / TRACKER).read_text() == "8", f"{losses(d)} and {whole}")
    # from another folder, whose files stay as they are
    a, before = folder / "a", {}
    shutil.copytree(d, a)
    back_to(a, 4)
    before = {p: p.read_bytes() for p in a.rglob("*") if p.is_file()}
    megatron(folder, "--load", a, "--save", folder / "b")
    check(losses(folder / "b") == whole[4:] and steps(folder / "b") == named(6, 8), f"{losses(folder / 'b')} and {whole}")
    check({p: p.read_bytes() for p in a.rglob("*") if p.is_file()} == before, "what --load names is not written to")
    # once more: --save counts, and says so
    shutil.rmtree(folder / "b" / "model")
    back = folder / "b" / "iter_0000008"
    shutil.rmtree(back), (folder / "b" / TRACKER).write_text("6")
    said = megatron(folder, "--load", a, "--save", folder / "b").stderr
    check("holds iteration 6" in said and losses(folder / "b") == whole[4:], said)
    explained = megatron(folder, "--load", a, "--save", folder / "b", "--explain").stdout
    check("Megatron would read --load" in explained, explained)
    # on other ranks, with Megatron's distributed optimizer
    megatron(folder, "--load", a, "--save", folder / "two", "--tensor-model-parallel-size", 2, "--use-distributed-optimizer", ranks=2)
    check(close(losses(folder / "two"), whole[4:]) and (folder / "two/iter_0000006/mp_rank_01/distrib_optim.pt").exists(), f"{losses(folder / 'two')} and {whole}")


def rates(output):
    return [row["lr"] for row in r.metrics(output).values() if "lr" in row]


def test_whose_schedule_counts(folder):
    """As OptimizerParamScheduler.load_state_dict: the flags' with --override.., the checkpoint's with --use-checkpoint.., neither wants both equal. What else is other is said."""
    documents(folder)
    megatron(folder, "--lr", "1e-3", "--lr-decay-style", "constant", "--save", folder / "s", iters=4)
    cosine = ["--lr", "2e-4", "--min-lr", "1e-5", "--lr-decay-style", "cosine", "--load", folder / "s"]
    new = [1e-5 + 1.9e-4 * 0.5 * (1 + math.cos(math.pi * i / 8)) for i in range(4, 8)]
    said = megatron(folder, *cosine, "--save", folder / "no", status=2).stderr
    for word in ("0.0002", "0.001", "cosine", "constant", "--override-opt_param-scheduler", "--use-checkpoint-opt_param-scheduler"):
        check(word in said, f"{word}: {said}")
    check(not (folder / "no").exists(), "nothing is written")
    for flag, want in (("--override-opt_param-scheduler", new), ("--override-lr-scheduler", new), ("--use-checkpoint-opt_param-scheduler", [1e-3] * 4), ("--use-checkpoint-lr-scheduler", [1e-3] * 4)):
        said = megatron(folder, *cosine, "--save", folder / flag, flag).stderr
        check(all(abs(a - b) <= 1e-4 * b for a, b in zip(rates(folder / flag), want, strict=True)), f"{flag}: {rates(folder / flag)}")
        check(("changed  optimizer.lr: 0.0002, was 0.001" in said) == (want == new), said)
    # what the checkpoint's schedule was goes on in the files that the run leaves
    last = folder / "--use-checkpoint-opt_param-scheduler"
    shutil.rmtree(last / "model")
    check(rates_after(folder, last) == [1e-3] * 2, f"{rates_after(folder, last)}")
    # one value alone: the decay, the length
    for flags, word in ((["--weight-decay", 0.5], "--weight-decay"), (["--lr-warmup-iters", 2], "--lr-warmup-iters")):
        same = ["--lr", "1e-3", "--lr-decay-style", "constant", "--load", folder / "s", *flags]
        check(word in megatron(folder, *same, "--save", folder / "no", status=2).stderr, word)
        said = megatron(folder, *same, "--save", folder / f"over{word}", "--override-opt_param-scheduler").stderr
        check("changed  " in said and "was" in said, said)
    # betas are no part of the schedule, and a constant rate has no end
    said = megatron(folder, "--lr", "1e-3", "--lr-decay-style", "constant", "--load", folder / "s", "--save", folder / "betas", "--adam-beta2", 0.9, "--seed", 7, "--min-lr", "1e-5").stderr
    check("changed  optimizer.betas: [0.9, 0.9], was [0.9, 0.999]" in said and "changed  train.seed: 7, was 1234" in said, said)
    same = megatron(folder, "--lr", "1e-3", "--lr-decay-style", "constant", "--load", folder / "s", "--save", folder / "same").stderr
    check("changed  optimizer" not in same and "changed  schedule" not in same, same)


def rates_after(folder, last):
    megatron(folder, "--lr", "1e-3", "--lr-decay-style", "constant", "--load", last, "--save", folder / "after", iters=10)
    out = rates(folder / "after")
    shutil.rmtree(folder / "after")
    return out


def test_stages_of_other_sizes(folder):
    """--num-layer-list: Megatron's files of such stages are written and gone on from."""
    documents(folder)
    megatron(folder, "--save", folder / "whole")
    flags = ["--pipeline-model-parallel-size", 2, "--num-layer-list", "1,3"]
    megatron(folder, *flags, "--save", folder / "a", ranks=2, iters=4)
    check(close(losses(folder / "a"), losses(folder / "whole")[:4]), f"{losses(folder / 'a')}")
    count = [len(set(re.findall(rb"layers\.(\d+)\.", (folder / f"a/iter_0000004/mp_rank_00_00{p}/model_optim_rng.pt").read_bytes()))) for p in (0, 1)]
    check(count == [1, 3], f"{count}")
    megatron(folder, *flags, "--load", folder / "a", "--save", folder / "b", ranks=2)
    megatron(folder, "--load", folder / "a", "--save", folder / "one")
    for name in ("b", "one"):
        check(close(losses(folder / name), losses(folder / "whole")[4:]), f"{name}: {losses(folder / name)}")


def test_a_run_goes_on_from_torch_dist(folder):
    """Megatron's form since 2024, with its moments; weights alone with --finetune."""
    golden = Path(__file__).resolve().parents[1] / "golden" / "convert"
    ids = r.save_ids(folder / "ids.safetensors", 40, 16, 50)
    more = {"model.config": str(golden / "hf/config.json"), "data.train": [str(ids)], "data.sequence_length": 16, "train.global_batch": 4, "train.steps": 9, "log.tensorboard": False, "checkpoint.every": 0,
            "checkpoint.layout": "megatron", "checkpoint.resume": str(golden / "torch_dist"), "train.output": str(folder / "on"), "optimizer.lr": 1e-3, "optimizer.betas": [0.9, 0.99]}
    said = ranked(1, ["train", *r.settings(more)]).stderr
    check("after step 7" in said and sorted(r.metrics(folder / "on")) == [8, 9], said)
    check("changed  optimizer.betas: [0.9, 0.99], was [0.9, 0.95]" in said and "changed  train.seed: 42, was 1234" in said, said)


def test_weights_alone(folder):
    """--finetune, --no-load-optim and a release begin at step 0 with the weights; what Megatron's files cannot hold keeps Ravine's form."""
    documents(folder)
    megatron(folder, "--save", folder / "a", iters=4)
    r.run("convert", "--input", folder / "a" / "model", "--output", folder / "release", "--to", "megatron-mcore")
    first = []
    for i, flags in enumerate((["--load", folder / "a", "--finetune"], ["--load", folder / "a", "--no-load-optim", "--no-load-rng"], ["--load", folder / "release"])):
        said = megatron(folder, *flags, "--save", folder / f"on-{i}", "--no-save-rng", iters=2).stderr
        check(("Megatron would count on from iteration 4" in said) == (i == 1), said)
        first.append(losses(folder / f"on-{i}"))
        check(steps(folder / f"on-{i}") == named(2), f"{steps(folder / f'on-{i}')}")
    check(first[0] == first[1] == first[2] and len(first[0]) == 2, f"{first}")
    said = megatron(folder, "--load", folder / "a", "--optimizer", "sgd", "--save", folder / "sgd", iters=2).stderr
    check("Ravine's own form" in said and "adamw and adam" in said and "begins at step 0" in said and r.checkpoints(folder / "sgd") == ["step_000002"] and not steps(folder / "sgd"), said)


def test_a_run_ends_by_plan(folder):
    """--exit-interval and --exit-duration-in-mins: the run saves and ends with exit status 0, and the same line goes on."""
    documents(folder)
    megatron(folder, "--save", folder / "whole")
    d = folder / "d"
    for done in (3, 6, 8):
        said = megatron(folder, "--load", d, "--save", d, "--exit-interval", 3).stderr
        check((f"train.exit_every=3: stopped after step {done}, saved" in said) == (done < 8) and steps(d)[-1:] == named(done), f"{steps(d)}: {said}")
        check((d / "model").exists() == (done == 8), f"after step {done}: {os.listdir(d)}")
    check(losses(d) == losses(folder / "whole") and r.weights(d) == r.weights(folder / "whole"), f"{losses(d)}")
    megatron(folder, "--save", folder / "two", "--exit-interval", 3, ranks=2)
    check(steps(folder / "two") == named(2, 3), f"{steps(folder / 'two')}")
    said = megatron(folder, "--save", folder / "late", "--exit-duration-in-mins", 60, "train.exit_minutes=1e-6").stderr  # what is typed counts over the flag
    check("train.exit_minutes=1e-06: stopped after step 1, saved" in said and steps(folder / "late") == named(1), said)
    said = megatron(folder, "--save", folder / "early", "--exit-duration-in-mins", 60).stderr
    check("stopped" not in said and steps(folder / "early")[-1:] == named(8), said)


def test_figures_on_request(folder):
    """--log-params-norm, --log-num-zeros-in-grad and --log-throughput: in lines, in metrics.jsonl and in the folder of --tensorboard-dir, which has a point of every step."""
    documents(folder)
    asked, found = ["--log-params-norm", "--log-num-zeros-in-grad", "--log-throughput", "--log-timers-to-tensorboard", "--log-interval", 2], {}
    for name, ranks, more in (("one", 1, []), ("tensor", 2, ["--tensor-model-parallel-size", 2]), ("shards", 2, ["--use-distributed-optimizer"])):
        out, board = folder / name, folder / f"board-{name}"
        said = megatron(folder, "--save", out, "--tensorboard-dir", board, *asked, *more, ranks=ranks).stderr
        lines = re.findall(r"^ iteration .* throughput per GPU \(TFLOP/s/GPU\): [\d.]+ \| learning rate: .* grad norm: [\d.]+ \| num zeros: \d+\.0 \| params norm: [\d.]+ \|", said, re.M)
        check(len(lines) == 4, said)
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        check([row["step"] for row in rows] == [2, 4, 6, 8] and all(row["tflops"] > 0 for row in rows), f"{rows}")
        found[name] = [(row["weight_norm"], row["gradient_zeros"]) for row in rows]
        events = b"".join(p.read_bytes() for p in board.glob("events.out.tfevents.*"))
        check(events.count(b"iteration-time") == events.count(b"num-zeros vs samples") == 8 and b"params-norm" in events and not (out / "tensorboard").exists(), f"{events[:200]} {os.listdir(out)}")
        squares = sum(x * x for _, _, body in r.load_tensors(out / "model").values() for x in struct.unpack(f"<{len(body) // 4}f", body))
        norm = found[name][-1][0]
        check(abs(norm - squares**0.5) < 1e-4 * norm, f"{name}: {norm}, of the model {squares**0.5}")
    # Rows of the embedding whose ids a step has not seen have no gradient: at least 256 - 64 of them, of 32 elements.
    check(all(192 * 32 <= zeros < 256 * 32 for _, zeros in found["one"]), f"{found}")
    check(all(a[1] == b[1] and abs(a[0] - b[0]) < 1e-4 * a[0] for name in found for a, b in zip(found[name], found["one"])), f"{found}")
    megatron(folder, "--save", folder / "plain", "--tensorboard-dir", folder / "plain/tensorboard", "--tensorboard-log-interval", 4, "--log-timers-to-tensorboard")
    events = b"".join(p.read_bytes() for p in (folder / "plain/tensorboard").glob("events.out.tfevents.*"))
    check(events.count(b"iteration-time") == 2 and b"num-zeros" not in events and "gradient_zeros" not in (folder / "plain/metrics.jsonl").read_text(), f"{events[:200]}")


IDLE = ["--no-bias-gelu-fusion", "--no-bias-dropout-fusion", "--use-fused-rmsnorm", "--use-fused-rotary-pos-emb", "--no-gradient-accumulation-fusion", "--no-async-tensor-model-parallel-allreduce", "--attention-softmax-in-fp32",
        "--use-mcore-models", "--use-fused-swiglu", "--no-rope-fusion", "--no-bias-swiglu-fusion", "--use-deter-comp", "--no-shared-storage", "--jit-compile"]


def test_what_has_no_effect_is_said_once(folder):
    """On stderr and in log.txt, by the first of several ranks; a long list is cut and counted."""
    documents(folder)
    for name, flags, ranks in (("few", ["--use-flash-attn", "--num-workers", 4], 1), ("two", ["--use-flash-attn"], 2), ("many", IDLE, 1)):
        said = megatron(folder, "--save", folder / name, *flags, iters=1, ranks=ranks).stderr
        lines = [line for line in said.splitlines() if line.startswith("no effect: ")]
        check(len(lines) == 1 and flags[0] in lines[0] and lines[0].endswith("(`--explain` says why)") and len(lines[0]) <= 300, said)
        check((folder / name / "log.txt").read_text().splitlines().count(lines[0]) == 1, (folder / name / "log.txt").read_text())
        more = re.search(r" and (\d+) more \(", lines[0])
        named_there = [flag for flag in flags if str(flag).startswith("--") and flag in lines[0].replace(",", " ").split()]
        check(bool(more) == (name == "many") and len(named_there) + (int(more[1]) if more else 0) >= len([f for f in flags if str(f).startswith("--")]), lines[0])
    check("no effect" not in megatron(folder, "--use-flash-attn", "--print-config").stderr, "a config that is printed is no run")


PLAIN = {"--swiglu", "--disable-bias-linear", "--normalization", "RMSNorm"}


def plain(folder, *flags, **more):
    """A network with a plain MLP, LayerNorm and biases."""
    shape = [w for w in SHAPE if w not in PLAIN]
    return ranked(1, ["megatron", *shape, "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 4, "--lr", "3e-2", "--data-path", folder / "data_document", "--split", "1,0,0", "--log-interval", 1, "--save-interval", 4,
                      *flags, "train.threads=1"], **more)


def test_the_form_of_gelu(folder):
    """Fused it is the tanh form, unfused the exact one, whatever the positions are: the losses are those of a config.json that says so."""
    documents(folder)
    for positions, field in (("rope", "hidden_act"), ("learned_absolute", "activation_function")):
        of, at = ["--position-embedding-type", positions], folder / positions
        for name, flags in (("fused", []), ("unfused", ["--no-bias-gelu-fusion"]), ("openai", ["--no-bias-gelu-fusion", "--openai-gelu"])):
            plain(folder, *of, *flags, "--save", at / name)
        config = json.loads((at / "fused/model/config.json").read_text())
        for form in ("gelu", "gelu_new"):
            (folder / f"{form}.json").write_text(json.dumps({**config, field: form}))
            plain(folder, *of, "--save", at / form, f"model.config={folder / form}.json")
        check(losses(at / "fused") == losses(at / "openai") == losses(at / "gelu_new") != losses(at / "gelu") == losses(at / "unfused"), f"{positions}: {[losses(at / n) for n in ('fused', 'openai', 'gelu_new', 'gelu', 'unfused')]}")
        # A model that is loaded has its own form, and the flag may not contradict it.
        said = plain(folder, *of, "--load", at / "fused/model", "--no-bias-gelu-fusion", "--save", folder / "no", status=2).stderr
        check("--no-bias-gelu-fusion is given" in said and "bias_gelu_fusion of" in said and not (folder / "no").exists(), said)
        plain(folder, *of, "--load", at / "unfused/model", "--no-bias-gelu-fusion", "--save", at / "on")
    bloom = ["--position-embedding-type", "alibi", "--embed-layernorm", "--ffn-hidden-size", 128]
    said = plain(folder, *bloom, "--no-bias-gelu-fusion", "--save", folder / "no", status=2).stderr
    check("BLOOM has tanh GELU" in said and "--openai-gelu" in said and not (folder / "no").exists(), said)
    plain(folder, *bloom, "--no-bias-gelu-fusion", "--openai-gelu", "--save", folder / "bloom")
    for flags, words in ((["--openai-gelu"], "leave it out"), (["--onnx-safe", "True"], "exact GELU")):
        said = plain(folder, *flags, "--save", folder / "no", status=2).stderr
        check(words in said and flags[0] in said and "unknown" not in said, said)


def test_what_a_flag_alone_would_change_is_refused(folder):
    """ModelLink masks nothing with --square-alibi-mask alone; padding on the left moves positions that are learned. Beside what makes them harmless the curve is that without them."""
    documents(folder)
    alibi, square = ["--position-embedding-type", "alibi"], "--square-alibi-mask"
    megatron(folder, *alibi, "--save", folder / "alibi", iters=2)
    said = megatron(folder, *alibi, square, "--save", folder / "no", status=2).stderr
    check("tokens see later ones" in said and "--fill-neg-inf" in said and not (folder / "no").exists(), said)
    for beside in ("--fill-neg-inf", "--use-flash-attn"):
        megatron(folder, *alibi, square, beside, "--save", folder / beside, iters=2)
        check(losses(folder / beside) == losses(folder / "alibi"), beside)
    left = ["--tokenizer-padding-side", "left"]
    for of, words in ((alibi, "ALiBi"), (["--position-embedding-type", "learned_absolute"], "learned positions")):
        said = (megatron if of is alibi else plain)(folder, *of, *left, "--save", folder / "no", status=2).stderr
        check(words in said and "write right" in said and not (folder / "no").exists(), said)
    megatron(folder, *left, "--save", folder / "rope", iters=1)
    plain(folder, "--tokenizer-padding-side", "right", "--position-embedding-type", "learned_absolute", "--save", folder / "right")


def test_scalars_of_event_files_by_their_own_flags(folder):
    """ModelLink's two switches are known by its own spelling; names that it does not have lead there."""
    documents(folder)
    own = ["--no-log-learnig-rate-to-tensorboard", "--no-log-loss-scale-to-tensorboard"]
    for name, flags in (("with", []), ("without", own)):
        megatron(folder, "--save", folder / name / "a", "--tensorboard-dir", folder / name / "b", *flags, iters=1)
        written = b"".join(p.read_bytes() for p in (folder / name / "b").glob("events.*"))
        check((b"learning-rate" in written) == (name == "with") and b"lm loss" in written, f"{name}: learning-rate")
    for flag in ("--log-learning-rate-to-tensorboard", "--log-loss-scale-to-tensorboard"):
        check("no such key" in megatron(folder, "--save", folder / "no", flag, status=2).stderr, flag)


def test_a_silent_rank_is_waited_for_as_the_flag_says(folder):
    """--distributed-timeout-minutes 0 is the least patience, 2 seconds: a job whose second rank stands still ends long before the 20 seconds of the default."""
    if not shutil.which("mpirun"):
        raise r.Skipped("no mpirun")
    documents(folder)
    said = megatron(folder, "--distributed-timeout-minutes", 90, "--save", folder / "long", iters=1).stderr
    check("an hour at most" in said and "patience: 3600" in (folder / "long/config.yaml").read_text(), said)
    launch = ["mpirun", "--oversubscribe", "-n", "2", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    words = ["megatron", *SHAPE, "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 1000000, "--lr", "3e-3", "--data-path", folder / "data_document", "--split", "1,0,0", "--log-interval", 1, "--distributed-timeout-minutes", 0,
             "train.threads=1", f"train.output={folder / 'out'}"]
    job = subprocess.Popen([*launch, r.PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in job.stderr:
            if line.startswith(" iteration"):
                break
        ranks = [int(p) for p in os.listdir("/proc") if p.isdigit() and os.path.exists(f"/proc/{p}/cmdline") and str(folder / "out").encode() in Path(f"/proc/{p}/cmdline").read_bytes() and os.readlink(f"/proc/{p}/exe") == os.path.realpath(r.PROGRAM)]
        check(len(ranks) == 2, ranks)
        os.kill(ranks[1], signal.SIGSTOP)
        begin = time.monotonic()
        tail = job.communicate(timeout=15)[1]
        check(job.returncode != 0 and time.monotonic() - begin < 12, tail)
    finally:
        for p in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGKILL)
        job.kill()


def test_in_place_with_moments(folder):
    """--no-load-optim with one folder for --load and --save: the second start goes on with the moments, and says so."""
    documents(folder)
    megatron(folder, "--save", folder / "whole")
    d = ["--load", folder / "d", "--save", folder / "d", "--no-load-optim", "--no-load-rng"]
    megatron(folder, *d, iters=4)
    shutil.rmtree(folder / "d" / "model")
    said = megatron(folder, *d).stderr
    check("with its moments" in said and losses(folder / "d") == losses(folder / "whole"), said)
    megatron(folder, "--load", folder / "d" / "iter_0000004", "--save", folder / "e")
    check(losses(folder / "e") == losses(folder / "whole")[4:], "an iteration's folder")


def test_weights_of_a_run_of_our_form(folder):
    documents(folder)
    megatron(folder, "--save", folder / "own", "checkpoint.layout=ravine", iters=2)
    before = r.weights(folder / "own")
    said = megatron(folder, "--load", folder / "own", "--finetune", "--save", folder / "on", "--lr", 0, "--min-lr", 0, iters=1).stderr
    check(str(folder / "own" / "model") in said and r.weights(folder / "on") == before, said)
    said = megatron(folder, "--load", folder / "own" / "checkpoints" / "step_000002", "--save", folder / "no", status=2).stderr
    check(str(folder / "own" / "model") in said and not (folder / "no").exists(), said)


def test_a_run_is_converted(folder):
    """Where a run with these files is named, its newest checkpoint is meant: the one that the tracker file names."""
    documents(folder)
    megatron(folder, "--save", folder / "a", iters=4)
    (folder / "a" / TRACKER).write_text("2")
    r.run("convert", "--input", folder / "a", "--output", folder / "hf", "--to", "hf")
    r.run("convert", "--input", folder / "a" / "iter_0000002", "--output", folder / "two", "--to", "hf")
    check((folder / "hf/model.safetensors").read_bytes() == (folder / "two/model.safetensors").read_bytes(), "iteration 2")
    check(not (folder / "hf/tokenizer.model").exists(), "the run had none")
    shutil.copy(Path(__file__).resolve().parents[2] / "tests/golden/tokenizer/llama/tokenizer.model", folder / "a/model")
    r.run("convert", "--input", folder / "a", "--output", folder / "speaks", "--to", "hf")
    check((folder / "speaks/tokenizer.model").exists(), "that of its model goes along")
    said = r.run("info", folder / "a").stdout
    check("iter_0000002" in said and "iter_0000004" not in said, said)
    for bad in ("", "-1", "nan"):
        (folder / "a" / TRACKER).write_text(bad)
        check("bad tracker file" in ranked(1, ["convert", "--input", folder / "a", "--output", folder / "no", "--to", "hf"], 2).stderr, bad)


def test_weights_of_another_network(folder):
    """Sizes that the files contradict are refused by their flags, as by check_checkpoint_args: weights alone, iterations to go on from, in place, a Hugging Face folder, a run of our form; native options say it too."""
    documents(folder)
    megatron(folder, "--save", folder / "a", iters=4)
    r.run("convert", "--input", folder / "a", "--output", folder / "hf", "--to", "hf")
    r.run("convert", "--input", folder / "hf", "--output", folder / "release", "--to", "megatron-mcore", "--tensor", 2)
    (folder / "release" / "config.json").unlink()  # as Megatron leaves it
    megatron(folder, "--save", folder / "own", "checkpoint.layout=ravine", iters=2)
    adapter = ["--lora-target-modules", "query_key_value", "--lora-r", 4, "--lora-alpha", 8]
    for load in (["--load", folder / "a"], ["--load", folder / "a", "--finetune"], ["--load", folder / "release"], ["--load", folder / "release", *adapter], ["--load", folder / "hf"], ["--load", folder / "hf", *adapter],
                 ["--load", folder / "own", "--finetune"]):
        for flags in (["--num-attention-heads", 8], ["--num-layers", 2], ["--hidden-size", 64], ["--group-query-attention", "--num-query-groups", 2]):
            said = megatron(folder, *load, *flags, "--save", folder / "no", status=2).stderr
            check(f"{flags[-2]} is {flags[-1]}" in said and not (folder / "no").exists(), f"{load} {flags}: {said}")
    said = megatron(folder, "--load", folder / "a", "--save", folder / "a", "--num-attention-heads", 8, status=2).stderr
    check("--num-attention-heads is 8" in said and steps(folder / "a") == named(2, 4), said)
    said = megatron(folder, "--save", folder / "a", "--num-attention-heads", 8, status=2).stderr  # without --load it goes on too
    check("--num-attention-heads is 8" in said, said)
    # what has no size: a model's own network counts, and the flags of another are refused, all at once; with --use-checkpoint-args they are not asked
    more = ["--norm-epsilon", "1e-6", "--rotary-base", 5]
    said = megatron(folder, "--load", folder / "hf", "--num-layers", 3, *more, "--save", folder / "no", status=2).stderr
    check(all(w in said for w in ("--num-layers is 3", "--norm-epsilon is 1e-06", "--rotary-base is 5")), said)
    megatron(folder, "--load", folder / "hf", *more, "--use-checkpoint-args", "--save", folder / "hf-own", iters=1)
    explained = megatron(folder, "--load", folder / "hf", "--save", folder / "no", "--init-method-std", 0.1, "--explain").stdout
    rows = {x["key"]: x for x in map(json.loads, explained.splitlines())} if explained.startswith("{") else {}
    if rows:
        check(rows["--init-method-std"]["status"] == "inert" and rows["--num-layers"]["status"] == "used" and rows["--num-layers"]["option"] != "model.config", f"{rows['--init-method-std']} {rows['--num-layers']}")
    # of weights they count as the flags have them, in Megatron too, and it is said
    at = {}
    for name, flags in (("plain", []), ("five", more)):
        said = megatron(folder, "--load", folder / "release", *flags, "--save", folder / name, iters=1).stderr
        check(("--rotary-base is 5" in said and "the flag counts" in said) == bool(flags), said)
        at[name] = losses(folder / name)[0]
    check(at["plain"] != at["five"], f"{at}")
    said = megatron(folder, "--load", folder / "release", "--rotary-base", 5, "--use-checkpoint-args", "--save", folder / "no", status=2).stderr
    check("--rotary-base is 5" in said, said)
    # by options of our own
    shape = json.loads((folder / "hf" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**shape, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 4}))
    r.save_ids(folder / "ids.safetensors", 64, 16)
    for weights in ("release", "hf", "a"):
        said = train(folder, "no", status=2, model__weights=str(folder / weights), checkpoint__layout="ravine").stderr
        check("num_attention_heads is 8, and 4 in the checkpoint" in said and not (folder / "no").exists(), f"{weights}: {said}")
    said = train(folder, "no", status=2, checkpoint__resume=str(folder / "a")).stderr
    check("num_attention_heads is 8, and 4 in the checkpoint" in said, said)


def test_instructions_are_what_the_flag_says(folder):
    """--is-instruction-dataset reads X_packed_*_document, whatever else is called X; without such files it is refused."""
    documents(folder)
    said = megatron(folder, "--is-instruction-dataset", "--save", folder / "no", status=2).stderr
    check("--is-instruction-dataset" in said and "_packed_" in said and not (folder / "no").exists(), said)
    said = megatron(folder, "--is-instruction-dataset", "--data-path", folder / "gone", "--save", folder / "no", status=2).stderr
    check("_packed_" in said, said)
    for i, end in enumerate(("input_ids", "attention_mask", "labels")):
        a, _ = blend_files(folder)
        body = bytearray(a.with_suffix(".bin").read_bytes())
        if end == "attention_mask":
            body = bytearray(struct.pack(f"<{len(body) // 4}i", *[1] * (len(body) // 4)))
        (folder / f"data_document_packed_{end}_document.bin").write_bytes(body)
        shutil.copy(folder / "a.idx", folder / f"data_document_packed_{end}_document.idx")
    megatron(folder, "--save", folder / "plain", iters=2)
    megatron(folder, "--is-instruction-dataset", "--save", folder / "both", iters=2)
    for end in ("bin", "idx"):
        (folder / f"data_document.{end}").unlink()
    megatron(folder, "--is-instruction-dataset", "--save", folder / "packed", iters=2)
    check(losses(folder / "both") == losses(folder / "packed") != losses(folder / "plain"), f"{losses(folder / 'both')} {losses(folder / 'packed')} {losses(folder / 'plain')}")


def test_a_tokenizer_that_is_not_there(folder):
    documents(folder)
    flags = ["--tokenizer-type", "PretrainedFromHF"]
    shape = [w for i, w in enumerate(SHAPE) if w not in ("--vocab-size", 255, "--tokenizer-type", "NullTokenizer")]
    for key in ("--tokenizer-name-or-path", "--tokenizer-model"):
        said = ranked(1, ["megatron", *shape, *flags, key, folder / "nope", "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 2, "--lr", "3e-3", "--data-path", folder / "data_document", "--split", "1,0,0", "--save", folder / "no", "--save-interval", 1], 2).stderr
        check("no such tokenizer" in said and str(folder / "nope") in said, said)
    prepare(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "vocab_size"}))
    said = train(folder, "no", status=2, model__tokenizer=str(folder / "nope")).stderr
    check("no such tokenizer" in said and str(folder / "nope") in said, said)


if __name__ == "__main__":
    r.main(globals())
