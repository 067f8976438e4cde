"""Beam searches of Transformers over small tables of logits, with each early_stopping and length penalties on both sides of 0.

python tools/golden/make_beams.py > tests/golden/beams.json          (needs torch, transformers)

A row is [key of the table, early_stopping, length penalty, tokens asked for, [[tokens of a beam, its score] ..]], where tokens asked for counts the calls of
the model. What is behind the end of a beam is left out.
"""
import json

import torch
import transformers
from transformers.modeling_outputs import CausalLMOutput

VOCABULARY, BEAMS, NEW, ENDS, PROMPT = 7, 3, 12, [1, 3], 2
PENALTIES = [-1.0, 0.0, 0.6, 2.0]
KEYS = range(24)


def logit(key, number, last, token):
    """Of the token behind `last`, the `number`th of the continuation, from 0: whole numbers modulo 2^32, so that any language has the same."""
    x = (key * 668265263 + number * 374761393 + last * 3266489917 + token * 2246822519 + 1) % 2**32
    for shift, factor in ((15, 2246822519), (13, 3266489917)):
        x = (x ^ x >> shift) * factor % 2**32
    return 6 * (x >> 8) / 2**24


class Config(transformers.PretrainedConfig):
    model_type = "table"


class Table(transformers.PreTrainedModel, transformers.GenerationMixin):
    config_class = Config

    def __init__(self, key):
        super().__init__(Config(vocab_size=VOCABULARY, hidden_size=1, num_hidden_layers=1, num_attention_heads=1, is_encoder_decoder=False))
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.key, self.calls = key, 0

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}

    def forward(self, input_ids, attention_mask=None, **kwargs):
        self.calls += 1
        number = input_ids.shape[1] - 1
        rows = [[logit(self.key, number, int(ids[-1]), token) for token in range(VOCABULARY)] for ids in input_ids]
        return CausalLMOutput(logits=torch.tensor(rows, dtype=torch.float32)[:, None, :])


def row(key, stop, penalty):
    model = Table(key).eval()
    out = model.generate(torch.tensor([[PROMPT]]), num_beams=BEAMS, num_return_sequences=BEAMS, max_new_tokens=NEW, eos_token_id=ENDS, pad_token_id=0, do_sample=False,
                         early_stopping=stop, length_penalty=penalty, use_cache=False, return_dict_in_generate=True, output_scores=True, attention_mask=torch.ones(1, 1, dtype=torch.long))
    beams = []
    for ids, score in zip(out.sequences[:, 1:].tolist(), out.sequences_scores.tolist()):
        end = next((i + 1 for i, token in enumerate(ids) if token in ENDS), len(ids))
        beams.append([ids[:end], score])
    return [key, stop, penalty, model.calls, beams]


rows = [row(key, stop, penalty) for key in KEYS for stop in (False, True, "never") for penalty in PENALTIES]
print(json.dumps({"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "vocabulary": VOCABULARY, "beams": BEAMS, "new_tokens": NEW, "end_ids": ENDS,
                  "prompt": [PROMPT]}, indent=1)[:-2] + ',\n "rows": [')
print(",\n".join("  " + json.dumps(r) for r in rows) + "\n ]\n}")
