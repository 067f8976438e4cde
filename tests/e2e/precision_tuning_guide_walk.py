"""MindSpore's guide on tuning precision from top to bottom: a job of MindFormers (under test) and one of Megatron (the benchmark) on the same weights and the same token files, each row of its checklist
on both sides, its environment variables, its dump, local norms, given gradients, and the long runs, by the blocks that it prints (examples/precision-tuning-guide); placeholders alone are filled in."""
import array
import csv
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
from data_index import token_files
from ravine_run import check

SERVED_COMMANDS = False  # variables of the environment, and ranks
PAGE = Path(__file__).resolve().parents[2] / "examples" / "precision-tuning-guide"
STEPS = 6

# The job of the guide's reader, as phase 1 has it aligned: two layers, a constant rate, no warm-up, eps 1e-8, no dropout.
JOB = """
seed: 1234
output_dir: out
run_mode: finetune
use_parallel: False
trainer: {type: CausalLanguageModelingTrainer, model_name: small}
runner_config: {epochs: 1, batch_size: 2, sink_mode: False}
runner_wrapper: {type: MFTrainOneStepCell, scale_sense: 1.0, use_clip_grad: True, max_grad_norm: 1.0}
optimizer: {type: AdamW, betas: [0.9, 0.95], eps: 1.e-8, weight_decay: 0.1}
lr_schedule: {type: ConstantWarmUpLR, learning_rate: 1.e-3, warmup_steps: 0}
train_dataset: &train_dataset
  data_loader: {type: BlendedMegatronDatasetDataLoader, datasets_type: GPTDataset, sizes: [12, 0, 0], config: {seed: 1234, seq_length: 32, split: "1,0,0", data_path: [1, books]}}
  input_columns: [input_ids, labels]
  drop_remainder: True
  batch_size: 2
train_dataset_task: {type: CausalLanguageModelDataset, dataset_config: *train_dataset}
callbacks: [{type: MFLossMonitor}]
context: {mode: 0, device_target: Ascend}
parallel: {parallel_mode: 1, full_batch: True, enable_parallel_optimizer: False}
parallel_config: {data_parallel: 1, model_parallel: 1, pipeline_stage: 1, micro_batch_num: 1}
model:
  arch: {type: LlamaForCausalLM}
  model_config:
    {type: LlamaConfig, batch_size: 2, seq_length: 32, num_layers: 2, hidden_size: 64, num_heads: 4, n_kv_heads: 2, intermediate_size: 128, vocab_size: 256, rms_norm_eps: 1.0e-5,
     compute_dtype: float32, param_init_type: float32, use_flash_attention: True, use_fused_rope: True, use_fused_swiglu: True}
"""
FLAGS = {
    "num-layers": 2, "hidden-size": 64, "num-attention-heads": 4, "group-query-attention": None, "num-query-groups": 2, "ffn-hidden-size": 128, "seq-length": 32, "max-position-embeddings": 32,
    "position-embedding-type": "rope", "normalization": "RMSNorm", "layernorm-epsilon": 1e-5, "swiglu": None, "disable-bias-linear": None, "untie-embeddings-and-output-weights": None, "attention-dropout": 0,
    "hidden-dropout": 0, "vocab-size": 255, "make-vocab-size-divisible-by": 1, "tokenizer-type": "NullTokenizer", "micro-batch-size": 2, "global-batch-size": 2, "lr": 1e-3, "lr-decay-style": "constant",
    "lr-warmup-iters": 0, "weight-decay": 0.1, "optimizer": "adam", "adam-beta1": 0.9, "adam-beta2": 0.95, "adam-eps": 1e-8, "clip-grad": 1.0, "data-path": "books", "split": "1,0,0", "log-interval": 1,
    "save-interval": 1000, "eval-iters": 0, "seed": 1234, "train-iters": STEPS, "use-flash-attn": None,
}
MODEL, LR, ADAM = "--model.model_config.", "--lr_schedule.", "--optimizer."


def launch(folder, words, ranks, status, env):
    before = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    if ranks > 1 and not shutil.which("mpirun"):
        raise r.Skipped("no mpirun")
    given = {"OMP_NUM_THREADS": "1", **os.environ, **(env or {})}
    done = subprocess.run([*before, *r.command(*words)], cwd=folder, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"exit {done.returncode} instead of {status}: {' '.join(map(str, words))}\n{done.stderr[-1200:]}")
    return done.stderr


