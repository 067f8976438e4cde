"""What merge-lora and convert do with numbers that are none, with types that are too narrow, and where a file may not grow."""
import json
import math
import resource
import shutil
import struct
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "lora" / "qwen2"
BASE, ADAPTER = "model.safetensors", "adapter_model.safetensors"


def put(path, number):
    """Replaces the first number of the first matrix of f32 of a file (last rows are repeated where a vocabulary is padded); its name."""
    header, body = r.load_raw(path)
    name, tensor = next((n, t) for n, t in sorted(header.items()) if n != "__metadata__" and t["dtype"] == "F32" and len(t["shape"]) == 2)
    at = tensor["data_offsets"][0]
    r.save_raw(path, header, body[:at] + struct.pack("<f", number) + body[at + 4:])
    return name


def made(folder, place, **numbers):
    """Copies of base and adapter with these in their weights; (base, adapter, names)."""
    base, adapter = folder / f"{place}-base", folder / f"{place}-adapter"
    shutil.copytree(GOLDEN / "base", base)
    shutil.copytree(GOLDEN / "adapter", adapter)
    names = [put({"base": base / BASE, "adapter": adapter / ADAPTER}[which], number) for which, number in numbers.items()]
    return base, adapter, names


def test_numbers_that_are_none_are_refused(folder):
    rows = [("nan", {"adapter": math.nan}, {}, (ADAPTER, "NaN", "finite")), ("inf", {"adapter": math.inf}, {}, (ADAPTER, "infinite")),
            ("base", {"base": math.nan}, {}, (BASE, "NaN")), ("huge", {"adapter": 3e38}, {"lora_alpha": 1e6}, ("beyond the range of f32", "lora_alpha")),
            ("alpha", {}, {"lora_alpha": 1e308}, ("beyond the range of f32", "lora_alpha")), ("rank", {}, {"r": 8.5}, ('"r" is 8.5', "whole number")),
            ("true", {}, {"r": True}, ('"r" is true',)), ("pattern", {}, {"rank_pattern": {"q_proj": 1.5}}, ('"rank_pattern" is 1.5',))]
    for place, numbers, config, words in rows:
        base, adapter, names = made(folder, place, **numbers)
        settings = adapter / "adapter_config.json"
        settings.write_text(json.dumps({**json.loads(settings.read_text()), **config}))
        commands = [["merge-lora", "--model", base, "--adapter", adapter], ["convert", "--input", base, "--adapter", adapter, "--to", "hf"]]
        for command in commands if place in ("nan", "rank") else commands[:1]:
            error = r.run(*command, "--output", folder / f"{place}-out", status=2).stderr
            check(all(w in error for w in (*words, *(n for n in names if place != "huge"))), f"{place}: {words} {names}: {error}")
            check(not list(folder.glob(f"{place}-out*")), f"{place}: something is left")


def test_what_is_beyond_a_type_is_said(folder):
    base, adapter, (name,) = made(folder, "wide", base=7e4)
    bad, _, (none,) = made(folder, "bad", base=math.nan)
    said = ["beyond the range of f16", "1 number of 1 tensor", name]
    for words, expected in ((["merge-lora", "--model", base, "--adapter", adapter, "--dtype", "f16"], said), (["merge-lora", "--model", base, "--adapter", adapter], []),
                            (["convert", "--input", base, "--to", "hf", "--dtype", "f16"], said), (["convert", "--input", base, "--to", "hf", "--dtype", "bf16"], []),
                            (["convert", "--input", base, "--to", "megatron-mcore", "--dtype", "f16"], said), (["convert", "--input", base, "--to", "mindformers", "--dtype", "f16"], said),
                            (["convert", "--input", bad, "--to", "hf"], ["NaN or infinite in the input", "1 number of 1 tensor", none])):
        told = r.run(*words, "--output", folder / "out").stderr
        check(all(w in told for w in expected) and (expected or "range of" not in told), f"{words}: {expected}: {told}")
        shutil.rmtree(folder / "out")


