"""Training on several ranks: bits that must not depend on the layout, checkpoints that go from any layout to any other, refusals.

The short tier has about one job of two ranks for each mechanism: that layouts are equal is proven for all of them on threads (tests/unit/train/parallel_ranks.cpp,
expert_ranks.cpp), so what is left is that MPI carries it.

python3 training.py PATH_OF_ravine [FUNCTION ..]
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import ravine_run as r
from ravine_run import check

# Ranks that wait give way to those that compute. The short tier says over what they speak, so that none looks for networks that one host has no use of (0.2 s per job).
LAUNCH = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", *([] if r.FULL else ["--mca", "pml", "ob1"]), *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
STEPS = 4


def few(cases, *names):
    """All cases, tuples that begin with a name, in the full tier; those of these names in the short one."""
    return list(cases) if r.FULL else [case for case in cases if case[0] in names]


def soon():
    """Seconds within which a job must have ended; on a busy machine that a job ends at all says as much, for what hangs does so for ever."""
    return 30 if r.FULL else 300


def launch(ranks, arguments, status=0, expect=None):
    if ranks == 1:
        done = r.run(*arguments, status=status)
    else:
        command = [*LAUNCH, "-n", str(ranks), *r.command(*arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
        good = done.returncode == 0 if status == 0 else done.returncode != 0
        check(good, f"exit status {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    if expect:
        check(expect in done.stderr, f"no '{expect}' in\n{done.stderr}")
    return done


def prepare(folder, **fields):
    model = r.save_config(folder / "config.json", **{"num_hidden_layers": 4, "vocab_size": 257, **fields})
    data = r.save_ids(folder / "ids.safetensors", 40, 17, vocabulary=257)
    return {"model.config": model, "data.train": [data], "data.valid": [data], "data.sequence_length": 17, "train.steps": STEPS, "train.global_batch": 8,
            "train.micro_batch": 1, "train.valid_every": 2, "train.valid_batches": 3, "optimizer.lr": 0.01, "schedule.warmup_steps": 1,
            "checkpoint.every": 0, "log.tensorboard": False, "parallel.sum_leaves": 8, "parallel.zero_threshold": 100,
            **({} if r.FULL else {"train.threads": 1})}  # short: the peak of one number of threads is measured


def processes(job, ranks):
    """The ranks of a job, in order of their start: children of the launcher."""
    began = time.monotonic()
    while time.monotonic() - began < 300:
        found = []
        for p in Path("/proc").glob("[0-9]*"):
            try:
                if int(re.search(r"^PPid:\s*(\d+)", (p / "status").read_text(), re.M)[1]) == job.pid:
                    found.append(int(p.name))
            except OSError:
                pass
        if len(found) == ranks:
            return sorted(found)
        time.sleep(0.02)
    check(False, "the ranks did not start")


def train(base, output, ranks=1, **settings):
    settings = {key.replace("__", "."): value for key, value in settings.items()}
    launch(ranks, ["train", *r.settings({**base, "train.output": str(output), **settings})])
    return output


def same(a, b, what):
    check(not (difference := r.same_run(a, b)), f"{what}: {difference}")


def near(a, b, what):
    """The first step, with sums in another order: 8 roundings of f32 of its loss and norm."""
    x, y = r.metrics(a)[1], r.metrics(b)[1]
    check(all(abs(x[k] - y[k]) <= 8 * 2**-24 * abs(y[k]) for k in ("loss", "grad_norm")), f"{what}: {x} {y}")


def layouts(folder, cases, *short, **fields):
    """Runs the first case and compares every other with it; in the short tier those named `short`."""
    cases = few(cases, cases[0][0], *short)
    base = prepare(folder, **fields.pop("model", {}))
    base.update({key.replace("__", "."): value for key, value in fields.items()})
    base = {key: value for key, value in base.items() if value is not None}
    first = None
    for name, ranks, settings in cases:
        out = train(base, folder / name, ranks, **{f"parallel__{k}": v for k, v in settings.items()})
        first = first or out
        same(first, out, name)


LATER = [{"match": "*.layers.3.*", "from_step": 3}, {"match": "*.0.self_attn.k_proj.*", "from_step": 2, "lr_mult": 0.5}, {"match": "model.embed_tokens.*", "from_step": 4}]


def test_together(folder):
    """What the next tests have one by one, from a model folder: rows that differ in how much is learned, gradients of 16 bits, a tied table and parameters that train later."""
    data = r.save_ids(folder / "ragged.safetensors", 40, 17, vocabulary=257, ragged=True)
    train({**prepare(folder, tie_word_embeddings=True), "train.steps": 1}, folder / "start")
    layouts(folder, [("one", 1, {}), ("data 2", 2, {}), ("zero3", 2, {"zero": 3}), ("interleaved", 2, {"pipeline": 2, "virtual": 2})], "zero3", "interleaved",
            model__config=None, model__path=str(folder / "start" / "model"), data__train=[data], data__valid=[data], optimizer__groups=LATER, precision__compute="bf16",
            precision__gradients="compute")


@r.full("test_together has data ranks with ZeRO 3, DataRanksAndStages.KeepEveryBit the others on threads")
def test_data_ranks_and_zero(folder):
    layouts(folder, [
        ("1x8", 1, {}), ("2x4", 2, {}), ("4x2", 4, {}), ("8x1", 8, {}),
        ("zero1", 2, {"zero": 1}), ("zero2", 2, {"zero": 2}), ("zero3", 2, {"zero": 3}), ("zero3 on 4", 4, {"zero": 3}), ("zero1 on 8", 8, {"zero": 1})])


@r.full("test_together has such rows")
def test_ranks_that_learn_different_numbers_of_tokens(folder):
    """The mean is over all tokens that are learned, not over means of ranks."""
    data = r.save_ids(folder / "ragged.safetensors", 40, 17, vocabulary=257, ragged=True)
    layouts(folder, [("one", 1, {}), ("data 2", 2, {}), ("data 4 zero 1", 4, {"zero": 1}), ("zero 3", 2, {"zero": 3}), ("pipe 2 data 2", 4, {"pipeline": 2})],
            data__train=[data], data__valid=[data])


@r.full("DataRanksAndStages.KeepEveryBitInBf16 has these layouts on threads")
def test_zero_in_bf16_with_recompute_and_dropout(folder):
    layouts(folder, [("one", 1, {}), ("zero1", 2, {"zero": 1}), ("zero2", 4, {"zero": 2}), ("zero3", 2, {"zero": 3})],
            precision__compute="bf16", precision__bf16_products="widen", train__recompute="full", train__dropout=0.1, train__attention_dropout=0.2)


@r.full("test_together has such parameters")
def test_parameters_that_begin_to_train_later(folder):
    """A layer, one of joined products and a tied table, by rules that see elements and such that see matrices."""
    ways = [("one", 1, {}), ("data 2", 2, {}), ("zero1", 2, {"zero": 1}), ("zero2", 4, {"zero": 2}), ("zero3", 2, {"zero": 3}), ("pipe 2 data 2", 4, {"pipeline": 2, "zero": 1})]
    for kind in ("adamw", "muon"):
        (folder / kind).mkdir()
        layouts(folder / kind, ways, model={"tie_word_embeddings": True}, optimizer__groups=LATER, optimizer__type=kind)


@r.full("test_together has such gradients")
def test_gradients_of_16_bits(folder):
    """Rounded once per micro batch and per sum of two, whoever adds."""
    layouts(folder, [("one", 1, {}), ("data 2", 2, {}), ("zero1", 2, {"zero": 1}), ("zero2", 4, {"zero": 2}), ("zero3", 2, {"zero": 3}), ("pipe 2 data 2", 4, {"pipeline": 2, "zero": 1})],
            model={"tie_word_embeddings": True}, precision__compute="bf16", precision__gradients="compute")


@r.full("DataRanksAndStages.KeepEveryBit has a tied table in these layouts on threads")
def test_tied_embeddings(folder):
    layouts(folder, [("one", 1, {}), ("data 2", 2, {}), ("zero1", 2, {"zero": 1}), ("zero3", 4, {"zero": 3}), ("pipe 2", 2, {"pipeline": 2}),
                     ("pipe 2 data 2 zero 2", 4, {"pipeline": 2, "zero": 2})], model={"tie_word_embeddings": True})


@r.full("test_together has interleaved stages, DataRanksAndStages.KeepEveryBit the others on threads")
def test_pipelines(folder):
    layouts(folder, [("one", 1, {}), ("pipe 2", 2, {"pipeline": 2}), ("pipe 4", 4, {"pipeline": 4}), ("interleaved", 2, {"pipeline": 2, "virtual": 2}),
                     ("uneven", 2, {"pipeline": 2, "stage_layers": [3, 1]}), ("pipe 2 data 2", 4, {"pipeline": 2}),
                     ("pipe 2 data 2 zero 1", 4, {"pipeline": 2, "zero": 1}), ("pipe 2 data 4 zero 3", 8, {"pipeline": 2, "zero": 3})])


@r.full("DataRanksAndStages.KeepEveryBitInBf16 has stages on threads")
def test_pipelines_in_bf16_with_recompute_and_dropout(folder):
    layouts(folder, [("one", 1, {}), ("pipe 2", 2, {"pipeline": 2}), ("interleaved", 2, {"pipeline": 2, "virtual": 2}), ("with zero", 4, {"pipeline": 2, "zero": 3})],
            precision__compute="bf16", precision__bf16_products="widen", train__recompute="full", train__dropout=0.1, train__attention_dropout=0.2)


EXPERTS = {"model_type": "deepseek_v3", "num_key_value_heads": 4, "num_hidden_layers": 3, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
           "v_head_dim": 8, "first_k_dense_replace": 1, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2, "moe_intermediate_size": 24}


def test_corrections_of_routers(folder):
    """Loads are of all data ranks, and every rank moves what it holds."""
    ways = [("one", 1, {}), ("data 2", 2, {}), ("zero1", 2, {"zero": 1}), ("zero2", 4, {"zero": 2}), ("zero3", 2, {"zero": 3})]
    layouts(folder, ways, "zero1", model=EXPERTS, moe__load_balance="bias", moe__bias_update_rate=0.02)
    moved = [data for name, (_, _, data) in r.load_tensors(folder / "one" / "model").items() if name.endswith("e_score_correction_bias")]
    check(len(moved) == 2 and all(any(data) for data in moved), "corrections move")


def test_loss_of_routers_over_data_ranks(folder):
    """Against PyTorch, which takes the micro batches of two data ranks side by side (tests/golden/moe_balance); in double, roundings of some hundred sums over 8 steps."""
    golden = Path(__file__).resolve().parent.parent / "golden"
    record = json.loads((golden / "moe_balance" / "balance.json").read_text())
    case = record["cases"]["global_aux_ranks"]
    for zero in (0, 1)[:2 if r.FULL else 1]:
        values = {"model.path": golden / "moe_balance" / "models" / case["model"], "data.train": [str(golden / "curves" / "train.safetensors")],
                  "data.sequence_length": record["columns"], "train.steps": record["steps"], "train.global_batch": record["global_batch"], "train.threads": 1,
                  "checkpoint.every": 0, "log.tensorboard": False, "precision.compute": "f64", "parallel.zero": zero, "train.output": folder / f"zero{zero}", **case["options"]}
        launch(2, ["train", "--backend", "ref", *r.settings(values)])
        rows = [json.loads(line) for line in (folder / f"zero{zero}" / "metrics.jsonl").read_text().splitlines()]
        for i, row in enumerate(rows):
            for key in ("loss", "grad_norm", "aux_loss"):
                check(abs(row[key] / case[key][i] - 1) <= 2.0 ** -53 * 2 ** 10 * record["steps"], f"zero {zero}, step {i + 1}: {key} {row[key]!r} instead of {case[key][i]!r}")


@r.full("parallel_ranks.cpp has leaves of several micro batches on threads, parallel_leaf_sums.cpp any number of them")
def test_long_leaves(folder):
    """Several micro batches in a leaf, and a number of leaves that is no power of two."""
    layouts(folder, [("one", 1, {}), ("two", 2, {}), ("pipe", 2, {"pipeline": 2})], parallel__sum_leaves=2)
    layouts(folder, [("three", 3, {}), ("three zero 1", 3, {"zero": 1}), ("three pipe", 6, {"pipeline": 2})], parallel__sum_leaves=6, train__global_batch=12)


def into_each_other(base, whole, folder, kinds):
    """A run that begins in one layout, {name: (ranks, parallel's settings)}, and ends in another has the bits of `whole`."""
    names = list(kinds)
    pairs = [(name, names[(i + k) % len(names)]) for i, name in enumerate(names) for k in (1, 2)]
    if not r.FULL:
        pairs = [(a, b) for a, b in pairs if kinds[a][0] <= 2 and kinds[b][0] <= 2]
    for name, other in r.rows(pairs, 1, "Checkpoint.AnyLayoutReadsAnyOther has the rest without MPI"):
        out = folder / f"{name} to {other}"
        for steps, (ranks, settings) in ((2, kinds[name]), (STEPS, kinds[other])):
            train({**base, "schedule.steps": STEPS, "train.steps": steps}, out, ranks, **{f"parallel__{k}": v for k, v in settings.items()})
        same(whole, out, out.name)


def test_any_checkpoint_in_any_layout(folder):
    base = {**prepare(folder), "checkpoint.every": 2, "checkpoint.keep": 0}
    whole = train(base, folder / "whole")
    kinds = {"one": (1, {}), "data 2": (2, {}), "zero 1 on 4": (4, {"zero": 1}), "zero 3 on 2": (2, {"zero": 3}), "pipe 2 data 2 zero 2": (4, {"pipeline": 2, "zero": 2})}
    into_each_other(base, whole, folder, kinds)


@r.full("Layouts.LeavesOfACheckpointHoldWhereTheyFitAndNothingElseIsSet")
def test_leaves_of_a_checkpoint_are_kept(folder):
    base = {**prepare(folder), "checkpoint.every": 2, "schedule.steps": STEPS}
    whole = train(base, folder / "whole")
    out = train({**base, "train.steps": 2}, folder / "run", 2)
    done = launch(4, ["train", *r.settings({**base, "train.output": str(out), "parallel.sum_leaves": 0})])
    same(whole, out, "8 leaves, 2 ranks, then 4")
    out = train({**base, "train.steps": 2}, folder / "other", 2)
    done = launch(2, ["train", *r.settings({**base, "train.output": str(out), "parallel.sum_leaves": 2})])
    check("made with parallel.sum_leaves=8, this run sums 2 leaves" in done.stderr, done.stderr)


def test_a_nan_is_said_once(folder):
    base = {**prepare(folder), "train.find_nan": True}
    # Of stages the first one that has one: those behind it have it from there.
    for stages, layer in ((1, 1), (2, 0)) if r.FULL else ((2, 0),):
        done = launch(2, ["train", *r.settings({**base, "train.output": str(folder / f"stages {stages}"), "parallel.pipeline": stages}),
                          f"probe.inject=[{{step: 3, path: 'model.layers.{layer}.*', op: attention, value: nan}}]"], status=1,
                      expect=f"step 3: the loss became nan; first: attention at model.layers.{layer}.self_attn (forward)")
        check(done.stderr.count("error: ") == 1, done.stderr)


def test_means_of_means(folder):
    """train.loss_average=micro: every micro batch counts alike, whichever rank has it and however many of its labels count. global-micro: those of all data ranks
    together are one, so that of two ranks with four rows each it is the mean over the labels of all eight."""
    rows, columns, draw = 16, 12, random.Random(3)
    ids = [[draw.randrange(257) for _ in range(columns)] for _ in range(rows)]
    labels = [[-100 if c <= k * 7 % 10 else t for c, t in enumerate(row)] for k, row in enumerate(ids)]
    r.save_tensors(folder / "rows.safetensors", {"input_ids": ("I64", (rows, columns), sum(ids, [])), "labels": ("I64", (rows, columns), sum(labels, []))})
    base = {**prepare(folder), "data.train": [str(folder / "rows.safetensors")], "data.valid": [], "data.sequence_length": columns, "train.valid_every": 0, "train.valid_batches": 0}
    tokens, one = train(base, folder / "tokens"), train(base, folder / "one", train__loss_average="micro")
    check(r.metrics(tokens)[1]["loss"] != r.metrics(one)[1]["loss"], "these rows tell the two apart")
    for name, ranks, settings in few((("data", 2, {}), ("zero", 4, {"parallel.zero": 2}), ("pipe", 2, {"parallel.pipeline": 2})), "data"):
        same(one, train({**base, **settings}, folder / name, ranks, train__loss_average="micro"), name)
    same(one, train(base, folder / "alone", train__loss_average="global-micro"), "on one rank it is micro")
    wide = {**base, "train.micro_batch": 4, "parallel.sum_leaves": 2}
    whole, both = train(wide, folder / "whole", train__loss_average="tokens"), train(wide, folder / "both", 2, train__loss_average="global-micro")
    near(both, whole, "micro batches of all ranks")


@r.full("test_together begins with one")
def test_model_folders_in_any_layout(folder):
    base = prepare(folder)
    train({**base, "train.steps": 1, "schedule.steps": STEPS}, folder / "start")
    del base["model.config"]
    base["model.path"] = str(folder / "start" / "model")
    one = train(base, folder / "one")
    for name, ranks, settings in [("zero 3", 2, {"zero": 3}), ("pipe", 4, {"pipeline": 2, "zero": 1})]:
        same(one, train(base, folder / name, ranks, **{f"parallel__{k}": v for k, v in settings.items()}), name)


def with_even_rows(folder, base):
    data = r.save_ids(folder / "even.safetensors", 40, 16, vocabulary=257)
    return {**base, "data.train": [data], "data.valid": [data], "data.sequence_length": 16}


IN_DOUBLE = {"precision.compute": "f64"}


class Rounding:
    """A run of one rank in double, and how far one in single precision lies from it, by number: that is what the roundings of this run come to. Sums in another order are
    another draw of them: two draws, and the largest of few twice a usual one, so 4 times. Those of double precision are 2^-29 of them."""

    def __init__(self, base, folder):
        launch(1, ["train", "--backend", "ref", *r.settings({**base, **IN_DOUBLE, "train.output": str(folder / "exact")})])
        self.exact = r.metrics(folder / "exact")
        self.single = train(base, folder / "one")
        self.far = {}
        for step, row in r.metrics(self.single).items():
            for key in ("loss", "grad_norm", "valid_loss"):
                if key in row:
                    self.far[key] = max(self.far.get(key, 0), abs(row[key] / self.exact[step][key] - 1))

    def demand(self, output, what, rounding=2.0 ** -24):
        got = r.metrics(output)
        check(got.keys() == self.exact.keys(), f"{what}: steps {sorted(got)}")
        for step, want in self.exact.items():
            check(got[step].keys() == want.keys(), f"{what}: step {step} has {got[step]}")
            for key, far in self.far.items():
                if key in want:
                    off, bound = abs(got[step][key] / want[key] - 1), 4 * (far * rounding / 2.0 ** -24 + rounding)
                    check(off <= bound, f"{what}: step {step}, {key} {got[step][key]!r} and {want[key]!r}: {off:.2g}, bound {bound:.2g}")


def test_tensor_ranks(folder):
    """Heads, width and a vocabulary that does not divide (257): every step within what sums in another order come to, in single and in double precision; and the same bits
    however the rest of the layout is."""
    base = with_even_rows(folder, prepare(folder))
    one = Rounding(base, folder)
    alike = {}
    for name, ranks, settings in few([("tensor 2", 2, {"tensor": 2}), ("data 2", 4, {"tensor": 2, "zero": 1}), ("pipe 2", 4, {"tensor": 2, "pipeline": 2}),
                                      ("sequence", 2, {"tensor": 2, "sequence": True}), ("all", 4, {"tensor": 2, "zero": 3, "sequence": True})], "sequence"):
        out = train(base, folder / name, ranks, **{f"parallel__{k}": v for k, v in settings.items()})
        one.demand(out, name)
        other = alike.setdefault(settings.get("sequence", False), out)
        same(other, out, name)
        if ranks == 2 and r.FULL:  # short: TensorRanks are in double
            exact = folder / f"{name} in double"
            launch(ranks, ["train", "--backend", "ref", *r.settings({**base, **IN_DOUBLE, **{f"parallel.{k}": v for k, v in settings.items()}, "train.output": str(exact)})])
            one.demand(exact, f"{name} in double", 2.0 ** -53)


LIKE_LLAMA = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": "silu", "rms_norm_eps": 1e-6,
              "max_position_embeddings": 64, "tie_word_embeddings": False}
LATENT = {"kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7, "first_k_dense_replace": 2}
FAMILIES = {
    "qwen3": {**LIKE_LLAMA, "num_key_value_heads": 2, "head_dim": 8, "rope_theta": 10000.0, "attention_bias": False},
    "internlm": {**LIKE_LLAMA, "bias": True},
    "phi3": {**LIKE_LLAMA, "num_key_value_heads": 2, "sliding_window": 20, "pad_token_id": None, "original_max_position_embeddings": 12, "partial_rotary_factor": 0.5,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.2], "long_factor": [2.0, 9.0]}},
    "gemma2": {**{k: v for k, v in LIKE_LLAMA.items() if k not in ("hidden_act", "tie_word_embeddings")}, "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 6, "sliding_window": 5,
               "attn_logit_softcapping": 2.0, "final_logit_softcapping": 4.0},
    "olmo2": {**LIKE_LLAMA, "num_key_value_heads": 2},
    "deepseek_v2": {**LIKE_LLAMA, **LATENT, "q_lora_rank": None},
    "deepseek_v3": {**LIKE_LLAMA, **LATENT, "q_lora_rank": 12, "attention_bias": True},
    "baichuan": {**LIKE_LLAMA, "z_loss_weight": 0},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    "bloom": {"n_embed": 32, "n_layer": 2, "num_attention_heads": 4, "seq_length": 64, "hidden_dropout": 0.0, "attention_dropout": 0.0},
    "gpt_neox": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "rotary_pct": 0.5, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
                 "max_position_embeddings": 64, "use_parallel_residual": True}}


