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


def test_a_limit_is_named_where_files_are_copied(folder):
    base, adapter, _ = made(folder, "limit")
    (base / "tokenizer.json").write_text(" " * (1 << 16))
    for command in (["merge-lora", "--model", base, "--adapter", adapter], ["convert", "--input", base, "--to", "hf"]):
        done = r.run(*command, "--output", folder / "limited", status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14)))
        check("limit on file sizes" in done.stderr and "ulimit -f" in done.stderr, done.stderr)
        check(not list(folder.glob("limited*")), "something is left")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
