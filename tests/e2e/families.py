"""Every family through the program: the same bits with other threads, recomputation and after a resume; training, export, trace and beam search
of what was exported; refusals of the command line."""
import array
import json
import math

import ravine_run as r

LLAMA = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 96, "hidden_act": "silu",
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
BAICHUAN = {**LLAMA, "model_type": "baichuan"}
ALIBI = {**{k: v for k, v in BAICHUAN.items() if k != "max_position_embeddings"}, "model_max_length": 64}
LATENT = {"kv_lora_rank": 14, "qk_nope_head_dim": 8, "qk_rope_head_dim": 6, "v_head_dim": 10, "first_k_dense_replace": 2}
EXPERTS = {"first_k_dense_replace": 1, "n_routed_experts": 6, "n_group": 3, "topk_group": 2, "moe_intermediate_size": 12, "n_shared_experts": 2, "q_lora_rank": 16}
FAMILIES = {
    "aquila": {**LLAMA, "model_type": "aquila"},
    "baichuan_7b": BAICHUAN,
    "baichuan_13b": ALIBI,
    "baichuan2_7b": {**BAICHUAN, "z_loss_weight": 0},
    "baichuan2_13b": {**ALIBI, "z_loss_weight": 0},
    "bloom": {"model_type": "bloom", "n_embed": 24, "n_layer": 2, "num_attention_heads": 3, "vocab_size": 96},
    "gpt2": {"model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64, "vocab_size": 96},
    "internlm": {**LLAMA, "model_type": "internlm"},
    "deepseek_v2": {**LLAMA, **LATENT, "model_type": "deepseek_v2", "q_lora_rank": None},
    "deepseek_v3": {**LLAMA, **LATENT, "model_type": "deepseek_v3", "q_lora_rank": 20, "attention_bias": True,
                    "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 1.0}},
    "deepseek_v2_experts": {**LLAMA, **LATENT, **EXPERTS, "model_type": "deepseek_v2", "num_experts_per_tok": 2, "topk_method": "group_limited_greedy"},
    "deepseek_v3_experts": {**LLAMA, **LATENT, **EXPERTS, "model_type": "deepseek_v3", "q_lora_rank": None, "num_experts_per_tok": 3},
    "mistral": {**LLAMA, "model_type": "mistral", "num_key_value_heads": 1, "sliding_window": 5},
    "gemma2": {**{k: v for k, v in LLAMA.items() if k not in ("hidden_act", "tie_word_embeddings")}, "model_type": "gemma2", "num_key_value_heads": 1, "head_dim": 8, "query_pre_attn_scalar": 6, "sliding_window": 5,
               "attn_logit_softcapping": 2.0, "final_logit_softcapping": 4.0},
    "olmo2": {**LLAMA, "model_type": "olmo2", "num_key_value_heads": 1, "initializer_range": 0.1},  # beside branches of unit size 0.02 learns slowly
    "phi3": {**LLAMA, "model_type": "phi3", "num_key_value_heads": 1, "sliding_window": 20, "original_max_position_embeddings": 7, "partial_rotary_factor": 0.5,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.2], "long_factor": [2.0, 9.0]}},
    "pythia": {"model_type": "gpt_neox", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
               "vocab_size": 96, "max_position_embeddings": 64, "rotary_pct": 0.5},
    "qwen2": {**LLAMA, "model_type": "qwen2", "num_key_value_heads": 1, "tie_word_embeddings": True},
    "qwen3": {**LLAMA, "model_type": "qwen3", "num_key_value_heads": 1, "head_dim": 10},
}


def options(folder, name):
    path = folder / f"{name}.json"
    path.write_text(json.dumps(FAMILIES[name]))
    return {"model.config": path, "data.train": [r.save_ids(folder / "ids.safetensors", 24, 33, 96)], "data.sequence_length": 33, "train.micro_batch": 3,
            "train.global_batch": 6, "optimizer.lr": 1e-2, "schedule.warmup_steps": 1, "train.steps": 4, "train.dropout": 0.1}


