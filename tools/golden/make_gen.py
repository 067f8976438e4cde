"""Writes tests/golden/gen_*.safetensors: what Transformers' logits processors make of recorded and of tied scores.

python tools/golden/make_gen.py [MODELS]          (needs torch, transformers, safetensors)

gen_ties.safetensors is made here: scores in steps of 1/2, so that many tie, and contexts that repeat themselves. With MODELS, a folder of
models that have a gen.safetensors each (prompts, logits, probs.*), those of the Llamas are copied as gen_<model>.safetensors.
"""
import pathlib
import shutil
import sys

import torch
import transformers.generation.logits_process as lp
from safetensors.torch import save_file

out = pathlib.Path(__file__).resolve().parents[2] / "tests/golden"
out.mkdir(parents=True, exist_ok=True)

one = {
    "temperature_0.7": lp.TemperatureLogitsWarper(0.7),
    "temperature_3": lp.TemperatureLogitsWarper(3.0),
    "top_k_1": lp.TopKLogitsWarper(1),
    "top_k_20": lp.TopKLogitsWarper(20),
    "top_k_1000": lp.TopKLogitsWarper(1000),
    "top_p_0": lp.TopPLogitsWarper(0.0),
    "top_p_0.5": lp.TopPLogitsWarper(0.5),
    "top_p_0.9": lp.TopPLogitsWarper(0.9),
    "repetition_penalty_1.3": lp.RepetitionPenaltyLogitsProcessor(1.3),
    "repetition_penalty_0.7": lp.RepetitionPenaltyLogitsProcessor(0.7),
    "no_repeat_ngram_1": lp.NoRepeatNGramLogitsProcessor(1),
    "no_repeat_ngram_2": lp.NoRepeatNGramLogitsProcessor(2),
    "no_repeat_ngram_3": lp.NoRepeatNGramLogitsProcessor(3),
    "no_repeat_ngram_40": lp.NoRepeatNGramLogitsProcessor(40),
}
chain = [one[n] for n in ("repetition_penalty_1.3", "no_repeat_ngram_2", "temperature_0.7", "top_k_20", "top_p_0.9")]


def run(processors, ids, scores):
    for f in processors:
        scores = f(ids, scores)
    return scores


def clear_of_edges(scores):
    """No cumulative probability so near a threshold of top-p that rounding could decide."""
    c = torch.softmax(scores, -1).sort(-1).values.double().cumsum(-1)
    return all(float((c - (1 - p)).abs().min()) > 1e-4 for p in (0.5, 0.9))


rows, columns, vocabulary = 6, 24, 64
torch.manual_seed(5)
while True:
    ids = torch.randint(0, 8, (rows, columns))  # few distinct ids: runs of two and three repeat
    scores = (torch.randn(rows, vocabulary) * 6).round() / 2
    scores[0, 5:20] = scores[0].max()  # the best ones tie
    before = run(chain[:4], ids, scores.clone())
    if clear_of_edges(scores) and clear_of_edges(before):
        break
result = {"prompts": ids, "logits": scores}
for name, f in one.items():
    result["probs." + name] = torch.softmax(f(ids, scores.clone()), -1)
result["probs.all"] = torch.softmax(run(chain, ids, scores.clone()), -1)
save_file({k: v.contiguous() for k, v in result.items()}, out / "gen_ties.safetensors")

if len(sys.argv) > 1:
    for folder in sorted(pathlib.Path(sys.argv[1]).glob("llama*")):
        shutil.copyfile(folder / "gen.safetensors", out / f"gen_{folder.name}.safetensors")
for path in out.glob("gen_*"):
    path.chmod(0o644)
