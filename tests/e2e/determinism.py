"""The same run gives the same bits: `ravine check determinism` on awkward shapes in f32 and bf16, a planted fault that it must name, and two
processes of `ravine train` with other threads and recomputation."""
import json

import ravine_run as r

# name -> fields of the model, columns, sequences of a micro batch, of a step, further options. Nothing is a multiple of a vector or a tile.
SHAPES = {
    # Products over 1100 columns, grouped heads of size 10, dropout.
    "wide": ({"hidden_size": 40, "intermediate_size": 1100, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10}, 33, 9, 18,
             {"train.dropout": 0.1, "train.attention_dropout": 0.1}),
    # An output product of 8 rows over 1028 columns, as a router of experts has it.
    "router": ({"hidden_size": 1028, "intermediate_size": 36, "num_hidden_layers": 1, "head_dim": 6, "vocab_size": 8}, 7, 3, 3, {}),
    # Experts, most of them with few rows and some with none; a shared one with a gate; losses of routers.
    "experts": ({"model_type": "qwen2_moe", "hidden_size": 20, "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 10, "num_experts": 11,
                 "num_experts_per_tok": 3, "moe_intermediate_size": 9, "shared_expert_intermediate_size": 13, "decoder_sparse_step": 1, "output_router_logits": True},
                17, 3, 6, {"moe.z_loss": 0.01}),
    # 1089 tokens in a micro batch: sums over tokens go in chunks.
    "long": ({"num_hidden_layers": 1}, 33, 33, 66, {}),
    # A window, tied embeddings, layers smaller than a vector.
    "tiny": ({"hidden_size": 6, "intermediate_size": 10, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 2, "vocab_size": 11,
              "tie_word_embeddings": True}, 3, 1, 2, {}),
}
CASES = {"again", "again, unobserved", "recompute none", "recompute full", "unfused add_rms_norm", "resume"}


def check_command(folder, shape, *more, status=0):
    fields, columns, micro, batch, options = SHAPES[shape]
    options = {"model.config": r.save_config(folder / f"{shape}.json", **fields), "data.sequence_length": columns, "train.micro_batch": micro,
               "train.global_batch": batch, "optimizer.lr": 1e-2, "schedule.warmup_steps": 1, **options}
    return json.loads(r.run("check", "determinism", "--json", *r.settings(options), *more, status=status).stdout)


def check_shape(folder, shape):
    for compute in r.rows(("f32", "bf16"), 1, "the types take turns"):
        result = check_command(folder, shape, f"precision.compute={compute}")
        for case in result["cases"]:
            r.check(case["equal"], f"{shape} in {compute}: {case}")
            r.check(case["compared"] > 0 or "unobserved" in case["case"], f"{shape} in {compute}: nothing compared: {case}")
        names = {case["case"] for case in result["cases"]}
        r.check(result["equal"] and CASES <= names and sum("thread" in n for n in names) >= 3, f"cases: {names}")


@r.full("test_reordered_sum_is_found compares the same cases of this shape")
def test_wide(folder):
    check_shape(folder, "wide")


def test_router(folder):
    check_shape(folder, "router")


def test_experts(folder):
    check_shape(folder, "experts")


def test_long(folder):
    check_shape(folder, "long")


def test_tiny(folder):
    check_shape(folder, "tiny")


def test_reordered_sum_is_found(folder):
    """A single sum in another order: the check fails and names step, op, path, phase and tensor; the other cases stay equal."""
    path = "model.layers.1.mlp.down_proj"
    for compute in r.rows(("f32", "bf16"), 1, "the types take turns"):
        result = check_command(folder, "wide", f"precision.compute={compute}", "--inject", path, status=1)
        *others, planted = result["cases"]
        r.check(all(case["equal"] for case in others), f"{compute}: {others}")
        expected = {"case": "sum reordered", "equal": False, "step": 1, "op": "matmul", "path": path, "phase": "forward", "tensor": "out"}
        r.check({key: planted.get(key) for key in expected} == expected, f"{compute}: {planted}")
    done = r.run("check", "determinism", *r.settings({"model.config": folder / "wide.json", "data.sequence_length": 33, "train.global_batch": 1}),
                 "--inject", "model.layers.9", status=2)
    r.check("model.layers.9" in done.stderr, done.stderr)


def train(folder, name, seed=42, **more):
    fields, columns, micro, batch, options = SHAPES["wide"]
    options = {
        "model.config": r.save_config(folder / "config.json", **fields), "data.train": [r.save_ids(folder / "ids.safetensors", 36, columns)],
        "data.sequence_length": columns, "train.steps": 4, "train.global_batch": batch, "train.micro_batch": micro, "optimizer.lr": 1e-2,
        "schedule.warmup_steps": 1, "checkpoint.every": 0, "log.tensorboard": False, "train.output": folder / name, "train.seed": seed, **options,
    }
    r.run("train", *r.settings({**options, **{key.replace("__", "."): value for key, value in more.items()}}))
    return folder / name


def test_other_processes(folder):
    first = train(folder, "first", train__threads=1, train__recompute="none")
    numbers = r.metrics(first)
    r.check(numbers[1]["loss"] != numbers[4]["loss"] and numbers[4]["grad_norm"] > 0, f"nothing was trained: {numbers}")
    for threads, recompute in ((2, "full"),) if not r.FULL else ((1, "none"), (2, "full")):
        difference = r.same_run(first, train(folder, f"{threads}-{recompute}", train__threads=threads, train__recompute=recompute))
        r.check(difference == "", f"{threads} threads, recompute {recompute}: differs in {difference}")
    other = train(folder, "other", seed=43, train__threads=1)
    r.check(r.same_run(first, other) != "" and r.weights(first) != r.weights(other), "another seed gives the same numbers")


if __name__ == "__main__":
    r.main(globals())
