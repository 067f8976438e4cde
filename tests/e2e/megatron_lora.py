"""Checkpoints of LoRA that ModelLink writes (tests/golden/megatron_lora, made by tools/golden/make_megatron_lora.py), over tensor and pipeline ranks, become adapters of PEFT: beside
the base they compute what the merged model does, whose weights NumPy has put together; and what is refused."""
import array
import json
import shutil
import zipfile
from pathlib import Path

import ravine_run as r
from ravine_run import check

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
BASE = GOLDEN / "lora" / "llama" / "base"
CASES = {"joined": ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"], "apart": ["down_proj", "gate_proj", "k_proj", "q_proj", "up_proj", "v_proj"]}
EPS = 2.0**-24


def flat(tensor):
    kind, _, body = tensor
    return array.array({"F64": "d", "F32": "f", "I64": "q"}[kind], body).tolist()


def distance(got, want):
    check(len(got) == len(want), f"{len(got)} numbers instead of {len(want)}")
    return max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))


def convert(given, out, *more, status=0):
    return r.run("convert", "--input", given, "--output", out, "--to", "peft", "--model-config", BASE / "config.json", *more, status=status)


def test_computes_what_the_merged_model_does(folder):
    for case, modules in CASES.items():
        want, out = r.load_tensors(GOLDEN / "megatron_lora" / case, "golden.safetensors"), folder / case
        rows = convert(GOLDEN / "megatron_lora" / case, out, "--dry-run").stdout.splitlines()
        check(not out.exists(), "a dry run writes nothing")
        convert(GOLDEN / "megatron_lora" / case, out)
        tensors, config = r.load_tensors(out), json.loads((out / "adapter_config.json").read_text())
        check(len(rows) == len(tensors) == 2 * len(modules) * 2 + 2 * (case == "joined") and all(n.startswith("base_model.model.") for n in tensors), f"{case}: {sorted(tensors)}")
        check(sorted(config["target_modules"]) == modules and config["peft_type"] == "LORA" and (config["r"], config["lora_alpha"]) == ((3, 12) if case == "joined" else (2, 5)), config)
        check(config["base_model_name_or_path"] == str(BASE) and sorted(config["modules_to_save"] or []) == (["embed_tokens", "lm_head"] if case == "joined" else []), config)
        ids = flat(want["input_ids"])
        r.save_tensors(folder / "in.safetensors", {"input_ids": ("I64", [2, 7], ids)})
        words = ["trace", "--model", BASE, "--input", folder / "in.safetensors", "--out", folder / "out.safetensors", "--overwrite", "--backend", "ref", "precision.compute=f64"]
        r.run(*words, "--adapter", out)
        got = distance(flat(r.load_tensors(folder, "out.safetensors")["logits"]), flat(want["logits"]))
        check(got < 1e-11, f"{case}: logits differ by {got}")
        r.run(*words)
        check(distance(flat(r.load_tensors(folder, "out.safetensors")["logits"]), flat(want["logits"])) > 1e-3, f"{case}: the adapter changes something")
        r.run("merge-lora", "--model", BASE, "--adapter", out, "--output", folder / f"{case}-merged")
        merged = r.load_tensors(folder / f"{case}-merged")
        changed = {n[7:] for n in want if n.startswith("merged.")}
        check(len(changed) == len(modules) * 2 + 2 * (case == "joined"), f"{case}: {sorted(changed)}")
        for n in changed:
            d = distance(flat(merged[n]), flat(want[f"merged.{n}"]))
            check(d <= EPS, f"{case}: {n} merged differs by {d}")


def test_is_read_as_it_is(folder):
    """--adapter and lora.path take the checkpoint itself, and what comes of it is what comes of the folder that convert makes."""
    for case in r.rows(CASES, 1, "the cases differ in what convert reads"):
        given, out = GOLDEN / "megatron_lora" / case, folder / case
        convert(given, out)
        want = r.load_tensors(given, "golden.safetensors")
        r.save_tensors(folder / "in.safetensors", {n: ("I64", [2, 7], flat(want["input_ids"])) for n in ("input_ids", "labels")})
        traces, merged, runs, said = [], [], [], []
        for i, adapter in enumerate((given, out)):
            here = folder / f"{case}-{i}"
            here.mkdir()
            r.run("trace", "--model", BASE, "--adapter", adapter, "--input", folder / "in.safetensors", "--out", here / "trace.safetensors", "--backward")
            traces.append(r.load_tensors(here, "trace.safetensors"))
            r.run("merge-lora", "--model", BASE, "--adapter", adapter, "--output", here / "merged")
            merged.append(r.load_tensors(here / "merged"))
            r.run("train", f"model.path={BASE}", f"lora.path={adapter}", f"data.train=[{folder / 'in.safetensors'}]", "data.sequence_length=7", "train.steps=2", "train.global_batch=2",
                  f"train.output={here / 'run'}", "checkpoint.every=1", "log.tensorboard=false", "schedule.warmup_steps=0")
            r.run("train", "--config", here / "run" / "config.yaml", "train.steps=3")
            runs.append((r.metrics(here / "run"), r.load_tensors(here / "run" / "adapter")))
            (folder / "ids.json").write_text(json.dumps([[5, 6, 7], [8]]))
            said.append(r.run("generate", "--model", BASE, "--adapter", f"a={adapter}", "--use", "a", "--prompt-ids", folder / "ids.json", "--max-new-tokens", 4, "--json").stdout)
        for what, (direct, converted) in {"trace": traces, "merge-lora": merged, "train": runs, "generate": said}.items():
            check(direct == converted, f"{case}: {what}")