def mindformers(folder, name, *more, load="weights", config="job.yaml", ranks=1, status=0, env=None):
    words = [*(["--load_checkpoint", load] if load else ["--run_mode", "train"]), "--output_dir", name, *more]
    return launch(folder, ["mindformers", "--config", config, *words], ranks, status, env)


def megatron(folder, name, *more, load="initial", ranks=1, status=0, env=None, **flags):
    """flags: names with underscores; None for a switch, False for a flag of FLAGS that is left out."""
    given = {**FLAGS, **{k.replace("_", "-"): v for k, v in flags.items()}, **({"load": load, "finetune": None} if load else {}), "save": name}
    words = [w for k, v in given.items() if v is not False for w in ([f"--{k}"] if v is None else [f"--{k}", v])]
    return launch(folder, ["megatron", *words, *more], ranks, status, env)


def convert(folder, source, output):
    """Weights of the benchmark under MindSpore's names."""
    r.run("convert", "--input", folder / source, "--to", "mindformers", "--output", folder / output)


def prepare(folder):
    """The job, token files, and weights of the benchmark's own beginning, for both."""
    (folder / "job.yaml").write_text(JOB)
    draw = random.Random(1)
    token_files(folder / "books", [[draw.randrange(3, 255) for _ in range(draw.randrange(20, 90))] for _ in range(100)])
    megatron(folder, "initial", load=None, lr=1e-12, weight_decay=0, train_iters=1)
    convert(folder, "initial", "weights")


def values(folder, name, key="loss"):
    return [json.loads(line)[key] for line in (folder / name / "metrics.jsonl").read_text().splitlines()]


def judged(folder, *curves, status=0):
    return json.loads(r.run("curves", *(folder / c for c in curves), "--json", status=status).stdout)


def dumped(name, **more):
    return "probe.dump=" + json.dumps({"dir": name, "what": "tensors", **more})


def test_the_files_are_the_pages(folder):
    """The page has lost the ends and beginnings of its lines: all but white space is compared."""
    flat = lambda text: re.sub(r"\s+", "", text)
    page = flat(r.shared("mission", "precision-tuning-guide.zh.txt").read_text())
    for file in sorted(PAGE.iterdir()):
        check(flat(file.read_text()) in page, f"{file.name} is not as the page prints it")


# Of the checklist: what is changed on either side (None: it has no such key, as the page says), and whether the weights get another shape. Both runs leave their base and stay one run.
ROWS = {
    "num_layers": ((MODEL + "num_layers", 3), {"num_layers": 3}, True),
    "num_heads": ((MODEL + "num_heads", 8), {"num_attention_heads": 8}, True),
    "hidden_size": ((MODEL + "hidden_size", 32), {"hidden_size": 32}, True),
    "intermediate_size": ((MODEL + "intermediate_size", 96), {"ffn_hidden_size": 96}, True),
    "n_kv_heads": ((MODEL + "n_kv_heads", 4), {"num_query_groups": 4}, True),
    "normalization": (None, {"normalization": "LayerNorm", "position_embedding_type": "learned_absolute", **dict.fromkeys(("swiglu", "disable_bias_linear", "group_query_attention", "num_query_groups", "untie_embeddings_and_output_weights"), False)}, True),
    "rms_norm_eps": ((MODEL + "rms_norm_eps", 1e-2), {"layernorm_epsilon": 1e-2}, False),
    "dropout": ((MODEL + "hidden_dropout", 0.5), {"hidden_dropout": 0.5}, False),
    "attention dropout": ((MODEL + "attention_dropout", 0.5), {"attention_dropout": 0.5}, False),
    "adam": ((ADAM + "type", "SGD", ADAM + "betas", "null", ADAM + "eps", "null"), {"optimizer": "sgd", "sgd_momentum": 0}, False),
    "eps": ((ADAM + "eps", 1e-2), {"adam_eps": 1e-2}, False),
    "beta1": ((ADAM + "betas", "[0.5, 0.95]"), {"adam_beta1": 0.5}, False),
    "beta2": ((ADAM + "betas", "[0.9, 0.5]"), {"adam_beta2": 0.5}, False),
    "weight_decay": ((ADAM + "weight_decay", 0.9), {"weight_decay": 0.9}, False),
    "lr": ((LR + "learning_rate", 2e-3), {"lr": 2e-3}, False),
    "lr_warmup_fraction": ((LR + "warmup_steps", "null", LR + "warmup_ratio", 0.5), {"lr_warmup_iters": False, "lr_warmup_fraction": 0.5}, False),
    "clip_grad": (("--runner_wrapper.max_grad_norm", 0.1), {"clip_grad": 0.1}, False),
    "global_batch_size": (("--runner_config.batch_size", 1, "--train_dataset.batch_size", 1, MODEL + "batch_size", 1, "--runner_config.epochs", 1), {"global_batch_size": 1, "micro_batch_size": 1, "train_iters": 12}, False),
    "compute_dtype": ((MODEL + "compute_dtype", "bfloat16"), {"bf16": None}, False),
}


