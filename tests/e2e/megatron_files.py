"""Checkpoints for Megatron as Megatron reads them: torch's files are opened here with the standard library alone, not by the program that wrote them.
Its arguments say what config.json says; the vocabulary is padded to a multiple of 128 times the tensor ranks, an equal part for each."""
import json
import math
import pickle
import sys
import types
import zipfile

import ravine_run as r
from ravine_run import check, run
from figures import SMALL, save_model

EPS = 3e-6  # no default of anybody


class Reader(pickle.Unpickler):
    """Tensors become (dtype, shape, stride, offset, key of the storage); classes of torch and argparse become names or plain values."""

    def persistent_load(self, pid):
        kind, storage, key, _, numel = pid
        check(kind == "storage", pid)
        return storage, key, numel

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if (module, name) == ("argparse", "Namespace"):
            return types.SimpleNamespace
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, size, stride, *_: {"storage": storage, "offset": offset, "shape": tuple(size), "stride": tuple(stride)}
        check(module == "torch", f"{module}.{name}")
        return name


def load(path):
    with zipfile.ZipFile(path) as z:
        name = next(n for n in z.namelist() if n.endswith("/data.pkl"))
        with z.open(name) as f:
            state = Reader(f).load()
        sizes = {n.rsplit("/", 1)[1]: z.getinfo(n).file_size for n in z.namelist() if "/data/" in n}
    return state, sizes


def tensors(tree, prefix=""):
    """Dotted name -> tensor of nested dicts."""
    out = {}
    for key, value in tree.items():
        if isinstance(value, dict) and "storage" in value:
            out[prefix + key] = value
        elif isinstance(value, dict):
            out.update(tensors(value, f"{prefix}{key}."))
    return out


def padded(vocabulary, ranks):
    """As megatron/training/tokenizer pads: upwards until it divides by --make-vocab-size-divisible-by (128) times the tensor ranks."""
    n = vocabulary
    while n % (128 * ranks):
        n += 1
    return n


def test_arguments_and_padding(folder):
    for vocabulary in (11, 128, 129, 300):
        config = {**SMALL, "vocab_size": vocabulary, "rms_norm_eps": EPS, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_attention_heads": 4, "rope_theta": 50000.0,
                  "max_position_embeddings": 77}
        save_model(folder / f"hf{vocabulary}", config)
        for to in ("megatron-mcore", "megatron-legacy"):
            for ranks in (1, 2):
                out = folder / f"{to}-{vocabulary}-{ranks}"
                run("convert", "--input", folder / f"hf{vocabulary}", "--output", out, "--to", to, "--tensor", ranks)
                check((out / "latest_checkpointed_iteration.txt").read_text().strip() == "release", "the tracker file")
                files = sorted((out / "release").glob("mp_rank_*/model_optim_rng.pt"))
                check([f.parent.name for f in files] == [f"mp_rank_{i:02d}" for i in range(ranks)], f"{files}")
                rows = padded(vocabulary, ranks)
                for file in files:
                    state, sizes = load(file)
                    a, h, d = state["args"], config["hidden_size"], config["head_dim"]
                    want = {"num_layers": 2, "hidden_size": h, "ffn_hidden_size": config["intermediate_size"], "num_attention_heads": 4, "kv_channels": d,
                            "group_query_attention": True, "num_query_groups": 2, "max_position_embeddings": 77, "seq_length": 77, "position_embedding_type": "rope",
                            "use_rotary_position_embeddings": True, "add_position_embedding": False, "rotary_percent": 1.0, "rotary_base": 50000, "normalization": "RMSNorm",
                            "norm_epsilon": EPS, "layernorm_epsilon": EPS, "apply_layernorm_1p": False, "add_bias_linear": False, "add_qkv_bias": False, "swiglu": True,
                            "untie_embeddings_and_output_weights": True, "fp16": False, "bf16": False, "params_dtype": "float32", "make_vocab_size_divisible_by": 128,
                            "padded_vocab_size": rows, "tensor_model_parallel_size": ranks, "pipeline_model_parallel_size": 1,
                            "virtual_pipeline_model_parallel_size": None, "num_layers_per_virtual_pipeline_stage": None, "use_mcore_models": to == "megatron-mcore"}
                    wrong = {k: (getattr(a, k, "missing"), v) for k, v in want.items() if getattr(a, k, "missing") != v}
                    check(not wrong, f"{out.name}: arguments that are not those of config.json: {wrong}")
                    check(state["checkpoint_version"] == 3.0, state["checkpoint_version"])
                    found = tensors(state["model"])
                    tables = {n: t for n, t in found.items() if "word_embeddings" in n or "output_layer" in n}
                    check(len(tables) == 2, f"{out.name}: {sorted(found)}")
                    for name, t in found.items():
                        check(t["shape"][0] == rows // ranks if name in tables else True, f"{out.name}: {name} has {t['shape']}, a rank's part of {rows} rows is wanted")
                        # What torch.load gives is contiguous, whole, and its storage is in the file.
                        stride, step = [], 1
                        for size in reversed(t["shape"]):
                            stride.insert(0, step)
                            step *= size
                        kind, key, numel = t["storage"]
                        check(t["stride"] == tuple(stride) and t["offset"] == 0 and numel == step and kind == "FloatStorage", f"{name}: {t}")
                        check(sizes[key] == 4 * math.prod(t["shape"]), f"{name}: {sizes[key]} bytes for {t['shape']}")


def test_eps_of_every_spelling(folder):
    """Families call it rms_norm_eps, layer_norm_eps or layer_norm_epsilon: Megatron is told the number of the config, whatever its name."""
    golden = r.Path(__file__).resolve().parent.parent / "golden" / "families"
    for family in ("gpt2", "bloom", "gpt_neox_serial", "qwen2", "mistral"):
        config = json.loads((golden / family / "config.json").read_text())
        key = next(k for k in ("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps") if k in config or (family == "gpt2" and k == "layer_norm_epsilon"))
        config[key] = EPS
        (folder / family).mkdir()
        (folder / family / "config.json").write_text(json.dumps(config))
        (folder / family / "model.safetensors").write_bytes((golden / family / "model.safetensors").read_bytes())
        run("convert", "--input", folder / family, "--output", folder / f"{family}-mg", "--to", "megatron-mcore")
        a = load(next((folder / f"{family}-mg").glob("release/mp_rank_00/model_optim_rng.pt")))[0]["args"]
        check(a.norm_epsilon == a.layernorm_epsilon == EPS, f"{family}: {key} is {EPS}, norm_epsilon {a.norm_epsilon}, layernorm_epsilon {a.layernorm_epsilon}")
        check(a.normalization == ("RMSNorm" if key == "rms_norm_eps" else "LayerNorm"), f"{family}: {a.normalization}")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
