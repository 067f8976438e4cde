"""Inverse frequencies and attention factors of every rope_type, as Transformers computes them (in f32).

python tools/golden/make_rope.py > tests/golden/rope.json        needs torch and transformers
"""
import json

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES = [
    ({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}, [64]),
    ({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}, [64, 128, 129, 1000]),
    ({"rope_type": "dynamic", "rope_theta": 5e5, "factor": 8.0}, [128, 4096]),
    ({"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 64}, [64]),
    ({"rope_type": "llama3", "rope_theta": 10000.0, "factor": 32.0, "low_freq_factor": 0.5, "high_freq_factor": 8.0,
      "original_max_position_embeddings": 512}, [64]),
    ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}, [64]),
    ({"rope_type": "yarn", "rope_theta": 5e5, "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 16.0, "beta_slow": 2.0,
      "mscale": 1.2, "mscale_all_dim": 0.8}, [64]),
    ({"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 4096, "truncate": False}, [64]),
    ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 64, "mscale": 0.7}, [64]),
    ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 64, "mscale_all_dim": 0.7}, [64]),
    ({"rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32, "short_factor": 1.0, "long_factor": 2.5}, [32, 33, 100]),
    ({"rope_type": "longrope", "rope_theta": 5e5, "original_max_position_embeddings": 64, "short_factor": 1.1, "long_factor": 9.0}, [64, 65]),
    ({"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 200, "short_factor": 1.0, "long_factor": 2.0}, [64, 201]),
    ({"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 32, "attention_factor": 1.7, "short_factor": 1.0, "long_factor": 2.0}, [33]),
    ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096, "attention_factor": 1.5}, [64]),
]

cases = []
for parameters, lengths in CASES:
    for head_dim in (16, 128):
        for length in lengths:
            parameters = dict(parameters)
            for side in ("short_factor", "long_factor"):  # from that number on, one for each pair of dims
                if side in parameters and not isinstance(parameters[side], list):
                    parameters[side] = [round(parameters[side] * (1 + i / 4), 6) for i in range(head_dim // 2)]
                elif side in parameters and len(parameters[side]) != head_dim // 2:
                    parameters[side] = [round(parameters[side][0] * (1 + i / 4), 6) for i in range(head_dim // 2)]
            config = LlamaConfig(hidden_size=4 * head_dim, num_attention_heads=4, max_position_embeddings=128, rope_parameters=dict(parameters))
            frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, torch.device("cpu"), seq_len=length)
            cases.append({"head_dim": head_dim, "length": length, "max_position_embeddings": 128, "rope_parameters": parameters,
                          "attention_factor": factor, "inv_freq": frequencies.tolist()})
print(f'{{"versions": {json.dumps({"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__})}, "cases": [')
print(",\n".join(json.dumps(c) for c in cases) + "\n]}")
