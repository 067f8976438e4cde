"""Weights of every family into every layout that can hold them, from each to the next and back: the same bits."""
import json
import shutil
from pathlib import Path

import ravine_run as r
from families import FAMILIES
from ravine_run import check, run

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "families"
WRITTEN = {"bloom": "bloom", "gpt2": "gpt2", "pythia": "gpt_neox", "pythia_serial": "gpt_neox_serial", "llama": "llama", "mistral": "mistral",
           "qwen2": "qwen2", "qwen3": "qwen3", "phi3": "phi3", "olmo2": "olmo2", "gemma2": "gemma2", "deepseek_v2": "deepseek_v2",
           "deepseek_v3": "deepseek_v3", "deepseek_v2_experts": "deepseek_v2_experts", "deepseek_v3_experts": "deepseek_v3_experts"}  # by Transformers
DEEPSEEK = ("deepseek_v2", "deepseek_v3", "deepseek_v2_experts", "deepseek_v3_experts")
NO_MINDFORMERS = ("bloom", "gpt2", "pythia", "pythia_serial", "phi3", "olmo2", "gemma2", *DEEPSEEK)
NO_MEGATRON = ("olmo2", "gemma2", "deepseek_v3")  # that one has biases where latents are made


if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # models this small train no faster on several


def trained(folder, config):
    """Weights after a step of training, none of them as they began."""
    (folder / "config.json").write_text(json.dumps(config))
    ids = r.save_ids(folder / "ids.safetensors", 4, 9, 96)
    run("train", *r.settings({"model.config": folder / "config.json", "data.train": [ids], "data.sequence_length": 9, "train.steps": 1, "train.global_batch": 2,
                              "optimizer.lr": 0.3, "train.output": folder / "run", "checkpoint.every": 0, "log.tensorboard": False}))
    return folder / "run" / "model"


def model(folder, name):
    """A folder as the family's files are."""
    return GOLDEN / WRITTEN[name] if name in WRITTEN else trained(folder, FAMILIES[name])


def even(name):
    """Four heads and two key/value heads, so that every matrix can be cut in two."""
    config = dict(FAMILIES[name])
    for wide in ("hidden_size", "n_embed", "n_embd"):
        if wide in config:
            config[wide] = 32
    for heads in ("num_attention_heads", "n_head"):
        if heads in config:
            config[heads] = 4
    return config | ({"num_key_value_heads": 2} if "num_key_value_heads" in config else {})


def ranks_of(config):
    """The largest tensor and pipeline ranks below 3 that fit."""
    heads = next(config[k] for k in ("num_key_value_heads", "num_attention_heads", "n_head") if config.get(k))
    layers = next(config[k] for k in ("num_hidden_layers", "n_layer") if config.get(k))
    return 1 + (heads % 2 == 0), 1 + (layers % 2 == 0)


def round_trip(folder, name, source):
    want = r.load_tensors(source, "model*.safetensors")
    check(len(want) > 5, f"{source} is a model")
    config = json.loads((source / "config.json").read_text())
    tensor, pipeline = ranks_of(config)
    steps = [("megatron-legacy", "--tensor", tensor, "--pipeline", pipeline), ("megatron-mcore", "--tensor", tensor), ("megatron-mcore", "--pipeline", pipeline)]
    if name in NO_MEGATRON:
        steps = [("ravine",), ("hf",)]
    elif name in ("qwen3", *DEEPSEEK):
        steps = steps[1:]  # Megatron of 2023 has no norms of q and k, and no latents
    if name not in NO_MINDFORMERS:
        steps.insert(1, ("mindformers",))
        steps.append(("mindformers", "--tensor", tensor))
        if name not in ("qwen2", "qwen3"):
            steps.append(("mindformers", "--fused", "--tensor", tensor))
    steps += [("ravine",), ("hf",), ("ravine" if name in NO_MEGATRON else "megatron-mcore",)]
    last = source
    for i, (to, *more) in enumerate(steps):
        run("convert", "--input", last, "--output", folder / f"{i}", "--to", to, *more)
        run("convert", "--input", folder / f"{i}", "--output", folder / f"{i}-hf", "--to", "hf")
        got = r.load_tensors(folder / f"{i}-hf", "model*.safetensors")
        kept = {k: v for k, v in want.items() if k in got or not k.endswith(("lm_head.weight", "embed_out.weight"))}  # tied ones are not stored
        bad = sorted(k for k in kept.keys() | got.keys() if kept.get(k) != got.get(k))
        check(not bad, f"{name}, step {i} ({to} {more}): {bad[:4]} differ")
        back = json.loads((folder / f"{i}-hf" / "config.json").read_text())
        check({**back, "torch_dtype": 0, "dtype": 0} == {**config, "torch_dtype": 0, "dtype": 0}, f"{name}: config.json after {to}: {back}")
        last = folder / f"{i}"
    # Trace of the last one equals that of the first: what was written is the same model.
    ids = r.save_ids(folder / "trace.safetensors", 2, 7, 25)
    for k, path in enumerate((source, folder / f"{len(steps) - 1}-hf")):
        run("trace", "--model", path, "--input", ids, "--out", folder / f"trace-{k}.safetensors")
    check((folder / "trace-0.safetensors").read_bytes() == (folder / "trace-1.safetensors").read_bytes(), f"{name}: traces differ")


