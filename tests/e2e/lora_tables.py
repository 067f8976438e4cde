"""Adapters of the embedding and of the head, tied or not: what they begin with, layouts, resumes, merges, what is written for PEFT, what is refused. Numbers of PEFT: lora.py."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys

import ravine_run as r
from ravine_run import check

A, B = "base_model.model.model.embed_tokens.lora_embedding_A", "base_model.model.model.embed_tokens.lora_embedding_B"
HEAD_A, HEAD_B = "base_model.model.lm_head.lora_A.weight", "base_model.model.lm_head.lora_B.weight"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
TABLES = {"lora__rank": 4, "lora__targets": ["embed_tokens", "lm_head", "q_proj"], "optimizer__lr": 0.01, "train__steps": 4}


def base_model(folder, tied=False):
    name = "tied" if tied else "base"
    if not (folder / name / "model").exists():
        made = r.save_config(folder / f"{name}.json", tie_word_embeddings=tied)
        r.run("train", *r.options(folder, folder / name, model__config=made, checkpoint__every=0))
    return folder / name / "model"


def train(folder, name, tied=False, ranks=1, status=0, **more):
    words = ["train", *r.options(folder, folder / name, **{"model__config": None, "model__path": base_model(folder, tied), **TABLES, **more})]
    if ranks == 1:
        return r.run(*words, status=status).stderr
    launch = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", str(ranks)]
    done = subprocess.run([*launch, *r.command(*words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"{done.returncode}: {done.stderr}")
    return done.stderr


def adapter(folder, name):
    return r.load_tensors(folder / name / "adapter")


def floats(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 4}f", tensor[2])


def distance(got, want):
    check(set(got) == set(want), sorted(set(got) ^ set(want)))
    return max(abs(a - b) for n in want for a, b in zip(floats(got[n]), floats(want[n])))


def trace(folder, model, adapter=None):
    r.save_tensors(folder / "in.safetensors", {"input_ids": ("I64", [2, 6], [3, 9, 27, 81, 243, 0, 5, 25, 125, 113, 53, 255])})
    r.run("trace", "--model", model, *(["--adapter", adapter] if adapter else []), "--input", folder / "in.safetensors", "--out", folder / "out.safetensors", "--overwrite", "--backend", "ref",
          "precision.compute=f64")
    kind, _, body = r.load_tensors(folder, "out.safetensors")["logits"]
    return struct.unpack(f"<{len(body) // 8}d", body)


def test_what_they_begin_with_and_learn(folder):
    for tied in (False, True):
        name = f"run{tied:d}"
        train(folder, f"still{tied:d}", tied, optimizer__lr=0.0, train__steps=1)
        begin = adapter(folder, f"still{tied:d}")
        check(begin[A][1] == [4, 256] and begin[B][1] == [32, 4] and begin[HEAD_A][1] == [4, 32] and begin[HEAD_B][1] == [256, 4], {n: t[1] for n, t in begin.items()})
        check(not any(floats(begin[A])) and not any(floats(begin[HEAD_B])), "what begins at zero, as PEFT has it")
        normal, uniform = floats(begin[B]), floats(begin[HEAD_A])
        check(abs(sum(x * x for x in normal) / len(normal) - 1) < 4 * math.sqrt(2 / len(normal)), "B of an embedding is normal")
        check(0.8 * 32**-0.5 < max(map(abs, uniform)) <= 32**-0.5, "A of a head is uniform within 1 / sqrt(hidden)")
        train(folder, f"plain{tied:d}", tied, lora__rank=None, lora__targets=None, optimizer__lr=0.0, train__steps=1)
        first, plain = (r.metrics(folder / f"{n}{tied:d}")[1]["loss"] for n in ("still", "plain"))
        check(abs(first - plain) <= 8 * 2.0**-24 * plain, f"the first loss is the base's: {first} and {plain}")
        train(folder, name, tied)
        learned = adapter(folder, name)
        check(all(any(floats(t)) for t in learned.values()), "all of them learn")
        rows = {n for n, row in enumerate(zip(*[iter(floats(learned[HEAD_B]))] * 4)) if any(row)}
        check(len(rows) == 256, f"every id's row of the head learns: {len(rows)}")
        # Merged, the function is the same; embedding and head are two tables.
        merged = folder / f"merged{tied:d}"
        r.run("merge-lora", "--model", base_model(folder, tied), "--adapter", folder / name / "adapter", "--output", merged)
        beside, one = trace(folder, base_model(folder, tied), folder / name / "adapter"), trace(folder, merged)
        check(max(abs(a - b) for a, b in zip(beside, one)) < 200 * 2.0**-24 * max(map(abs, beside)), "merged and beside")
        check(json.loads((merged / "config.json").read_text())["tie_word_embeddings"] is False and HEAD in r.load_tensors(merged), "two tables")


def test_resumes_and_goes_on(folder):
    for tied in (False, True):
        given = {"lora__dropout": 0.2, "precision__compute": "bf16"}
        train(folder, f"whole{tied:d}", tied, **given)
        train(folder, f"parts{tied:d}", tied, **{**given, "train__steps": 2})
        train(folder, f"parts{tied:d}", tied, **given)
        check(adapter(folder, f"whole{tied:d}") == adapter(folder, f"parts{tied:d}"), "a resume goes on bit for bit")
        train(folder, f"on{tied:d}", tied, lora__rank=None, lora__targets=None, lora__path=folder / f"whole{tied:d}" / "adapter", train__steps=1, optimizer__lr=0.0)
        check(adapter(folder, f"on{tied:d}") == adapter(folder, f"whole{tied:d}"), "at a rate of 0 an adapter stays")


def test_every_layout_learns_the_same(folder):
    if shutil.which("mpirun") is None:
        raise r.Skipped("no mpirun")
    for tied in (False, True):
        given = {"train__global_batch": 4, "train__micro_batch": 1, "lora__dropout": 0.1}
        train(folder, f"one{tied:d}", tied, **given)
        want, losses = adapter(folder, f"one{tied:d}"), [row["loss"] for row in r.metrics(folder / f"one{tied:d}").values()]
        for name, layout in r.rows((("data", {"zero": 3, "zero_threshold": 0}), ("tensor", {"tensor": 2}), ("sequence", {"tensor": 2, "sequence": True}), ("stages", {"pipeline": 2})), 1, "layouts take turns"):
            name += str(int(tied))
            train(folder, name, tied, ranks=2, **given, **{f"parallel__{k}": v for k, v in layout.items()})
            got = [row["loss"] for row in r.metrics(folder / name).values()]
            check(all(abs(a - b) < 1e-5 for a, b in zip(got, losses)), f"{name}: {got} instead of {losses}")
            # Adam moves each number by the rate at most; sums in another order may move those about zero another way.
            far = [abs(a - b) for n in want for a, b in zip(floats(adapter(folder, name)[n]), floats(want[n]))]
            check(max(far) <= 4 * 2 * 0.01 and sum(d > 1e-4 for d in far) < len(far) / 50, f"{name}: {max(far)}, {sum(d > 1e-4 for d in far)} of {len(far)}")


def test_a_tied_table_trained_whole(folder):
    given = {"lora__targets": ["q_proj"], "lora__save": ["embed_tokens"]}
    train(folder, "saved", True, **given)
    held, config = adapter(folder, "saved"), json.loads((folder / "saved" / "adapter" / "adapter_config.json").read_text())
    check(config.get("ensure_weight_tying") is True and config["modules_to_save"] == ["embed_tokens"], config)
    check(held["base_model.model." + EMBEDDING] == held["base_model.model." + HEAD], f"PEFT looks for both: {sorted(held)}")
    merged = folder / "both"
    r.run("merge-lora", "--model", base_model(folder, True), "--adapter", folder / "saved" / "adapter", "--output", merged)
    check(HEAD not in r.load_tensors(merged) and r.load_tensors(merged)[EMBEDDING][2] == held["base_model.model." + EMBEDDING][2], "one table, that of the adapter")
    # Without the word PEFT leaves the head as it is in the base, and so does a run that goes on from there.
    apart = folder / "apart"
    shutil.copytree(folder / "saved" / "adapter", apart)
    (apart / "adapter_config.json").write_text(json.dumps({**config, "ensure_weight_tying": False}))
    tensors = {n: t for n, t in held.items() if not n.endswith(HEAD)}
    r.save_tensors(apart / "adapter_model.safetensors", {n: (kind, shape, list(floats((kind, shape, body)))) for n, (kind, shape, body) in tensors.items()})
    r.run("merge-lora", "--model", base_model(folder, True), "--adapter", apart, "--output", folder / "two")
    two = r.load_tensors(folder / "two")
    check(two[HEAD][2] == r.load_tensors(base_model(folder, True))[EMBEDDING][2] and two[EMBEDDING][2] == held["base_model.model." + EMBEDDING][2], "the head is the base's")
    train(folder, "on", True, lora__rank=None, lora__targets=None, lora__path=apart, train__steps=2)
    config = json.loads((folder / "on" / "adapter" / "adapter_config.json").read_text())
    check(not config.get("ensure_weight_tying") and "base_model.model." + HEAD not in adapter(folder, "on"), config)
    train(folder, "on", True, lora__rank=None, lora__targets=None, lora__path=apart, train__steps=3)
    said = train(folder, "none", True, status=2, **{**given, "lora__save": ["lm_head"]})
    check("and the embedding are one table" in said and "name the embedding, which trains both" in said, said)
    (apart / "adapter_config.json").write_text(json.dumps({**config, "modules_to_save": None, "target_modules": ["embed_tokens"], "ensure_weight_tying": True}))
    said = r.run("merge-lora", "--model", base_model(folder, True), "--adapter", apart, "--output", folder / "none", status=2).stderr
    check("ensure_weight_tying" in said and "train the adapter again" in said, said)
    check(not (folder / "none").exists(), "nothing is written")


def test_merged_at_the_end(folder):
    train(folder, "merged", lora__merge=True)
    train(folder, "beside")
    r.run("merge-lora", "--model", base_model(folder), "--adapter", folder / "beside" / "adapter", "--output", folder / "by_hand")
    check(r.load_tensors(folder / "merged" / "model") == r.load_tensors(folder / "by_hand"), "lora.merge and merge-lora give the same bits")
    said = train(folder, "none", True, status=2, lora__merge=True)
    check("a tied embedding or head, merged" in said and "set model.tie=untied" in said, said)
    train(folder, "untied", True, lora__merge=True, model__tie="untied")
    check(HEAD in r.load_tensors(folder / "untied" / "model"), "untied first, it is merged")
    said = train(folder, "none", status=2, lora__targets=["norm"])
    check("no linear layer" in said and "embed_tokens" in said and "lm_head" in said, said)
    check(not (folder / "none").exists(), "nothing is written")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
