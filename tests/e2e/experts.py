"""Experts that are kept even by corrections of their routers or by a loss over the step, against PyTorch (tests/golden/moe_balance, made by
tools/golden/make_moe_balance.py), and models with experts made of dense ones."""
import array
import json
import shutil
import struct
from pathlib import Path

import ravine_run as r
from ravine_run import check, run

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
RECORD = json.loads((GOLDEN / "moe_balance" / "balance.json").read_text())
CORRECTION = "e_score_correction_bias"


def train(output, model, options, status=0, **more):
    values = {"model.path": model, "data.train": [GOLDEN / "curves" / "train.safetensors"], "data.sequence_length": RECORD["columns"], "train.steps": RECORD["steps"],
              "train.global_batch": RECORD["global_batch"], "train.threads": 1, "checkpoint.every": 0, "log.tensorboard": False,
              "train.output": output, **options, **{key.replace("__", "."): value for key, value in more.items()}}
    values["data.train"] = [str(x) for x in values["data.train"]]
    return run("train", *(["--backend", "ref"] if values.get("precision.compute") == "f64" else []), *r.settings(values), status=status)


def rows(output):
    return [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]


def corrections(folder):
    found = {name: (kind, data) for name, (kind, _, data) in r.load_tensors(folder, "model*.safetensors").items() if name.endswith(CORRECTION)}
    check(all(kind == "F32" for kind, _ in found.values()), f"{folder}: corrections in F32")
    return {name: list(array.array("f", data)) for name, (_, data) in found.items()}


def against_record(folder, name):
    """In double: a few hundred sums per number, and 8 steps that carry their roundings on."""
    case, out = RECORD["cases"][name], folder / name
    train(out, GOLDEN / "moe_balance" / "models" / case["model"], case["options"], precision__compute="f64")
    bound = 2.0 ** -53 * 2 ** 10 * RECORD["steps"]
    for i, row in enumerate(rows(out)):
        for key in ("loss", "grad_norm") + (("aux_loss",) if name != "bias" else ()):
            check(abs(row[key] - case[key][i]) <= bound * abs(case[key][i]), f"{name}, step {i + 1}: {key} {row[key]!r} instead of {case[key][i]!r}")
        check(all(abs(a - b) <= 1e-12 for a, b in zip(row["expert_load"], case["expert_load"][i])), f"{name}, step {i + 1}: loads {row['expert_load']}")
    return case, out


def test_corrections_against_pytorch(folder):
    case, out = against_record(folder, "bias")
    got = corrections(out / "model")
    check(got.keys() == case["corrections"].keys() and len(got) == 2, f"corrections of {sorted(got)}")
    for name, want in case["corrections"].items():
        check(got[name] == list(array.array("f", want)) and any(want), f"{name} is {got[name]} instead of {want}")


def test_loss_over_the_step_against_pytorch(folder):
    against_record(folder, "global_aux")


def test_corrections_are_state(folder):
    """They stand in checkpoints, also where frozen weights do not; a resume, full recomputation and threads give the same bits; steps that are skipped leave them."""
    model, options = GOLDEN / "moe_balance" / "models" / "deepseek_v3", {**RECORD["cases"]["bias"]["options"], "train.freeze": ["model.embed_tokens.*"]}
    train(folder / "alone", model, options)
    check(any(any(x) for x in corrections(folder / "alone" / "model").values()), "corrections move")
    train(folder / "resumed", model, options, train__steps=4, checkpoint__every=4)
    train(folder / "resumed", model, options, checkpoint__every=4)
    train(folder / "recomputed", model, options, train__recompute="full", train__threads=3)
    for other in ("resumed", "recomputed"):
        difference = r.same_run(folder / "alone", folder / other)
        check(not difference, f"{other}: {difference}")
    newest = folder / "resumed" / "checkpoints" / r.checkpoints(folder / "resumed")[-1]
    run("convert", "--input", newest, "--model-config", model / "config.json", "--to", "hf", "--output", folder / "converted")
    check(corrections(folder / "converted") == corrections(folder / "resumed" / "model"), "a conversion keeps corrections")
    train(folder / "skipped", model, options, health__skip_norm=1e-6, health__skip_count=100)
    check(not any(any(x) for x in corrections(folder / "skipped" / "model").values()), "skipped steps move no correction")
    train(folder / "frozen", model, options, train__freeze=["*.mlp.*"])
    check(not any(any(x) for x in corrections(folder / "frozen" / "model").values()), "a frozen correction stays")


