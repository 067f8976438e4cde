"""Ravine's instruction files against ModelLink's own code: record handlers, token for token, and what its loader then gives to training.

    python tools/golden/check_handlers.py --ravine build/release/ravine --modellink FOLDER [--records 200] [--seed 1]

FOLDER: a tree of ModelLink of March 2024 (commit f6b12f46 was used), of which modellink/data/{data_handler,prompter,decoder_packed_mtf_dataset,mtf_dataset}.py are run.
What they import of Megatron and of Hugging Face's datasets is replaced here by a few lines: records from memory, token files through NumPy. Needs numpy, torch, transformers.
Two defects of ModelLink are not followed, and are told apart here: StackOverflowPythonPretrainHandler returns nothing, and AlpacaPretrainHandler writes "None" for an empty input.
"""
import argparse, importlib, json, os, random, struct, subprocess, sys, tempfile, types
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--ravine", required=True)
p.add_argument("--modellink", required=True)
p.add_argument("--records", type=int, default=200)
p.add_argument("--seed", type=int, default=1)
a = p.parse_args()
ROOT = Path(__file__).resolve().parents[2]
CHAT = ROOT / "tests" / "golden" / "chat"


class TokenFile:
    """megatron.core's MMapIndexedDataset as far as it is used."""
    def __init__(self, prefix):
        idx = Path(prefix + ".idx").read_bytes()
        kind = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}[idx[17]]
        n = struct.unpack_from("<Q", idx, 18)[0]
        self.lengths = np.frombuffer(idx, np.int32, n, 34)
        data = np.fromfile(prefix + ".bin", kind)
        self.rows = np.split(data, np.cumsum(self.lengths)[:-1]) if n else []

    def __len__(self):
        return len(self.lengths)

    def get(self, i):
        return self.rows[i]


def module(name, **members):
    m = types.ModuleType(name)
    m.__dict__.update(members)
    sys.modules[name] = m
    return m


def plain(*_, **__):
    return None


def split_range(text, size):
    """megatron.data.dataset_utils.get_train_valid_test_split_"""
    shares = [float(x) for x in text.split(",")]
    shares = [s / sum(shares) for s in (shares + [0, 0, 0])[:3]]
    at = [0]
    for s in shares:
        at.append(at[-1] + int(round(s * float(size))))
    return [at[0]] + [x - (at[-1] - size) for x in at[1:]]


module("datasets", load_dataset=plain)
for name in ("megatron", "megatron.core", "megatron.core.datasets", "megatron.data", "modellink", "modellink.data"):
    module(name).__path__ = []
indexed = module("megatron.core.datasets.indexed_dataset", MMapIndexedDataset=TokenFile)
sys.modules["megatron.core.datasets"].indexed_dataset = indexed
module("megatron.data.dataset_utils", get_train_valid_test_split_=split_range)
sys.modules["megatron"].__dict__.update(print_rank_0=plain, get_args=plain)
sys.modules["megatron.core"].parallel_state = module("megatron.core.parallel_state", get_data_parallel_group=plain, get_pipeline_model_parallel_group=plain, get_tensor_model_parallel_group=plain)
module("modellink.utils", is_rank_0=lambda: True)
module("modellink.tokenizer", build_tokenizer=plain)
module("modellink.error_utils", check_equal=plain, ensure_valid=lambda ok, *_: None if ok else sys.exit("ensure_valid"))
sys.modules["modellink.data"].__path__ = [os.path.join(a.modellink, "modellink", "data")]
torch.distributed.get_rank = lambda *_, **__: 0
torch.distributed.get_world_size = lambda *_, **__: 1
torch.distributed.all_reduce = plain
torch.cuda.device_count = lambda: 1
torch.cuda.LongTensor = torch.LongTensor
handlers = importlib.import_module("modellink.data.data_handler")
mtf = importlib.import_module("modellink.data.decoder_packed_mtf_dataset")

real = AutoTokenizer.from_pretrained(CHAT)
tokenizer = types.SimpleNamespace(tokenizer=real, eod=real.eos_token_id, vocab_size=len(real))
splitter = types.SimpleNamespace(tokenize=lambda text: [text])
draw = random.Random(a.seed)
WORDS = ["river", "stone", "山谷", "河水。", "def f(x):", "### Response:", "### Instruction:", "\n", "\n\n", "  ", "é", "\u3000", "Why?", "it is 42", "<|im_end|>", "None", "'s", "\t", "Human", "```", "\U0001f600"]


def text(most=12, least=0):
    return "".join(draw.choice(WORDS) + draw.choice(["", " ", " "]) for _ in range(draw.randint(least, most)))


def belle():
    turns = "".join(f"Human:{text(5)}\nAssistant:{text(5)}\n" for _ in range(draw.randint(0, 3)))
    return {"instruction": draw.choice([turns + f"Human:{text(5, 1)}\nAssistant:", text(6, 1), turns + "Human: last"]), "output": text()}


