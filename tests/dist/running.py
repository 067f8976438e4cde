"""Running models on several ranks: `trace` and `generate` in every layout against one rank, fewer key/value heads than tensor ranks, checkpoints of
many ranks into model folders, a job that loses ranks and goes on with others, stops and refusals. (What is short and what full: training.py.)

python3 running.py PATH_OF_ravine [FUNCTION ..]
"""
import array
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from training import FAMILIES as OTHERS, LAUNCH, LIKE_LLAMA, STEPS, launch, prepare, processes, same, soon, train, with_even_rows
import ravine_run as r
from adapters import ASKED, named, save_prompts, train_adapters
from ravine_run import check
from chat_model import chat_model

EXPERTS = {**LIKE_LLAMA, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}
FAMILIES = {**OTHERS, "qwen2": {**LIKE_LLAMA, "num_key_value_heads": 2}, "mixtral": EXPERTS,
            "qwen2_moe": {**LIKE_LLAMA, "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 20,
                          "decoder_sparse_step": 1}}
JUDGE = ["--backend", "ref", "precision.compute=f64"]
LAYOUTS = [(2, {"tensor": 2}), (2, {"pipeline": 2}), (4, {"tensor": 2, "pipeline": 2})]
TENSOR, PIPELINE = LAYOUTS[:1], LAYOUTS[1:2]


def options(settings):
    return r.settings({f"parallel.{k}": v for k, v in settings.items()})


def make_model(folder, **fields):
    """A model folder with weights as training begins with them, a little on its way."""
    base = with_even_rows(folder, prepare(folder, **fields))
    train({**base, "train.steps": 2, "train.valid_every": 0, "optimizer.lr": 0.05}, folder / "start")
    return folder / "start" / "model"


def family_model(folder, family):
    (folder / family).mkdir()
    base = with_even_rows(folder / family, prepare(folder / family))
    (folder / family / "config.json").write_text(json.dumps({"model_type": family, "vocab_size": 257, "bos_token_id": 1, "eos_token_id": 2, **FAMILIES[family]}))
    train({**base, "train.steps": 2, "train.valid_every": 0, "optimizer.lr": 0.05}, folder / family / "start")
    return folder / family / "start" / "model"


def load(path):
    header, body = r.load_raw(path)
    kinds = {"F64": "d", "F32": "f", "I32": "i"}
    return {n: (t["shape"], array.array(kinds[t["dtype"]], body[slice(*t["data_offsets"])])) for n, t in header.items() if n != "__metadata__"}


def distance(a, b):
    """The largest difference of any tensor, by the largest number of that tensor; "" or what else is different."""
    if a.keys() != b.keys():
        return f"names differ: {sorted(set(a) ^ set(b))}", 0
    worst, where = 0.0, ""
    for name in a:
        if a[name][0] != b[name][0]:
            return f"{name}: shapes {a[name][0]} and {b[name][0]}", 0
        top = max(max(map(abs, a[name][1]), default=0), 1e-30)
        d = max((abs(x - y) for x, y in zip(a[name][1], b[name][1])), default=0) / top
        if not d <= worst:
            worst, where = d, name
    return where, worst


def save_input(path, rows=3, columns=12):
    draw = random.Random(5)
    ids = [draw.randrange(3, 257) for _ in range(rows * columns)]
    labels = [-100 if i % 7 == 3 else x for i, x in enumerate(ids)]
    mask = [1] * len(ids)
    mask[-3:] = [0, 0, 0]  # the end of the last row is padding
    labels[-3:] = [-100] * 3
    return r.save_tensors(path, {"input_ids": ("I64", (rows, columns), ids), "labels": ("I64", (rows, columns), labels), "attention_mask": ("I64", (rows, columns), mask)})


def trace(ranks, model, data, out, *extra):
    launch(ranks, ["trace", "--model", model, "--input", data, "--out", out, "--overwrite", "--backward", *extra])
    return Path(out).read_bytes()


