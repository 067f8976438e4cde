"""ModelLink's README from its first command on, but for its chapter on acceleration (modellink_readme_acceleration.py).
`examples/modellink-readme` holds what the page prints, letter by letter. WORKSPACE, SIZES and three slips are all that is
replaced in it. Each block is judged by what it leaves behind: token files, weights, answers, scores, losses.

The page names scripts that it does not print: those of inference, the one that merges, the one that trains. They stand
here, with the flags that the page says of them."""
import ast
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from flags_act import token_file
from ravine_run import check

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "examples" / "modellink-readme"
TOKENIZER = ROOT / "tests" / "golden" / "tokenizer" / "llama"
PARQUET = "train-00000-of-00001-a09b74b3ef9c3b56.parquet"
SIZES = {"--num-layers 32": "--num-layers 4", "--hidden-size 4096": "--hidden-size 64", "--ffn-hidden-size 11008": "--ffn-hidden-size 176", "--num-attention-heads 32": "--num-attention-heads 4"}
# Slips of the page: a quote is missing and True is Python's; a link lies in a variable's name; a flag lacks its last letter.
QUOTE, LINK, LETTER = ('"streaming: True,', '"streaming": true,'), ("${CHECKPOINT[images](sources%2Fimages)}", "${CHECKPOINT}"), ("--max-new-token=", "--max-new-tokens=")
SYSTEM = ("Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately completes the request. "
          "Please note that you need to think through your response logically and step by step.")
SHAPE = "--num-layers 4 --hidden-size 64 --ffn-hidden-size 176 --num-attention-heads 4 --max-position-embeddings 2048 --position-embedding-type rope --normalization RMSNorm"
ROUND = 2.0**-18  # relative: sums in another order
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

TRAIN = f"""#!/bin/bash
torchrun --nproc_per_node ${{NPUS:-1}} pretrain_llama.py {SHAPE} \\
    --tokenizer-type PretrainedFromHF --tokenizer-name-or-path llama-7b-hf \\
    --seq-length ${{SEQ:-64}} --micro-batch-size ${{MBS:-2}} --global-batch-size ${{GBS:-8}} --train-iters ${{STEPS:-3}} --split 100,0,0 \\
    --lr ${{LR:-1e-3}} --min-lr 1e-5 --lr-decay-style cosine --weight-decay ${{DECAY:-0.1}} --clip-grad 1.0 --log-interval 1 --eval-iters 0 --save-interval 1000 \\
"""
DEMO = f"""{SHAPE} --micro-batch-size 1 --seq-length 512 --max-new-tokens 16 --seed 42 --tokenizer-type PretrainedFromHF --tokenizer-name-or-path llama-7b-hf --tokenizer-not-use-fast"""
DEEPSPEED = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "optimizer": {"type": "Adam"}, "zero_allow_untested_optimizer": True,
             "zero_optimization": {"stage": 2, "allgather_partitions": True, "allgather_bucket_size": 5e8, "overlap_comm": True, "reduce_scatter": True, "reduce_bucket_size": 5e8, "contiguous_gradients": True}}
# The scripts of generate.sh: file -> ranks, text.
INFERENCE = {
    "examples/llama/generate_llama_7B_tp2_pp2.sh":
        (4, f"python -m torch.distributed.launch --nproc_per_node 4 ./tasks/inference/inference_llama.py {DEMO} --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --load llama-7b-tp2-pp2"),
    "examples/alpaca/generate_alpaca_13B_deepspeed.sh":
        (2, f"deepspeed --num_gpus 2 ./tasks/inference/inference_alpaca.py {DEMO} --load llama-7b-deepspeed --deepspeed --deepspeed_config ds.json --zero-stage 2 --no-pipeline-parallel"),
    "examples/llama/generate_llama_7B_deepspeed_pipeline.sh":
        (2, f"deepspeed --num_gpus 2 ./tasks/inference/inference_llama.py {DEMO} --tensor-model-parallel-size 2 --load llama-7b-deepspeed --deepspeed --deepspeed_config ds.json --zero-stage 2 --no-pipeline-parallel"),
    "examples/alpaca/generate_alpaca_13B_lora_deepspeed.sh":
        (1, f"deepspeed --num_gpus 1 ./tasks/inference/inference_alpaca.py {DEMO} --load llama-7b-deepspeed --lora-load lora --lora-target-modules query_key_value dense gate_proj dense_h_to_4h dense_4h_to_h "
            "--lora-r 64 --lora-alpha 128 --deepspeed --deepspeed_config ds.json --zero-stage 2 --no-pipeline-parallel"),
}


def page(name, *changes, folder=None):
    """A file of the page with its placeholders filled in; every change finds what it replaces."""
    text = (PAGE / name).read_text()
    for old, new in [*changes, *([("WORKSPACE", str(folder))] if folder else [])]:
        check(old in text, f"{name} has no '{old}'")
        text = text.replace(old, new)
    return text