@r.full("TensorRanks.EveryFamilyIsWhatOneRankMakesOfIt has all of them on threads, in double")
def test_families_on_tensor_ranks(folder):
    """What other families add to Llama (norms of heads and of whole rows of q and k, norms behind and around, capped scores and logits, long rotations, biases of summed products, learned
    positions, ALiBi, rows of the head at length 1, a parallel residual): within what sums in another order come to, with sequence parallelism too; pipelines and ZeRO give the same bits."""
    for family, fields in FAMILIES.items():
        (folder / family).mkdir()
        base = with_even_rows(folder / family, prepare(folder / family))
        (folder / family / "config.json").write_text(json.dumps({"model_type": family, "vocab_size": 257, "bos_token_id": 1, "eos_token_id": 2, **fields}))
        base["train.global_batch"], base["parallel.sum_leaves"], base["train.steps"] = 4, 2, 2
        one = Rounding(base, folder / family)
        for name, ranks, settings in [("tensor", 2, {"tensor": 2}), ("sequence", 2, {"tensor": 2, "sequence": True}), ("pipe", 2, {"pipeline": 2}), ("zero", 2, {"zero": 3})]:
            out = train(base, folder / family / name, ranks, **{f"parallel__{k}": v for k, v in settings.items()})
            if "tensor" not in settings:
                same(one.single, out, f"{family}: {name}")
            else:
                one.demand(out, f"{family}: {name}")