def compare_traces(folder, model, layouts, data):
    """In f64 what sums in another order come to is far below any fault; pipelines give the same bits."""
    one = trace(1, model, data, folder / "one rank", *JUDGE)
    want = load(folder / "one rank")
    check(len(want) > 10 and max(map(abs, want["logits"][1])) > 0, "nothing was traced")
    for ranks, settings in layouts:
        got = trace(ranks, model, data, folder / "several", *JUDGE, *options(settings))
        if set(settings) <= {"pipeline", "virtual", "stage_layers"}:
            if got != one:
                raise AssertionError(f"{settings}: {distance(want, load(folder / 'several'))}")
            continue
        where, d = distance(want, load(folder / "several"))
        check(where == "" or 0 < d < 1e-12, f"{settings}: {where} differs by {d}")


def test_trace(folder):
    model = make_model(folder)
    data = save_input(folder / "in")
    compare_traces(folder, model, LAYOUTS[:2] if not r.FULL else [*LAYOUTS, (4, {"pipeline": 4}), (2, {"pipeline": 2, "virtual": 2}), (2, {"pipeline": 2, "stage_layers": [3, 1]}), (4, {"tensor": 4}),
                                   (2, {"zero": 3}), (2, {"zero": 1, "zero_threshold": 100}), (4, {"zero": 2, "zero_threshold": 100}), (4, {"tensor": 2, "zero": 3}), (2, {"tensor": 2, "sequence": True}),
                                   (4, {"tensor": 2, "pipeline": 2, "sequence": True}), (8, {"tensor": 2, "pipeline": 2, "zero": 3, "zero_threshold": 100})], data)
    if not r.FULL:
        return
    # Without labels: neither loss nor gradients; f32 on the cpu backend.
    ids = r.save_tensors(folder / "ids", {"input_ids": ("I32", (2, 5), range(3, 13))})
    launch(1, ["trace", "--model", model, "--input", ids, "--out", folder / "a"])
    launch(4, ["trace", "--model", model, "--input", ids, "--out", folder / "b", *options({"tensor": 2, "pipeline": 2})])
    where, d = distance(load(folder / "a"), load(folder / "b"))
    check("loss" not in load(folder / "b") and d < 4 * 2.0 ** -23 * (32 * 4) ** 0.5, f"f32: {where} differs by {d}")


@r.full("test_trace; DataRanksAndStages.KeepEveryBit and TensorRanks have a tied table on threads")
def test_trace_tied(folder):
    compare_traces(folder, make_model(folder, tie_word_embeddings=True), [*LAYOUTS, (4, {"pipeline": 2, "zero": 3})], save_input(folder / "in"))


@r.full("dist_experts trains such a model on stages")
def test_trace_of_a_loss_that_pools_layers(folder):
    """That of Mixtral's routers is of all layers together, whichever stage has them."""
    more = {k: v for k, v in EXPERTS.items() if k.startswith("num_")} | {"model_type": "mixtral", "num_hidden_layers": 4, "output_router_logits": True, "router_aux_loss_coef": 0.5}
    compare_traces(folder, make_model(folder, **more), [*LAYOUTS, (4, {"pipeline": 4}), (2, {"pipeline": 2, "virtual": 2}), (2, {"tensor": 2, "sequence": True})], save_input(folder / "in"))


@r.full("TensorRanks.EveryFamilyIsWhatOneRankMakesOfIt has all of them on threads")
def test_trace_of_families(folder):
    """Joined and transposed weights, biases, norms of heads, learned positions, ALiBi, rows of the head at length 1."""
    for family in FAMILIES:
        compare_traces(folder, family_model(folder, family), [*LAYOUTS, (2, {"zero": 3, "zero_threshold": 100})], save_input(folder / "in"))


