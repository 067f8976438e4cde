"""The commands of ModelLink's page from top to bottom, by the scripts of examples/megatron, on tiny data: preprocess, pretrain, convert to two tensor ranks, instructions, adapters, answers, an evaluation."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

ROOT = Path(__file__).resolve().parents[2]
MODEL = "runs/small-llama/model"


def prepare(folder):
    for script in (ROOT / "examples" / "megatron").glob("*.sh"):
        shutil.copy(script, folder)
    shutil.copytree(ROOT / "tests" / "golden" / "tokenizer" / "llama", folder / "tokenizer")
    data = folder / "data"
    (data / "boolq").mkdir(parents=True)
    for name, rows in (("books.jsonl", [{"text": f"Book {i}: " + "the word stands here and goes on. " * 40} for i in range(40)]),
                       ("alpaca.jsonl", [{"instruction": f"Say {i}.", "input": "", "output": f"{i} it is."} for i in range(20)]),
                       ("boolq/dev.jsonl", [{"passage": "Deep.", "question": "is it deep", "answer": True}] * 2)):
        (data / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def script(folder, name, *more, **variables):
    words = [r.PROGRAM, "megatron", "--script", name, *more]
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT, env={**os.environ, **variables})
    check(done.returncode == 0, f"{name} {more}: exit {done.returncode}\n{done.stderr}")
    return done


def test_the_page_from_top_to_bottom(folder):
    prepare(folder)
    script(folder, "preprocess.sh")
    script(folder, "pretrain_llama.sh")
    script(folder, "convert_llama.sh", MODEL=MODEL)
    check((folder / "ckpt/llama-tp2-pp1/release/mp_rank_01/model_optim_rng.pt").exists(), "two tensor ranks")
    script(folder, "preprocess_alpaca.sh")
    script(folder, "finetune_lora.sh", CHECKPOINT=MODEL)
    script(folder, "finetune_lora.sh", "--save", "runs/of-ranks", CHECKPOINT="ckpt/llama-tp2-pp1")
    a, b = ((folder / run / "adapter" / "adapter_model.safetensors").read_bytes() for run in ("runs/lora", "runs/of-ranks"))
    check(a == b, "adapters beside the folders of ranks are those beside the model that they were made of")
    of_model = script(folder, "generate_llama.sh", CHECKPOINT=MODEL).stdout
    check(script(folder, "generate_llama.sh").stdout == of_model, "folders of ranks answer as the model does that they were made of")
    with_adapter = script(folder, "generate_llama.sh", "--lora-load", "runs/lora/adapter", CHECKPOINT=MODEL).stdout
    check(with_adapter and with_adapter != of_model, f"the adapter says something else: {with_adapter}")
    said = script(folder, "evaluate_llama.sh", CHECKPOINT=MODEL).stdout
    check("boolq" in said, said)


def test_load_takes_the_weights_of_ranks(folder):
    """The first loss of a run that begins with them is that of one that begins with the model itself; so it is with --finetune of an iteration."""
    prepare(folder)
    script(folder, "preprocess.sh")
    script(folder, "pretrain_llama.sh")
    script(folder, "convert_llama.sh", MODEL=MODEL)
    losses = []
    for load in (MODEL, "ckpt/llama-tp2-pp1"):
        said = script(folder, "pretrain_llama.sh", "--load", load, "--save", f"runs/on-{len(losses)}").stderr
        check("begins at step 0" not in said, said)
        losses.append(r.metrics(folder / f"runs/on-{len(losses)}"))
    check(losses[0] == losses[1], f"{losses}")
    (folder / "ckpt/llama-tp2-pp1/latest_checkpointed_iteration.txt").write_text("6")
    (folder / "ckpt/llama-tp2-pp1/release").rename(folder / "ckpt/llama-tp2-pp1/iter_0000006")
    script(folder, "pretrain_llama.sh", "--load", "ckpt/llama-tp2-pp1", "--finetune", "--save", "runs/on-2")
    check(r.metrics(folder / "runs/on-2") == losses[0], "--finetune takes weights alone")


if __name__ == "__main__":
    r.main(globals())