@r.full("DataRanksAndStages.KeepEveryBitInBf16 has such a head under ZeRO on threads")
def test_unit_rows_of_a_head_in_bf16(folder):
    """Kernels read the f32 rows of such a head, so ZeRO must bring them, though all else is read as bf16."""
    base = with_even_rows(folder, prepare(folder))
    (folder / "config.json").write_text(json.dumps({"model_type": "baichuan", "vocab_size": 257, "bos_token_id": 1, "eos_token_id": 2, **FAMILIES["baichuan"]}))
    base.update({"precision.compute": "bf16", "precision.bf16_products": "widen", "parallel.zero_threshold": 100})
    one = train(base, folder / "one")
    for zero in (1, 2, 3):
        same(one, train(base, folder / f"zero {zero}", 2, parallel__zero=zero), f"zero {zero}")


def test_from_tensor_ranks_to_data_ranks(folder):
    """Trained on 8 ranks (short: 2), killed; goes on with 3 ranks (1) and another batch, and the result loads."""
    ranks, mesh, said, then = (8, {"pipeline": 2, "zero": 1}, "data 2 x tensor 2 x pipeline 2, ZeRO 1", 3) if r.FULL else (2, {}, "tensor 2", 1)
    base = {**with_even_rows(folder, prepare(folder)), "checkpoint.every": 2, "parallel.sum_leaves": 0}
    out = folder / "run"
    train({**base, "train.steps": 2, "schedule.steps": STEPS}, out, ranks, parallel__tensor=2, **{f"parallel__{k}": v for k, v in mesh.items()})
    info = r.run("info", out / "checkpoints" / "step_000002").stdout
    check(said in info, info)
    train({**base, "train.global_batch": 12}, out, then)
    check(sorted(r.metrics(out)) == [1, 2, 3, 4], "steps are missing")