def make_adapter(path, model, family, **config):
    """LoRA beside every linear layer, the embedding and the head, both matrices drawn; in files a module that joins q, k and v has one pair."""
    draw, tensors, targets = random.Random(9), {}, {"lm_head"}
    for name, (_, shape, _) in sorted(r.load_tensors(model).items()):
        table = name.rsplit(".", 2)[1] in ("embed_tokens", "word_embeddings", "wte")
        if table:
            targets.add(name.rsplit(".", 2)[1])
            for end, size in ((f"{name[:-len('.weight')]}.lora_embedding_A", (3, shape[0])), (f"{name[:-len('.weight')]}.lora_embedding_B", (shape[1], 3)),
                              ("lm_head.lora_A.weight", (3, shape[1])), ("lm_head.lora_B.weight", (shape[0], 3))):
                tensors[f"base_model.model.{end}"] = ("F32", size, [draw.gauss(0, 0.2) for _ in range(size[0] * size[1])])
        if len(shape) != 2 or not any(f".{part}." in name for part in ("layers", "h")):
            continue
        module, rank = name[:-len(".weight")], 3
        out, inner = reversed(shape) if family == "gpt2" else shape
        targets.add(module.rsplit(".", 1)[1])
        for side, size in (("A", (rank, inner)), ("B", (out, rank))):
            tensors[f"base_model.model.{module}.lora_{side}.weight"] = ("F32", size, [draw.gauss(0, 0.2) for _ in range(size[0] * size[1])])
    path.mkdir()
    r.save_tensors(path / "adapter_model.safetensors", tensors)
    (path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 3, "lora_alpha": 4, "target_modules": sorted(targets), "bias": "none", **config}))
    return path


def test_trace_with_adapters(folder):
    """What is cut and what is not: A where outputs are cut, B where inputs are, under tensor ranks with and without sequence parallelism; shared keys and values."""
    layouts = [*LAYOUTS, (4, {"tensor": 4}), (2, {"tensor": 2, "sequence": True}), (2, {"zero": 3, "zero_threshold": 100}), (4, {"tensor": 2, "pipeline": 2, "sequence": True})]
    for family in ("llama", "bloom", "gpt2", "qwen2", "deepseek_v2", "deepseek_v3") if r.FULL else ("llama",):
        model = make_model(folder) if family == "llama" else family_model(folder, family)
        adapter = make_adapter(folder / f"adapter {family}", model, family)
        data = save_input(folder / "in")
        plain = load_after(trace, 1, model, data, folder / "plain", *JUDGE)
        one = load_after(trace, 1, model, data, folder / "one rank", *JUDGE, "--adapter", adapter)
        check(distance({"logits": plain["logits"]}, {"logits": one["logits"]})[1] > 1e-3, f"{family}: the adapter changes something")
        check(len([n for n in one if n.startswith("grad.") and ".lora_" in n]) == len([n for n in one if n.startswith("grad.")]) > 6, f"{family}: gradients of adapters alone")
        for ranks, settings in layouts if r.FULL else TENSOR:
            if family != "llama" and settings.get("tensor") == 4:
                continue
            got = load_after(trace, ranks, model, data, folder / "several", *JUDGE, "--adapter", adapter, *options(settings))
            where, d = distance(one, got)
            check(where == "" or d < 1e-12, f"{family}, {settings}: {where} differs by {d}")


def load_after(act, *words):
    act(*words)
    return load(words[3])


PROMPTS = [[5, 9, 200], [17], [30, 31, 32, 33, 34, 35, 36, 37], [256, 3], [8, 8, 8, 8, 8]]
WAYS = {
    "greedy": [],
    "two at a time": ["--batch", 2, "--repetition-penalty", 1.3, "--no-repeat-ngram-size", 3],
    "drawn": ["--sample", "--temperature", 0.9, "--top-k", 40, "--top-p", 0.95, "--seed", 7, "--batch", 3],
    "beams": ["--beams", 4, "--num-return", 3, "--length-penalty", 0.7, "--batch", 2],
    "beams, early": ["--beams", 3, "--num-return", 2, "--early-stopping", "--length-penalty", 1.5],
    "drawn beams": ["--beams", 3, "--num-return", 3, "--sample", "--seed", 3],
    "modellink": ["--beams", 3, "--beam-rules", "modellink", "--num-return", 2],
}


