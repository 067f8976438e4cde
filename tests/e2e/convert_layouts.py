"""What `ravine convert` writes where a round trip would not show it: which stage and rank holds what, what the arguments say, how large a vocabulary is where nothing
says it, and how many steps an optimizer has made."""
import array
import json
import random
import re
import shutil
import subprocess
import sys
import zipfile

import ravine_run as r
from convert import CONFIG, GOLDEN, weights
from convert_state import options, scalars
from megatron_files import load, tensors
from ravine_run import check, run

BASE = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 11, "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}


def parameters(c):
    """Name -> shape of a model of the Llama kind."""
    h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    out = {"model.embed_tokens.weight": (c["vocab_size"], h), "model.norm.weight": (h,), "lm_head.weight": (c["vocab_size"], h)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out |= {p + "input_layernorm.weight": (h,), p + "post_attention_layernorm.weight": (h,), p + "self_attn.o_proj.weight": (h, q), p + "mlp.down_proj.weight": (h, f),
                p + "mlp.gate_proj.weight": (f, h), p + "mlp.up_proj.weight": (f, h)}
        for n, rows in (("q", q), ("k", kv), ("v", kv)):
            out[p + f"self_attn.{n}_proj.weight"] = (rows, h)
            if c["model_type"] == "qwen2":
                out[p + f"self_attn.{n}_proj.bias"] = (rows,)
            if c["model_type"] == "qwen3" and n != "v":
                out[p + f"self_attn.{n}_norm.weight"] = (d,)
    return out


def save(folder, change=None, **fields):
    """A model folder with numbers of its own in each tensor; name -> rows of numbers."""
    config = {"model_type": "llama", **BASE, **fields}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    draw, out = random.Random(1), {}
    for name, shape in parameters(config).items():
        columns = shape[1] if len(shape) > 1 else 1
        out[name] = [[array.array("f", [draw.random()])[0] for _ in range(columns)] for _ in range(shape[0])]
    if change:
        change(out)
    r.save_tensors(folder / "model.safetensors", {n: ("F32", parameters(config)[n], sum(rows, [])) for n, rows in out.items()})
    return out


def stored(path, t):
    """The numbers of a tensor of a torch file."""
    with zipfile.ZipFile(path) as z:
        name = next(n for n in z.namelist() if n.endswith(f"/data/{t['storage'][1]}"))
        return array.array("f", z.read(name))


def test_stages_hold_their_layers(folder):
    """Chunk c of pipeline rank p holds stage c * P + p, and layers count up through the stages."""
    want = save(folder / "hf")
    for to, words in (("megatron-mcore", "decoder.layers.{}.mlp.linear_fc2.weight"), ("megatron-legacy", "language_model.encoder.layers.{}.mlp.dense_4h_to_h.weight")):
        for pipeline, virtual in ((2, 2), (4, 2), (4, 1), (2, 4)):
            out = folder / f"{to}{pipeline}{virtual}"
            run("convert", "--input", folder / "hf", "--output", out, "--to", to, "--pipeline", pipeline, "--virtual", virtual)
            per, ends = 8 // (pipeline * virtual), {}
            for p in range(pipeline):
                path = out / "release" / f"mp_rank_00_{p:03d}" / "model_optim_rng.pt"
                state, _ = load(path)
                a = state["args"]
                got = (a.num_layers, a.pipeline_model_parallel_size, a.virtual_pipeline_model_parallel_size, a.num_layers_per_virtual_pipeline_stage)
                check(got == (8, pipeline, virtual if virtual > 1 else None, per if virtual > 1 else None), f"{out.name}: arguments {got}")
                for c in range(virtual):
                    found = tensors(state[f"model{c}" if virtual > 1 else "model"])
                    for i in range(per):
                        layer = (c * pipeline + p) * per + i
                        t = found.get(words.format(i))
                        check(t and list(stored(path, t)) == sum(want[f"model.layers.{layer}.mlp.down_proj.weight"], []), f"{out.name}: stage {c * pipeline + p} holds another layer than {layer}")
                    check(words.format(per) not in found, f"{out.name}: a layer too many")
                    for end in ("word_embeddings", "output_layer", "final"):
                        if any(end in n for n in found):
                            ends.setdefault(end, []).append(c * pipeline + p)
            last = pipeline * virtual - 1
            check(ends == {"word_embeddings": [0], "output_layer": [last], "final": [last]}, f"{out.name}: {ends}")


ROWS = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"}
COLUMNS = {"self_attn.o_proj", "mlp.down_proj"}
LEGACY = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
          "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"}