def test_the_checklist(folder):
    """A row that is changed on one side is seen at once; changed on both, the two are one run again."""
    prepare(folder)
    mindformers(folder, "base")
    megatron(folder, "bench")
    base = r.metrics(folder / "base")
    check(base == r.metrics(folder / "bench") and len(base) == STEPS, f"the two programs do not begin alike: {base} {r.metrics(folder / 'bench')}")
    wrong = []
    for row, (here, there, shape) in ROWS.items():
        try:
            first, loads = ("initial", "weights") if not shape else (f"{row}-initial", f"{row}-weights")
            if shape:
                megatron(folder, first, load=None, **{**there, "lr": 1e-12, "weight_decay": 0, "train_iters": 1})
            megatron(folder, f"{row}-bench", load=first, **there)
            check(r.metrics(folder / f"{row}-bench") != base, "Megatron's flag changes nothing")
            if here:
                if shape:
                    convert(folder, first, loads)
                mindformers(folder, f"{row}-test", *here, load=loads)
                check(r.metrics(folder / f"{row}-test") != base, "MindFormers' key changes nothing")
                judged(folder, f"{row}-test", f"{row}-bench")
        except AssertionError as error:
            wrong.append(f"{row}: {error}")
    check(not wrong, "\n".join(wrong))
    check(any(name.endswith("ln_1.bias") for name in r.load_tensors(folder / "normalization-bench" / "model")), "a LayerNorm has biases")
    said = judged(folder, "rms_norm_eps-test", "bench", status=1)
    check(said["early"]["first_beyond"] == 1, f"another epsilon shows at step 1: {said['verdict']}")


# Keys that change roundings only: in bfloat16 each changes the run a little, and their reason to be left as they are is not that numbers are equal.
FUSED = {"use_flash_attention": "False", "use_fused_rope": "False", "use_fused_swiglu": "False"}
TYPES = {"param_init_type": ("bfloat16",), "layernorm_compute_type": ("bfloat16",), "softmax_compute_type": ("bfloat16", MODEL + "use_flash_attention", "False"), "rotary_dtype": ("bfloat16", MODEL + "use_fused_rope", "False")}


def test_fused_ops_and_types(folder):
    """Of the rows "fused computation" and of mixed precision: in bfloat16 each key leaves the base, and stays within what roundings explain."""
    prepare(folder)
    half = (MODEL + "compute_dtype", "bfloat16", MODEL + "layernorm_compute_type", "float32", MODEL + "softmax_compute_type", "float32", MODEL + "rotary_dtype", "float32")
    beginnings = {"": (), "softmax_compute_type": (MODEL + "use_flash_attention", "False"), "rotary_dtype": (MODEL + "use_fused_rope", "False")}
    for key, more in beginnings.items():
        mindformers(folder, f"base-{key}", *half, *more)
    wrong = []
    for key, words in {**{k: (v,) for k, v in FUSED.items()}, **TYPES}.items():
        base = f"base-{key if key in beginnings else ''}"
        try:
            mindformers(folder, key, *half, MODEL + key, *words)
            check(r.metrics(folder / key) != r.metrics(folder / base), f"{MODEL}{key} {words[0]} changes no number")
            judged(folder, key, base)
        except AssertionError as error:
            wrong.append(f"{key}: {error}")
    check(not wrong, "\n".join(wrong))


