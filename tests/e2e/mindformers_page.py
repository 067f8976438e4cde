"""Shared by the walks of MindFormers' pages: a tiny job in the words of its finetune_llama3_1_8b.yaml, blocks of a page filled with the rest of it, what a run says and leaves.

A file of examples/mindformers-*/ has the lines of its page and nothing else. `fill` puts the rest of the job where the page has `...`, or behind the section's
own lines where it has none.
"""
import functools
import json
import re
import struct
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONFIG = "research/llama3_1/llama3_1_8b/finetune_llama3_1_8b.yaml"
LENGTH = 16
LLAMA = {"type": "LlamaConfig", "batch_size": 1, "seq_length": LENGTH, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "n_kv_heads": 2, "vocab_size": 128,
         "intermediate_size": 64, "rms_norm_eps": "1.0e-5", "pad_token_id": 0, "ignore_token_id": -100, "theta": 500000, "compute_dtype": "float32",
         "param_init_type": "float32", "init_method_std": 0.02, "use_flash_attention": True}


@functools.lru_cache(None)
def packed(row):
    sizes = [next(k for k in range(4) if -(1 << (8 << k) - 1) <= v < 1 << (8 << k) - 1) for v in row]
    bits = bytearray((len(row) + 3) // 4)
    for i, k in enumerate(sizes):
        bits[i // 4] |= k << 2 * (3 - i % 4)
    return struct.pack(">I", len(row)) + bytes(bits) + b"".join(v.to_bytes(1 << k, "little", signed=True) for v, k in zip(row, sizes))


def save_rows(path, rows):
    """A MindRecord file of the columns input_ids and labels, equal ones; many rows may be few tuples again and again."""
    body = []
    for row in rows:
        column = struct.pack(">Q", len(packed(row))) + packed(row)
        body.append(struct.pack("<Q", 2 * len(column)) + column + column)
    body = b"".join(body)
    fields = ["input_ids", "labels"]
    header = json.dumps({"header_size": 16384, "page_size": 1 << 25, "compression_size": 1, "page": [{"page_id": 0, "page_type": "BLOB_DATA", "page_size": len(body), "start_row_id": 0, "end_row_id": len(rows)}],
                         "schema": [{"blob_fields": fields, "schema": {name: {"type": "int32", "shape": [-1]} for name in fields}}], "shard_addresses": [path.name], "version": "3.0"}).encode()
    path.write_bytes((struct.pack("<Q", len(header)) + header).ljust(16384, b"\0") + body)


def job(**sections):
    """The sections of the job; each keyword changes one of them: a map some of its keys (a value None takes one out), any other value the whole."""
    loader = {"data_loader": {"type": "MindDataset", "dataset_dir": "''", "shuffle": False}, "input_columns": ["input_ids", "labels"], "drop_remainder": True, "batch_size": 1, "repeat": 1}
    base = {
        "seed": 0, "output_dir": "./output", "load_checkpoint": "''", "load_ckpt_format": "safetensors", "resume_training": False, "auto_trans_ckpt": False,
        "use_parallel": False, "run_mode": "train", "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": "llama3_1_8b"},
        "runner_config": {"epochs": 2, "batch_size": 1, "sink_mode": True, "sink_size": 1},
        "optimizer": {"type": "AdamW", "betas": [0.9, 0.95], "eps": "1.0e-8", "weight_decay": 0.0},
        "lr_schedule": {"type": "CosineWithWarmUpLR", "learning_rate": "1.0e-5", "lr_end": 0.0, "warmup_ratio": 0.03, "total_steps": -1},
        "runner_wrapper": {"type": "MFTrainOneStepCell", "scale_sense": 1.0, "use_clip_grad": True},
        "train_dataset": loader, "train_dataset_task": {"type": "CausalLanguageModelDataset", "dataset_config": loader},
        "callbacks": [{"type": "MFLossMonitor"}, {"type": "CheckpointMonitor", "prefix": "llama3_1_8b", "save_checkpoint_steps": 10000, "integrated_save": False, "async_save": False, "checkpoint_format": "safetensors"}],
        "parallel": {"parallel_mode": 1, "gradients_mean": False, "full_batch": True, "enable_parallel_optimizer": False},
        "parallel_config": {"data_parallel": 1, "model_parallel": 1, "pipeline_stage": 1, "micro_batch_num": 1, "vocab_emb_dp": True, "gradient_aggregation_group": 4},
        "recompute_config": {"recompute": False}, "context": {"mode": 0, "device_target": "Ascend", "max_device_memory": "58GB"},
        "model": {"arch": {"type": "LlamaForCausalLM"}, "model_config": dict(LLAMA)},
    }
    for name, change in sections.items():
        at = base["model"] if name == "model_config" else base
        at[name] = {k: v for k, v in {**at.get(name, {}), **change}.items() if v is not None} if isinstance(change, dict) else change
    return base


def text(value):
    return value if isinstance(value, str) else str(value) if isinstance(value, bool) else "{" + ", ".join(f"{k}: {text(v)}" for k, v in value.items()) + "}" if isinstance(value, dict) else json.dumps(value)


def section(name, value, indent=""):
    if isinstance(value, dict):
        return [f"{indent}{name}:"] + [f"{indent}  {key}: {text(one)}" for key, one in value.items()]
    if isinstance(value, list):
        return [f"{indent}{name}:"] + [f"{indent}  - {text(one)}" for one in value]
    return [f"{indent}{name}: {text(value)}"]


def filled(lines, rest):
    """The lines of one section of a page, with what it leaves out of `rest`."""
    if isinstance(rest, list):
        types = [line.split("type:")[1].strip() for line in lines if line.strip().startswith("- type:")]
        before = [f"  - {text(item)}" for item in rest if item["type"] not in types]
        own = [item for item in rest if item["type"] in types]
        given = {line.split(":")[0].strip() for line in lines}
        return before + [line for line in lines if line.strip() != "..."] + [f"    {k}: {text(v)}" for item in own for k, v in item.items() if k not in given | {"type"}]
    given = {line.split(":")[0].strip() for line in lines if line.startswith("  ") and line[2] != " "}
    return [line for line in lines if line.strip() != "..."] + [f"  {key}: {text(value)}" for key, value in rest.items() if key not in given]


def fill(block, base):
    """The YAML of a job: the block's lines as they stand, filled. A block of `callback` takes the items of `callbacks`; one of `model_config` stands below `model`."""
    rest, out, lines = dict(base), [], block.splitlines()
    at = 0
    while at < len(lines):
        head, at = lines[at], at + 1
        inner = []
        while at < len(lines) and lines[at].startswith(" "):
            inner.append(lines[at])
            at += 1
        name = head.split(":")[0].strip()
        if name == "model_config":
            model = rest.pop("model")
            out += ["model:", f"  arch: {text(model['arch'])}", "  " + head] + ["  " + line for line in filled(inner, model["model_config"])]
        elif name == "callback":
            out += [head] + filled(inner, rest.pop("callbacks", []))
        elif inner:
            out += [head] + filled(inner, rest.pop(name, {}))
        else:
            rest.pop(name, None)
            out.append(head)
    for name, value in rest.items():
        if name == "model":
            out += ["model:", f"  arch: {text(value['arch'])}"] + section("model_config", value["model_config"], "  ")
        else:
            out += section(name, value)
    return "\n".join(out) + "\n"


def run(folder, *words, ranks=1, status=0):
    """`ravine mindformers` in a job's folder; the finished process."""
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launch, r.PROGRAM, "mindformers", *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"exit {done.returncode} instead of {status}: {' '.join(map(str, words))}\n{done.stdout[-500:]}{done.stderr[-3000:]}")
    return done