def flags_of(name):
    """The words of a file of flags, without comments and continuations."""
    return [w for line in page(name).splitlines() if not line.startswith("#") for w in line.rstrip("\\ ").split()]


def ravine(folder, *words, ranks=1, status=0, typed="", **variables):
    """status: what it must be; None: any."""
    start = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "pml", "ob1", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*start, *r.command(*words)], cwd=folder, input=typed, capture_output=True, text=True, timeout=r.LIMIT, env={**os.environ, "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in variables.items()}})
    check(status in (done.returncode, None), f"exit {done.returncode} instead of {status}: ravine {' '.join(map(str, words))}, ranks {ranks}, {variables}\n{done.stderr[-3000:]}")
    return done


def script(folder, name, text, *more, **options):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return ravine(folder, "megatron", "--script", name, *more, **options)


def alpaca():
    rows = [{"instruction": f"Name {i} rivers.", "input": "Of the north." if i % 2 else "", "output": f"Here are {i}: " + "Ouse, " * (i + 1)} for i in range(12)]
    return [{**row, "text": f"Below is an instruction.\n\n### Instruction:\n{row['instruction']}\n\n### Response:\n{row['output']}"} for row in rows]


def wikipedia(language, count):
    return [{"id": str(i), "url": f"https://{language}/{i}", "title": f"{language} {i}", "text": f"{language} {i}: " + "the river runs below the ravine and on. " * (4 + i)} for i in range(count)]


def save_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def workspace(folder):
    """The downloads of the page: a model with its tokenizer, made once, Wikipedia in two languages, alpaca in Parquet."""
    made, at = folder.parent / "llama-7b-hf", folder.parent / "made"
    if not made.exists():
        save_lines(at / "text.jsonl", wikipedia("en", 14))
        config = r.save_config(at / "config.json", hidden_size=64, intermediate_size=176, num_hidden_layers=4, num_key_value_heads=4, vocab_size=512, max_position_embeddings=2048)
        r.run("train", *r.settings({"model.config": config, "model.tokenizer": str(TOKENIZER), "data.train": [str(at / "text.jsonl")], "data.sequence_length": 64, "train.steps": 12, "train.global_batch": 4,
                                    "optimizer.lr": 3e-3, "schedule.warmup_steps": 0, "checkpoint.every": 0, "log.tensorboard": False, "train.threads": 1, "train.output": str(at / "run")}))
        (at / "run" / "model").rename(made)
    shutil.copytree(made, folder / "llama-7b-hf")
    for language, count in (("en", 14), ("de", 9)):
        save_lines(folder / "wikipedia" / f"20220301.{language}" / "train.jsonl", wikipedia(language, count))
    save_lines(folder / "wikipedia" / "20220301.en" / "test.jsonl", wikipedia("held out", 3))
    (folder / "wikipedia" / "README.md").write_text("---\nconfigs:\n" + "".join(f"- config_name: 20220301.{n}\n  data_files:\n" + "".join(f"  - split: {s}\n    path: 20220301.{n}/{s}*.jsonl\n" for s in splits)
                                                                                for n, splits in (("en", ("train", "test")), ("de", ("train",)))) + "---\n")
    columns = {key: [row[key] for row in alpaca()] for key in ("instruction", "input", "output", "text")}
    r.save_parquet(folder / PARQUET, columns)
    (folder / "alpaca").mkdir()
    r.save_parquet(folder / "alpaca" / PARQUET, columns)
    (folder / "ds.json").write_text(json.dumps(DEEPSPEED))


def decoded(folder, documents):
    """The texts of lists of ids, without the tokens that stand for no text."""
    rows = "".join(json.dumps({"ids": ids}) + "\n" for ids in documents)
    said = ravine(folder, "tokenizer", "decode", "--tokenizer", "llama-7b-hf", "--jsonl", "--skip-special", typed=rows).stdout
    return [json.loads(line)["text"].strip() for line in said.splitlines()]


def packed(prefix):
    return [token_file(f"{prefix}_packed_{name}_document")[1] for name in ("input_ids", "attention_mask", "labels")]


def check_instructions(folder, prefix, ends):
    """Prompt and answer of every row in its place, the answer alone learned; `ends`: an end token behind each."""
    ids, mask, labels = packed(prefix)
    check(len(ids) == len(mask) == len(labels) == 12 and all(set(m) == {1} and len(m) == len(i) == len(x) for i, m, x in zip(ids, mask, labels)), f"{prefix}: {[len(x) for x in (ids, mask, labels)]}")
    check(all((row[-1] == 2) == ends for row in [*ids, *labels]), f"{prefix}: ends {[row[-1] for row in ids]}")
    want = [f"{SYSTEM}\n### Instruction:\n{a['instruction']}\n{a['input']}\n### Response:\n{a['output']}".strip() for a in alpaca()]
    check(decoded(folder, ids) == want, f"{prefix}: {decoded(folder, ids)[:2]}")
    learned = [[x for x in row if x != -100] for row in labels]
    check(decoded(folder, learned) == [a["output"].strip() for a in alpaca()], f"{prefix}: {decoded(folder, learned)[:2]}")
    check(all(row == given[-len(row):] for row, given in zip(learned, ids)), f"{prefix}: labels are ids")


def check_texts(folder, prefix, want):
    got = decoded(folder, token_file(f"{prefix}_text_document")[1])
    check(got == [text.strip() for text in want], f"{prefix}: {len(got)} documents instead of {len(want)}: {[t[:20] for t in got]}")


def test_texts_become_token_files(folder):
    workspace(folder)
    script(folder, "quick.sh", page("preprocess_quick_start.sh"))
    check_instructions(folder, folder / "dataset" / "alpaca", ends=False)
    script(folder, "texts.sh", page("preprocess_alpaca_texts.sh", folder=folder))
    check_texts(folder, folder / "alpaca_preprocessed" / "alpaca", [row["text"] for row in alpaca()])


def test_wikipedia(folder):
    workspace(folder)
    # The page's own JSON is none: it is refused by its file, and nothing is written.
    said = script(folder, "wikipedia.sh", page("preprocess_wikipedia.sh", folder=folder), status=2).stderr
    check("error: " in said and "hf_config_json.json" in said and not list(folder.glob("wikipedia_preprocessed/*")), said)
    script(folder, "wikipedia.sh", page("preprocess_wikipedia.sh", QUOTE, folder=folder))
    want = [row["text"] for row in wikipedia("en", 14)]
    check_texts(folder, folder / "wikipedia_preprocessed" / "wikipedia", want)
    # --json-key chooses a column.
    script(folder, "titles.sh", page("preprocess_wikipedia.sh", QUOTE, folder=folder), "--json-key", "title", "--output-prefix", "titles")
    got = decoded(folder, token_file(folder / "titles_title_document")[1])
    check(got == [row["title"] for row in wikipedia("en", 14)], f"titles: {got}")
    # Without a card that says what a name stands for, German texts are no English ones.
    (folder / "wikipedia" / "README.md").unlink()
    shutil.rmtree(folder / "wikipedia_preprocessed")
    done = script(folder, "wikipedia.sh", page("preprocess_wikipedia.sh", QUOTE, folder=folder), status=None)
    if done.returncode == 0:
        check_texts(folder, folder / "wikipedia_preprocessed" / "wikipedia", want)
    else:
        check(done.returncode == 2 and "20220301.en" in done.stderr and not list(folder.glob("wikipedia_preprocessed/*")), done.stderr)


def test_instructions_are_trained_on(folder):
    workspace(folder)
    script(folder, "alpaca.sh", page("preprocess_alpaca.sh", folder=folder))
    check_instructions(folder, folder / "alpaca_preprocessed" / "alpaca", ends=True)
    named = [line.split() for line in page("training_flags.txt", folder=folder).splitlines()]
    handlers = [words[0] for words in named if words[0].endswith("InstructionHandler")]
    turns = {f"turn_{i}": {"Human": f"<|Human|>: Ask {i}<eoh>\n", "MOSS": f"<|MOSS|>: Say {i}<eom>\n"} for i in (1, 2)}
    records = {"BelleMultiTurnInstructionHandler": ({"instruction": "Human:Hello\nAssistant:Hi\nHuman:Why\nAssistant:", "output": "So it is."}, ["So it is."]),
               "MOSSInstructionHandler": ({"chat": turns}, ["Say 1\nSay 2"]),
               "LeetcodePythonInstructionHandler": ({"code_with_problem": "Add two.\n```python\nx\n```", "code_only": "a + b", "explanation_only": "It adds."}, ["a + b\nIt adds."])}
    check(sorted(records) == sorted(handlers), f"{handlers}")
    for handler, (record, answers) in records.items():
        save_lines(folder / "set.jsonl", [record])
        script(folder, "other.sh", page("preprocess_alpaca.sh", ("GeneralInstructionHandler", handler), (f"alpaca/{PARQUET}", "set.jsonl"), ("alpaca_preprocessed/alpaca", handler), folder=folder))
        learned = [[x for x in row if x not in (-100, 2)] for row in packed(folder / handler)[2]]
        check(decoded(folder, learned) == answers, f"{handler}: {decoded(folder, learned)}")
    # Rows that are filled up have the losses of rows as long as their longest: what is filled up is not learned.
    prefix = next(words for words in named if words[:1] == ["--data-path"] and words[1].endswith("/alpaca"))
    losses = [train(folder, f"padded{len(more)}", *prefix, "--is-instruction-dataset", *more, SEQ=320)[0] for more in ((), ("--variable-seq-lengths",))]
    check(losses[0] == losses[1], f"{losses}")
    said = script(folder, "train.sh", TRAIN, *prefix, "--variable-seq-lengths", "--save", "no", status=2, SEQ=320).stderr
    check("--is-instruction-dataset" in said and not (folder / "no").exists(), said)


def text_data(folder):
    workspace(folder)
    script(folder, "wikipedia.sh", page("preprocess_wikipedia.sh", QUOTE, folder=folder))
    return next(line.split() for line in page("training_flags.txt", folder=folder).splitlines() if line.endswith("wikipedia_text_document"))


def sizes(said):
    """Bytes by what the run's lines of memory say: of one rank, or of the first of several."""
    lines = "".join(line for line in said.splitlines(keepends=True) if line.lstrip().startswith("memory"))
    out = {}
    for what, number, unit in re.findall(r"(weights|optimizer|arena|gradients|activations|workspace) ([\d.]+) (B|KiB|MiB|GiB)", lines):
        out.setdefault(what, float(number) * UNITS[unit])
    whole = re.search(r"([\d.]+) MiB in all", lines)
    return {**out, "all": float(whole[1]) * UNITS["MiB"]} if whole else out


def train(folder, name, *flags, ranks=1, **variables):
    """(losses, sizes, what was said) of a run with the script that trains."""
    said = script(folder, f"{name}.sh", TRAIN, *flags, "--save", name, ranks=ranks, NPUS=ranks, **variables).stderr
    losses = [row["loss"] for row in r.metrics(folder / name).values()]
    check(len(losses) == int(variables.get("STEPS", 3)) and losses[-1] < losses[0], f"{name}: {losses}")
    if ranks > 1:
        check(re.search(rf"^ranks +{ranks} on 1 host", said, re.M), f"{name}: not {ranks} ranks\n{said}")
    return losses, sizes(said), said


def near(got, want, what):
    check(len(got) == len(want) and all(abs(a - b) <= ROUND * abs(b) for a, b in zip(got, want)), f"{what}: {got} instead of {want}")


def answer(folder, model, *more, prompt="how are you?"):
    return ravine(folder, "generate", "--model", model, "--prompt", prompt, "--max-new-tokens", 16, *more).stdout.strip()


def one_rank(load, *more, task="1"):
    """The text of a demonstration on one rank; task "": all six."""
    return " ".join([f"python -m torch.distributed.launch --nproc_per_node 1 tasks/inference/inference_llama.py {DEMO} --tensor-model-parallel-size 1 --load {load}", *more, *([f"--task {task}"] if task else [])])


def fragment(name):
    """Flags of the page as the end of a script."""
    return "\n".join(line for line in page(name).splitlines() if not line.startswith("#")) + "\n"


def trained_names(output):
    """Names of the tensors in the newest checkpoint of a run."""
    return list(r.load_tensors(sorted((output / "checkpoints").glob("step_*"))[-1]))


def test_adapters(folder):
    workspace(folder)
    check("no program is launched" in script(folder, "peft.sh", page("install_peft.sh"), status=2).stderr, "adapters need no package")
    script(folder, "alpaca.sh", page("preprocess_alpaca.sh", folder=folder))
    script(folder, "ptd.sh", page("convert_ptd.sh"))
    data = ["--data-path", "alpaca_preprocessed/alpaca", "--is-instruction-dataset", "--finetune", "--save-interval", 3, "--seq-length", 320]
    losses, _, said = train(folder, "lora", *data, *flags_of("lora_targets.txt"), "--load", "llama-7b-hf")
    names = r.load_tensors(folder / "lora" / "adapter")
    check(len(names) == 4 * 7 * 2 and all(".lora_" in name for name in names) and not (folder / "lora" / "model").exists(), f"{names}")
    kept = trained_names(folder / "lora")
    check(kept and all("lora" in name for name in kept), f"a checkpoint of adapters alone: {kept}")
    more = [*data, *flags_of("lora_targets.txt"), *flags_of("lora_settings.txt")]
    whole, _, _ = train(folder, "whole", *more, "--load", "llama-7b-hf")
    config = json.loads((folder / "whole" / "adapter" / "adapter_config.json").read_text())
    check((config["r"], config["lora_alpha"]) == (64, 128), f"{config}")
    names = {name for name in r.load_tensors(folder / "whole" / "adapter") if ".lora_" not in name}
    check(len(names) == 2 and any("embed_tokens" in n for n in names) and any("lm_head" in n for n in names), f"{names}")
    # The folders of ranks are the same base, of which the run leaves nothing. On two stages the chain of gradients holds.
    train(folder, "ranks", *more, "--load", "llama-7b-tp2-pp2")
    a, b = ((folder / run / "adapter" / "adapter_model.safetensors").read_bytes() for run in ("whole", "ranks"))
    check(a == b, "adapters beside the folders of ranks are those beside the model that they were made of")
    kept = trained_names(folder / "ranks")
    check(kept and not [n for n in kept if "lora" not in n and "embed" not in n and "lm_head" not in n], f"of the base: {kept}")
    near(train(folder, "stages", *more, "--load", "llama-7b-tp2-pp2", "--pipeline-model-parallel-size", 2, ranks=2)[0], whole, "two stages")
    # Both folders once more: the run begins where the adapter was.
    text = TRAIN + "--data-path alpaca_preprocessed/alpaca --is-instruction-dataset --seq-length 320 --save on \\\n" + fragment("lora_targets.txt") + fragment("lora_load.txt")
    script(folder, "on.sh", text, ORIGIN_CHECKPOINT="llama-7b-tp2-pp2", LORA_CHECKPOINT="lora/adapter")
    first = r.metrics(folder / "on")[1]["loss"]
    check(first < losses[0], f"{first}, before the adapter {losses[0]}")


def test_an_adapter_is_merged(folder):
    workspace(folder)
    script(folder, "alpaca.sh", page("preprocess_alpaca.sh", folder=folder))
    script(folder, "ptd.sh", page("convert_ptd.sh"))
    flags = flags_of("lora_targets.txt")
    train(folder, "lora", "--data-path", "alpaca_preprocessed/alpaca", "--is-instruction-dataset", *flags, "--load", "llama-7b-tp2-pp2", "--finetune", LR=5e-3, STEPS=6, SEQ=320)
    base, want = (script(folder, "beside.sh", one_rank("llama-7b-tp2-pp2", *more)).stdout for more in ((), ("--lora-load lora/adapter",)))
    check(want != base, f"the adapter changes the answer: {want}")
    merge = f"""python -m torch.distributed.launch --nproc_per_node 4 tools/lora/merge_lora.py {SHAPE} --micro-batch-size 1 --seq-length 512 --tokenizer-type PretrainedFromHF --tokenizer-name-or-path llama-7b-hf \\
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --lora-r 16 --lora-alpha 32 {" ".join(flags)} --save merged \\
"""
    script(folder, "merge.sh", merge + fragment("lora_load.txt"), ORIGIN_CHECKPOINT="llama-7b-tp2-pp2", LORA_CHECKPOINT="lora/adapter")
    check((got := script(folder, "merged.sh", one_rank("merged")).stdout) == want, f"{got} instead of {want}")
    ravine(folder, "convert", "--input", "merged", "--output", "merged-hf", "--to", "hf", "--model-config", "llama-7b-hf/config.json")
    check(r.load_tensors(folder / "merged-hf").keys() == r.load_tensors(folder / "llama-7b-hf").keys(), "a model without adapters")


def test_weights_are_converted(folder):
    workspace(folder)
    script(folder, "ptd.sh", page("convert_ptd.sh"))
    made = sorted(str(p.relative_to(folder / "llama-7b-tp2-pp2")) for p in (folder / "llama-7b-tp2-pp2").rglob("model_optim_rng.pt"))
    check(made == [f"release/mp_rank_0{t}_00{p}/model_optim_rng.pt" for t in (0, 1) for p in (0, 1)], f"{made}")
    check((folder / "llama-7b-tp2-pp2" / "latest_checkpointed_iteration.txt").read_text().strip() == "release", "the tracker file")
    script(folder, "zero.sh", page("convert_zero.sh"))
    check((folder / "llama-7b-deepspeed" / "latest").read_text().strip() == "release" and (folder / "llama-7b-deepspeed" / "release" / "mp_rank_00_model_states.pt").exists(), "DeepSpeed's files")
    want = r.load_tensors(folder / "llama-7b-hf")
    for name in ("llama-7b-tp2-pp2", "llama-7b-deepspeed"):
        ravine(folder, "convert", "--input", name, "--output", f"{name}-back", "--to", "hf", "--model-config", "llama-7b-hf/config.json")
        check(r.load_tensors(folder / f"{name}-back") == want, f"{name}: not the weights that it was made of")


def test_four_modes_answer(folder):
    workspace(folder)
    for name in ("convert_ptd.sh", "convert_zero.sh", "preprocess_alpaca.sh"):
        script(folder, name, page(name, folder=folder if "WORKSPACE" in page(name) else None))
    train(folder, "run", "--data-path", "alpaca_preprocessed/alpaca", "--is-instruction-dataset", *flags_of("lora_targets.txt"), "--lora-r", 64, "--lora-alpha", 128, "--load", "llama-7b-hf", "--finetune", LR=1e-3, SEQ=320)
    (folder / "run" / "adapter").rename(folder / "lora")
    want = answer(folder, "llama-7b-hf")
    told = answer(folder, "llama-7b-hf", "--adapter", "lora")
    check(want and told and want != told, f"'{want}' and '{told}'")
    call = ast.parse(page("initialize.py")).body[0].value
    defaults = ast.literal_eval(call.keywords[0].value)  # of initialize_megatron: the demonstration begins with it
    files = [line.split()[1] for line in page("generate.sh").splitlines()]
    check(files == list(INFERENCE), f"{files}")
    for file in files:
        ranks, text = INFERENCE[file]
        text += "".join(f" --{key.replace('_', '-')}" for key, value in defaults.items() if value)
        said = script(folder, file, text, "--task", 1, ranks=ranks).stdout
        check((told if "lora" in file else want) in said, f"{file}: {said}")


def test_six_tasks(folder):
    """Of the demonstration, by number and by name, and all of them as it runs without --task."""
    workspace(folder)
    sample = ["--sample", "--temperature", 0.7, "--top-k", 50, "--top-p", 0.95, "--seed", 42]
    asked = {"1": [], "2": sample, "3": ["--beams", 2], "4": ["--beams", 2, *sample], "5": []}
    names = {"1": "greedy", "2": "do_sample", "3": "beam_search", "4": "beam_search_with_sampling", "5": "return_output_log_probs"}
    answers = []
    for task, flags in asked.items():
        said = script(folder, "task.sh", one_rank("llama-7b-hf", task=task)).stdout
        check(script(folder, "task.sh", one_rank("llama-7b-hf", task=names[task])).stdout == said, f"{names[task]} is {task}")
        answers.append(answer(folder, "llama-7b-hf", *flags))
        check(answers[-1] and answers[-1] in said, f"task {task}: {said} without {answers[-1]}")
    said = script(folder, "all.sh", one_rank("llama-7b-hf", task=""), typed="Give three tips for staying healthy.\nq\n").stdout
    at = 0
    for task, text in enumerate(answers, 1):
        check(text in said[at:], f"task {task} in its place: {said}")
        at += said[at:].index(text) + len(text)
    check("AscendSpeed:" in said[at:], f"chat is the last: {said[at:]}")


def test_calls_of_generate(folder):
    """The four calls, as the arguments say, on the model that from_pretrained names."""
    workspace(folder)
    model = next(k.value for node in ast.walk(ast.parse(page("from_pretrained.py", ("your model weight path", "llama-7b-hf")))) if isinstance(node, ast.Call)
                 for k in node.keywords if k.arg == "pretrained_model_name_or_path").value
    flags = {"do_sample": "--sample", "temperature": "--temperature", "top_k": "--top-k", "top_p": "--top-p", "num_beams": "--beams", "max_new_tokens": "--max-new-tokens"}
    said = {}
    for task, name in enumerate(("greedy", "sample", "beams", "drawn_beams"), 1):
        call = next(node for node in ast.walk(ast.parse(page(f"generate_{name}.py"))) if isinstance(node, ast.Call))
        given = {k.arg: k.value.value for k in call.keywords}
        words = [w for key, value in given.items() for w in ([flags[key]] if value is True else [flags[key], value])]
        ask = lambda *more: json.loads(ravine(folder, "generate", "--model", model, "--prompt", call.args[0].value, *words, "--json", *more).stdout)
        said[name] = ask("--seed", 1)
        check(said[name]["text"] and (len(said[name]["ids"]) == 512 or said[name]["finish"] == "eos"), f"{name}: {said[name]}")
        check((ask("--seed", 2)["ids"] != said[name]["ids"]) == ("do_sample" in given) and ask("--seed", 1) == said[name], f"{name}: drawn by its seed, or not drawn")
        # The same by the demonstration's number: its prompt and its two beams, and the call's other arguments.
        demo = [w for key in ("temperature", "top_k", "top_p", "max_new_tokens") if key in given for w in (flags[key], given[key])]
        beams = ["--beams", 2] if "num_beams" in given else []
        alone = ravine(folder, "generate", "--model", model, "--prompt", "how are you?", *[w for i, w in enumerate(words) if w != "--beams" and (i == 0 or words[i - 1] != "--beams")], *beams, "--seed", 42).stdout.strip()
        check(alone in script(folder, "demo.sh", one_rank(model, task=str(task)), *demo).stdout, f"task {task} with {demo}")
    check(said["sample"]["ids"] != said["greedy"]["ids"] and said["drawn_beams"]["ids"] != said["beams"]["ids"], "what is drawn is another answer")
    said = script(folder, "none.sh", one_rank(model).replace(f"--load {model}", ""), status=2).stderr
    check("--load" in said, said)


def test_chat(folder):
    """As the page shows it: You >> and the answer behind its label; ModelLink's words begin anew and end."""
    workspace(folder)
    question, label = (line.removeprefix("You >> ") for line in page("chat.txt").splitlines()[:3] if line)
    (folder / "chat.sh").write_text(one_rank("llama-7b-hf", task="6"))
    for leave in ("q", "exit"):
        said = ravine(folder, "megatron", "--script", "chat.sh", "--top-k", 1, typed=f"{question}\nclear\n{question}\nnew\n\n{question}\n{leave}\n{question}\n").stdout
        check(said.count(label) == 3, f"three answers, and none behind {leave}: {said}")
    answers = [part.removesuffix("You >> ").strip() for part in said.split(label)[1:]]
    check(all(answers) and len(set(answers)) == 1, f"each question is the first of its conversation: {answers}")
    status, seen = r.on_terminal(["megatron", "--script", "chat.sh"], [("You >> ", 1, f"{question}\n".encode()), ("You >> ", 2, b"q\n")], cwd=folder)
    check(status == 0 and seen.index("You >> ") < seen.index(label), seen)


def benchmarks(folder):
    """dataset/TASK/test, as the page has boolq's, with the files of their authors."""
    csv = lambda rows: "".join(",".join(map(str, row)) + "\n" for row in rows)
    of = lambda task, file, text: ((folder / "dataset" / task / file).parent.mkdir(parents=True, exist_ok=True), (folder / "dataset" / task / file).write_text(text))
    of("boolq", "test/test.jsonl", "".join(json.dumps({"passage": f"The ravine {i} is deep.", "question": "is it deep", "answer": i % 2 == 0}) + "\n" for i in range(4)))
    of("mmlu", "test/anatomy_test.csv", csv([f"Bone {i}", "p", "q", "r", "s", "ABCD"[i % 4]] for i in range(3)))
    of("mmlu", "dev/anatomy_dev.csv", csv([f"Nerve {i}", "p", "q", "r", "s", "ABCD"[i % 4]] for i in range(5)))
    head = ["id", "question", "A", "B", "C", "D", "answer", "explanation"]
    for split, count in (("val", 2), ("dev", 5)):
        of("ceval", f"{split}/law_{split}.csv", csv([head, *([i, f"第{i}题", "甲", "乙", "丙", "丁", "C", "因为"] for i in range(count))]))
    of("gsm8k", "test/test.jsonl", "".join(json.dumps({"question": f"What is {i} + 1?", "answer": f"Add.\n#### {i + 1}"}) + "\n" for i in range(2)))
    of("agieval", "test/sat-math.jsonl", "".join(json.dumps({"passage": "", "question": f"{i}?", "options": ["(A)1", "(B)2"], "label": "B", "answer": None}) + "\n" for i in range(2)))
    of("bbh", "test/navigate.json", json.dumps({"examples": [{"input": f"{i}?", "target": "No"} for i in range(5)]}))
    of("human_eval", "test/HumanEval.jsonl", json.dumps({"task_id": "HumanEval/0", "prompt": "def add(a, b):\n", "entry_point": "add", "test": "def check(f):\n    assert f(2, 3) == 5\n"}) + "\n")


# Items, and what a prompt has of its question and of the worked examples before it: a text, and how often.
ASKED = {"boolq": (4, "Answer:", 1), "mmlu": (3, "Answer:", 6), "gsm8k": (2, "The answer is", 3), "human_eval": (1, "Please complete the implementation", 1), "agieval": (2, "Problem ", 6),
         "bbh": (5, "Q:", 4), "ceval": (2, "答：", 6)}


def check_scores(folder, task, said):
    items, text, count = ASKED[task]
    rows = [json.loads(line) for line in (folder / f"eval-{task}" / f"samples_{task}.jsonl").read_text().splitlines()]
    check(len(rows) == items and all(row["prompt"].count(text) == count for row in rows), f"{task}: {len(rows)} of {items} items, or not {count} of '{text}': {rows[:1]}")
    score = json.loads((folder / f"eval-{task}" / "results.json").read_text())["tasks"][task]
    check(score["n"] == items and score["accuracy"] == sum(row["correct"] for row in rows) / items and task in said, f"{task}: {score}\n{said}")
    return rows


def evaluated(folder):
    """The folder where the page starts its evaluation, beside the models that it names."""
    workspace(folder)
    script(folder, "ptd.sh", page("convert_ptd.sh", ("llama-7b-tp2-pp2", "models/llama-7b-tp2-pp4"), ("--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 4")))
    (folder / "llama-7b-hf").rename(folder / "models" / "llama7b-hf")
    here = folder / "ModelLink"
    here.mkdir()
    benchmarks(here)
    return here


def test_boolq_on_the_ranks_of_the_page(folder):
    here = evaluated(folder)
    said = script(here, "evaluate.sh", page("evaluate.sh", LINK, *SIZES.items()), ranks=8, DISTRIBUTED_ARGS="--nproc_per_node 8 --nnodes 1").stdout
    check_scores(here, "boolq", said)
    # A variable's name with a link in it is bash's error too.
    said = script(here, "evaluate.sh", page("evaluate.sh", *SIZES.items()), ranks=1, status=2).stderr
    check("evaluate.sh:" in said, said)


def test_seven_tasks(folder):
    """The page's script on one rank, with its settings for each task typed behind it as they are printed."""
    here = evaluated(folder)
    file = "tasks/evaluation/eval_llama.sh"
    check(page("evaluate.sh").splitlines()[-1] == f"bash {file}", "the page starts this file")
    text = page("eval_llama.sh", *SIZES.items(), ("--tensor-model-parallel-size 2", "--tensor-model-parallel-size 1"), ("--pipeline-model-parallel-size 4", "--pipeline-model-parallel-size 1"))
    names = {"CHECKPOINT": "../models/llama-7b-tp2-pp4/", "VOCAB_FILE": "../models/llama7b-hf/", "DISTRIBUTED_ARGS": "--nproc_per_node 1"}
    settings = [line.replace(", ", ",").split(",") for line in page("eval_settings.txt").splitlines()]
    check([words[0] for words in settings] == [f'TASK="{task}"' for task in ASKED], f"{settings}")
    for first, *words in settings:
        task = first.removeprefix('TASK="').rstrip('"')
        names |= {"TASK": task, "DATA_PATH": f"dataset/{task}/{'val' if task == 'ceval' else 'test'}"}
        if task == "boolq":
            said = script(here, file, text, *words, status=2, **names).stderr
            check("--max-new-tokens" in said, said)
        words = [word.replace(*LETTER) for word in words]
        code = ["--allow-code"] if task == "human_eval" else []
        if code:
            said = script(here, file, text, *words, status=2, **names).stderr
            check("--allow-code" in said, said)
        done = script(here, file, text, *words, *code, status=None if code else 0, **names)
        if code and done.returncode == 2 and "no sandbox on this machine" in done.stderr:
            print("    human_eval: this machine has no sandbox", flush=True)
        else:
            check(done.returncode == 0, done.stderr)
            check_scores(here, task, done.stdout)
    # What stands around a question, and the number of examples, are the reader's to change.
    check(page("template.txt").splitlines()[1] == "template = {instruction}", "the page's template")
    for template, begin in (("{instruction}", "The ravine 0"), ("Read on. {instruction}", "Read on. The ravine 0")):
        (here / "template.json").write_text(json.dumps({"template": template}))
        shutil.rmtree(here / "eval-boolq")
        said = script(here, file, text, "--template", "template.json", **{**names, "TASK": "boolq", "DATA_PATH": "dataset/boolq/test"}).stdout
        check(check_scores(here, "boolq", said)[0]["prompt"].startswith(begin), f"{template}")
    shutil.rmtree(here / "eval-mmlu")
    script(here, file, text, "--shots", 2, **{**names, "TASK": "mmlu", "DATA_PATH": "dataset/mmlu/test"})
    prompt = json.loads((here / "eval-mmlu" / "samples_mmlu.jsonl").read_text().splitlines()[0])["prompt"]
    check(prompt.count("Answer:") == 3, prompt)


def test_what_the_page_prints(folder):
    """Each line of the files is on the page, each of its flags in a file, and each file and flag in this walk."""
    walk = Path(__file__).read_text() + Path(__file__).with_name("modellink_readme_acceleration.py").read_text()
    for line in page("acceleration.txt").splitlines():
        check(line.split()[0] in walk, f"nothing here tries {line}")
    for file in PAGE.iterdir():
        check(file.name in walk or file.name.startswith("generate_") and file.name[9:-3] in walk, f"nothing here reads {file.name}")
    text = r.shared("mission", "modellink-readme.zh.txt").read_text()
    for file in PAGE.iterdir():
        for number, line in enumerate(file.read_text().splitlines(), 1):
            check(line.strip() in text, f"{file.name}:{number}: the page has no '{line}'")
    there = set(re.findall(r"--[a-z][a-zA-Z0-9_-]*", text))
    here = set(re.findall(r"--[a-z][a-zA-Z0-9_-]*", "".join(file.read_text() for file in PAGE.iterdir())))
    there = {flag for word in there for flag in re.findall(r"--(?:(?!--).)+", word)}  # of two flags the page has lost the word between them
    check(there == here, f"of the page alone {there - here}, of the files alone {here - there}")


if __name__ == "__main__":
    r.main(globals())
