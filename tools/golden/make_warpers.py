"""Writes tests/golden/gen_warpers.safetensors: what Transformers' min-p, typical sampling and sequence bias make of recorded scores.

python tools/golden/make_warpers.py          (needs torch, transformers, safetensors)

The form is that of make_gen.py. Scores lie so that no threshold is near enough for rounding to decide.
"""
import pathlib

import torch
import transformers.generation.logits_process as lp
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/gen_warpers.safetensors"
BIAS = {(3,): 2.5, (17,): -4.0, (40,): 100.0}
MIN_P, TYPICAL = (0.05, 0.3, 1.0), (0.2, 0.5, 0.9)


def clear_of_edges(scores):
    p = torch.softmax(scores.double(), -1)
    ratio = p / p.max(-1, keepdim=True).values
    if any(float((ratio[ratio < 1] - m).abs().min()) < 1e-3 for m in MIN_P[:2]):
        return False
    logs = torch.log_softmax(scores.double(), -1)
    near = (-logs - -(logs * p).sum(-1, keepdim=True)).abs().sort(-1)
    if float(near.values.diff(dim=-1).min()) < 1e-5:
        return False
    c = p.gather(-1, near.indices).cumsum(-1)
    return all(float((c - m).abs().min()) > 1e-4 for m in TYPICAL)


def main():
    rows, columns, vocabulary = 6, 24, 64
    torch.manual_seed(11)
    scores = torch.randn(rows, vocabulary) * 2
    while not clear_of_edges(scores):
        scores = torch.randn(rows, vocabulary) * 2
    ids = torch.randint(0, vocabulary, (rows, columns))
    one = {f"min_p_{p}": lp.MinPLogitsWarper(p) for p in MIN_P} | {f"typical_p_{p}": lp.TypicalLogitsWarper(p) for p in TYPICAL} | {"bias_1": lp.SequenceBiasLogitsProcessor(BIAS)}
    result = {"prompts": ids, "logits": scores}
    for name, f in one.items():
        result["probs." + name] = torch.softmax(f(ids, scores.clone()), -1)
    both = one["min_p_0.05"](ids, lp.TopKLogitsWarper(20)(ids, scores.clone()))
    result["probs.both_1"] = torch.softmax(one["typical_p_0.9"](ids, both), -1)
    save_file({k: v.contiguous() for k, v in result.items()}, OUT)


main()
