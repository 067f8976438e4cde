"""Tokenizers of exported folders, opened by Transformers without SentencePiece: the ids that Ravine gives to the tokenizer.model they were made from.

    python3 tools/golden/compare_exported.py RAVINE CONFIG.json SOURCE...     SOURCE: folders with a tokenizer.model and perhaps a tokenizer_config.json

Each is exported by a run of one step of CONFIG.json. Needs transformers, and no sentencepiece beside it. Exit status 1 if a text has other ids.
Characters that NFKC joins over a border of clusters (half-width ｶ with ﾞ) are left out: the Hugging Face library looks its rules up by cluster."""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer

ravine, config, *sources = sys.argv[1:]
random.seed(1)
texts = ["  two spaces", " one", "", "tab\there", "   ", "a  b   c", "日本 語", "12345 678", "émigré \u2581x", "\n\nfoo", "foo\n", "x  ", "<s>", "<s> a", "a </s> b", "</s>a<s>b", "ﬁne ① é"]
texts += ["".join(random.choice([" ", "a", "b", "\n", "\t", "é", "日", "1", ".", "<s>", "</s>"]) for _ in range(random.randrange(12))) for _ in range(1000)]


def encode(tokenizer):
    done = subprocess.run([ravine, "tokenizer", "encode", "--tokenizer", tokenizer, "--jsonl"], input="\n".join(json.dumps({"text": t}) for t in texts), capture_output=True, text=True, check=True)
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


wrong = 0
for source in sources:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "t.txt").write_text("some text of a few words, again and again\n" * 200)
        out = f"{folder}/run"
        subprocess.run([ravine, "train", f"model.config={config}", f"model.tokenizer={source}", f"data.train={folder}/t.txt", "data.sequence_length=16", "train.steps=1", "train.global_batch=1",
                        f"train.output={out}", "schedule.warmup_steps=0", "log.tensorboard=false"], check=True, capture_output=True)
        theirs = AutoTokenizer.from_pretrained(f"{out}/model")
        differ = [t for t, want in zip(texts, encode(source)) if theirs(t)["input_ids"] != want]
        print(f"{source}: {len(texts)} texts, {len(differ)} with other ids in {type(theirs).__name__} of type {AutoConfig.from_pretrained(f'{out}/model').dtype}")
        for t in differ[:3]:
            print("   ", repr(t)[:100], theirs(t)["input_ids"])
        wrong += len(differ)
sys.exit(wrong > 0)