# routing_policy stands in no row of the page: its default is a router of MindFormers' first version.
MOE = {"routing_policy": "TopkRouterV2", "expert_num": 4, "num_experts_chosen": 2, "capacity_factor": 1.0, "aux_loss_factor": 0.0, "enable_sdrop": True, "router_dense_type": "float32", "use_fused_ops_topkrouter": True, "use_shared_expert_gating": False}
BENCH = {"num_experts": 4, "moe_router_topk": 2, "moe_expert_capacity_factor": 1.0, "moe_aux_loss_coeff": 0.0, "moe_token_drop_policy": "position", "moe_pad_expert_input_to_capacity": None}
# As ROWS, of models with experts. The guide says of no row but the first three, and sdrop as MOE and BENCH have it, that both programs come to one loss.
ALIKE = ("expert_num", "num_experts_chosen", "capacity_factor")
EXPERTS = {
    "expert_num": ({"expert_num": 8}, {"num_experts": 8}, True),
    "num_experts_chosen": ({"num_experts_chosen": 3}, {"moe_router_topk": 3}, False),  # of one, MindFormers keeps its probability as weight
    "capacity_factor": ({"capacity_factor": 0.5}, {"moe_expert_capacity_factor": 0.5}, False),
    "aux_loss_factors": ({"aux_loss_types": ["expert"], "aux_loss_factors": [0.04]}, {"moe_aux_loss_coeff": 0.04}, False),  # aux_loss_factor is of the first router alone
    "enable_sdrop": ({"enable_sdrop": False}, {"moe_token_drop_policy": "probs", "moe_pad_expert_input_to_capacity": False}, False),
    "router_dense_type": ({"router_dense_type": "bfloat16"}, None, False),
}


def test_the_checklist_of_experts(folder):
    prepare(folder)
    wrong = []

    def both(name, here, there, first, loads):
        (folder / f"{name}.yaml").write_text(f"base_config: job.yaml\nmoe_config: {json.dumps({**MOE, **here})}\n")
        mindformers(folder, f"{name}-test", config=f"{name}.yaml", load=loads)
        if there is not None:
            megatron(folder, f"{name}-bench", load=first, **{**BENCH, **there})
            if name in ("experts", *ALIKE):
                judged(folder, f"{name}-test", f"{name}-bench")

    def begin(name, there):
        megatron(folder, f"{name}-initial", load=None, **{**BENCH, **there, "lr": 1e-12, "weight_decay": 0, "train_iters": 1})
        convert(folder, f"{name}-initial", f"{name}-weights")

    begin("experts", {})
    try:
        both("experts", {}, {}, "experts-initial", "experts-weights")
        check("drop_rate" in (folder / "experts-test" / "metrics.jsonl").read_text(), "no experts")
    except AssertionError as error:
        wrong.append(f"all rows: {error}")
    for row, (here, there, shape) in EXPERTS.items():
        try:
            if shape:
                begin(row, there)
            both(row, here, there, *((f"{row}-initial", f"{row}-weights") if shape else ("experts-initial", "experts-weights")))
            for side in ("test", "bench") if there is not None else ("test",):
                check(r.metrics(folder / f"{row}-{side}") != r.metrics(folder / f"experts-{side}"), f"{side}: changes nothing")
        except (AssertionError, OSError) as error:
            wrong.append(f"{row}: {error}")
    check(not wrong, "\n".join(wrong))


# Of the rows on layouts: keys, flags, ranks. None changes more than roundings.
ONE = ("--runner_config.batch_size", 1, "--train_dataset.batch_size", 1, MODEL + "batch_size", 1)  # sequences of a micro batch
LAYOUTS = {
    "data_parallel": (("--parallel_config.data_parallel", 2, *ONE), {"micro_batch_size": 1}, "data 2"),
    "model_parallel": (("--parallel_config.model_parallel", 2), {"tensor_model_parallel_size": 2}, "tensor 2"),
    "pipeline_stage": (("--parallel_config.pipeline_stage", 2, "--parallel_config.micro_batch_num", 2, *ONE), {"pipeline_model_parallel_size": 2, "micro_batch_size": 1}, "pipeline 2"),
    "use_seq_parallel": (("--parallel_config.model_parallel", 2, "--parallel_config.use_seq_parallel", "True"), {"tensor_model_parallel_size": 2, "sequence_parallel": None}, "tensor 2"),
    "enable_parallel_optimizer": (("--parallel_config.data_parallel", 2, "--parallel.enable_parallel_optimizer", "True", *ONE), {"micro_batch_size": 1, "use_distributed_optimizer": None}, "ZeRO"),
}


def activations(said):
    return re.search(r"^memory   weights .*activations ([\d.]+ \w+)", said, re.M)[1]