def generate(ranks, model, prompts, *extra):
    done = launch(ranks, ["generate", "--model", model, "--prompt-ids", prompts, "--max-new-tokens", 9, "--json", *extra])
    return [json.loads(line) for line in done.stdout.splitlines()]


def alike(a, b):
    """Same tokens; scores up to how f32 holds them."""
    def near(x, y):
        return abs(x - y) < 1e-5 * max(1, abs(x))
    return len(a) == len(b) and all(
        x["ids"] == y["ids"] and x["finish"] == y["finish"] and x["prompt_ids"] == y["prompt_ids"] and near(x["logprob"], y["logprob"]) and
        [v["ids"] for v in x.get("beams", [])] == [v["ids"] for v in y.get("beams", [])] and
        all(near(v["score"], w["score"]) for v, w in zip(x.get("beams", []), y.get("beams", []))) for x, y in zip(a, b))


def compare_generations(folder, model, layouts, ways):
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps(PROMPTS))
    for way in ways:
        one = generate(1, model, prompts, *JUDGE, *WAYS[way])
        check(len(one) == len(PROMPTS) and len({tuple(x["ids"]) for x in one}) > 2, f"{way}: the model says the same to everybody")
        for ranks, settings in layouts:
            got = generate(ranks, model, prompts, *JUDGE, *WAYS[way], *options(settings))
            check(alike(one, got), f"{way}, {settings}:\n{one}\n{got}")


def test_generate(folder):
    model = make_model(folder)
    if not r.FULL:  # rules of choice know nothing of layouts: one for each
        for layout, way in ((LAYOUTS[0], "beams"), (LAYOUTS[1], "drawn"), ((2, {}), "two at a time")):
            compare_generations(folder, model, [layout], [way])
        return
    compare_generations(folder, model, LAYOUTS, WAYS)
    compare_generations(folder, model, [(4, {"tensor": 4}), (2, {"pipeline": 2, "virtual": 2}), (3, {}), (8, {}), (4, {"pipeline": 2}), (2, {"zero": 3}),
                                        (4, {"zero": 3, "tensor": 2})], ["two at a time", "drawn", "beams"])


def test_generate_with_several_adapters(folder):
    """Prompts of several adapters and of the model alone: on every mesh what one rank says, which is what each adapter says alone (tests/e2e/adapters.py)."""
    model = chat_model(folder)
    adapters = train_adapters(folder, model)
    _, asked = save_prompts(folder)
    layouts = [(1, {}), *LAYOUTS, (2, {}), (3, {}), (4, {"tensor": 2}), (2, {"zero": 3}), (4, {"zero": 3, "tensor": 2})] if r.FULL else [(1, {}), (2, {})]
    for way in ("greedy", "beams") if r.FULL else ("beams",):
        words = ["generate", "--model", model, *named(adapters), "--prompts", asked, "--max-new-tokens", 7, "--json", *JUDGE, *WAYS[way]]
        said = {}
        for ranks, settings in layouts:
            done = launch(ranks, [*words, *options(settings)])
            got = [json.loads(line) for line in done.stdout.splitlines()]
            said = said or got
            check(len(got) == len(ASKED) and [x.get("adapter") for x in got] == ASKED and alike(said, got), f"{way}, {ranks} ranks, {settings}:\n{said}\n{got}")


@r.full("test_generate; all families are on threads in TensorRanks.EveryFamilyIsWhatOneRankMakesOfIt")
def test_generate_with_families(folder):
    for family in FAMILIES:
        compare_generations(folder, family_model(folder, family), [(4, {"tensor": 2, "pipeline": 2})], ["greedy", "beams"])