def rewrite(path, member, change):
    """A file of torch.save with the bytes of one member changed."""
    with zipfile.ZipFile(path) as z:
        parts = [(i.filename, z.read(i)) for i in z.infolist()]
    with zipfile.ZipFile(path, "w") as z:
        for name, data in parts:
            z.writestr(name, change(data) if name.endswith(member) else data)


def test_mistakes(folder):
    def copy(case="joined"):
        shutil.rmtree(folder / "in", ignore_errors=True)
        shutil.copytree(GOLDEN / "megatron_lora" / case, folder / "in")
        return folder / "in" / "iter_0000010"
    def refused(*expected, given=folder / "in", more=()):
        said = convert(given, folder / "out", *more, status=2).stderr
        check(all(e in said for e in expected) and not (folder / "out").exists(), f"{expected}: {said}")
    first = "mp_rank_00_000/model_optim_rng.pt"
    shutil.rmtree(copy() / "mp_rank_01_001")
    refused("missing rank", "mp_rank_01_001")
    (copy() / "mp_rank_01_000" / "model_optim_rng.pt").unlink()
    refused("missing file", "mp_rank_01_000")
    # Storages are numbered in the order of the tensors: that of the first lora_A, which both tensor ranks hold alike, is the one behind the two of the embedding.
    at = copy() / "mp_rank_01_000" / "model_optim_rng.pt"
    rewrite(at, "/data/2", lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    refused("ranks disagree", "lora_A", "mp_rank_01_000", "--sequence-parallel")
    at = copy() / first
    rewrite(at, "data.pkl", lambda data: data.replace(b"lora_alpha", b"lora_Alpha"))
    refused("missing argument", "args.lora_alpha", "mp_rank_00_000")
    def another_alpha(data):
        at = data.index(b"lora_alpha")
        at = data.index(b"K\x0c", at)
        return data[:at] + b"K\x0d" + data[at + 2:]
    at = copy() / "mp_rank_01_001" / "model_optim_rng.pt"
    rewrite(at, "data.pkl", another_alpha)
    refused("ranks disagree", "args.lora_alpha", "it is 13", "is 12")
    copy()
    # Of another base, of a whole model, of no base at all.
    config = json.loads((BASE / "config.json").read_text())
    for change, expected in (({"num_hidden_layers": 3}, ("another number of layers", "has 3, the adapters 2")), ({"intermediate_size": 32}, ("misshapen tensor", "other.json makes it")),
                             ({"hidden_size": 32, "head_dim": 8}, ("misshapen tensor", "other.json makes it")), ({"vocab_size": 64}, ("misshapen tensor", "modules_to_save")),
                             ({"tie_word_embeddings": True}, ("embedding and head are one table",))):
        (folder / "other.json").write_text(json.dumps({**config, **change}))
        said = r.run("convert", "--input", folder / "in", "--output", folder / "out", "--to", "peft", "--model-config", folder / "other.json", status=2).stderr
        check(all(e in said for e in expected), f"{change}: {said}")
    refused("no adapter in the checkpoint", "--to hf", given=GOLDEN / "convert" / "legacy")
    refused("--to peft from another layout", given=BASE)
    said = r.run("convert", "--input", folder / "in", "--output", folder / "out", "--to", "peft", status=2).stderr
    check("no config of the base" in said and "--model-config" in said, said)
    said = r.run("convert", "--input", folder / "in", "--output", folder / "out", "--to", "hf", status=2).stderr
    check("a checkpoint of LoRA" in said and "--to peft" in said, said)
    check(not (folder / "out").exists(), "nothing is written")


if __name__ == "__main__":
    r.main(globals())