# Numbers around the least that rounds to infinity, halfway between the largest number of a type and what would come next (IEEE 754, ties to even).
EDGES = [("f32", "f16", 65504.0, True), ("f32", "f16", 65519.0, True), ("f32", "f16", 65520.0 - 2.0 ** -8, True), ("f32", "f16", 65520.0, False), ("f64", "f16", 65519.9999, True),
         ("f64", "f16", 65520.0, False), ("bf16", "f16", 65280.0, True), ("bf16", "f16", 65536.0, False),
         ("f32", "bf16", 2.0 ** 128 - 2.0 ** 119 - 2.0 ** 104, True), ("f32", "bf16", 2.0 ** 128 - 2.0 ** 119, False), ("bf16", "bf16", 2.0 ** 128 - 2.0 ** 120, True), ("bf16", "f32", 2.0 ** 128 - 2.0 ** 120, True),
         ("f64", "f32", math.nextafter(2.0 ** 128 - 2.0 ** 103, 0.0), True), ("f64", "f32", 2.0 ** 128 - 2.0 ** 103, False)]
FORMS = {"f16": ("F16", 2), "bf16": ("BF16", 2), "f32": ("F32", 4), "f64": ("F64", 8)}


def packed(kind, number):
    if kind == "bf16":  # the upper half of f32; what is given fits
        return struct.pack("<f", number)[2:]
    return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[kind], number)


def unpacked(kind, data):
    return struct.unpack("<f", bytes(2) + data)[0] if kind == "bf16" else struct.unpack({"f16": "<e", "f32": "<f", "f64": "<d"}[kind], data)[0]


def test_a_number_at_the_edge_of_a_type(folder):
    """What is said follows what is written: finite or infinite."""
    for i, (source, target, number, finite) in enumerate(EDGES):
        base = folder / f"base-{i}"
        shutil.copytree(GOLDEN / "base", base)
        header, _ = r.load_raw(base / BASE)
        name, tensors, body = "", {}, b""
        for key, tensor in sorted(header.items()):
            if key == "__metadata__":
                tensors[key] = tensor
                continue
            name = name or (key if len(tensor["shape"]) == 2 else "")
            data = packed(source, 0.5) * math.prod(tensor["shape"])
            if key == name:
                data = packed(source, number) + data[FORMS[source][1]:]
            tensors[key] = {"dtype": FORMS[source][0], "shape": tensor["shape"], "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        r.save_raw(base / BASE, tensors, body)
        out = folder / f"out-{i}"
        told = r.run("convert", "--input", base, "--to", "hf", "--dtype", target, "--output", out).stderr
        header, body = r.load_raw(out / BASE)
        check(header[name]["dtype"] == FORMS[target][0], f"{header[name]}")
        at = header[name]["data_offsets"][0]
        written = unpacked(target, body[at:at + FORMS[target][1]])
        check(math.isfinite(written) == finite, f"{number!r} of {source} as {target}: {written!r}")
        check(("beyond the range of " + target in told) == (not finite) and ("range of" in told) == (not finite), f"{number!r} of {source} as {target} is {written!r}: {told}")


def test_the_type_is_said_under_the_names_of_the_config(folder):
    """dtype, torch_dtype, both, or neither, which gets torch_dtype: what is written is the type of the file."""
    for i, given in enumerate((["dtype"], ["torch_dtype"], ["dtype", "torch_dtype"], [])):
        base, adapter, _ = made(folder, f"names-{i}")
        config = json.loads((base / "config.json").read_text())
        for key in ("dtype", "torch_dtype"):
            config.pop(key, None)
        (base / "config.json").write_text(json.dumps({**config, **{key: "float32" for key in given}}))
        for command in (["merge-lora", "--model", base, "--adapter", adapter], ["convert", "--input", base, "--to", "hf"], ["convert", "--input", base, "--adapter", adapter, "--to", "hf"]):
            out = folder / "names-out"
            r.run(*command, "--dtype", "bf16", "--output", out)
            saved = json.loads((out / "config.json").read_text())
            check({key: saved[key] for key in ("dtype", "torch_dtype") if key in saved} == {key: "bfloat16" for key in given or ["torch_dtype"]}, f"{command[0]}, {given}: {saved}")
            check({t["dtype"] for k, t in r.load_raw(out / BASE)[0].items() if k != "__metadata__"} == {"BF16"}, f"{command[0]}, {given}")
            shutil.rmtree(out)


def test_a_limit_is_named_where_files_are_copied(folder):
    base, adapter, _ = made(folder, "limit")
    (base / "tokenizer.json").write_text(" " * (1 << 16))
    for command in (["merge-lora", "--model", base, "--adapter", adapter], ["convert", "--input", base, "--to", "hf"]):
        done = r.run(*command, "--output", folder / "limited", status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14)))
        check("limit on file sizes" in done.stderr and "ulimit -f" in done.stderr, done.stderr)
        check(not list(folder.glob("limited*")), "something is left")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