def determinism(folder, name, *compute):
    values = options(folder, name)
    for key in ("data.train", "train.steps"):
        values.pop(key)
    for kind in r.rows(compute, 1, "the types take turns"):
        result = json.loads(r.run("check", "determinism", "--json", *r.settings(values), f"precision.compute={kind}").stdout)
        r.check(result["equal"], f"{name} in {kind}: {[c for c in result['cases'] if not c['equal']]}")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_bloom(folder):
    determinism(folder, "bloom", "f32", "bf16")


def test_bits_gpt2(folder):
    determinism(folder, "gpt2", "f32", "f16")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_pythia(folder):
    determinism(folder, "pythia", "bf16")


def test_bits_gemma2(folder):
    determinism(folder, "gemma2", "f32", "bf16")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_deepseek_v2(folder):
    determinism(folder, "deepseek_v2", "f32")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_deepseek_v3(folder):
    determinism(folder, "deepseek_v3", "f32", "bf16")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_deepseek_v2_experts(folder):
    determinism(folder, "deepseek_v2_experts", "f32")


def test_bits_deepseek_v3_experts(folder):
    determinism(folder, "deepseek_v3_experts", "f32", "bf16")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_olmo2(folder):
    determinism(folder, "olmo2", "f32", "bf16")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_phi3(folder):
    determinism(folder, "phi3", "bf16")


@r.full("gpt2, gemma2, baichuan2_13b and deepseek_v3_experts stand for all")
def test_bits_qwen3(folder):
    determinism(folder, "qwen3", "bf16")


def test_bits_baichuan2_13b(folder):
    determinism(folder, "baichuan2_13b", "f32", "bf16")


def test_train_export_and_run(folder):
    """The loss falls; what is exported goes on from the same numbers in trace, generate and training."""
    for name in r.rows(FAMILIES, 3, "what differs is in the engine's tests of each family"):
        out = folder / name
        values = options(folder, name)
        r.run("train", *r.settings({**values, "train.output": out, "train.dropout": 0.0, "train.steps": 12, "checkpoint.every": 0}))
        losses = [row["loss"] for row in r.metrics(out).values()]
        r.check(min(losses[-4:]) < losses[0] - 0.1, f"{name} does not learn: {losses}")
        again = folder / f"{name}-again"
        more = {k: v for k, v in values.items() if k != "model.config"}
        r.run("train", *r.settings({**more, "model.path": out / "model", "train.output": again, "train.dropout": 0.0, "train.steps": 1,
                                    "optimizer.lr": 0, "checkpoint.every": 0}))
        r.check(r.weights(out) == r.weights(again), f"{name}: a run that changes nothing exports other weights")
        (folder / "prompts.json").write_text("[[5, 6, 7], [8]]")
        ask = ("generate", "--model", out / "model", "--prompt-ids", folder / "prompts.json", "--json", "--max-new-tokens", "6")
        plain = [json.loads(line) for line in r.run(*ask).stdout.splitlines()]
        one = [json.loads(line) for line in r.run(*ask, "--beams", "1").stdout.splitlines()]
        r.check([x["ids"] for x in plain] == [x["ids"] for x in one], f"{name}: one beam is not greedy: {plain} {one}")
        many = [json.loads(line) for line in r.run(*ask, "--beams", "3", "--num-return", "2").stdout.splitlines()]
        for line in many:
            r.check(len(line["beams"]) == 2 and line["beams"][0]["ids"] == line["ids"] and line["beams"][0]["score"] >= line["beams"][1]["score"],
                    f"{name}: {line}")
        r.save_tensors(folder / "in.safetensors", {"input_ids": ("I64", (1, 6), [5, 6, 7, 8, 9, 10]), "labels": ("I64", (1, 6), [5, 6, 7, 8, 9, 10])})
        r.run("trace", "--model", out / "model", "--input", folder / "in.safetensors", "--out", folder / "out.safetensors", "--overwrite", "--backward")
        header, _ = r.load_raw(folder / "out.safetensors")
        stored, _ = r.load_raw(out / "model" / "model.safetensors")
        stored.pop("__metadata__", None)
        gradients = {k[5:]: v["shape"] for k, v in header.items() if k.startswith("grad.")}
        learn = {k: v["shape"] for k, v in stored.items() if not k.endswith("e_score_correction_bias")}
        r.check(gradients == learn, f"{name}: gradients are not named and shaped as the weights: {gradients}")


