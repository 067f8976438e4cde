"""Adapters against PEFT (tests/golden/lora, made by tools/golden/make_lora.py): what a model computes beside one, gradients of what it trains, the model that the two are
merged into; and what is refused."""
import array
import json
import shutil
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "lora"
CASES = ("qwen2", "gpt2", "bloom", "llama", "phi3", "latent", "latent-direct", "layers", "resized", "resized-unasked", "embedding", "embedding-scaled", "head",
         "head-tied", "saved-tied", "saved-ensured", "head-unasked", "resized-head", "resized-saved", "resized-saved-tied", "resized-ensured")
# Tied in the base, two tables with the adapter. PEFT merges adapters of the one into the other as well, and says that one should not.
PARTED = {"embedding-scaled": False, "head-tied": False, "saved-tied": True, "head-unasked": False, "resized-head": False, "resized-saved-tied": True}  # whether what PEFT merges is right
TABLES = "model.embed_tokens.weight", "lm_head.weight"
EPS = 2.0**-24


def golden(case):
    return r.load_tensors(GOLDEN / case, "golden.safetensors")


def trace(folder, case, *more, adapter=True, model=None):
    given = golden(case)
    ids, labels = (flat(given[n]) for n in ("input_ids", "labels"))
    r.save_tensors(folder / "in.safetensors", {"input_ids": ("I64", [2, 7], ids), "labels": ("I64", [2, 7], labels)})
    beside = GOLDEN / case / "adapter" if adapter is True else adapter
    r.run("trace", "--model", model or GOLDEN / case / "base", *(["--adapter", beside] if beside else []), "--input", folder / "in.safetensors", "--out",
          folder / "out.safetensors", "--overwrite", *more)
    return r.load_tensors(folder, "out.safetensors")


def flat(tensor):
    """The numbers of a tensor as load_tensors gives it."""
    kind, _, body = tensor
    return array.array({"F64": "d", "F32": "f", "I64": "q"}[kind], body).tolist()


def distance(got, want):
    got, want = flat(got), flat(want)
    check(len(got) == len(want), f"{len(got)} numbers instead of {len(want)}")
    top = max(map(abs, want))
    return max(abs(a - b) for a, b in zip(got, want)) / max(top, 1e-30)


def test_logits_and_gradients_are_those_of_peft(folder):
    """In f64 to the roundings of f64; in f32 to those of a model of two layers and sums of at most 64 terms (gamma of 2000)."""
    for case in CASES:
        want = golden(case)
        for more, bound in ((("--backend", "ref", "precision.compute=f64"), 1e-11), (("precision.compute=f32",), 2000 * EPS)):
            got = trace(folder, case, "--backward", *more)
            check(distance(got["logits"], want["logits"]) < bound, f"{case}: logits {distance(got['logits'], want['logits'])}")
            check(abs(flat(got["loss"])[0] - flat(want["loss"])[0]) < bound * 10, f"{case}: loss {got['loss']} instead of {want['loss']}")
            names = {n for n in want if n.startswith("grad.")}
            check({n for n in got if n.startswith("grad.")} == names, f"{case}: gradients of {sorted({n for n in got if n.startswith('grad.')} ^ names)[:4]}")
            for n in names:
                check(distance(got[n], want[n]) < 20 * bound, f"{case}: {n} differs by {distance(got[n], want[n])}")
        if case.startswith("resized"):  # the base lacks ids of the input
            continue
        base = trace(folder, case, "--backend", "ref", "precision.compute=f64", adapter=False)
        check(distance(base["logits"], want["logits"]) > 1e-3, f"{case}: the adapter changes something")


def test_dropout_of_an_adapter_is_for_training(folder):
    """A trace drops nothing, with gradients or without: its loss is that of its logits, as PEFT's in eval mode."""
    for case in ("qwen2", "llama"):
        adapter, want = broken(folder, {"lora_dropout": 0.5}, case), golden(case)
        for more in ((), ("--backward",)):
            got = trace(folder, case, *more, "--backend", "ref", "precision.compute=f64", adapter=adapter)
            check(abs(flat(got["loss"])[0] - flat(want["loss"])[0]) < 1e-10, f"{case} {more}: loss {flat(got['loss'])} instead of {flat(want['loss'])}")