CORE = {"input_layernorm": "input_layernorm", "post_attention_layernorm": "pre_mlp_layernorm", "self_attn.q_proj": "self_attention.linear_q", "self_attn.k_proj": "self_attention.linear_k",
        "self_attn.v_proj": "self_attention.linear_v", "self_attn.o_proj": "self_attention.linear_proj", "self_attn.q_norm": "self_attention.q_layernorm", "self_attn.k_norm": "self_attention.k_layernorm",
        "mlp.gate_proj": "mlp.gating", "mlp.up_proj": "mlp.linear_fc1", "mlp.down_proj": "mlp.linear_fc2"}


def part_of(rows, module, rank, ranks):
    """What a tensor rank of MindFormers holds: rows of what feeds heads and MLP, columns of what leaves them, the rest whole."""
    if module in ROWS:
        n = len(rows) // ranks
        return rows[rank * n:(rank + 1) * n]
    if module in COLUMNS:
        n = len(rows[0]) // ranks
        return [row[rank * n:(rank + 1) * n] for row in rows]
    return rows


def test_mindformers_ranks_hold_parts(folder):
    for family, names in (("llama", LEGACY), ("qwen2", CORE), ("qwen3", CORE)):
        want = save(folder / family, model_type=family, num_hidden_layers=2)
        out = folder / f"{family}-mf"
        run("convert", "--input", folder / family, "--output", out, "--to", "mindformers", "--tensor", 2)
        for rank in range(2):
            got = r.load_tensors(out / f"rank_{rank}")
            expected = {}
            for name, rows in want.items():
                if m := re.fullmatch(r"model\.layers\.(\d+)\.(.*)\.(weight|bias)", name):
                    theirs = f"{'model' if names is LEGACY else 'decoder'}.layers.{m[1]}.{names[m[2]]}.{m[3]}"
                    expected[theirs] = part_of(rows, m[2], rank, 2)
                else:
                    expected[{"model.embed_tokens.weight": "model.tok_embeddings.embedding_weight", "model.norm.weight": "model.norm_out.weight", "lm_head.weight": "lm_head.weight"}[name] if names is LEGACY else
                             {"model.embed_tokens.weight": "embedding.word_embeddings.weight", "model.norm.weight": "decoder.final_layernorm.weight", "lm_head.weight": "output_layer.weight"}[name]] = rows
            check(got.keys() == expected.keys(), f"{family}: {sorted(got.keys() ^ expected.keys())}")
            for name, rows in expected.items():
                check(list(array.array("f", got[name][2])) == sum(rows, []), f"{family}: rank {rank} holds {got[name][1]} of {name}, {len(rows)} x {len(rows[0])} of these rows are wanted")


