"""A run that is given two folders, model.path and model.tokenizer, each with all files of a model: what comes from which."""
import json
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "chat"
OF_THE_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
TEXT = "The ravine is deep, and a river runs below the stones.\n"


def bytes_of(folder, names):
    return {n: (Path(folder) / n).read_bytes() for n in names}


def test_what_comes_from_which(folder):
    (folder / "text.txt").write_text(TEXT * 60)
    r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / "tok", "--vocab-size", 300)
    chatml = json.loads((GOLDEN / "expected.json").read_text())["templates"]["chatml"]
    r.run("train", *r.settings({"model.config": r.save_config(folder / "config.json", vocab_size=520, max_position_embeddings=128), "model.tokenizer": folder / "tok", "data.train": [str(folder / "text.txt")],
                                "data.sequence_length": 16, "train.steps": 1, "train.global_batch": 1, "schedule.warmup_steps": 0, "checkpoint.every": 0, "log.tensorboard": False,
                                "train.output": folder / "run"}))
    a, b = folder / "a", folder / "b"
    for model, eps, template, generation in ((a, 1e-6, "{% for m in messages %}A {{ m.content }}{{ eos_token }}{% endfor %}", {"eos_token_id": 7, "top_k": 5}),
                                             (b, 2e-6, chatml, {"eos_token_id": 9, "top_k": 6})):
        shutil.copytree(folder / "run" / "model", model)
        r.save_config(model / "config.json", vocab_size=520, max_position_embeddings=128, rms_norm_eps=eps)
        (model / "chat_template.jinja").write_text(template)
        (model / "generation_config.json").write_text(json.dumps(generation))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / file, b)
    header, body = r.load_raw(b / "model.safetensors")
    for model in (a, b):
        r.save_raw(model / "model.safetensors", header, body if model == a else bytes(len(body)))
    (folder / "chats.json").write_text(json.dumps([{"instruction": "What is it?", "output": "A river"}] * 4))
    check(bytes_of(a, OF_THE_TOKENIZER) != bytes_of(b, OF_THE_TOKENIZER), "the folders have one tokenizer")
    base = {"data.sequence_length": 32, "train.steps": 1, "train.global_batch": 2, "train.micro_batch": 1, "schedule.warmup_steps": 0, "optimizer.lr": 0, "checkpoint.every": 1, "log.tensorboard": False}
    for data in ("text.txt", "chats.json"):
        out = folder / f"of {data}"
        r.run("train", *r.settings({**base, "model.path": a, "model.tokenizer": b, "data.train": [str(folder / data)], "train.output": out}))
        made = [out / "model"]
        if data == "chats.json":
            made.append(folder / "converted")
            r.run("convert", "--input", out / "checkpoints" / "step_000001", "--to", "hf", "--output", made[-1])
        for at in made:
            check(bytes_of(at, OF_THE_TOKENIZER) == bytes_of(b, OF_THE_TOKENIZER), f"{at.name} of {data}: another tokenizer")
            check(r.load_tensors(at) == r.load_tensors(a), f"{at.name} of {data}: other weights than model.path has")
            check(json.loads((at / "config.json").read_text())["rms_norm_eps"] == 1e-6, f"{at.name} of {data}: another config")
            generation = json.loads((at / "generation_config.json").read_text())
            end = generation["eos_token_id"]
            check(generation["top_k"] == 5 and 7 in (end if isinstance(end, list) else [end]), f"{at.name} of {data}: {generation}")
    # Running takes the same from each.
    encoded = subprocess.run(r.command("tokenizer", "encode", "--tokenizer", b), input="A river\n", capture_output=True, text=True).stdout
    said = json.loads(r.run("generate", "--model", a, f"model.tokenizer={b}", "--prompt", "A river", "--json", "--max-new-tokens", 1).stdout)
    check(said["prompt_ids"] == json.loads(encoded), f"{said}, {encoded}")
    chat = json.loads(r.run("generate", "--model", a, f"model.tokenizer={b}", "--chat", "--prompt", "A river", "--json", "--max-new-tokens", 1).stdout)
    check(chat["prompt_ids"][0] == json.loads((b / "tokenizer.json").read_text())["model"]["vocab"]["<|im_start|>"], f"not the template of model.tokenizer: {chat}")


if __name__ == "__main__":
    r.main(globals())