def test_merged_is_what_peft_merges(folder):
    for case in r.rows(CASES, 3, "the cases take turns"):
        out = folder / case
        before = {p.name: p.read_bytes() for p in sorted((GOLDEN / case / "base").iterdir())}
        r.run("merge-lora", "--model", GOLDEN / case / "base", "--adapter", GOLDEN / case / "adapter", "--output", out)
        check({p.name: p.read_bytes() for p in sorted((GOLDEN / case / "base").iterdir())} == before, f"{case}: the base is as it was")
        want, was, got = golden(case), r.load_tensors(GOLDEN / case / "base"), r.load_tensors(out)
        check(set(got) == set(was) | (set(TABLES) if case in PARTED else set()), f"{case}: {sorted(set(got) ^ set(was))}")
        changed = {n[7:] for n in want if n.startswith("merged.")} & set(was)
        beside = trace(folder, case, "--backend", "ref", "precision.compute=f64", adapter=False, model=out)
        check(distance(beside["logits"], want["logits"]) < 200 * EPS, f"{case}: logits of the merged model {distance(beside['logits'], want['logits'])}")
        config = json.loads((out / "config.json").read_text())
        check(config["vocab_size"] == want["logits"][1][-1], f"{case}: {config['vocab_size']}")
        if case in PARTED:
            check(config["tie_word_embeddings"] is False, f"{case}: two tables")
        for n in was:
            if n in TABLES and PARTED.get(case) is False:
                continue
            if n not in changed:
                check(got[n] == was[n], f"{case}: {n} is that of the base")
            else:  # PEFT rounds the product, the scale and the sum; we the sum
                top = max(map(abs, flat(was[n]))) + max(abs(a - b) for a, b in zip(flat(want["merged." + n]), flat(was[n])))
                check(all(abs(a - b) <= 16 * EPS * top for a, b in zip(flat(got[n]), flat(want["merged." + n]))), f"{case}: {n}")
        shutil.rmtree(out)
        r.run("convert", "--input", GOLDEN / case / "base", "--adapter", GOLDEN / case / "adapter", "--output", out, "--to", "hf")
        check(r.load_tensors(out) == got, f"{case}: convert --adapter gives the same")
        shutil.rmtree(out)


def broken(folder, change, case="layers"):
    path = folder / "adapter"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(GOLDEN / case / "adapter", path)
    config = json.loads((path / "adapter_config.json").read_text())
    config.update(change)
    (path / "adapter_config.json").write_text(json.dumps(config))
    return path


def test_an_alpha_that_is_not_said_is_that_of_peft(folder):
    """LoraConfig has lora_alpha 8 unless told, whatever r is."""
    case = next(c for c in CASES if json.loads((GOLDEN / c / "adapter" / "adapter_config.json").read_text())["r"] != 8)
    words = ("--backend", "ref", "precision.compute=f64")
    said = trace(folder, case, *words, adapter=broken(folder, {"lora_alpha": 8}, case))["logits"]
    check(said != trace(folder, case, *words, adapter=broken(folder, {"lora_alpha": 9}, case))["logits"], f"{case}: alpha counts")
    check(said == trace(folder, case, *words, adapter=broken(folder, {"lora_alpha": None}, case))["logits"], f"{case}: the default is another")