def rewritten(path, *changes):
    """A torch file with other bytes in its pickle; each change must meet something."""
    with zipfile.ZipFile(path) as z:
        entries = [(n, z.read(n)) for n in z.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name, data in entries:
            for old, new in changes if name.endswith("/data.pkl") else ():
                check(re.search(old, data, re.S), f"{path}: {old} is not in the pickle")
                data = re.sub(old, new, data, count=1, flags=re.S)
            z.writestr(name, data)


def test_vocabulary_where_nothing_says_it(folder):
    """Rows at the end that repeat the one before are padding where both tables do so: a token whose row repeats in one of them stays."""
    def repeat(name, rows):
        def change(out):
            for i in range(11 - rows, 11):
                out[name][i] = list(out[name][10 - rows])
        return change
    both = lambda out: [repeat(n, 3)(out) for n in ("model.embed_tokens.weight", "lm_head.weight")]
    for name, change, vocabulary in (("embedding", repeat("model.embed_tokens.weight", 3), 11), ("head", repeat("lm_head.weight", 3), 11), ("both", both, 8), ("neither", None, 11)):
        want = save(folder / name, change, num_hidden_layers=2)
        out = folder / f"{name}-mg"
        run("convert", "--input", folder / name, "--output", out, "--to", "megatron-mcore", "--tensor", 2)
        (out / "config.json").unlink()
        for file in out.glob("release/*/model_optim_rng.pt"):
            rewritten(file, (b"true_vocab_size", b"xrue_vocab_size"))
        log = run("convert", "--input", out, "--output", folder / f"{name}-hf", "--to", "hf").stderr
        got = r.load_tensors(folder / f"{name}-hf")
        for table in ("model.embed_tokens.weight", "lm_head.weight"):
            check(got[table][1] == [vocabulary, 8] and list(array.array("f", got[table][2])) == sum(want[table][:vocabulary], []), f"{name}: {table} has {got[table][1]}, {vocabulary} rows are wanted")
        check(f"vocabulary {vocabulary}: the last {256 - vocabulary} of 256 rows" in log, log)


def test_the_vocabulary_that_is_said(folder):
    """By args.vocab_size, else by a tokenizer beside the files; rows that repeat are asked only where neither says it. Padding need not be copies: what is cut is said."""
    def mean(out):  # six new rows, as a table is resized: their mean
        for table in ("model.embed_tokens.weight", "lm_head.weight"):
            out[table][250:] = [[sum(c) / 250 for c in zip(*out[table][:250])]] * 6
    save(folder / "hf", mean, vocab_size=256, num_hidden_layers=1)
    for name, vocab_size, tokenizer, want, by in (("args", 256, None, 256, ""), ("fewer", 200, None, 200, "args.vocab_size"), ("both", 200, 240, 200, "args.vocab_size"), ("beside", 9999, 240, 240, "the tokenizer in"),
                                                  ("nobody", None, None, 251, "repeat the row before")):
        out = folder / name
        run("convert", "--input", folder / "hf", "--output", out, "--to", "megatron-mcore")
        (out / "config.json").unlink()
        for file in out.glob("release/*/model_optim_rng.pt"):  # a key of 15 letters becomes one of 10 and its value another
            number = b"K" + bytes([vocab_size]) if vocab_size and vocab_size < 256 else b"M" + (vocab_size or 0).to_bytes(2, "little")
            rewritten(file, (rb"X\x0f\x00\x00\x00true_vocab_size((?:q.|r....)?)(?:K.|M..|J....)", (b"X\x0a\x00\x00\x00" + (b"vocab_size" if vocab_size else b"xocab_size") + rb"\1" + number.replace(b"\\", b"\\\\"))))
        if tokenizer:
            (out / "vocab.txt").write_text("".join(f"{w}\n" for w in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(tokenizer - 5))]))
        log = run("convert", "--input", out, "--output", folder / f"{name}-hf", "--to", "hf").stderr
        table = r.load_tensors(folder / f"{name}-hf")["lm_head.weight"]
        check(table[1] == [want, 8], f"{name}: {table[1]}: {log}")
        check(by in log and (want == 256 or f"vocabulary {want}" in log and f"the last {256 - want} of 256 rows" in log), f"{name}: {log}")


