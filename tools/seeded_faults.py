"""Pairs of runs of which the answer is known: one fault is planted in the second (or nothing that counts), both are dumped, and `ravine compare` has to name it.

    python3 tools/seeded_faults.py BUILD/ravine [NAME...] [--what statistics|tensors]

A fault counts as found where the culprit has its kind, its op (or its parameter) and its place; a clean pair where there is none. Prints a line for each
and the sums. Exit status 1: something is missed, or a clean pair raises an alarm."""
import argparse
import fnmatch
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import ravine_run as r  # noqa: E402

LLAMA = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
FAMILIES = {
    "llama": LLAMA,
    "qwen2": {**LLAMA, "model_type": "qwen2"},
    "gpt2": {**dict.fromkeys(r.TINY), "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 256},
    "mixtral": {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
}
LAUNCH = ["mpirun", "--oversubscribe"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def swap_rows(name, count, first=0, second=1):
    """Blocks of rows of a matrix, exchanged in the file that the run begins with."""
    def change(model):
        header, body = r.load_raw(model / "model.safetensors")
        key = next(k for k in sorted(header) if k.endswith(name))
        (low, high), rows = header[key]["data_offsets"], header[key]["shape"][0]
        size = (high - low) // rows * count
        body = bytearray(body)
        a, b = low + first * size, low + second * size
        body[a:a + size], body[b:b + size] = body[b:b + size], body[a:a + size]
        r.save_raw(model / "model.safetensors", header, bytes(body))
    return change


def every_value(name, of):
    """All numbers of a tensor (f32), changed in the file that the run begins with."""
    def change(model):
        header, body = r.load_raw(model / "model.safetensors")
        low, high = header[next(k for k in sorted(header) if k.endswith(name))]["data_offsets"]
        values = [of(v) for (v,) in struct.iter_unpack("<f", body[low:high])]
        r.save_raw(model / "model.safetensors", header, body[:low] + struct.pack(f"<{len(values)}f", *values) + body[high:])
    return change


def zero(name):
    return every_value(name, lambda _: 0.0)


def negated(name):
    return every_value(name, lambda v: -v)


def one_ulp(name):
    def change(model):
        header, body = r.load_raw(model / "model.safetensors")
        key = next(k for k in sorted(header) if k.endswith(name))
        body = bytearray(body)
        body[header[key]["data_offsets"][0]] ^= 1
        r.save_raw(model / "model.safetensors", header, bytes(body))
    return change


def field(**fields):
    def change(model):
        path = model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
        (model / ".ravine").unlink(missing_ok=True)
    return change


# Name: (family, options of the second run, change of the folder it begins with, (kind, op, path or parameter, tensor)).
FAULTS = {
    "rms eps": ("llama", {}, field(rms_norm_eps=1e-3), ("forward", "*rms_norm", "model.layers.0*", "*")),
    "rope base": ("llama", {}, field(rope_theta=500000.0), ("forward", "input", "rope.table", "table")),
    "rope scaling": ("llama", {}, field(rope_scaling={"rope_type": "linear", "factor": 2.0}), ("forward", "input", "rope.table", "table")),
    "lr + 10 %": ("llama", {"optimizer__lr": 1.1e-2}, None, ("update", "input", "optimizer.lr", "*")),
    "beta2": ("llama", {"optimizer__betas": [0.9, 0.99]}, None, ("update", "input", "optimizer.beta2", "*")),
    "Adam's eps": ("llama", {"optimizer__eps": 1e-4}, None, ("update", "adamw", "*", "*")),
    "clip": ("llama", {"optimizer__clip_norm": 0.25}, None, ("update", "input", "clip", "*")),
    "decay of all": ("llama", {"optimizer__decay": "all"}, None, ("update", "adamw", "*", "*")),
    "decay": ("llama", {"optimizer__weight_decay": 0.5}, None, ("update", "adamw", "*", "*")),
    "heads swapped": ("llama", {}, swap_rows("layers.0.self_attn.q_proj.weight", 16), ("weights", "input", "*layers.0.self_attn.q_proj.weight", "*")),
    "rows of up swapped": ("llama", {}, swap_rows("layers.1.mlp.up_proj.weight", 1), ("weights", "input", "*layers.1.mlp.up_proj.weight", "*")),
    "rows of down swapped": ("mixtral", {}, swap_rows("layers.1.block_sparse_moe.experts.0.w2.weight", 1), ("weights", "input", "*layers.1*down_proj*", "*")),
    "1 ulp": ("llama", {}, one_ulp("layers.1.mlp.up_proj.weight"), ("weights", "input", "*layers.1.mlp.up_proj.weight", "*")),
    "1 ulp, gpt2": ("gpt2", {}, one_ulp("h.1.mlp.c_fc.weight"), ("weights", "input", "*layers.1.mlp.up_proj.weight", "*")),
    "embedding in bf16": ("llama", {"precision__recipes": [{"path": "model.embed_tokens", "op": "embedding", "round": "bf16"}]}, None, ("forward", "*", "model.embed_tokens", "*")),
    "norm in bf16": ("llama", {"precision__recipes": [{"path": "model.layers.0*", "op": "*rms_norm", "round": "bf16"}]}, None, ("forward", "*", "model.layers.0*", "*")),
    "attention in bf16": ("llama", {"precision__recipes": [{"path": "model.layers.1.self_attn*", "op": "attention", "round": "bf16"}]}, None, ("forward", "*", "model.layers.1*", "*")),
    "product in bf16": ("llama", {"precision__recipes": [{"path": "model.layers.1.mlp*", "op": "matmul", "compute": "bf16"}]}, None, ("forward", "*", "model.layers.1.mlp*", "*")),
    "activation": ("gpt2", {}, field(activation_function="gelu"), ("forward", "*", "*layers.0.mlp", "*")),
    "norm eps, gpt2": ("gpt2", {}, field(layer_norm_epsilon=1e-2), ("forward", "*layer_norm", "*layers.0*", "*")),
    "order of data": ("llama", {"ids_seed": 9}, None, ("data", "input", "ids", "ids")),
    "window": ("qwen2", {}, field(use_sliding_window=True, sliding_window=4, max_window_layers=0), ("forward", "attention", "model.layers.0*", "*")),
    "momentum of sgd": ("llama", {"optimizer__type": "sgd", "optimizer__momentum": 0.5}, None, ("update", "sgd", "*", "*")),
    "inf in the backward pass": ("llama", {"probe__inject": [{"step": 1, "path": "model.layers.1.self_attn*", "op": "attention_backward", "phase": "backward", "element": 3}]}, None, ("backward", "attention_backward", "model.layers.1*", "*")),
    "window off by one": ("qwen2", {}, field(use_sliding_window=True, sliding_window=5, max_window_layers=0), ("forward", "attention", "model.layers.0*", "*")),
    "nesterov": ("llama", {"optimizer__type": "sgd", "optimizer__momentum": 0.9, "optimizer__nesterov": True}, None, ("update", "sgd", "*", "*")),
    "decay of lion": ("llama", {"optimizer__type": "lion", "optimizer__weight_decay": 0.3}, None, ("update", "lion", "*", "*")),
    "warm-up a step longer": ("llama", {"schedule__warmup_steps": 3}, None, ("update", "input", "optimizer.lr", "*")),
    "experts per token": ("mixtral", {}, field(num_experts_per_tok=1), ("forward", "router_choice", "model.layers.0*", "*")),
    "router rows swapped": ("mixtral", {}, swap_rows("layers.0.block_sparse_moe.gate.weight", 1), ("weights", "input", "*layers.0*gate*", "*")),
    "attention dropout": ("llama", {"train__attention_dropout": 0.1}, None, ("forward", "attention", "model.layers.0*", "*")),
    "a weight of a norm is 0": ("llama", {}, zero("layers.1.post_attention_layernorm.weight"), ("weights", "input", "*layers.1.post_attention_layernorm.weight", "*")),
    "a sign": ("llama", {}, negated("layers.1.self_attn.v_proj.weight"), ("weights", "input", "*layers.1.self_attn.v_proj.weight", "*")),
    "a bias": ("gpt2", {}, one_ulp("h.0.attn.c_attn.bias"), ("weights", "input", "*layers.0*", "*")),
    "loss in bf16": ("llama", {"precision__recipes": [{"path": "lm_head", "op": "loss_head", "round": "bf16"}]}, None, ("backward", "*", "lm_head", "*")),
    "gradients in bf16": ("llama", {"precision__compute": "bf16", "precision__gradients": "compute"}, None, ("backward", "*", "*", "*")),
    "inf in an update": ("llama", {"probe__inject": [{"step": 1, "path": "model.layers.1*", "op": "adamw", "phase": "update", "element": 3}]}, None, ("update", "adamw", "model.layers.1*", "*")),
    "an element of a product": ("llama", {"probe__inject": [{"step": 1, "path": "model.layers.0.mlp.down_proj", "op": "matmul", "phase": "forward", "element": 5, "value": "inf"}]}, None, ("forward", "matmul", "model.layers.0.mlp.down_proj", "*")),
    "an element of a gradient": ("llama", {"probe__inject": [{"step": 1, "path": "model.layers.1.mlp", "op": "swiglu_backward", "phase": "backward", "element": 7, "value": "nan"}]}, None, ("backward", "swiglu_backward", "model.layers.1.mlp", "*")),
}
# Two faults at once: both are named.
BOTH = [("rms eps", "lr + 10 %"), ("embedding in bf16", "decay of all"), ("rope base", "beta2"), ("rows of up swapped", "clip"), ("activation", "Adam's eps"), ("norm in bf16", "1 ulp")]
# Found across layouts too: name: (fault of the table above, options of the second run besides, ranks of it).
ACROSS = {
    "rms eps, tensor 2": ("rms eps", {"parallel__tensor": 2}, 2),
    "rope base, data 2": ("rope base", {"parallel__data": 2}, 2),
    "lr + 10 %, micro batch": ("lr + 10 %", {"train__micro_batch": 2}, 1),
    "clip, pipeline 2": ("clip", {"parallel__pipeline": 2}, 2),
    "1 ulp, ZeRO 3": ("1 ulp", {"parallel__data": 2, "parallel__zero": 3}, 2),
    "embedding in bf16, pipeline 2": ("embedding in bf16", {"parallel__pipeline": 2}, 2),
    "attention in bf16, tensor 2": ("attention in bf16", {"parallel__tensor": 2}, 2),
    "activation, micro batch": ("activation", {"train__micro_batch": 2}, 1),
    "rows of down swapped, expert 2": ("rows of down swapped", {"parallel__data": 2, "parallel__expert": 2}, 2),
    "order of data, data 2": ("order of data", {"parallel__data": 2}, 2),
}
NOT_FOUND = {"rows of down swapped, expert 2"}  # named at the next op: pieces that experts' ranks hold have no order (probe/whole_run.h)
# Options of the first run, where they differ from the base, by name of the fault.
FIRST = {
    "momentum of sgd": {"optimizer__type": "sgd", "optimizer__momentum": 0.9},
    "nesterov": {"optimizer__type": "sgd", "optimizer__momentum": 0.9},
    "decay of lion": {"optimizer__type": "lion", "optimizer__weight_decay": 0.1},
    "warm-up a step longer": {"schedule__warmup_steps": 2},
    "gradients in bf16": {"precision__compute": "bf16"},
}

FIRST_FOLDER = {"window off by one": field(use_sliding_window=True, sliding_window=4, max_window_layers=0)}

# Name: (family, options of both, options of the second, ranks of the second).
CLEAN = {
    "the same": ("llama", {}, {}, 1),
    "threads": ("llama", {}, {"train__threads": 2}, 1),
    "recompute": ("llama", {}, {"train__recompute": "full"}, 1),
    "recompute, mixtral": ("mixtral", {}, {"train__recompute": "full"}, 1),
    **{f"unfused {op}": ("llama", {}, {"precision__unfused": [op]}, 1) for op in ("attention", "add_rms_norm", "loss_head", "qkv", "gate_up", "rope", "swiglu")},
    "unfused add_layer_norm": ("gpt2", {}, {"precision__unfused": ["add_layer_norm"]}, 1),
    "unfused attention, bf16": ("llama", {"precision__compute": "bf16"}, {"precision__unfused": ["attention"]}, 1),
    "bf16 products": ("llama", {"precision__compute": "bf16", "precision__bf16_products": "widen"}, {"precision__bf16_products": "dot"}, 1),
    "micro batch": ("llama", {}, {"train__micro_batch": 2}, 1),
    "leaves": ("llama", {}, {"parallel__sum_leaves": 2}, 1),
    "tensor 2": ("llama", {}, {"parallel__tensor": 2}, 2),
    "pipeline 2": ("llama", {}, {"parallel__pipeline": 2}, 2),
    "data 2": ("llama", {}, {"parallel__data": 2}, 2),
    "data 2, ZeRO 3": ("llama", {}, {"parallel__data": 2, "parallel__zero": 3}, 2),
    "expert 2": ("mixtral", {}, {"parallel__data": 2, "parallel__expert": 2}, 2),
    "data 2 twice": ("llama", {"parallel__data": 2}, {"parallel__recompute": None}, 2),
}


class Pairs:
    def __init__(self, program, folder, what):
        self.program, self.folder, self.what = program, folder, what
        self.models = {}

    def train(self, name, family, options, model=None, ranks=1):
        words = {"train__global_batch": 8, "train__micro_batch": 4, "train__valid_every": 0, "optimizer__lr": 1e-2, "checkpoint__every": 0, "precision__compute": "f32", **options}
        if model:
            words.update(model__config=None, model__path=str(model))
        else:
            words["model__config"] = self.config(family)
        dump = self.folder / f"{name}.dump"
        base = self.folder / "given"
        base.mkdir(exist_ok=True)
        if "ids_seed" in words:
            words["data__train"] = [r.save_ids(self.folder / "others.safetensors", 16, 16, seed=words.pop("ids_seed"))]
        out = r.options(base, self.folder / name, **words)
        launch = [*LAUNCH, "-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launch, self.program, "train", *out, "probe.dump=" + json.dumps({"dir": str(dump), "what": self.what, "steps": "1-2"})],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode and "probe__inject" not in options:
            raise SystemExit(f"{name}: {done.stderr[-600:]}")
        return dump

    def config(self, family):
        return r.save_config(self.folder / f"{family}.json", **FAMILIES[family])

    def model(self, family):
        """A folder with random weights, made once."""
        if family not in self.models:
            self.train(f"maker-{family}", family, {"train__steps": 1, "optimizer__lr": 1e-4})
            self.models[family] = self.folder / f"maker-{family}" / "model"
        return self.models[family]

    def compare(self, a, b):
        done = subprocess.run([self.program, "compare", a, b, "--json"], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            return done.returncode, {"culprit": None, "verdict": done.stderr[-300:]}
        return done.returncode, json.loads(done.stdout)


    def finds(self, fault):
        """Whether compare names the fault in the first place, of two both, and its words."""
        named, across, ranks = ACROSS.get(fault, (fault, {}, 1))
        planted = named.split(" and ")
        family, first = FAULTS[planted[0]][0], FIRST.get(named, {})
        key = f"first-{family}-{named if named in FIRST or named in FIRST_FOLDER else ''}"
        if not (self.folder / f"{key}.dump").exists():
            self.train(key, family, first, self.changed(family, f"folder of {key}", [FIRST_FOLDER.get(named)]))
        model = self.changed(family, f"model of {fault}", [FAULTS[p][2] for p in planted])
        more = {k: v for p in planted for k, v in FAULTS[p][1].items()}
        status, out = self.compare(self.folder / f"{key}.dump", self.train(fault, family, {**first, **more, **across}, model, ranks))

        def is_it(c, wanted):
            kind, op, place, tensor = wanted
            return c["kind"] == kind and fnmatch.fnmatch(c["op"], op) and fnmatch.fnmatch(c["path"], place) and fnmatch.fnmatch(c["tensor"], tensor)
        said = out.get("culprits", [])
        # Of one fault the first that is named; of two the two first, in either order.
        right = status == 1 and all(any(is_it(c, FAULTS[p][3]) for c in said[:len(planted)]) for p in planted)
        words = "; ".join(f"{c['kind']} {c['op']} at {c['path']} '{c['tensor']}' step {c['step']}" for c in said[:4]) + (f" and {len(said) - 4} more" if len(said) > 4 else "")
        return right, f"exit {status}, {words or 'no culprit: ' + out['verdict'][:160]}"

    def changed(self, family, name, changes):
        folder = self.folder / name
        shutil.copytree(self.model(family), folder)
        for change in filter(None, changes):
            change(folder)
        return folder

    def is_silent(self, pair):
        family, both, more, ranks = CLEAN[pair]
        a = self.train(f"{pair}, A", family, both, ranks=both.get("parallel__data", 1))
        b = self.train(f"{pair}, B", family, {**both, **more}, ranks=ranks)
        status, out = self.compare(a, b)
        return status == 0, f"exit {status}" + ("" if status == 0 else f", {out['verdict'][:200]}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("names", nargs="*")
    options.add_argument("--what", choices=["statistics", "tensors", "checksum"], default="statistics")
    given = options.parse_args()
    wanted = lambda name: not given.names or any(n in name for n in given.names)  # noqa: E731
    found = silent = 0
    faults = [n for n in [*FAULTS, *ACROSS, *(f"{x} and {y}" for x, y in BOTH)] if wanted(n)]
    clean = [n for n in CLEAN if wanted(n)]
    with tempfile.TemporaryDirectory() as name:
        pairs = Pairs(os.path.abspath(given.program), pathlib.Path(name), given.what)
        for fault in faults:
            found += (right := pairs.finds(fault))[0]
            print(f"{'found ' if right[0] else 'MISSED'}  {fault:28} {right[1]}", flush=True)
        for pair in clean:
            silent += (right := pairs.is_silent(pair))[0]
            print(f"{'silent' if right[0] else 'ALARM '}  {pair:28} {right[1]}", flush=True)
    print(f"{found} of {len(faults)} faults found, {silent} of {len(clean)} clean pairs silent ({given.what})")
    return 0 if found == len(faults) and silent == len(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
