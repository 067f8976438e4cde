"""Writes tests/golden/torch_trace: a tiny Llama, its data, and a step of its training in PyTorch as tools/trace_torch.py records them.

    python3 tools/golden/torch_trace.py [FAMILY] [FOLDER]

FAMILY: llama, qwen2 or mistral. Of torch 2.15, transformers 5.24. tests/e2e/dumps.py trains the same and has `ravine compare` hold the two against each other."""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import trace_torch  # noqa: E402

FAMILIES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM), "mistral": (MistralConfig, MistralForCausalLM)}
LR, DECAY, BETAS, EPS, CLIP, ROWS, TOKENS = 1e-2, 0.1, (0.9, 0.95), 1e-8, 0.5, 2, 8


def main(family="llama", folder=None):
    folder = Path(folder or Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "torch_trace")
    config, model = FAMILIES[family]
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = model(config(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=32, max_position_embeddings=16,
                         tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))
    model.save_pretrained(folder / "model")
    ids = torch.randint(3, 32, (2 * ROWS, TOKENS), generator=torch.Generator().manual_seed(2))
    save_file({"input_ids": ids.to(torch.int32)}, folder / "ids.safetensors")
    model.train()
    matrices, others = [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}], lr=LR, betas=BETAS, eps=EPS)
    trace_torch.record(model, optimizer, folder / "trace", steps="1")
    for step in range(1):
        for micro in range(2):
            x = ids[(2 * step + micro) * ROWS:][:ROWS]
            (model(input_ids=x, labels=x).loss / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
    manifest = json.loads((folder / "trace" / "trace.json").read_text())
    print([s["losses"] for s in manifest["steps"].values()], [s["grad_norm"] for s in manifest["steps"].values()])


if __name__ == "__main__":
    main(*sys.argv[1:])