def test_sizes_of_the_vocabulary_that_disagree_are_said(folder):
    """args against the rows, args against a tokenizer beside, a tokenizer against the rows, and what a config.json beside the files cuts."""
    save(folder / "hf", vocab_size=256, num_hidden_layers=1)
    for name, vocab_size, tokenizer, config, want, words in (
            ("args beyond the rows", 9999, None, None, 256, ["args.vocab_size is 9999", "256 rows"]), ("args and a tokenizer", 200, 240, None, 200, ["args.vocab_size is 200", "has 240 ids", "vocabulary 200"]),
            ("args and a larger tokenizer", 200, 300, None, 200, ["args.vocab_size is 200", "has 300 ids", "vocabulary 200"]), ("a tokenizer beyond the rows", None, 300, None, 256, ["has 300 ids", "256 rows"]),
            ("a config", None, None, 250, 250, ["vocabulary 250, by", "config.json", "the last 6 of 256 rows"]), ("all agree", 256, 256, 256, 256, [])):
        out = folder / name
        run("convert", "--input", folder / "hf", "--output", out, "--to", "megatron-mcore")
        was = json.loads((out / "config.json").read_text())
        (out / "config.json").unlink()
        if config:
            (out / "config.json").write_text(json.dumps({**was, "vocab_size": config}))
        for file in out.glob("release/*/model_optim_rng.pt"):
            number = b"K" + bytes([vocab_size]) if vocab_size and vocab_size < 256 else b"M" + (vocab_size or 0).to_bytes(2, "little")
            rewritten(file, (rb"X\x0f\x00\x00\x00true_vocab_size((?:q.|r....)?)(?:K.|M..|J....)", (b"X\x0a\x00\x00\x00" + (b"vocab_size" if vocab_size else b"xocab_size") + rb"\1" + number.replace(b"\\", b"\\\\"))))
        if tokenizer:
            (out / "vocab.txt").write_text("".join(f"{w}\n" for w in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(tokenizer - 5))]))
        log = run("convert", "--input", out, "--output", folder / f"{name}-hf", "--to", "hf").stderr
        table = r.load_tensors(folder / f"{name}-hf")["lm_head.weight"]
        check(table[1] == [want, 8], f"{name}: {table[1]}: {log}")
        check(all(w in log for w in words) and (words or "warning" not in log), f"{name}: {log}")


def test_arguments_that_change_what_weights_mean(folder):
    """Of what no config made of the arguments says, the argument is named; a config that says it is believed."""
    save(folder / "hf", num_hidden_layers=1)
    for key, told in ((b"apply_layernorm_1p", "1 is added"), (b"use_rope_scaling", "--model-config"), (b"rotary_interleaved", "--model-config")):
        out = folder / key.decode()
        run("convert", "--input", folder / "hf", "--output", out, "--to", "megatron-mcore")
        shutil.move(out / "config.json", folder / "config.json")
        for file in out.glob("release/*/model_optim_rng.pt"):
            rewritten(file, (rb"X\x12\x00\x00\x00apply_layernorm_1p((?:q.|r....)?)\x89", b"X" + bytes([len(key)]) + b"\x00\x00\x00" + key + rb"\1" + b"\x88"))
        said = run("convert", "--input", out, "--output", folder / "out", "--to", "hf", status=2).stderr
        check(f"args.{key.decode()} is set" in said and "model_optim_rng.pt: args" in said and told in said, said)
        run("convert", "--input", out, "--output", folder / f"{out.name}-hf", "--to", "hf", "--model-config", folder / "config.json", status=2 if b"1p" in key else 0)