def test_what_is_refused_is_named(folder):
    def refused(path, *parts, base=GOLDEN / "layers" / "base"):
        for words in (["merge-lora", "--model", base, "--adapter", path, "--output", folder / "out"],
                      ["generate", "--model", base, "--adapter", path, "--prompt-ids", folder / "ids.json"]):
            said = r.run(*words, status=2).stderr
            check(all(p in said for p in parts), f"{parts}: {said}")
        check(not (folder / "out").exists(), "nothing is written")

    (folder / "ids.json").write_text("[[3, 4]]")
    file = str(folder / "adapter" / "adapter_config.json")
    refused(broken(folder, {"use_dora": True}), "DoRA", file)
    refused(broken(folder, {"bias": "all"}), "trained biases", file)
    refused(broken(folder, {"peft_type": "IA3"}), "IA3", file)
    for way in ("pissa", "PiSSA_niter_16", "olora", "corda"):  # A and B are a part of the base: PEFT takes it away where it loads them
        refused(broken(folder, {"init_lora_weights": way}), f'"init_lora_weights" is "{way}"', file, "path_initial_model_for_weight_conversion")
    for way in ("loftq", "lora_ga"):
        refused(broken(folder, {"init_lora_weights": way}), f'"init_lora_weights" is "{way}"', file, "merge_and_unload")
    refused(broken(folder, {"init_lora_weights": "spectral"}), '"init_lora_weights" is "spectral"', "gaussian", file)
    refused(broken(folder, {"use_brand_new": True}), '"use_brand_new" is true', "no such field", file)
    refused(broken(folder, {"lora_alhpa": 5}), '"lora_alhpa" is 5', 'did you mean "lora_alpha"?', file)
    refused(broken(folder, {"enable_lora": [True, False]}), "enable_lora", file)
    refused(broken(folder, {"target_modules": ["query"]}), "no module of the model ends in 'query'", "q_proj", file)
    refused(broken(folder, {"r": 3}), "_proj.lora_", "shape", "[2, ", "[3, ")
    refused(broken(folder, {"r": 0}), "rank", file)
    refused(broken(folder, {"r": "4"}), '"r"', file)
    weights = str(folder / "adapter" / "adapter_model.safetensors")
    refused(broken(folder, {"layers_to_transform": [0]}), f"{weights}: tensor 'base_model.model.model.layers.1.", "has 1 layer by its config, the file holds layer 1", "adapter_config.json")
    refused(broken(folder, {"layers_to_transform": [1]}, "llama"), f"{weights}: tensor 'base_model.model.model.layers.0.", "has it in layer 1 by its config, the file holds layer 0", "adapter_config.json",
            base=GOLDEN / "llama" / "base")
    refused(broken(folder, {"layers_to_transform": [7]}), "layer 7 of 2", file)
    refused(broken(folder, {"rank_pattern": {"(": 1}}), file)
    refused(GOLDEN / "layers" / "adapter", "lora_", "shape", base=other_base(folder))
    (folder / "none").mkdir()
    refused(folder / "none", "adapter_config.json", str(folder / "none"))
    path = broken(folder, {})
    (path / "adapter_model.safetensors").unlink()
    refused(path, "adapter_model.safetensors", str(path))
    body = (GOLDEN / "layers" / "adapter" / "adapter_model.safetensors").read_bytes()
    (path / "adapter_model.safetensors").write_bytes(body[:-5])
    refused(path, "adapter_model.safetensors")


def test_fields_that_say_nothing_are_passed_over(folder):
    """What PEFT keeps books by, what is switched off, and beginnings of A and B that leave the base as it is."""
    want = r.load_tensors(GOLDEN / "layers", "golden.safetensors")["logits"]
    for change in ({"init_lora_weights": "gaussian"}, {"init_lora_weights": False}, {"init_lora_weights": "eva", "eva_config": {"rho": 2.0}}, {"init_lora_weights": "orthogonal"},
                   {"init_lora_weights": "mica", "loftq_config": {"loftq_bits": 4}, "corda_config": {"cache_file": None}},
                   {"revision": "main", "auto_mapping": {"base_model_class": "LlamaForCausalLM"}, "megatron_config": {"tensor": 1}, "peft_version": "9.9", "merge_weights": True},
                   {"use_brand_new": None, "another": False, "lists": [], "of": {}}):
        got = trace(folder, "layers", "--backend", "ref", "precision.compute=f64", adapter=broken(folder, change))
        check(distance(got["logits"], want) < 1e-11, f"{change}: {distance(got['logits'], want)}")


def test_copies_of_a_table_that_differ_are_refused(folder):
    """PEFT stores a table again that is trained whole, and a tied one under two names: equal ones are one table."""
    for case, name in (("resized-saved", "base_model.model.model.embed_tokens.modules_to_save.weight"), ("resized-unasked", "base_model.model.lm_head.weight")):
        shutil.rmtree(folder / "adapter", ignore_errors=True)
        shutil.copytree(GOLDEN / case / "adapter", folder / "adapter")
        file = folder / "adapter" / "adapter_model.safetensors"
        header, body = r.load_raw(file)
        at = header[name]["data_offsets"][0]
        r.save_raw(file, header, body[:at] + bytes(4) + body[at + 4:])
        said = r.run("merge-lora", "--model", GOLDEN / case / "base", "--adapter", folder / "adapter", "--output", folder / "out", status=2).stderr
        check("two different tables for one parameter" in said and f"{file}: tensor '{name}'" in said and "remove the wrong one" in said, said)


def other_base(folder):
    config = json.loads((GOLDEN / "layers" / "base" / "config.json").read_text())
    config.update(hidden_size=32)
    path = folder / "other"
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "run.yml").write_text("")
    r.run("train", f"model.config={path / 'config.json'}", "train.steps=1", f"data.train=[{ids_file(folder)}]", "data.sequence_length=4", f"train.output={folder / 'run'}", "log.tensorboard=false")
    return folder / "run" / "model"


def ids_file(folder):
    r.save_ids(folder / "t.safetensors", 4, 4, 37)
    return folder / "t.safetensors"


if __name__ == "__main__":
    sys.exit(r.main(globals()))
