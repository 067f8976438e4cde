"""The same run gives the same bits: again, with another number of threads, with and without recomputation; in f32 and bf16."""
import ravine_run as r

# Nothing here is a multiple of a vector or a tile: 33 columns, hidden size 40, and products over 1100 columns, 9 x 33 tokens.
FIELDS = {"hidden_size": 40, "intermediate_size": 1100, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10}
THREADS = (1, 2)
RECOMPUTE = ("none", "cheap", "full")


def train(folder, name, **more):
    options = {
        "model.config": r.save_config(folder / "config.json", **FIELDS),
        "data.train": [r.save_ids(folder / "ids.safetensors", 36, 33)],
        "data.sequence_length": 33, "train.steps": 4, "train.global_batch": 18, "train.micro_batch": 9, "train.dropout": 0.1,
        "optimizer.lr": 1e-2, "schedule.warmup_steps": 1, "checkpoint.every": 0, "log.tensorboard": False,
        "train.output": folder / name,
    }
    r.run("train", *r.settings({**options, **{key.replace("__", "."): value for key, value in more.items()}}))
    return folder / name


def compare_all(folder, compute):
    first = train(folder, "first", precision__compute=compute, train__threads=1, train__recompute="none")
    numbers = r.metrics(first)
    r.check(numbers[1]["loss"] != numbers[4]["loss"] and numbers[4]["grad_norm"] > 0, f"nothing was trained: {numbers}")
    for threads in THREADS:
        for recompute in RECOMPUTE:
            name = f"{threads}-{recompute}"
            other = train(folder, name, precision__compute=compute, train__threads=threads, train__recompute=recompute)
            difference = r.same_run(first, other)
            r.check(difference == "", f"{compute}, {threads} threads, recompute {recompute}: differs in {difference}")
    other = train(folder, "other", precision__compute=compute, train__threads=1, train__recompute="none", train__seed=43)
    r.check(r.same_run(first, other) != "" and r.weights(first) != r.weights(other), "another seed gives the same numbers")


def test_f32(folder):
    compare_all(folder, "f32")


def test_bf16(folder):
    compare_all(folder, "bf16")


def test_long_micro_batch(folder):
    """More than 1024 tokens in a micro-batch: sums over tokens go in chunks."""
    def long(name, threads):
        ids = r.save_ids(folder / "long.safetensors", 66, 33)
        return train(folder, name, data__train=[ids], train__global_batch=33, train__micro_batch=33, train__threads=threads)
    difference = r.same_run(long("one", 1), long("two", 2))
    r.check(difference == "", f"1089 tokens, 1 and 2 threads: differs in {difference}")


if __name__ == "__main__":
    r.main(globals())
