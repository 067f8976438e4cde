"""A model of one step whose tokenizer has a chat template, for tests of what talks."""
import shutil
from pathlib import Path

import ravine_run as r

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def chat_model(folder, vocab_size=520, max_position_embeddings=256):
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "chat" / name, tokenizer)
    (folder / "text.txt").write_text("The ravine is deep and the river runs below.\n" * 60)
    r.run("train", *r.settings({"model.config": r.save_config(folder / "new.json", vocab_size=vocab_size, max_position_embeddings=max_position_embeddings),
                                "model.tokenizer": str(tokenizer), "data.train": str(folder / "text.txt"), "data.sequence_length": 32, "train.steps": 1, "train.global_batch": 2,
                                "train.output": str(folder / "run"), "log.tensorboard": False, "schedule.warmup_steps": 0, "checkpoint.every": 0}))
    return folder / "run" / "model"