def test_steps_of_an_optimizer(folder):
    """Its own count where it keeps one; else the steps of the run without those that were skipped (FusedAdam)."""
    for source in ("zero1", "zero3"):
        for name, step, skipped, samples, want, batch in (("own", b"step", 1, 12, 3, 4), ("fused", b"stex", 1, 12, 2, 4), ("all", b"stex", 3, 12, 0, 4), ("batch", b"step", 0, 13, 3, None)):
            at = folder / f"{source}-{name}"
            shutil.copytree(GOLDEN / source, at)
            for file in at.glob("global_step3/*_optim_states.pt"):
                rewritten(file, (b"X\\x04\\x00\\x00\\x00step", b"X\x04\x00\x00\x00" + step))
            for file in at.glob("global_step3/*_model_states.pt"):
                rewritten(file, (b"(skipped_steps(?:q.|r....))K\\x00", b"\\1K" + bytes([skipped])), (b"(global_samples(?:q.|r....))K\\x0c", b"\\1K" + bytes([samples])))
            run("convert", "--input", at, "--output", folder / f"{at.name}-out", "--to", "ravine", "--optimizer")
            s = scalars(folder / f"{at.name}-out", 3)
            check((s["step"], s["optimizer_steps"], s.get("global_batch")) == (3, want, batch), f"{at.name}: {s}")


def test_tensor_ranks_beside_shards_of_zero(folder):
    """ModelLink with ZeRO: the modules of all tensor ranks are whole and say how they are cut; the shards beside them are not read."""
    save(folder / "hf", num_hidden_layers=1)
    run("convert", "--input", folder / "hf", "--output", folder / "mg", "--to", "megatron-mcore", "--tensor", 2)
    at = folder / "zero" / "global_step7"
    at.mkdir(parents=True)
    for file in (folder / "mg").glob("release/mp_rank_*/model_optim_rng.pt"):
        rank = file.parent.name
        rewritten(file, (rb"X\x05\x00\x00\x00model", b"X\x06\x00\x00\x00module"))
        shutil.copy(file, at / f"{rank}_model_states.pt")
        (at / f"zero_pp_rank_0_{rank}_optim_states.pt").write_bytes(b"")
    (folder / "zero" / "latest").write_text("global_step7")
    said = run("convert", "--input", folder / "zero", "--output", folder / "back", "--to", "hf", "--model-config", folder / "hf" / "config.json").stderr
    check("shards beside them are not read" in said, said)
    check(r.load_tensors(folder / "back") == r.load_tensors(folder / "hf"), "weights differ")


def test_rows_of_a_long_tail(folder):
    """Padding is less than a multiple of 128 rows: of a longer tail of equal rows the rest are tokens."""
    def change(out):
        for table in ("model.embed_tokens.weight", "lm_head.weight"):
            out[table][100:] = [list(out[table][100])] * 200
    save(folder / "hf", change, vocab_size=300, num_hidden_layers=1)
    run("convert", "--input", folder / "hf", "--output", folder / "mg", "--to", "megatron-mcore")
    (folder / "mg" / "config.json").unlink()
    for file in (folder / "mg").glob("release/*/model_optim_rng.pt"):
        rewritten(file, (b"true_vocab_size", b"xrue_vocab_size"))
    run("convert", "--input", folder / "mg", "--output", folder / "back", "--to", "hf")
    check(r.load_tensors(folder / "back")["lm_head.weight"][1] == [384 - 128 + 1, 8], r.load_tensors(folder / "back")["lm_head.weight"][1])


def test_positions_and_moments_only_where_asked(folder):
    run("convert", "--input", GOLDEN / "optim", "--output", folder / "with", "--to", "ravine", "--optimizer")
    s = scalars(folder / "with", 7)
    check((s["step"], s["tokens"], s["global_batch"], s["optimizer"]) == (7, 28 * 16, 4, "adamw"), s)
    for source in ("optim", "zero2"):
        log = run("convert", "--input", GOLDEN / source, "--output", folder / source, "--to", "ravine").stderr
        s = scalars(folder / source, 0)
        check((s["step"], s["tokens"], s["optimizer_steps"], "global_batch" in s) == (0, 0, 0, False), s)
        check((folder / source / "checkpoints" / "latest").read_text() == "step_000000\n" and "the run begins at step 0" in log, log)
        for name, (_, _, raw) in r.load_tensors(folder / source / "checkpoints" / "step_000000").items():
            check(any(raw) == name.startswith("weights/"), name)


