#!/usr/bin/env python3
"""Makes tests/golden/megatron.json of recorded truths of Megatron's data code: copy_megatron.py FOLDER, a folder with `indexed` and
`gpt_dataset` as the fixtures of Megatron-core 0.16.1 and of Megatron-LM of November 2023 have them. Arrays are kept as the md5 of their bytes."""
import base64
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

ARRAYS = ("document_index", "sample_index", "shuffle_index", "dataset_index", "dataset_sample_index")


def coded(path):
    return base64.b64encode(Path(path).read_bytes()).decode()


def md5(array):
    return hashlib.md5(np.ascontiguousarray(array).tobytes()).hexdigest()


def pair(prefix):
    return {"idx": coded(f"{prefix}.idx"), "bin": coded(f"{prefix}.bin")}


def indexed(folder):
    expected, files, refused = json.loads((folder / "expected.json").read_text()), {}, []
    for name, e in expected.items():
        if name in ("optimal_dtype", "multimodal_read_as_text"):
            continue
        files[name] = pair(folder / name)
        if (e.get("reader_error") and name != "no_documents") or name == "short_bin":
            refused.append(name)
        elif name != "no_documents":
            files[name].update({k: e[k] for k in ("dtype", "sequence_lengths", "sequence_pointers", "document_indices", "tokens", "sequence_modes") if k in e})
    return {"files": files, "refused": refused, "merged": ["int32", "merge_part", "empty_documents"], "smallest_type": {k: v for k, v in expected["optimal_dtype"].items() if k != "None"}}


def arrays(folder, start):
    return {a: md5(np.load(folder / f"{start}-{a}.npy")) for a in ARRAYS if (folder / f"{start}-{a}.npy").exists()}


def tensors(path):
    return {k: md5(v) for k, v in load_file(path).items()} if path.exists() else {}


def gpt(folder):
    e = json.loads((folder / "expected.json").read_text())
    out = {"corpora": {k: {**pair(folder / v["path"]), "path": v["path"], "eod": v["eod"], "vocab_size": v["vocab_size"]} for k, v in e["corpora"].items()},
           "splits": e["splits"], "shuffles": e["numpy_randomstate_shuffles"], "cases": {}, "blends": {}, "flags": {}}
    for name, c in e["cases"].items():
        splits = {}
        for s, r in c["splits"].items():
            if r is None:
                splits[s] = None
                continue
            splits[s] = {"length": r["length"], "description": r["description"], "md5": r["md5"], "arrays": arrays(folder / name, s), "samples": tensors(folder / name / f"{s}-samples.safetensors")}
            if "megatron_2023" in r:
                old = r["megatron_2023"]
                splits[s]["megatron_2023"] = {k: old[k] for k in ("length", "description", "md5", "same_arrays_as_core", "cache_files") if k in old}
        out["cases"][name] = {**{k: c[k] for k in ("corpus", "split", "sequence_length", "seed", "sizes", "options")}, "splits": splits}
    for name, c in e["blends"].items():
        splits = {}
        for s, r in c["splits"].items():
            splits[s] = None if r is None else {"length": r["length"], "description": r["description"], "md5": r["md5"], "arrays": arrays(folder / f"blend_{name}", s),
                                                "samples": tensors(folder / f"blend_{name}" / f"{s}-samples.safetensors"),
                                                "parts": [arrays(folder / f"blend_{name}", f"{s}-dataset{k}") for k in range(len(c["corpora"]))]}
        old = {s: {k: r[k] for k in ("blend_size", "first40", "md5", "description") if k in r} for s, r in c.get("megatron_2023", {}).items() if isinstance(r, dict) and "blend_size" in r}
        out["blends"][name] = {**{k: c[k] for k in ("corpora", "weights", "split", "sequence_length", "seed", "sizes")}, "splits": splits, "megatron_2023": old}
    out["flags"] = {"case": e["flags"]["case"], "split": e["flags"]["split"], "files": [{**on, "tensors": tensors(folder / f)} for f, on in e["flags"]["files"].items()]}
    out["raw_blends"] = [{"weights": r["weights"], "size": r["size"], **{k: md5(np.load(folder / r["file"])[k]) for k in ("dataset_index", "dataset_sample_index")}} for r in e["raw_blends"]]
    out["raw_exhaustive_blends"] = [{"sizes": r["sizes"], "dataset_index": r["dataset_index"]} for r in e["raw_exhaustive_blends"]]
    return out


if __name__ == "__main__":
    source = Path(sys.argv[1])
    target = Path(__file__).resolve().parents[2] / "tests" / "golden" / "megatron.json"
    target.write_text(json.dumps({"indexed": indexed(source / "indexed"), "gpt": gpt(source / "gpt_dataset")}, separators=(",", ":")) + "\n")
    print(f"{target}: {target.stat().st_size} bytes")