def test_balance_refusals(folder):
    model, options = GOLDEN / "moe_balance" / "models" / "mixtral", RECORD["cases"]["bias"]["options"]
    bias = {k: v for k, v in options.items() if not k.startswith("moe.")} | {"moe.load_balance": "bias"}
    for more, words in (({}, ("moe.load_balance is bias", "mixtral", "deepseek_v3")), ({"lora.rank": 2}, ("moe.load_balance is bias, lora.rank 2",)),
                        ({"moe.load_balance": "aux", "moe.bias_update_rate": 0.1}, ("moe.bias_update_rate is 0.1, moe.load_balance aux",))):
        done = train(folder / "refused", model, {**bias, **more}, status=2)
        check(all(w in done.stderr for w in words), f"{words} not in {done.stderr}")


DENSE = {
    "llama": ("mixtral", {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "llama3", "rope_theta": 20000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}),
    "mistral": ("mixtral", {"sliding_window": 5}),
    "qwen2": ("qwen2_moe", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("qwen3_moe", {"head_dim": 16}),
}


def dense_model(folder, family, **fields):
    """A trained tiny dense model."""
    out = folder / family
    run("train", *r.options(folder, out, model__config=r.save_config(folder / f"{family}.json", model_type=family, **fields), optimizer__lr=0.05, checkpoint__every=0))
    return out / "model"


def first_step(folder, model, name):
    out = folder / f"{name}-step"
    run("train", "--backend", "ref", *r.options(folder, out, model__config=None, model__path=model, train__steps=1, checkpoint__every=0, precision__compute="f64"))
    return rows(out)[0]


def numbers(tensor):
    kind, _, data = tensor
    return [x[0] for x in struct.iter_unpack("<f", data)] if kind == "F32" else data


def test_upcycling(folder):
    for family, (wanted, fields) in [("llama", DENSE["llama"]), *r.rows([x for x in DENSE.items() if x[0] != "llama"], 1, "the families take turns")]:
        dense, sparse = dense_model(folder, family, **fields), folder / f"{family}-experts"
        log = run("convert", "--input", dense, "--to", "hf", "--upcycle", "experts=4,top_k=2", "--output", sparse).stderr
        check("4 experts in each of 2 layers" in log and wanted in log, log)
        config = json.loads((sparse / "config.json").read_text())
        check(config["model_type"] == wanted and config["num_experts_per_tok"] == 2, f"{family}: {config}")
        was, now = r.load_tensors(dense), r.load_tensors(sparse)
        for name, tensor in now.items():
            if ".experts." in name:
                part = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}.get(name.split(".")[-2], name.split(".")[-2])
                check(tensor == was[f"{name.split('.mlp.')[0].split('.block_sparse_moe.')[0]}.mlp.{part}.weight"], f"{family}: {name} is no copy")
            elif name in was:
                check(tensor == was[name], f"{family}: {name} has changed")
        routers = [numbers(t) for n, t in now.items() if n.endswith(".gate.weight")]
        check(len(routers) == 2 and routers[0] != routers[1] and all(len(set(x)) > len(x) // 2 for x in routers), f"{family}: routers are drawn")
        one, other = first_step(folder, dense, family), first_step(folder, sparse, f"{family}-experts")
        check(abs(one["loss"] - other["loss"]) <= 2.0 ** -53 * 2 ** 10 * one["loss"], f"{family}: loss {one['loss']!r} becomes {other['loss']!r}")
    again = {}
    for seed in (0, 0, 1):
        out = folder / f"seed{len(again)}"
        run("convert", "--input", folder / "llama" / "model", "--to", "hf", "--upcycle", f"experts=4,top_k=2,seed={seed}", "--output", out)
        again[out] = (out / "model.safetensors").read_bytes()
    first, same, other = again.values()
    check(first == same == (folder / "llama-experts" / "model.safetensors").read_bytes() and first != other, "routers follow from the seed")


def test_upcycling_refusals(folder):
    dense = dense_model(folder, "llama", attention_bias=True)
    plain = dense_model(folder, "mistral")
    run("convert", "--input", plain, "--to", "hf", "--upcycle", "experts=2,top_k=1", "--output", folder / "sparse")
    for source, spec, words in ((dense, "experts=4,top_k=2", ("llama", "biases on all of attention")), (plain, "experts=4", ("needs experts and top_k",)),
                                (plain, "experts=4,top_k=x", ("top_k must be a whole number",)), (plain, "experts=4,top_k=2,top_k=2", ("named once",)),
                                (plain, "experts=4,shared=2", ("named once",)), (plain, "experts=2,top_k=4", ("top_k is 4, experts 2",)), (plain, "8", ("experts=N,top_k=K",)),
                                (folder / "sparse", "experts=4,top_k=2", ("has experts already", "mixtral"))):
        done = run("convert", "--input", source, "--to", "hf", "--upcycle", spec, "--output", folder / "refused", status=2)
        check(all(w in done.stderr for w in words) and not (folder / "refused").exists(), f"{spec}: {done.stderr}")
    done = run("convert", "--input", plain, "--to", "megatron-mcore", "--upcycle", "experts=4,top_k=2", "--output", folder / "refused", status=2)
    check("--upcycle" in done.stderr, done.stderr)


MEGATRON = GOLDEN / "moe_megatron"


def convert(source, out, to, *more, status=0):
    return run("convert", "--input", source, "--output", out, "--to", to, *more, status=status)


def test_experts_of_megatron(folder):
    """Files of every form, over tensor, pipeline and expert ranks, with and without a config: the weights bit for bit, and a model of the same options."""
    want = r.load_tensors(MEGATRON / "hf")
    for form in ("grouped", "sequential", "stacked"):
        for name, more in ((form, ()), (f"{form}-config", ("--model-config", MEGATRON / "hf" / "config.json"))):
            convert(MEGATRON / form, folder / name, "hf", *more)
            check(r.load_tensors(folder / name) == want, f"{name}: other weights")
        got, known = (json.loads((f / "config.json").read_text()) for f in (folder / form, MEGATRON / "hf"))
        differ = {k for k in known if got.get(k) != known[k]} - {"torch_dtype"}
        check(not differ, f"{form}: the arguments say otherwise of {differ}")


def test_experts_to_megatron_and_back(folder):
    for source in (*(GOLDEN / "families" / family for family in ("mixtral", "qwen2_moe", "qwen3_moe")), MEGATRON / "hf"):
        want = r.load_tensors(source, "model.safetensors")
        config = json.loads((source / "config.json").read_text())
        tensor, pipeline = 1 + (config["num_key_value_heads"] % 2 == 0), 1 + (config["num_hidden_layers"] % 2 == 0)
        for experts, ranks in (("grouped", ("--tensor", tensor)), ("sequential", ("--pipeline", pipeline)), ("grouped", ("--tensor", tensor, "--pipeline", pipeline))):
            out = folder / "-".join(map(str, (source.name, experts, *ranks)))
            convert(source, out, "megatron-mcore", "--experts", experts, *ranks)
            convert(out, folder / f"{out.name}-hf", "hf")
            check(r.load_tensors(folder / f"{out.name}-hf") == want, f"{out.name}: other weights come back")
        done = convert(source, folder / "refused", "megatron-legacy", status=2)
        check("megatron-mcore" in done.stderr, done.stderr)


def test_experts_of_mindformers(folder):
    """Its converter of Qwen2-MoE stacks experts [E, in, out] (use_gmm), or [E, out, in]; both are read, the first is written."""
    want = r.load_tensors(MEGATRON / "hf")
    convert(MEGATRON / "hf", folder / "ms", "mindformers")
    header, body = r.load_raw(next((folder / "ms").glob("*.safetensors")))
    width, hidden, experts = 12, 16, 4
    name = "model.layers.1.feed_forward.routed_experts.ffn.w1.weight"
    check(header[name]["shape"] == [experts, hidden, width], f"{name} is {header[name]['shape']}")
    check("model.layers.0.feed_forward.routed_experts.router.dense.weight" in header and "model.layers.0.feed_forward.shared_experts_gate.weight" in header, sorted(header))
    begin = header[name]["data_offsets"][0]
    for e in range(experts):
        one = want[f"model.layers.1.mlp.experts.{e}.gate_proj.weight"][2]
        for i in range(width):
            for h in range(hidden):
                at = begin + 2 * ((e * hidden + h) * width + i)
                check(body[at:at + 2] == one[2 * (i * hidden + h):2 * (i * hidden + h) + 2], f"{name} [{e}, {h}, {i}]")
    convert(folder / "ms", folder / "back", "hf")
    check(r.load_tensors(folder / "back") == want, "other weights come back")
    # The same, as it was without grouped products.
    plain = b"".join(want[f"model.layers.1.mlp.experts.{e}.gate_proj.weight"][2] for e in range(experts))
    header[name]["shape"] = [experts, width, hidden]
    header.pop("__metadata__", None)
    r.save_raw(next((folder / "ms").glob("*.safetensors")), {"__metadata__": {"format": "ms"}, **header}, body[:begin] + plain + body[begin + len(plain):])
    convert(folder / "ms", folder / "plain", "hf")
    check(r.load_tensors(folder / "plain") == want, "other weights come back from matrices as they are")
    done = convert(MEGATRON / "hf", folder / "refused", "mindformers", "--tensor", 2, status=2)
    check("complete files only" in done.stderr, done.stderr)


def test_names_of_mindformers(folder):
    """Mixtral under its legacy names, in stacks; Qwen3-MoE and DeepSeek under mcore's, an expert by its number."""
    layer = "decoder.layers.1."
    for family, names in (("mixtral", ["model.layers.1.feed_forward.router.dense.weight", "model.layers.1.feed_forward.ffn.w1.weight", "model.layers.1.attention.wq.weight"]),
                          ("qwen3_moe", [layer + "mlp.router.weight.weight", layer + "mlp.experts.1.gating.weight", layer + "mlp.experts.1.linear_fc2.weight", layer + "self_attention.q_layernorm.weight"]),
                          ("deepseek_v2_experts", [layer + "self_attention.linear_kv_down_proj.weight", layer + "self_attention.q_layernorm.weight", layer + "mlp.shared_experts.gating.weight", layer + "mlp.experts.3.linear_fc1.weight"])):
        source = GOLDEN / "families" / family
        convert(source, folder / f"{family}-ms", "mindformers")
        header, body = r.load_raw(next((folder / f"{family}-ms").glob("*.safetensors")))
        check(all(name in header for name in names), f"{family}: {sorted(header)}")
        convert(folder / f"{family}-ms", folder / f"{family}-hf", "hf")
        check(r.load_tensors(folder / f"{family}-hf", "model*.safetensors") == r.load_tensors(source, "model*.safetensors"), f"{family}: other weights come back")
        lost = next((n for n in header if ".experts.1." in n), names[0])
        r.save_raw(next((folder / f"{family}-ms").glob("*.safetensors")), {("adam_m." if k == lost else "") + k: v for k, v in header.items()}, body)  # what an optimizer keeps is no weight
        (folder / f"{family}-ms" / "param_name_map.json").unlink()
        done = convert(folder / f"{family}-ms", folder / "refused", "hf", status=2)
        check("missing tensor" in done.stderr, done.stderr)
    try:
        recorded = json.loads(r.shared("golden", "mindformers", "weight_names.json").read_text())
    except r.Skipped:
        return
    for family, key in (("qwen3_moe", "qwen3_moe_mcore"), ("deepseek_v2_experts", "deepseek_v3_mcore")):
        ours = set(r.load_tensors(GOLDEN / "families" / family, "model*.safetensors"))
        header, _ = r.load_raw(next((folder / f"{family}-ms").glob("*.safetensors")))
        known = {ours_name: theirs for ours_name, theirs in recorded[key].items() if ours_name in ours and ".experts.1." not in ours_name}
        bad = [theirs for theirs in known.values() if theirs not in header]
        check(len(known) > 8 and not bad, f"{family}: {bad}")


def test_experts_of_megatron_that_are_not_whole(folder):
    for form, gone, words in (("grouped", "mp_rank_01_001", ("missing rank", "2 tensor x 1 pipeline x 2 expert", "mp_rank_01_001")),
                              ("sequential", "mp_rank_00_001_000", ("missing rank", "mp_rank_00_001_000"))):
        shutil.copytree(MEGATRON / form, folder / form)
        shutil.rmtree(folder / form / "release" / gone)
        done = convert(folder / form, folder / "refused", "hf", status=2)
        check(all(w in done.stderr for w in words), done.stderr)
    for rank in ("mp_rank_00_001", "mp_rank_01_001"):
        shutil.rmtree(folder / "grouped" / "release" / rank, ignore_errors=True)
    done = convert(folder / "grouped", folder / "refused", "hf", status=2)
    check("expert_model_parallel_size = 2, the folder holds 1" in done.stderr, done.stderr)


def test_adapters_stand_beside_shared_experts(folder):
    """A word that ends names of experts and of other modules means the others, as in PEFT, for which stacked experts are no modules; one that means experts alone is refused."""
    model, options = GOLDEN / "families" / "qwen2_moe", {"lora.rank": 2, "lora.targets": ["gate_proj", "q_proj"], "train.steps": 2}
    data = r.save_ids(folder / "ids.safetensors", 8, 12, vocabulary=29)
    more = {"data__train": [data], "data__sequence_length": 12}
    train(folder / "run", model, options, **more)
    names = set(r.load_tensors(folder / "run" / "adapter", "adapter_model.safetensors"))
    modules = {name.split(".lora_")[0].split("layers.")[1] for name in names}
    # Layers 1 has experts and a shared one; 0, 2 and 3 have an MLP.
    want = {f"{i}.self_attn.q_proj" for i in range(4)} | {f"{i}.mlp.gate_proj" for i in (0, 2, 3)} | {"1.mlp.shared_expert.gate_proj"}
    check(modules == want, f"adapters beside {sorted(modules)}")
    done = train(folder / "refused", GOLDEN / "families" / "mixtral", {**options, "lora.targets": ["q_proj", "w1"]}, status=2, **more)
    check("a target that is an expert: w1" in done.stderr and "target_parameters" in done.stderr, done.stderr)


if __name__ == "__main__":
    r.main(globals())