@r.full("Traffic.IsWhatThePlanPredicts has every layout on threads")
def test_what_is_sent_is_what_was_planned(folder):
    base = with_even_rows(folder, {**prepare(folder), "parallel.sum_leaves": 0, "train.valid_every": 0})
    for ranks, settings in [(2, {}), (2, {"zero": 1}), (2, {"zero": 2}), (4, {"zero": 3}), (2, {"pipeline": 2}), (2, {"tensor": 2}),
                            (2, {"tensor": 2, "sequence": True}), (8, {"tensor": 2, "pipeline": 2, "zero": 1})]:
        values = {f"parallel.{k}": v for k, v in settings.items()}
        out = folder / f"{ranks}-{'-'.join(f'{k}{v}' for k, v in settings.items())}"
        launch(ranks, ["train", *r.settings({**base, **values, "train.output": str(out)})])
        planned = json.loads(launch(1, ["plan", "--json", "--ranks", ranks, *r.settings({k: v for k, v in {**base, **values}.items() if k.split(".")[0] not in ("checkpoint", "log", "schedule")})]).stdout)
        steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        check(all(0 <= s["comm_wait_least"] <= s["comm_wait"] <= 1 for s in steps), f"{ranks} ranks, {settings}: a rank waits for longer than a step lasts: {steps}")
        sent = steps[2]["comm_mb"] * 1e6
        want = sum(planned["ranks"][0][f"sent_{axis}"] for axis in ("data", "tensor", "pipeline"))
        agreements = 8 * 700 * ranks  # sums of losses and norms, counts: a few numbers each
        check(abs(sent - want) < 0.02 * want + agreements, f"{ranks} ranks, {settings}: sent {sent:.0f} bytes, planned {want:.0f}")