def test_the_checklist_of_layouts(folder):
    prepare(folder)
    megatron(folder, "bench")
    wrong, kept = [], {}
    for row, (here, there, word) in LAYOUTS.items():
        try:
            said = [mindformers(folder, f"{row}-test", "--use_parallel", "True", *here, ranks=2), megatron(folder, f"{row}-bench", ranks=2, **there)]
            kept[row] = [activations(text) for text in said]
            for text in said:
                check(re.search(rf"^ranks    2 on 1 host: .*{word}", text, re.M), f"no line with '{word}'\n{text[:600]}")
            for side in ("test", "bench"):
                judged(folder, f"{row}-{side}", "bench")
        except AssertionError as error:
            wrong.append(f"{row}: {error}")
    mindformers(folder, "interleaved", "--micro_batch_interleave_num", 2, *ONE)
    check(judged(folder, "interleaved", "bench")["agrees"], "two copies of half a batch are a batch")
    check(all(a != b for a, b in zip(kept["model_parallel"], kept["use_seq_parallel"])), f"sequences are not divided: {kept}")
    check(not wrong, "\n".join(wrong))


def test_the_checklist_of_data(folder):
    """What a step reads is shown; both programs read the same rows of one token file; an id beyond the vocabulary ends the job before it is learned from."""
    prepare(folder)
    mindformers(folder, "test")
    megatron(folder, "bench")
    shown = [r.run("data", "show", "--config", folder / run / "config.yaml", "--step", 2, cwd=folder).stdout for run in ("test", "bench")]
    check(shown[0] == shown[1] and "32 labels" in shown[0] and "books sequence" in shown[0], f"{shown}")
    ids = [int(x) for x in re.findall(r"^(\d+(?: \d+){32})$", shown[0], re.M)[0].split()]
    check(all(0 <= x < 256 for x in ids), f"{ids}")
    token_files(folder / "wide", [[i % 250 for i in range(60)], [300] * 60])
    said = mindformers(folder, "wide", "--train_dataset.data_loader.config.data_path", '[1, "wide"]', status=2)
    check("300" in said and "255" in said and "wide" in said and not (folder / "wide" / "metrics.jsonl").exists(), said)
    # Ids of specials go into the model's own files; graph fusion decides no number here, which is said.
    mindformers(folder, "specials", MODEL + "bos_token_id", 1, MODEL + "eos_token_id", 2, MODEL + "pad_token_id", 0, "--context.enable_graph_kernel", "False")
    check("bos_token_id: 1" in (folder / "specials" / "config.yaml").read_text() and r.metrics(folder / "specials") == r.metrics(folder / "test"), "specials")


def exports(file):
    """Variables that a block of the page exports."""
    return dict(re.findall(r"^export (\w+)=(\S+)", (PAGE / file).read_text(), re.M))


def test_environment_variables(folder):
    """The page's switches for the same bits, and its mode for numbers that are not finite: each is named once, with what it means here, whether it is exported or stands in a launch script."""
    prepare(folder)
    quiet = mindformers(folder, "without")
    variables = {**exports("deterministic.sh"), "INF_NAN_MODE_ENABLE": "1"}
    check(set(variables) == {"HCCL_DETERMINISTIC", "ASCEND_LAUNCH_BLOCKING", "INF_NAN_MODE_ENABLE"} and not any(name in quiet for name in variables), quiet)
    wrong = []
    (folder / "launch.sh").write_text((PAGE / "deterministic.sh").read_text() + "export INF_NAN_MODE_ENABLE=1\npython run_mindformer.py --config job.yaml --load_checkpoint weights --output_dir of-script\n")
    for way, said in (("exported", mindformers(folder, "exported", env=variables)), ("of-script", launch(folder, ["mindformers", "--script", "launch.sh"], 1, 0, None))):
        wrong += [f"{way}: {name} stands in {said.count(name)} lines" for name in variables if said.count(name) != 1]
        check(r.metrics(folder / way) == r.metrics(folder / "without"), f"{way}: another run")
    # Others of the runtime, of whatever name; not those of a neighbour.
    said = mindformers(folder, "others", env={"MS_DEV_RUNTIME_CONF": "x", "HCCL_ALGO": "y", "MSG": "z"})
    wrong += [f"{name} stands in {said.count(name)} lines" for name in ("MS_DEV_RUNTIME_CONF=x", "HCCL_ALGO=y") if said.count(name) != 1]
    check("MSG=" not in said, said[:400])
    check(not wrong, "\n".join(wrong))


def test_the_seed_of_both(folder):
    """seed_all(42) and deterministic "ON" are keys and flags here: two runs with random weights have the same bits, and another seed has not."""
    prepare(folder)
    seeds = {int(re.search(r"def seed_all\(seed=(\d+)\)", (PAGE / f"seed_all_{side}.py").read_text())[1]) for side in ("pytorch", "mindspore")}
    check(seeds == {42} and 'deterministic="ON"' in (PAGE / "seed_all_mindspore.py").read_text(), f"{seeds}")
    for name, seed in (("a", 42), ("b", 42), ("c", 43)):
        mindformers(folder, f"test-{name}", "--seed", seed, "--context.deterministic", "ON", MODEL + "hidden_dropout", 0.1, load=None)
        megatron(folder, f"bench-{name}", load=None, seed=seed, hidden_dropout=0.1)
    for side in ("test", "bench"):
        a, b, c = (r.metrics(folder / f"{side}-{name}") for name in "abc")
        check(a == b, f"{side}: two runs of one seed are two")
        check(a != c, f"{side}: another seed changes nothing")