def moss():
    chat = {f"turn_{i}": draw.choice([None, {}]) if draw.random() < 0.1 else {"Human": f"<|Human|>: {text(6)}<eoh>\n", "MOSS": f"<|MOSS|>: {text(6)}<eom>\n"} for i in range(draw.randint(1, 4))}
    if not any(chat.values()):
        chat["turn_9"] = {"Human": "x", "MOSS": "y"}
    return {"chat": chat}


def alpaca():
    return {"instruction": text(least=1), "input": draw.choice(["", text(6)]), "output": text()}


MAKERS = {"GeneralInstructionHandler": alpaca, "BelleMultiTurnInstructionHandler": belle, "MOSSInstructionHandler": moss, "MOSSMultiTurnHandler": moss,
          "LeetcodePythonInstructionHandler": lambda: {"code_with_problem": text() + draw.choice(["```python\nx\n```", ""]), "code_only": text(), "explanation_only": text()},
          "AlpacaPretrainHandler": lambda: {**alpaca(), "input": text(6, 1)}}  # never empty: see above


def theirs(name, records, append_eod, seq_length):
    args = types.SimpleNamespace(seq_length=seq_length, append_eod=append_eod, json_keys=["text"], workers=1, streaming=False, output_prefix="x", split_sentences=False)
    handler = getattr(handlers, name)(args, records, tokenizer, splitter)
    out = {}
    for record in records:
        made = handler._filter(json.loads(json.dumps(record)))
        for key in handler.args.json_keys:  # as serialize_to_disk writes them
            out.setdefault(key, []).extend(list(s) for s in made[key] if seq_length is None or len(s) < seq_length)
    return out


def fail(text):
    sys.exit("DIFFERS: " + text)


compared = 0
with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    for name, make in MAKERS.items():
        records = [make() for _ in range(a.records)]
        (folder / "in.jsonl").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
        for append_eod in (False, True):
            for seq_length in (None, 120):
                prefix = folder / f"{name}-{append_eod}-{seq_length}"
                words = ["preprocess", "--input", folder / "in.jsonl", "--tokenizer", CHAT, "--handler", name, "--output-prefix", prefix, "--workers", "2"]
                words += ["--append-eod"] * append_eod + ["--seq-length", seq_length] * (seq_length is not None)
                subprocess.run([a.ravine, *map(str, words)], check=True, capture_output=True)
                for key, want in theirs(name, records, append_eod, seq_length).items():
                    file = TokenFile(f"{prefix}_{key}_document" if key == "text" else f"{prefix}_packed_{key}_document")
                    if len(file) != len(want):
                        fail(f"{prefix.name} {key}: {len(file)} sequences, ModelLink {len(want)}")
                    for i, row in enumerate(want):
                        if file.get(i).tolist() != row:
                            fail(f"{prefix.name} {key} sequence {i}: {file.get(i).tolist()} ModelLink {row}")
                    compared += len(want)
        print(f"{name}: equal ({compared} sequences so far)", flush=True)

    # What training gets: the order of a seed, each row cut and shifted.
    prefix = str(folder / "GeneralInstructionHandler-True-None")
    config = folder / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 520, "max_position_embeddings": 256}))
    total, batch, length = a.records, 8, 200
    for seed, split, steps in ((1234, "100,0,0", 10), (7, "80,20,0", 3 * total // batch), (42, "949,50,1", total // batch)):
        border = split_range(split, total)
        data = mtf.DecoderPackedMTFDataset(name=f"train{seed}", data_prefix=prefix, documents=np.arange(border[0], border[1], dtype=np.int32), num_samples=steps * batch, seq_length=length, pad_token=0, eos_token=0, seed=seed)
        for step in sorted({1, 2, steps // 2 + 1, steps}):
            shown = subprocess.run([a.ravine, "data", "show", "--json", "--step", str(step), f"data.train=[{prefix}]", "data.order=megatron-2023", f"data.split={json.dumps(split)}", f"data.sequence_length={length}",
                                    f"model.config={config}", f"model.tokenizer={CHAT}", f"train.steps={steps}", f"train.global_batch={batch}", f"train.seed={seed}"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
            for i, line in enumerate(shown):
                row, want = json.loads(line), data[(step - 1) * batch + i]
                n = len(want["input_ids"])
                if row["ids"][:n] != want["input_ids"].tolist() or row["labels"][:n] != want["labels"].tolist() or row["segments"] != [[0, n]] or any(x != -100 for x in row["labels"][n:]):
                    fail(f"seed {seed}, split {split}, step {step}, row {i}: {row['ids'][:n]} ModelLink {want['input_ids'].tolist()}")
                compared += 1
    print(f"loader: equal; {compared} sequences in all")