def rows(output):
    """metrics.jsonl, a row for each step."""
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def numbers(output):
    return [(row["step"], row["loss"], row["grad_norm"]) for row in rows(output)]


def explained(folder, *words):
    """Key -> what --explain says of it."""
    return {line["key"]: line for line in map(json.loads, run(folder, *words, "--explain").stdout.splitlines())}


def floats(tensor):
    kind, _, data = tensor
    check(kind == "F32", f"a tensor of {kind}")
    return struct.unpack(f"<{len(data) // 4}f", data)


def check_lines_of_page(name):
    """Each line of a file of examples/NAME stands on the page."""
    page = {" ".join(line.split()) for line in r.shared("mission", f"{name}.zh.txt").read_text().splitlines()}
    files = sorted((EXAMPLES / name).iterdir())
    check(files, f"no examples of {name}")
    for file in files:
        for line in file.read_text().splitlines():
            check(" ".join(line.split()) in page, f"{file.name}: not on the page: {line}")


# What another run measures anew, with the form that it has on the page.
MEASURED = ((r"loss: \d+\.\d{3},", "loss: LOSS,"), (r"per_step_time: \d+ms,", "per_step_time: MS,"), (r"global_norm: \[\d+\.\d+\]", "global_norm: [NORM]"), (r"embedding_local_norm: \d+\.\d+$", "embedding_local_norm: NORM"),
            (r"train_throughput_per_npu: \d+\.\d{3}T$", "train_throughput_per_npu: T"), (r"\d+\.\d{5} samples/s/p (\d+ days?, )?\d+:\d\d:\d\d }", "SPEED }"),
            (r"Current global norm \[\d+\.\d+\]", "Current global norm [NORM]"))
OF_STEPS = re.compile(r"\{ Epoch:\[|samples/s/p|opt_global_step|Current global norm|embedding_local_norm:")


def shape(line):
    """A line with what a run measures replaced by words; blanks as the page has them, where a row of them is one."""
    line = " ".join(line.split())
    for form, word in MEASURED:
        line = re.sub(form, word, line)
    return line


def said_of_steps(log):
    """The lines about steps, without the time before them."""
    return [line[line.index("- INFO - "):] if "- INFO - " in line else line for line in log.splitlines() if OF_STEPS.search(line)]


def check_said(log, *pages):
    """The lines about steps are those of the page, letter by letter but for what is measured."""
    want = [line for page in pages for line in page.splitlines()]
    got = said_of_steps(log)
    for a, b in zip(got, want):
        check(shape(a) == shape(b), f"the run says:  {a}\nthe page says: {b}")
    check(len(got) == len(want), f"{len(got)} lines, the page has {len(want)}:\n" + "\n".join(got))