def test_the_dump_that_the_page_configures(folder):
    """MINDSPORE_DUMP_CONFIG names the page's JSON: the iterations that it lists are dumped with their tensors, into its folder, and the run is the run without."""
    prepare(folder)
    (folder / "dump.json").write_text((PAGE / "dump.json").read_text().replace("/absolute_path", str(folder / "dump")))
    check(list(exports("dump.sh").values()) == ["${JSON_PATH}"], "the variable of the page")
    sizes = ("--train_dataset.data_loader.sizes", "[20, 0, 0]")
    mindformers(folder, "without", *sizes, dumped("own", steps="1|6-9"))
    said = mindformers(folder, "with", *sizes, env={"MINDSPORE_DUMP_CONFIG": str(folder / "dump.json")})
    check(r.metrics(folder / "with") == r.metrics(folder / "without"), "a dump changes the run")
    check((folder / "dump").is_dir(), f"MINDSPORE_DUMP_CONFIG leaves no dump\n{said[:400]}")
    out = json.loads(r.run("compare", folder / "dump", folder / "own", "--json").stdout)
    check(out["pairs"] > 0 and out["equal"], out["verdict"])
    told = json.loads(r.run("info", folder / "dump", "--json").stdout)
    check(told["records"] > 100, f"{told}")


def test_dumps_of_both_programs(folder):
    """Phase 2 by statistics: PyTorch's api_stack_dump.pkl and MindSpore's statistic.csv, each held against its like; a difference is named, and what cannot be paired is said."""
    line = lambda name, shape, figures: json.dumps([name, 1, [], "torch.float32", shape, figures]) + "\n"
    for name, most in (("torch-a", 3.5), ("torch-b", 3.0)):
        (folder / name / "rank0").mkdir(parents=True)
        (folder / name / "rank0" / "api_stack_dump.pkl").write_text(line("Functional_linear_0_forward_input.0", [2, 3], [2.5, -1.0, 0.25]) + line("Functional_linear_0_forward_output.0", [2, 4], [most, -2.0, 0.5]))
    head = ["Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot", "Data Size", "Data Type", "Shape", "Max Value", "Min Value", "L2Norm Value"]
    for name, norm in (("ms-a", 2.0), ("ms-b", 2.5)):
        (folder / name / "rank_0" / "Net" / "0" / "0").mkdir(parents=True)
        with open(folder / name / "rank_0" / "Net" / "0" / "0" / "statistic.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerows([head, ["MatMul", "Default/MatMul-op0", 0, 0, 17, "input", 0, 4, "float32", "(2, 3)", 3, -3, 5], ["MatMul", "Default/MatMul-op0", 0, 0, 18, "output", 0, 4, "float32", "(2, 2)", norm, -1, norm]])
    for a, b, where in (("torch-a", "torch-b", "Functional.linear.0"), ("ms-a", "ms-b", "Default_MatMul-op0")):
        check(json.loads(r.run("compare", folder / a, folder / a, "--json").stdout)["equal"], f"{a} is itself")
        culprit = json.loads(r.run("compare", folder / a, folder / b, "--json", status=1).stdout)["culprit"]
        check(where in culprit["path"], f"{culprit}")
    prepare(folder)
    for name, more in (("test", ()), ("other", (MODEL + "rms_norm_eps", 1e-2))):
        mindformers(folder, name, *more, dumped(f"{name}.dump", steps="1"))
    megatron(folder, "bench", dumped("bench.dump", steps="1"))
    out = json.loads(r.run("compare", folder / "test.dump", folder / "bench.dump", "--json").stdout)
    check(out["equal"] and out["pairs"] > 100, out["verdict"])
    culprit = json.loads(r.run("compare", folder / "other.dump", folder / "bench.dump", "--json", status=1).stdout)["culprit"]
    check(culprit["phase"] == "forward" and culprit["op"] == "rms_norm" and culprit["step"] == 1, f"the first layer's norm is at fault: {culprit}")


def numbers(text):
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text)]