def test_how_answers_of_other_ranks_end(folder):
    """Whoever has found an answer, the first rank says all of it: what ends at an end token says eos, and is the shorter for it; of beams each with its score."""
    model = make_model(folder)
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps(PROMPTS))
    free = generate(1, model, prompts, *JUDGE)
    check(all(a["finish"] == "length" and len(a["ids"]) == 9 for a in free), f"{free}")
    ends = sorted({a["ids"][3] for a in free})  # the fourth word of each answer ends it, or an earlier one does
    given = Path(model) / "generation_config.json"
    for stops in (ends, ends[:1], ends[-1:]) if r.FULL else (ends,):
        (Path(model) / ".ravine").unlink(missing_ok=True)
        given.write_text(json.dumps({"eos_token_id": stops}))
        for ranks, layout in ((2, {}), (3, {}), (4, {"tensor": 2})):
            got = generate(ranks, model, prompts, *JUDGE, *options(layout))
            for a, whole in zip(got, free):
                at = next((i for i, t in enumerate(whole["ids"]) if t in stops), None)
                want = ("length", whole["ids"]) if at is None else ("eos", whole["ids"][:at + 1])
                check((a["finish"], a["ids"]) == want, f"{ranks} ranks, {layout}, ends {stops}: {a}, wanted {want}")
            if stops == ends:
                break
        check({a["finish"] for a in got} == ({"eos"} if stops == ends else {"eos", "length"}), f"{stops}: {got}")
    for way in ("beams", "beams, early", "modellink") if r.FULL else ("beams, early",):
        one = generate(1, model, prompts, *JUDGE, *WAYS[way])
        got = generate(3 if r.FULL else 2, model, prompts, *JUDGE, *WAYS[way])
        check(got == one, f"{way}:\n{one}\n{got}")


def test_fewer_prompts_than_data_ranks(folder):
    """Ranks without a prompt wait for those that have one; the answers are those of one rank."""
    model = make_model(folder)
    prompts = folder / "few.json"
    cases = ((1, 2, {}), (1, 3, {}), (2, 3, {}), (1, 4, {"tensor": 2}), (1, 4, {"pipeline": 2}), (3, 4, {}))
    for count, ranks, settings in cases if r.FULL else cases[:1]:
        prompts.write_text(json.dumps(PROMPTS[:count]))
        for way in ("greedy", "beams") if r.FULL else ("greedy",):
            one = generate(1, model, prompts, *JUDGE, *WAYS[way])
            got = generate(ranks, model, prompts, *JUDGE, *WAYS[way], *options(settings))
            check(len(one) == count and alike(one, got), f"{count} prompts on {ranks} ranks, {settings}, {way}:\n{one}\n{got}")


def test_generate_text_and_weights(folder):
    """Long prompts in pieces; streamed by one rank only; no rank has more than its part of the weights."""
    model = make_model(folder, max_position_embeddings=4096, num_hidden_layers=4)
    draw = random.Random(1)
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps([[draw.randrange(3, 257) for _ in range(n)] for n in (1500, 3, 900)]))
    arguments = ["generate", "--model", model, "--prompt-ids", prompts, "--max-new-tokens", 6]
    one = launch(1, arguments)
    for ranks, settings in LAYOUTS if r.FULL else PIPELINE:
        done = launch(ranks, [*arguments, *options(settings)])
        check(done.stdout == one.stdout, f"{settings}:\n{one.stdout}\n{done.stdout}")
        parts = [float(x) for x in re.findall(r"([\d.]+) KiB", re.search(r"weights (.*) on each", done.stderr)[1])]
        whole = os.path.getsize(Path(model) / "model.safetensors") / 1024
        check(parts and max(parts) < 1.25 * whole / ranks, f"{settings}: {parts} KiB of {whole:.0f}")