@r.full("test_what_check_layouts_promises has it on two ranks, with a planted fault")
def test_check_layouts(folder):
    model = r.save_config(folder / "config.json", num_hidden_layers=4, vocab_size=257)
    arguments = ["check", "layouts", *r.settings({"model.config": model, "data.sequence_length": 16, "optimizer.lr": 0.01})]
    done = launch(4, arguments)
    check("all as promised" in done.stdout and "pipeline 2, interleaved" in done.stdout and "data 2 x pipeline 2, ZeRO 3" in done.stdout and
          "tensor 2, sequence" in done.stdout, done.stdout)
    for fault in ("sum", "cut", "mask"):
        done = launch(2, [*arguments, "--inject", fault], status=1)
        check("NOT all as promised" in done.stdout and f"one rank, with another {fault}" in done.stdout and done.stdout.count("NOT KEPT") == 1, done.stdout)


def test_what_check_layouts_promises(folder):
    """Same bits without tensor ranks; with them as much as sums of hidden x layers terms may come to in another order, in the arithmetic of the run."""
    hidden, layers = 32, 4
    model = r.save_config(folder / "config.json", num_hidden_layers=layers, vocab_size=257)
    for compute, epsilon in few((("f32", 2.0 ** -23), ("bf16", 2.0 ** -7)), "f32"):
        # A run that differs says by how much: one label of a batch of 8 x 16 is left out.
        faulty = ["check", "layouts", "--json", "--steps", "1", "--inject", "mask", *r.settings({"model.config": model, "data.sequence_length": 16, "precision.compute": compute})]
        planted = json.loads(launch(2, faulty, status=1).stdout)
        *others, last = planted["layouts"]
        check(planted["kept"] is False and all(x["kept"] for x in others) and not last["kept"] and last["difference"] > 1e-4 and last["first_difference"] == "loss of step 1", last)
        if not r.FULL:  # the others are all that the command says without a fault
            continue
        done = launch(2, ["check", "layouts", "--json", "--steps", "2", *r.settings({"model.config": model, "data.sequence_length": 16, "optimizer.lr": 0.01, "precision.compute": compute})])
        said = json.loads(done.stdout)
        names = [x["layout"] for x in said["layouts"]]
        check(said["kept"] is True and "data 2" in names and "tensor 2" in names and "pipeline 2" in names and len(set(names)) == len(names), names)
        for x in said["layouts"]:
            check(x["bitwise"] == ("tensor" not in x["layout"]) and x["kept"], x)
            if x["bitwise"]:
                check(x["losses"] and x["grad_norms"] and x["weights"] and x["difference"] == 0 and x["first_difference"] == "", x)
            else:
                check(abs(x["bound"] / (4 * epsilon * (hidden * layers) ** 0.5) - 1) < 1e-12 and 0 < x["difference"] <= x["bound"] and x["first_difference"], f"{compute}: {x}")