def test_megatron_knows_a_family_by_its_arguments(folder):
    """Without config.json beside it: the stored arguments and tensors say what it is."""
    for name, type_ in r.rows((("bloom", "bloom"), ("gpt2", "gpt2"), ("pythia_serial", "gpt_neox"), ("llama", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3"),
                               ("baichuan2_13b", "baichuan")), 3, "one table of arguments"):
        (folder / name).mkdir()
        source = model(folder / name, name)
        if name in WRITTEN:  # without what the arguments have no field for
            config = json.loads((source / "config.json").read_text())
            for key in ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "scale_attn_by_inverse_layer_idx"):
                config.pop(key, None)
            source = folder / name / "in"
            source.mkdir()
            (source / "config.json").write_text(json.dumps(config))
            shutil.copy(GOLDEN / WRITTEN[name] / "model.safetensors", source)
        run("convert", "--input", source, "--output", folder / name / "mg", "--to", "megatron-mcore")
        (folder / name / "mg" / "config.json").unlink()
        run("convert", "--input", folder / name / "mg", "--output", folder / name / "hf", "--to", "hf")
        config = json.loads((folder / name / "hf" / "config.json").read_text())
        check(config["model_type"] == type_, f"{name} is taken for {config['model_type']}")
        ids = r.save_ids(folder / "trace.safetensors", 2, 7, 25)
        for k, path in enumerate((source, folder / name / "hf")):
            run("trace", "--model", path, "--input", ids, "--out", folder / name / f"trace-{k}.safetensors")
        check((folder / name / "trace-0.safetensors").read_bytes() == (folder / name / "trace-1.safetensors").read_bytes(), f"{name}: traces differ")


def test_the_form_of_gelu_is_kept(folder):
    """Megatron's arguments say which: exact, or by tanh."""
    for name, key in r.rows((("gpt2", "activation_function"), ("pythia", "hidden_act")), 1, "one argument of Megatron"):
        for form in ("gelu", "gelu_new"):
            here = folder / name / form
            here.mkdir(parents=True)
            source = trained(here, {**FAMILIES[name], key: form})
            run("convert", "--input", source, "--output", here / "mg", "--to", "megatron-mcore")
            (here / "mg" / "config.json").unlink()
            run("convert", "--input", here / "mg", "--output", here / "hf", "--to", "hf")
            config = json.loads((here / "hf" / "config.json").read_text())
            check((config[key] == "gelu") == (form == "gelu"), f"{name}: {form} came back as {config[key]}")


def test_files_of_the_bare_model(folder):
    """GPT2Model and its like write no prefix; the head, tied or not, keeps its name."""
    for name, prefix in (("gpt2", "transformer."), ("pythia", "gpt_neox."), ("bloom", "transformer."), ("llama", "model.")):
        bare = folder / name
        shutil.copytree(GOLDEN / WRITTEN[name], bare)
        file = bare / "model.safetensors"
        header, body = r.load_raw(file)
        r.save_raw(file, {key.removeprefix(prefix): value for key, value in header.items()}, body)
        check(any(key.startswith(prefix) for key in header), f"{name}: {sorted(header)[:3]}")
        run("convert", "--input", bare, "--output", folder / f"{name}-hf", "--to", "hf")
        run("convert", "--input", GOLDEN / WRITTEN[name], "--output", folder / f"{name}-want", "--to", "hf")
        check(r.load_tensors(folder / f"{name}-hf", "model*.safetensors") == r.load_tensors(folder / f"{name}-want", "model*.safetensors"), name)


def test_refusals(folder):
    for name in NO_MINDFORMERS:
        done = run("convert", "--input", GOLDEN / WRITTEN[name], "--output", folder / "x", "--to", "mindformers", status=2)
        check("MindFormers has no names" in done.stderr and not (folder / "x").exists(), done.stderr)
    for name in NO_MEGATRON:
        for to in ("megatron-mcore", "megatron-legacy"):
            done = run("convert", "--input", GOLDEN / WRITTEN[name], "--output", folder / "x", "--to", to, status=2)
            check("Megatron-core's model has no" in done.stderr and "--to hf" in done.stderr and not (folder / "x").exists(), done.stderr)
    done = run("convert", "--input", GOLDEN / "qwen3", "--output", folder / "x", "--to", "megatron-legacy", status=2)
    check("no norms of q and k" in done.stderr, done.stderr)
    done = run("convert", "--input", GOLDEN / "deepseek_v2", "--output", folder / "x", "--to", "megatron-legacy", status=2)
    check("no latent attention" in done.stderr, done.stderr)
    done = run("convert", "--input", GOLDEN / "qwen2", "--output", folder / "x", "--to", "mindformers", "--fused", status=2)
    check("--fused" in done.stderr, done.stderr)
    # A config that belongs to other weights.
    for config in ("gpt2", "llama", "qwen3"):
        done = run("convert", "--input", GOLDEN / "bloom", "--output", folder / "x", "--to", "hf", "--model-config", GOLDEN / config / "config.json", status=2)
        check("unknown tensor" in done.stderr or "missing tensor" in done.stderr or "misshapen" in done.stderr, done.stderr)


# In the short tier: joined and separate q, k, v, with and without MindFormers and Megatron, experts; one with every matrix cut.
SHORT = ("bloom", "llama", "pythia_serial", "qwen3", "deepseek_v3_experts", "baichuan2_13b_on_two_tensor_ranks", "qwen2_on_two_tensor_ranks")
for _name in sorted(set(FAMILIES) | set(WRITTEN)):
    globals()[f"test_{_name}"] = lambda folder, name=_name: round_trip(folder, name, model(folder, name))
for _name in FAMILIES:
    globals()[f"test_{_name}_on_two_tensor_ranks"] = lambda folder, name=_name: round_trip(folder, name, trained(folder, even(name)))
for _name in [*sorted(set(FAMILIES) | set(WRITTEN)), *(f"{n}_on_two_tensor_ranks" for n in FAMILIES)]:
    if _name not in SHORT:
        r.full("the families of SHORT go the same ways")(globals()[f"test_{_name}"])

if __name__ == "__main__":
    r.main(dict(globals()))
