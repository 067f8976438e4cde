"""Embedding and head that config.json ties, stored with other values each: the files count, as in Transformers, and it is said; stored copies that are equal are one table."""
import array
import json
import shutil
import sys

import ravine_run as r
from ravine_run import check

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
SAID = "the files hold two tables of other values: the head is that of the files"


def models(folder):
    """An untied model, the same with a config that ties its head, and one whose head is the embedding once more."""
    r.run("train", *r.options(folder, folder / "run", model__config=r.save_config(folder / "new.json"), checkpoint__every=0, train__steps=2))
    apart = folder / "apart"
    shutil.copytree(folder / "run" / "model", apart)
    header, body = r.load_raw(apart / "model.safetensors")
    config = json.loads((apart / "config.json").read_text())
    for name in ("wrong", "twice"):
        shutil.copytree(apart, folder / name)
        (folder / name / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
        (folder / name / ".ravine").unlink(missing_ok=True)
    table, head = (slice(*header[n]["data_offsets"]) for n in (EMBEDDING, HEAD))
    r.save_raw(folder / "twice" / "model.safetensors", header, body[:head.start] + body[table] + body[head.stop:])
    return apart, folder / "wrong", folder / "twice"


def logits(folder, model):
    r.save_tensors(folder / "in.safetensors", {"input_ids": ("I64", [1, 8], range(20, 28))})
    said = r.run("trace", "--model", model, "--input", folder / "in.safetensors", "--out", folder / "out.safetensors", "--overwrite", "--backend", "ref", "precision.compute=f64").stderr
    return r.load_tensors(folder, "out.safetensors")["logits"], said


def test_the_head_of_the_files_computes(folder):
    apart, wrong, twice = models(folder)
    want, said = logits(folder, apart)
    check(SAID not in said, said)
    got, said = logits(folder, wrong)
    check(got == want, "the head of the files gives the logits")
    check(said.count(SAID) == 1 and f"{wrong}/config.json" in said and "set tie_word_embeddings to false" in said, said)
    tied, said = logits(folder, twice)
    check(SAID not in said and tied != want, f"equal tables are one: {said}")
    (folder / "ids.json").write_text("[[3, 4, 5]]")
    ids = [json.loads(r.run("generate", "--model", m, "--prompt-ids", folder / "ids.json", "--json", "--max-new-tokens", 12).stdout)["ids"] for m in (apart, wrong)]
    check(ids[0] == ids[1], ids)


def test_training_and_conversion_keep_it(folder):
    apart, wrong, twice = models(folder)
    was = r.load_tensors(apart)
    out = lambda name: (r.load_tensors(folder / name / "model"), json.loads((folder / name / "model" / "config.json").read_text()))
    for name, model in (("a", apart), ("w", wrong)):
        said = r.run("train", *r.options(folder, folder / name, model__config=None, model__path=model, checkpoint__every=0, train__steps=2)).stderr
        check(said.count(SAID) == (model == wrong), said)
    check(out("a")[0] == out("w")[0] and out("w")[1]["tie_word_embeddings"] is False, "both are trained, and both are exported")
    r.run("train", *r.options(folder, folder / "t", model__config=None, model__path=twice, checkpoint__every=0, train__steps=1))
    check(HEAD not in out("t")[0] and out("t")[1]["tie_word_embeddings"] is True, "equal tables stay tied")
    for to in ("hf", "megatron-mcore", "mindformers"):
        said = r.run("convert", "--input", wrong, "--output", folder / to, "--to", to).stderr
        check(SAID in said, said)
        back = folder / to
        if to != "hf":
            back = folder / f"{to}-back"
            r.run("convert", "--input", folder / to, "--output", back, "--to", "hf")
        check(r.load_tensors(back) == was and json.loads((back / "config.json").read_text())["tie_word_embeddings"] is False, to)


def test_a_megatron_head_of_its_own(folder):
    """A config that ties, beside a last stage whose head differs from the embedding: not its copy."""
    apart, wrong, twice = models(folder)
    r.run("convert", "--input", apart, "--output", folder / "mg", "--to", "megatron-mcore", "--pipeline", 2)
    shutil.copy(wrong / "config.json", folder / "mg" / "config.json")
    said = r.run("convert", "--input", folder / "mg", "--output", folder / "back", "--to", "hf").stderr
    check(SAID in said and r.load_tensors(folder / "back") == r.load_tensors(apart), said)
    # Of a tied one the last stage holds a copy.
    r.run("convert", "--input", twice, "--output", folder / "tied", "--to", "megatron-mcore", "--pipeline", 2)
    said = r.run("convert", "--input", folder / "tied", "--output", folder / "one", "--to", "hf").stderr
    check(SAID not in said and HEAD not in r.load_tensors(folder / "one"), said)


def test_a_head_alone_is_the_embedding_too(folder):
    """Files that hold the tied table under the head's name only, as Transformers loads them."""
    apart, wrong, twice = models(folder)
    alone = folder / "alone"
    shutil.copytree(twice, alone)
    header, body = r.load_raw(alone / "model.safetensors")
    tensors, data = {}, b""
    for name, t in header.items():
        if name not in (EMBEDDING, "__metadata__"):
            part = body[slice(*t["data_offsets"])]
            tensors[name] = {**t, "data_offsets": [len(data), len(data) + len(part)]}
            data += part
    r.save_raw(alone / "model.safetensors", tensors, data)
    want, _ = logits(folder, twice)
    got, said = logits(folder, alone)
    check(got == want and SAID not in said, f"another model: {said}")
    for name, model in (("of twice", twice), ("of alone", alone)):
        r.run("train", *r.options(folder, folder / name, model__config=None, model__path=model, checkpoint__every=0, train__steps=2))
        check(HEAD not in r.load_tensors(folder / name / "model"), name)
    check(r.load_tensors(folder / "of twice" / "model") == r.load_tensors(folder / "of alone" / "model"), "the same run")
    # The tables apart, and new rows: both begin with the one that is stored.
    for model in (twice, alone):
        r.run("train", *r.options(folder, folder / f"untied {model.name}", model__config=None, model__path=model, checkpoint__every=0, train__steps=1, model__tie="untied"))
    check(r.load_tensors(folder / "untied twice" / "model") == r.load_tensors(folder / "untied alone" / "model"), "untied")
    for to in ("hf", "megatron-mcore", "mindformers", "ravine"):
        for model in (twice, alone):
            r.run("convert", "--input", model, "--output", folder / f"{to} {model.name}", "--to", to)
        if to == "hf":
            check(r.load_tensors(folder / "hf alone") == r.load_tensors(folder / "hf twice"), "hf")
    # Untied there is nothing to take for the embedding.
    config = json.loads((alone / "config.json").read_text())
    (alone / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    (folder / "ids.json").write_text("[[3, 4]]")
    said = r.run("generate", "--model", alone, "--prompt-ids", folder / "ids.json", status=2).stderr
    check("missing tensor" in said and EMBEDDING in said, said)


if __name__ == "__main__":
    sys.exit(r.main(globals()))