def test_types_are_kept(folder):
    """Each tensor keeps its type, and config.json says it where it is one; what lies beside the weights comes along."""
    want = save(folder / "hf", num_hidden_layers=1)
    header, body = r.load_raw(folder / "hf" / "model.safetensors")
    for name, halves in (("mixed", {"model.norm.weight"}), ("half", set(want))):
        shutil.copytree(folder / "hf", folder / name)
        (folder / name / "generation_config.json").write_text('{"top_k": 7}')
        config = json.loads((folder / name / "config.json").read_text())
        (folder / name / "config.json").write_text(json.dumps({**config, "torch_dtype": "said"}))
        tensors_, data = {}, b""
        for n, t in header.items():
            if n == "__metadata__":
                continue
            raw = body[slice(*t["data_offsets"])]
            if n in halves:
                raw = b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))
            tensors_[n] = {"dtype": "BF16" if n in halves else "F32", "shape": t["shape"], "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        r.save_raw(folder / name / "model.safetensors", tensors_, data)
        for flags, kinds, said in (((), {n: t["dtype"] for n, t in tensors_.items()}, "bfloat16" if name == "half" else "said"), (("--dtype", "f16"), {n: "F16" for n in tensors_}, "float16")):
            out = folder / f"{name}-{len(flags)}"
            run("convert", "--input", folder / name, "--output", out, "--to", "hf", *flags)
            got = {n: kind for n, (kind, _, _) in r.load_tensors(out).items()}
            check(got == kinds, f"{out.name}: {[(n, got.get(n)) for n in kinds if got.get(n) != kinds[n]][:3]}")
            check(json.loads((out / "config.json").read_text())["torch_dtype"] == said, f"{out.name}: {(out / 'config.json').read_text()}")
            check(json.loads((out / "generation_config.json").read_text()) == {"top_k": 7}, "generation_config.json")


def test_what_mindformers_puts_beside_weights(folder):
    """hyper_param.safetensors holds settings of the optimizer, no weights."""
    for name in ("mf_ranks", "mf"):
        shutil.copytree(GOLDEN / name, folder / name)
        r.save_tensors(folder / name / "hyper_param.safetensors", {"learning_rate": ("F32", (1,), [0.5]), "global_step": ("I32", (1,), [7])})
        run("convert", "--input", folder / name, "--output", folder / f"{name}-hf", "--to", "hf", "--model-config", CONFIG, "--dtype", "f32")
        check(weights(folder / f"{name}-hf") == weights(GOLDEN / "hf"), name)


def test_the_newest_file_of_a_rank(folder):
    """Of several files in a rank's folder the one that meta.json names; without it nobody guesses."""
    shutil.copytree(GOLDEN / "mf_ranks", folder / "mf")
    for rank in range(2):
        there = folder / "mf" / f"rank_{rank}"
        (file,) = there.glob("*.safetensors")
        older, data = r.load_raw(file)
        r.save_raw(there / f"tiny_rank_{rank}-1_3.safetensors", older, data[::-1])
        r.save_raw(there / f"tiny_rank_{rank}-1_9.safetensors", older, data[::-1])
    done = run("convert", "--input", folder / "mf", "--output", folder / "x", "--to", "hf", "--model-config", CONFIG, status=2)
    check("or meta.json names it; there are 3" in done.stderr, done.stderr)
    for rank in range(2):
        (folder / "mf" / f"rank_{rank}" / "meta.json").write_text(json.dumps({"last_ckpt_file": f"tiny_rank_{rank}-1_7.safetensors"}))
    run("convert", "--input", folder / "mf", "--output", folder / "x", "--to", "hf", "--model-config", CONFIG, "--dtype", "f32")
    check(weights(folder / "x") == weights(GOLDEN / "hf"), "another file was taken")


def same_tokens(folder, model, megatron, name, config=None, ranks=(1,)):
    """A Megatron folder says what the model says that it was made of."""
    (folder / "ids.json").write_text("[[1, 2, 3], [7, 8]]")
    flags = ("--prompt-ids", folder / "ids.json", "--max-new-tokens", 9, "--json")
    at = folder / name
    shutil.copytree(megatron, at)
    if config:
        shutil.copy(config, at / "config.json")
    want = run("generate", "--model", model, *flags).stdout
    for n in ranks:
        command = [r.PROGRAM] if n == 1 else [shutil.which("mpirun"), "--allow-run-as-root", "--oversubscribe", "-n", str(n), r.PROGRAM]
        done = subprocess.run([*map(str, command), "generate", "--model", str(at), *map(str, flags)], capture_output=True, text=True, timeout=r.LIMIT, stdin=subprocess.DEVNULL)
        check(done.returncode == 0 and done.stdout == want, f"{name}, {n} ranks: {done.stdout}{done.stderr}")
    return at


def test_models_of_megatron_in_place(folder):
    both = (1, 2) if shutil.which("mpirun") else (1,)
    for source in ("mcore", "legacy", "te", "classic", "merged"):
        same_tokens(folder, GOLDEN / "hf", GOLDEN / source, source, None if source in ("mcore", "legacy", "te") else CONFIG, both if source == "mcore" else (1,))
    # ModelLink with DeepSpeed: a file per tensor rank, beside which ZeRO's shards may lie.
    source = next(GOLDEN / s for s in ("mcore", "legacy", "te") if len(list((GOLDEN / s).glob("*/mp_rank_??/model_optim_rng.pt"))) == len(list((GOLDEN / s).rglob("model_optim_rng.pt"))))
    deep = folder / "made" / "release"
    deep.mkdir(parents=True)
    for file in source.glob("*/mp_rank_??/model_optim_rng.pt"):
        shutil.copy(file, deep / f"{file.parent.name}_model_states.pt")
    (deep.parent / "latest").write_text("release")
    same_tokens(folder, GOLDEN / "hf", deep.parent, "deepspeed")
    # Training begins from it as well, where its config.json lies in it.
    shutil.copy(GOLDEN / "hf" / "config.json", folder / "mcore" / "config.json")
    for at, path in (("a", GOLDEN / "hf"), ("b", folder / "mcore")):
        run("train", *options(folder, model__path=path, train__output=folder / "runs" / at, train__steps=2, checkpoint__model_dtype="f32"))
    check(r.same_run(folder / "runs" / "a", folder / "runs" / "b") == "", r.same_run(folder / "runs" / "a", folder / "runs" / "b"))
    # What is missing is said.
    next((folder / "mcore").rglob("model_optim_rng.pt")).unlink()
    failed = run("generate", "--model", folder / "mcore", "--prompt-ids", folder / "ids.json", status=2).stderr
    check("model_optim_rng.pt" in failed and "each rank's folder holds it" in failed, failed)
    (folder / "classic" / "config.json").unlink()
    failed = run("generate", "--model", folder / "classic", "--prompt-ids", folder / "ids.json", status=2).stderr
    check("no arguments" in failed and "or put its config.json into the folder" in failed, failed)


def test_recorded_models_of_megatron_in_place(folder):
    golden = r.shared("golden", "megatron", "checkpoint")
    layouts = [f"{style}/{layout}" for style in ("legacy", "mcore") for layout in ("tp1_pp1", "tp2_pp1", "tp1_pp2", "tp2_pp2", "tp1_pp2_vp2")] + ["mcore_te/tp2_pp1", "classic/tp2_pp2", "classic_merged_mlp/tp2_pp1"]
    for layout in r.rows(layouts, 5, "each style is in test_models_of_megatron_in_place"):
        same_tokens(folder, golden / "hf", golden / layout, layout.replace("/", "-"), golden / "hf" / "config.json" if layout.startswith("classic") else None, (1, 2) if shutil.which("mpirun") else (1,))


if __name__ == "__main__":
    sys.exit(r.main(globals()))