def test_local_norms(folder):
    """The YAML block prints MindFormers' lines; the same norms of the benchmark are printed by the words of the page's patch: a list of squares for every step. They are
    the same numbers, and the embedding's, of the guide's own case, is off where one side rounds it."""
    prepare(folder)
    (folder / "norms.yaml").write_text("base_config: job.yaml\n" + (PAGE / "local_norm.yaml").read_text())
    lines = lambda text, head: [numbers(row) for row in re.findall(rf"{re.escape(head)}\n(.+)", text)]
    said = mindformers(folder, "test", config="norms.yaml")
    here = lines(said, "local_norm:")
    check(len(here) == STEPS and {len(x) for x in here} == {21}, f"{said[:800]}")
    check(math.isclose(sum(here[0]), values(folder, "test", "grad_norm")[0] ** 2, rel_tol=1e-5), "squares of the parts add up to that of the whole")
    check(set(values(folder, "test", "loss_scale")) == {1.0}, "scale_sense is 1")
    mindformers(folder, "half", "log.local_norms=*", 'precision.recipes=[{path: model.embed_tokens, op: embedding, round: bf16}]')
    megatron(folder, "bench", "log.local_norms=*")
    squares = lambda run: {name: x["squares"][0] for name, x in values(folder, run, "local_norms")[0].items()}
    exact, coarse = squares("bench"), squares("half")
    check(math.isclose(sum(exact.values()), sum(here[0]), rel_tol=1e-5), "both sides have the same gradients")
    check(all(coarse[name] != x and math.isclose(coarse[name], x, rel_tol=0.05) for name, x in exact.items() if "embed_tokens" in name), f"a rounded embedding is not seen in its norm: {coarse} {exact}")
    head = re.search(r'print_rank_0\(f"(.*)"\)', (PAGE / "print_local_norms.py").read_text())[1]
    there = lines(megatron(folder, "printed", "log.local_norms=*"), head)
    check(len(there) == STEPS, f"'{head}' stands {len(there)} times in the log of {STEPS} steps")
    for mine, theirs in zip(here, there):
        check(len(theirs) == 21 and all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(sorted(mine), sorted(theirs))), f"{mine} and {theirs}")


def recorded(folder, dump, op, step=1):
    """Of a dump of tensors: name -> shape and float32 bytes of what behind a step is a `gradient`, or of the `state` the weights, in its order."""
    out = {}
    for text in (folder / dump / "rank_0.log").read_text().splitlines():
        x = json.loads(text[17:])
        if x.get("op") == op and x["step"] == step and (op == "gradient" or x["tensor"] == "weights"):
            header, body = r.load_raw(folder / dump / x["file"])
            out[x["path"]] = (x["shape"], body[slice(*header[x["stored"]]["data_offsets"])])
    return out


def save_npy(path, shape, body):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    head = (head + " " * (-(len(head) + 11) % 64) + "\n").encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body)