@r.full("Layouts.RefusalsNameWhatWouldDo has them; dist_jobs has two ranks that refuse, and once")
def test_refusals(folder):
    base = prepare(folder)
    def refused(ranks, text, **settings):
        done = launch(ranks, ["train", *r.settings({**base, "train.output": str(folder / "never"), **{k.replace("__", "."): v for k, v in settings.items()}})],
                      status=2, expect=text)
        check(done.stderr.count("error: ") == 1, f"said more than once:\n{done.stderr}")
        check(not (folder / "never" / "checkpoints").exists(), "something was written")
    refused(2, "use parallel.data=2", parallel__data=3)
    refused(4, "needs one of the model's 2 layers; use parallel.data=2 parallel.pipeline=2", parallel__pipeline=4,
            model__config=r.save_config(folder / "small.json", vocab_size=257))
    refused(3, "use parallel.data=1 parallel.pipeline=3", parallel__sum_leaves=0)
    refused(5, "start 4 ranks: parallel.data=4", parallel__sum_leaves=0)
    refused(1, "use one of 1, 2, 4, 8", parallel__sum_leaves=3)
    refused(2, "did you mean 'parallel.zero'", parallel__zerro=1)
    done = launch(2, ["bench", "decode", "--model", "nowhere"], status=2, expect="bench decode on several ranks")
    one = r.settings({**base, "train.output": str(folder / "never")})
    done = subprocess.run([*LAUNCH, "-n", "1", *r.command("train", *one), ":", "-n", "1", *r.command("train", *one, "train.seed=7")],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode != 0 and "ranks differ in their config (rank 1)" in done.stderr and "'  seed: 7', rank 0 has '  seed: 42'" in done.stderr, done.stderr)