JUDGE = ["--backend", "ref", "precision.compute=f64"]


def log_softmax(row):
    top = max(row)
    whole = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - whole for x in row]


def test_a_text_that_outgrows_the_original_length(folder):
    """LongRoPE turns all positions of a text that is longer than the original length, 12 here: what generation adds, and its log-probability, are those of the whole
    text as trace computes it without a cache, one text at a time, several on both sides of the length, and in beams."""
    original, vocabulary = 12, 96
    config = {**FAMILIES["phi3"], "original_max_position_embeddings": original, "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.2], "long_factor": [7.0, 40.0]}}
    (folder / "config.json").write_text(json.dumps(config))
    values = {**options(folder, "phi3"), "model.config": folder / "config.json", "train.output": folder / "run", "train.dropout": 0.0, "train.steps": 12, "optimizer.lr": 5e-2}
    r.run("train", *r.settings({**values, "checkpoint.every": 0}))
    model = folder / "run" / "model"

    def logits(texts):
        """Per text and position."""
        columns = len(texts[0])
        r.save_tensors(folder / "in", {"input_ids": ("I64", (len(texts), columns), [t for text in texts for t in text])})
        r.run("trace", "--model", model, "--input", folder / "in", "--out", folder / "out", "--overwrite", *JUDGE)
        kind, shape, raw = r.load_tensors(folder, "out")["logits"]
        flat = array.array({"F64": "d", "F32": "f"}[kind], raw)
        r.check(len(flat) == len(texts) * columns * vocabulary, shape)
        return [[log_softmax(flat[(t * columns + c) * vocabulary:][:vocabulary]) for c in range(columns)] for t in range(len(texts))]

    prompts = [[5, 6, 7, 8], [11, 12, 13, 14, 15, 16, 17, 18, 19], [20 + i for i in range(15)]]
    (folder / "prompts.json").write_text(json.dumps(prompts))
    for more in ([], ["--batch", 1], ["--beams", 3, "--num-return", 3, "--length-penalty", 0]):
        answers = [json.loads(x) for x in r.run("generate", "--model", model, "--prompt-ids", folder / "prompts.json", "--json", "--max-new-tokens", 11, *JUDGE, *more).stdout.splitlines()]
        found = [(p, g["ids"], g["logprob"]) for p, a in zip(prompts, answers) for g in [a, *a.get("beams", [])] if "logprob" in g]
        texts = [p + ids for p, ids, _ in found]
        longest = max(map(len, texts))
        far = logits([t + [0] * (longest - len(t)) for t in texts])
        near = logits([t[:original] for t in texts])
        for (prompt, ids, logprob), text, beyond, before in zip(found, texts, far, near):
            rows = [(beyond if n > original else before)[n - 1] for n in range(len(prompt), len(text))]
            want = sum(row[t] for row, t in zip(rows, ids))
            bound = 1e-9 if "--beams" not in more else len(ids) * abs(want) * 2.0 ** -24  # beams are summed in f32
            r.check(abs(logprob - want) < bound, f"{more}: {prompt} goes on with {ids} at {logprob}, the whole text has {want}")
            r.check("--beams" in more or ids == [row.index(max(row)) for row in rows], f"{more}: {prompt} goes on with {ids}, which are not the best")
        r.check(any(len(p) < original < len(p) + len(ids) for p, ids, _ in found), f"no text has outgrown the length: {found}")


def test_refusals(folder):
    values = options(folder, "qwen3")
    r.run("train", *r.settings({**values, "train.output": folder / "q", "train.steps": 1}))
    (folder / "prompts.json").write_text("[[5, 6, 7]]")
    ask = ("generate", "--model", folder / "q" / "model", "--prompt-ids", folder / "prompts.json", "--json")
    for more, word in ((["--num-return", "2"], "--beams"), (["--beams", "2", "--num-return", "3"], "there are 2 beams"),
                       (["--length-penalty", "2"], "--beams"), (["--early-stopping"], "--beams"), (["--beams", "0"], "beams"),
                       (["--beams", "2", "--beam-rules", "mine"], "modellink")):
        error = r.run(*ask, *more, status=2).stderr
        r.check(word in error, f"{more}: {error}")


if __name__ == "__main__":
    r.main(globals())