def test_the_update_by_itself(folder):
    """Gradients of the benchmark's first step, forced into the update of the job under test: its weights behind that step are the benchmark's, and another beta shows."""
    prepare(folder)
    megatron(folder, "bench", dumped("bench.dump", steps="1", phases=["update"]), train_iters=1)
    found = recorded(folder, "bench.dump", "gradient")
    before, after = r.load_tensors(folder / "initial" / "model"), r.load_tensors(folder / "bench" / "model")
    check(set(found) == set(after) and len(found) == 21, f"{sorted(found)}")
    tensors = {}
    for name, (shape, body) in found.items():
        tensors[f"p.{name}"] = ("F32", shape, array.array("f", before[name][2]))
        tensors[f"g.{name}"] = ("F32", [1, *shape], array.array("f", body))
    r.save_tensors(folder / "in.safetensors", tensors)
    rule = ["optimizer.lr=1e-3", "optimizer.betas=[0.9, 0.95]", "optimizer.eps=1e-8", "optimizer.weight_decay=0.1", "optimizer.clip_norm=1.0", "schedule.type=constant", "schedule.warmup_steps=0"]
    for name, more in (("out", []), ("other", ["optimizer.weight_decay=0.9"])):
        r.run("replay", "optimizer", "--input", folder / "in.safetensors", "--out", folder / f"{name}.safetensors", *rule, *more)
    out, other = (r.load_tensors(folder, f"{name}.safetensors") for name in ("out", "other"))
    for name, (_, shape, body) in after.items():
        updated = out[f"p.{name}"][2]
        check(updated[len(updated) // 2:] == body, f"{name}: the update is another")
    check(any(other[f"p.{name}"][2] != out[f"p.{name}"][2] for name in after), "another decay changes nothing")


def test_numbered_gradients_are_read(folder):
    """grad_1.npy, grad_2.npy, .. of the benchmark, as the page's patch saves them, are compared tensor by tensor. Missing here: a step that is updated by them."""
    prepare(folder)
    update = {"steps": "1", "phases": ["update"]}
    megatron(folder, "bench", dumped("bench.dump", **update))
    pattern = re.search(r"xx/(grad_\{grad_id\}\.npy)", (PAGE / "save_gradients.py").read_text())[1]
    check("grad_1.npy" in (PAGE / "load_gradients.py").read_text(), "the page counts from 1")
    (folder / "xx").mkdir()
    found = recorded(folder, "bench.dump", "gradient")
    for at, (shape, body) in enumerate(found.values(), 1):
        save_npy(folder / "xx" / pattern.replace("{grad_id}", str(at)), shape, body)
    check(json.loads(r.run("compare", folder / "xx", folder / "xx", "--json").stdout)["pairs"] == len(found) == 21, "files of NumPy")


def test_the_curves(folder):
    """Step 1 and step 2, weights that stand still, the benchmark's own error, a loss that runs off and a late difference: `ravine curves` says of each where to look."""
    prepare(folder)
    sizes = ("--train_dataset.data_loader.sizes", "[80, 0, 0]")
    long = {"train_iters": 40}
    # phase 2: an update that differs shows at step 2, a forward pass at step 1 (test_the_checklist)
    megatron(folder, "bench", **long)
    mindformers(folder, "beta", ADAM + "betas", "[0.5, 0.5]", ADAM + "weight_decay", 0.9, LR + "learning_rate", 1e-2, *sizes)
    said = judged(folder, "beta", "bench", status=1)
    check(values(folder, "beta")[0] == values(folder, "bench")[0] and said["early"]["first_beyond"] == 2, said["verdict"])
    # phase 3: weights do not move
    mindformers(folder, "still-test", LR + "learning_rate", 0, *sizes)
    megatron(folder, "still-bench", lr=0, **long)
    check(judged(folder, "still-test", "still-bench")["exact"] == 40 and set(values(folder, "still-test", "lr")) == {0.0}, "losses and norms of a rate of 0")
    convert(folder, "still-bench", "still-weights")
    check(r.load_tensors(folder / "still-weights") == r.load_tensors(folder / "weights"), "a rate of 0 moves weights")
    # the benchmark twice: its own error, which is none here; the test within it
    megatron(folder, "bench-again", **long)
    mindformers(folder, "test", *sizes)
    said = judged(folder, "test", "bench", "bench-again")
    check(said["agrees"] and said["exact"] == said["steps"] == 40, said["verdict"])
    # a loss that runs off: the step is named, its data are shown and left out
    mindformers(folder, "off", *sizes, 'probe.inject=[{step: 11, path: "*embed_tokens*", op: "*", value: inf}]')
    said = judged(folder, "off", "bench", status=1)
    check(said["not_finite"] == 11 and values(folder, "off")[10] is None, said["verdict"])
    shown = r.run("data", "show", "--config", folder / "test" / "config.yaml", "--step", 11, cwd=folder).stdout
    check("--- step 11" in shown, shown)
    mindformers(folder, "left-out", *sizes, "data.skip_steps=[11]")
    left = [json.loads(row) for row in (folder / "left-out" / "metrics.jsonl").read_text().splitlines()]
    check(left[10].get("skipped") is True and values(folder, "test")[:10] == [x["loss"] for x in left[:10]], f"{left[10]}")
    # a late difference: the benchmark decays all weights, and the rates of both are drawn
    megatron(folder, "all-decay", "optimizer.decay=all", dumped("all.dump", steps="1"), weight_decay=0.9, train_iters=1)
    mindformers(folder, "some-decay", ADAM + "weight_decay", 0.9, dumped("some.dump", steps="1"))
    culprit = json.loads(r.run("compare", folder / "some.dump", folder / "all.dump", "--json", status=1).stdout)
    check({x["op"] for x in culprit["culprits"]} == {"adamw"} and "weight_decay is 0 in A and 0.9 in B" in culprit["verdict"], culprit["verdict"])
    r.run("curves", folder / "test", folder / "bench", "--svg", folder / "curves.svg")
    check("<svg" in (folder / "curves.svg").read_text(), "no picture")


if __name__ == "__main__":
    r.main(globals())