@r.full("dist_faults loses ranks in every way, dist_jobs has a training that loses one")
def test_a_lost_rank_ends_the_job(folder):
    """A rank that is killed, and one that stands still, in the middle of a run: named, and the last checkpoint is good."""
    base = {**prepare(folder), "checkpoint.every": 1, "train.steps": 100000, "schedule.steps": STEPS, "train.valid_every": 0, "parallel.patience": 3}
    for harm, words in ((signal.SIGKILL, "is gone"), (signal.SIGSTOP, "has not answered for")):
        out = folder / harm.name
        job = subprocess.Popen([*LAUNCH, "-n", "4", *r.command("train", *r.settings({**base, "train.output": str(out)}))],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        began = time.monotonic()
        while len(r.checkpoints(out)) < 2 and job.poll() is None and time.monotonic() - began < 300:
            time.sleep(0.01)
        os.kill(processes(job, 4)[2], harm)
        killed = time.monotonic()
        text = job.communicate(timeout=300)[0]
        seconds = time.monotonic() - killed
        check(job.returncode != 0 and re.search(rf"rank 2 \(.*\) {words}", text) and "the last checkpoint is intact" in text, f"{harm.name}: {text[-2000:]}")
        check(seconds < soon(), f"{harm.name}: took {seconds:.0f} s")
        last = int(r.checkpoints(out)[-1].split("_")[1])
        train({**base, "train.steps": last + 2}, out, 2)


@r.full("test_a_stop_that_one_rank_hears: the launcher hands a signal on to every rank, and one is enough")
def test_stop(folder):
    base = {**prepare(folder), "train.steps": 100000, "schedule.steps": STEPS, "train.valid_every": 0}
    out = folder / "run"
    job = subprocess.Popen([*LAUNCH, "-n", "2", *r.command("train", *r.settings({**base, "train.output": str(out)}))],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while job.poll() is None and (not (out / "metrics.jsonl").exists() or (out / "metrics.jsonl").stat().st_size < 300):
        time.sleep(0.01)
    job.send_signal(signal.SIGUSR1)
    text = job.communicate(timeout=300)[0]
    check(job.returncode == 130 and text.count("stopped after step") == 1, f"{job.returncode}: {text[-1500:]}")
    check(len(r.checkpoints(out)) == 1, "nothing was saved")


def test_a_stop_that_one_rank_hears(folder):
    """Launchers and users signal any process of a job: whichever hears it, all save the same step and end."""
    base = {**prepare(folder), "train.steps": 20000, "schedule.steps": STEPS, "train.valid_every": 0}
    cases = ((1, signal.SIGUSR1, []), (1, signal.SIGTERM, ["parallel.pipeline=2"]), (0, signal.SIGHUP, ["parallel.zero=3"]))
    for rank, number, layout in r.rows(cases, 1, "each signal is told to all ranks alike"):
        out = folder / number.name
        job = subprocess.Popen([*LAUNCH, "-n", "2", *r.command("train", *r.settings({**base, "train.output": str(out)}), *layout)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        mine = processes(job, 2)
        while job.poll() is None and (not (out / "metrics.jsonl").exists() or (out / "metrics.jsonl").stat().st_size < 300):
            time.sleep(0.01)
        os.kill(mine[rank], number)
        try:
            text = job.communicate(timeout=300)[0]
        finally:
            job.terminate()
        check(job.returncode == 130 and text.count("stopped after step") == 1, f"{number.name} at rank {rank}: {job.returncode}: {text[-1500:]}")
        last = max(r.metrics(out))
        check(r.checkpoints(out) == [f"step_{last:06}"] and last < 20000, f"{number.name}: {r.checkpoints(out)} after step {last}")


if __name__ == "__main__":
    r.main(globals())
