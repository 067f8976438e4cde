"""Adapters that Ravine has trained, in PEFT: the folder loads with every tensor in its place, and the logits are those of `ravine trace --adapter`.

    python tools/golden/check_lora.py build/release/ravine

Needs torch, transformers and peft. Bases are those of tests/golden/lora."""
import os, subprocess, sys, tempfile, warnings
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peft, torch, transformers as tf
from safetensors.torch import load_file, save_file
from double import AllDouble

ravine, golden = os.path.abspath(sys.argv[1]), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "lora")
# base, options, rows of the vocabulary
CASES = [
    ("layers", ["lora.targets=all-linear"], 37),
    ("layers", ["lora.targets=[embed_tokens, lm_head, v_proj]"], 37),
    ("layers", ["lora.targets=[q_proj]", "lora.save=[embed_tokens, lm_head]"], 37),
    ("layers", ["lora.targets=[q_proj]", "lora.save=[embed_tokens, lm_head]", "model.vocabulary=41"], 41),
    ("qwen2", ["lora.targets=[embed_tokens, lm_head, q_proj]"], 37),
    ("qwen2", ["lora.targets=[embed_tokens]"], 37),
    ("qwen2", ["lora.targets=[q_proj]", "lora.save=[embed_tokens]"], 37),
    ("qwen2", ["lora.targets=[q_proj]", "lora.save=[embed_tokens]", "model.vocabulary=41"], 41),
    ("head-tied", ["lora.targets=[embed_tokens, lm_head, o_proj]"], 37),
    ("gpt2", ["lora.targets=[wte, lm_head, c_attn]"], 37),
    ("bloom", ["lora.targets=[word_embeddings, dense]"], 37),
]


def run(*words):
    done = subprocess.run([ravine, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


failed = 0
for base, options, rows in CASES:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at = lambda name: os.path.join(folder, name)
        model = os.path.join(golden, base, "base")
        torch.manual_seed(1)
        save_file({"input_ids": torch.randint(3, rows, (16, 8))}, at("ids.safetensors"))
        save_file({"input_ids": torch.randint(3, rows, (2, 8))}, at("in.safetensors"))
        run("train", f"model.path={model}", f"data.train=[{at('ids.safetensors')}]", "data.sequence_length=8", "train.steps=4", "optimizer.lr=0.05", "lora.rank=2",
                        f"train.output={at('run')}", "log.tensorboard=false", *options)
        run("trace", "--model", model, "--adapter", at("run/adapter"), "--input", at("in.safetensors"), "--out", at("out.safetensors"), "--overwrite", "--backend", "ref",
                        "precision.compute=f64")
        torch.set_default_dtype(torch.float64)
        with AllDouble():
            exact = tf.AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager", dtype=torch.float64).double()
            plain = exact(input_ids=load_file(at("in.safetensors"))["input_ids"].clamp(max=36)).logits if rows == 37 else None
            if rows != 37:
                exact.resize_token_embeddings(rows, mean_resizing=False)
        adapted = peft.PeftModel.from_pretrained(exact, at("run/adapter"), autocast_adapter_dtype=False).double().eval()
        with AllDouble():
            want = adapted(input_ids=load_file(at("in.safetensors"))["input_ids"]).logits
        torch.set_default_dtype(torch.float32)
        got = load_file(at("out.safetensors"))["logits"].reshape(want.shape)
        held = set(peft.get_peft_model_state_dict(adapted, save_embedding_layers=False))
        stored = set(load_file(at("run/adapter/adapter_model.safetensors")))
        tied_copy = {n for n in held - stored if n.endswith("lm_head.weight")}  # PEFT writes a tied table twice
        far = ((got - want).abs().max() / want.abs().max()).item()
        moved = ((want - plain).abs().max() / want.abs().max()).item() if plain is not None else 1
        good = far < 1e-11 and moved > 1e-3 and held - tied_copy == stored
        failed += not good
        print("equal " if good else "DIFFERS", base, " ".join(options), f"logits within {far:.1e}, the base's {moved:.1e}", sorted(held ^ stored - tied_copy)[:4] if not good else "", flush=True)
sys.exit(bool(failed))