def test_one_key_value_head(folder):
    """What the next test has on more ranks: a head that two ranks hold is trained alike, counted and written once, and one rank goes on with it."""
    fields = {"num_key_value_heads": 1}
    base = {**with_even_rows(folder, prepare(folder, **fields)), "checkpoint.every": 2, "checkpoint.keep": 0, "schedule.steps": STEPS}
    for name, plan in (("one", ((1, STEPS),)), ("two to one", ((2, 2), (1, STEPS)))):
        for ranks, steps in plan:
            launch(ranks, ["train", *JUDGE, *r.settings({**base, "train.output": str(folder / name), "train.steps": steps, "parallel.tensor": ranks})])
    a, b = r.metrics(folder / "one"), r.metrics(folder / "two to one")
    check(a.keys() == b.keys() and len(a) == STEPS, f"{sorted(a)} and {sorted(b)}")
    for step in a:
        for key in ("loss", "grad_norm"):
            check(abs(a[step][key] / b[step][key] - 1) < 1e-9, f"step {step}: {key} {a[step][key]} and {b[step][key]}")


@r.full("test_one_key_value_head has one that two ranks hold, TensorRanks.OneHeadOnFourRanks four on threads")
def test_few_key_value_heads(folder):
    """Two key/value heads on four and eight tensor ranks: each is held several times, trained alike, counted and written once. In f64 anything else would
    show in any number."""
    fields = {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64}
    base = {**with_even_rows(folder, prepare(folder, **fields)), "checkpoint.every": 2, "checkpoint.keep": 0, "schedule.steps": STEPS}

    def judged(name, ranks, steps=STEPS, **settings):
        values = {**base, "train.output": str(folder / name), "train.steps": steps, **{f"parallel.{k}": v for k, v in settings.items()}}
        launch(ranks, ["train", *JUDGE, *r.settings(values)])
        return folder / name

    def near(a, b):
        a, b = r.metrics(a), r.metrics(b)
        for step in a:
            for key in ("loss", "grad_norm"):
                check(abs(a[step][key] / b[step][key] - 1) < 1e-9, f"step {step}: {key} {a[step][key]} and {b[step][key]}")

    one, first = judged("one", 1), None
    for name, ranks, settings in [("tensor", 4, {}), ("zero 1", 8, {"zero": 1}), ("zero 3", 8, {"zero": 3}), ("pipe", 8, {"pipeline": 2})]:
        out = judged(name, ranks, tensor=4, **settings)
        near(one, out)
        first = first or out
        same(first, out, name)
    near(one, judged("sequence", 4, tensor=4, sequence=True))
    near(one, judged("eight", 8, tensor=8))
    # A checkpoint goes on with other numbers of tensor ranks.
    for start, more in ((4, 1), (1, 4), (4, 2), (8, 4)):
        name = f"{start} to {more}"
        judged(name, start, 2, tensor=start)
        near(one, judged(name, more, tensor=more))
    model = one / "model"
    compare_traces(folder, model, [(4, {"tensor": 4}), (8, {"tensor": 8}), (8, {"tensor": 4, "pipeline": 2}), (8, {"tensor": 4, "zero": 3, "zero_threshold": 100}),
                                   (4, {"tensor": 4, "sequence": True})], save_input(folder / "in"))
    compare_generations(folder, model, [(4, {"tensor": 4}), (8, {"tensor": 4, "pipeline": 2})], ["greedy", "drawn", "beams"])
    # Biases of the joined product, and norms of heads.
    for family in ("qwen2", "qwen3", "olmo2", "deepseek_v3"):
        compare_traces(folder, family_model(folder, family), [(4, {"tensor": 4})], save_input(folder / "in"))


def test_convert(folder):
    """A checkpoint of many ranks becomes the model folder that the run itself wrote."""
    base = {**with_even_rows(folder, prepare(folder)), "checkpoint.every": 2}
    cases = [("all", 8, {"tensor": 2, "pipeline": 2, "zero": 1}), ("zero 3", 4, {"tensor": 2, "zero": 3}), ("heads", 8, {"tensor": 4, "zero": 2})]
    for name, ranks, settings in cases if r.FULL else [("two", 2, {"tensor": 2})]:
        out = train(base, folder / name, ranks, **{f"parallel__{k}": v for k, v in settings.items()})
        r.run("convert", "--input", out / "checkpoints" / "step_000004", "--output", folder / f"{name} hf", "--to", "hf")
        a, b = load(out / "model" / "model.safetensors"), load(folder / f"{name} hf" / "model.safetensors")
        check(a == b and len(a) > 10, f"{name}: {distance(a, b)}")
        done = r.run("convert", "--input", out, "--output", folder / f"{name} m", "--to", "megatron-mcore", "--tensor", 2)
        check((folder / f"{name} m").is_dir(), done.stderr)


@r.full("dist_jobs kills a rank and goes on with others; dist_training goes on with fewer ranks and another batch")
def test_killed_on_eight_goes_on_with_three(folder):
    """TP 2 x PP 2 x DP 2 with ZeRO 1 is killed; three data ranks with a batch of 12 go on, and the result runs."""
    base = {**with_even_rows(folder, prepare(folder)), "checkpoint.every": 1, "parallel.sum_leaves": 0, "train.valid_every": 0, "schedule.steps": 1000}
    out = folder / "run"
    job = subprocess.Popen([*LAUNCH, "-n", "8", *r.command("train", *r.settings({**base, "train.output": str(out), "train.steps": 100000, "parallel.tensor": 2,
                                                                                  "parallel.pipeline": 2, "parallel.zero": 1}))],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    began = time.monotonic()
    while len(r.checkpoints(out)) < 2 and job.poll() is None and time.monotonic() - began < 300:
        time.sleep(0.01)
    job.kill()  # the launcher; its ranks see that it is gone, or each other
    job.communicate(timeout=300)
    seen, since = None, time.monotonic()
    while time.monotonic() - since < 3:  # until the last of the eight has left: a rank may save once more
        if (now := r.checkpoints(out)) != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.1)
    last = int(r.checkpoints(out)[-1].split("_")[1])
    info = r.run("info", out / "checkpoints" / r.checkpoints(out)[-1]).stdout
    check("data 2 x tensor 2 x pipeline 2, ZeRO 1" in info, info)
    began = time.monotonic()
    while True:  # until the last of the eight has left the folder
        done = subprocess.run([*LAUNCH, "-n", "3", *r.command("train", *r.settings({**base, "train.output": str(out), "train.global_batch": 12, "train.steps": last + 3}))],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
        if done.returncode == 0 or time.monotonic() - began > 300:
            break
        time.sleep(1)
    check(done.returncode == 0, done.stderr)
    last = int(re.search(r"resume .* after step (\d+)", done.stderr)[1])
    m = r.metrics(out)
    check(last + 1 in m or last + 3 in m, f"{last}: {sorted(m)}")
    r.run("convert", "--input", out, "--output", folder / "hf", "--to", "hf")
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps(PROMPTS))
    for model in (out / "model", folder / "hf"):
        check(len(generate(1, model, prompts)) == len(PROMPTS), "the result does not run")


def long_job(folder, ranks, settings):
    """A generation that goes on for minutes, once its first words are out."""
    model = make_model(folder, max_position_embeddings=1 << 20, eos_token_id=None)
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps([[5], [6]]))
    job = subprocess.Popen([*LAUNCH, "-n", str(ranks), *r.command("generate", "--model", model, "--prompt-ids", prompts, "--max-new-tokens", 1000000, "parallel.patience=3",
                                                                 *options(settings))],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return job, job.stdout.read(20)


def test_stop(folder):
    cases = ((signal.SIGUSR1, {"tensor": 2}), (signal.SIGINT, {"pipeline": 2}))
    for number, settings in cases if r.FULL else ():  # short: the launcher hands a signal on to every rank, and one is enough
        (folder / number.name).mkdir()
        job, _ = long_job(folder / number.name, 2, settings)
        job.send_signal(number)
        _, err = job.communicate(timeout=300)
        check(job.returncode != 0 and err.count("stopped on request") == 1 and (number == signal.SIGINT or job.returncode == 130), f"{number.name}: {job.returncode}\n{err}")
    # One rank alone hears it: those that work on the same text with it stop too.
    job, _ = long_job(folder, 2, {"tensor": 2})
    os.kill(processes(job, 2)[1], signal.SIGTERM)
    _, err = job.communicate(timeout=300)
    check(job.returncode == 130 and err.count("stopped on request") == 1, f"SIGTERM at rank 1: {job.returncode}\n{err}")


@r.full("dist_faults loses ranks in every way, dist_jobs has a training that loses one")
def test_a_lost_rank_ends_the_job(folder):
    for harm, words in ((signal.SIGKILL, "is gone"), (signal.SIGSTOP, "has not answered for")):
        (folder / harm.name).mkdir()
        job, _ = long_job(folder / harm.name, 4, {"tensor": 2, "pipeline": 2})
        os.kill(processes(job, 4)[2], harm)
        killed = time.monotonic()
        _, err = job.communicate(timeout=300)
        check(job.returncode != 0 and re.search(rf"rank 2 \(.*\) {words}", err), f"{harm.name}: {job.returncode}\n{err[-2000:]}")
        check(time.monotonic() - killed < soon(), f"{harm.name}: took {time.monotonic() - killed:.0f} s")


def test_refusals(folder):
    model = make_model(folder, num_attention_heads=12, num_key_value_heads=6, hidden_size=48, intermediate_size=48)
    data = save_input(folder / "in", 2, 5)
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps(PROMPTS))

    def refused(ranks, text, *extra, command="trace"):
        words = {"trace": ["trace", "--model", model, "--input", data, "--out", folder / "never"], "generate": ["generate", "--model", model, "--prompt-ids", prompts]}
        done = launch(ranks, [*words[command], *extra], status=2, expect=text)
        check(done.stderr.count("error: ") == 1 and not done.stdout and not (folder / "never").exists(), f"{done.stdout}{done.stderr}")

    for command in ("trace", "generate"):
        if not r.FULL:  # the others are of the layout (tests/unit/step/step_layout.cpp), and many ranks say them as one does
            refused(1, "mpirun -n 2", "parallel.tensor=2", command=command)
            continue
        refused(4, "6 key/value heads must be a multiple of it, or divide it; use parallel.data=2 parallel.tensor=2, or", "parallel.tensor=4", command=command)
        refused(1, "mpirun -n 2", "parallel.tensor=2", command=command)
        refused(3, "must be the number of ranks (mpirun -n 3); use parallel.data=1 parallel.tensor=3", "parallel.tensor=2", command=command)
        refused(5, "use parallel.data=5", "parallel.pipeline=5", command=command)
    refused(3, "the tokens of every data rank must be a multiple of the tensor ranks", "parallel.tensor=3", "parallel.sequence=true")
    if not r.FULL:  # dist_jobs has ranks that differ
        return
    line = ["generate", "--model", model, "--prompt-ids", prompts]
    done = subprocess.run([*LAUNCH, "-n", "1", *r.command(*line), ":", "-n", "1", *r.command(*line, "--seed", 7)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=r.LIMIT)
    check(done.returncode != 0 and "ranks differ in their options (rank 1): it has 'seed: 7', rank 0 has 'seed: 0'" in done.stderr, done.stderr)


if __name__ == "__main__":
    r.main(globals())
