"""MindFormers' page on further features of training, from top to bottom: its YAML blocks, as files of examples/mindformers-training-features, filled with the rest of a
tiny job, and its flag. Each is judged by the run: steps, losses, weights, lines of the log, memory."""
import json
import math
import random
import re

import mindformers_page as page
import ravine_run as r
from ravine_run import check

NAME = "mindformers-training-features"
SEMI = {"use_parallel": True}  # one program over all ranks, also over one
EXPERTS = {"expert_num": 4, "num_experts_chosen": 2, "routing_policy": "TopkRouterV2", "aux_loss_types": ["expert"], "aux_loss_factors": [0.001], "first_k_dense_replace": False}


def block(*names):
    return "".join((page.EXAMPLES / NAME / name).read_text() for name in names)


def prepare(folder, rows=16):
    draw = random.Random(1)
    page.save_rows(folder / "data.mindrecord", [tuple(draw.randrange(1, 128) for _ in range(page.LENGTH + 1)) for _ in range(rows)])


def train(folder, name, yaml, *words, ranks=1, status=0, **sections):
    """Trains by a block of the page, filled; the finished process."""
    (folder / f"{name}.yaml").write_text(page.fill(yaml, page.job(**{"output_dir": name, **sections})))
    return page.run(folder, "--config", f"{name}.yaml", "--train_dataset_dir", "data.mindrecord", *words, ranks=ranks, status=status)


def near(a, b, rel=1e-5):
    return len(a) == len(b) and all(x[0] == y[0] and math.isclose(x[1], y[1], rel_tol=rel) and math.isclose(x[2], y[2], rel_tol=10 * rel) for x, y in zip(a, b))


def arena(log):
    """KiB of a step's gradients, activations and workspace."""
    return float(re.search(r"the step's arena ([\d.]+) KiB", log)[1])


def test_gradient_accumulation(folder):
    """Four micro batches make a step: a quarter of the steps, each that of a batch of four. It takes more memory than one row, as the page says, and less than a batch."""
    prepare(folder)
    done = train(folder, "yaml", block("accumulation.yaml"), **SEMI)
    steps = page.numbers(folder / "yaml")
    check([step for step, _, _ in steps] == list(range(1, 9)) and "step:[    4/    4]" in done.stderr, f"16 rows, two epochs: {steps}")
    check([row["tokens"] for row in page.rows(folder / "yaml")] == [4 * page.LENGTH * step for step, _, _ in steps], "tokens of four rows in a step")
    batch = train(folder, "batch", "", "--batch_size", "4", **SEMI)
    check(near(steps, page.numbers(folder / "batch")), f"{steps}\n{page.numbers(folder / 'batch')}")
    single = train(folder, "single", "", **SEMI)
    check(len(page.rows(folder / "single")) == 32 and not near(steps[:1], page.numbers(folder / "single")[:1]), "without it, each row is a step")
    check(arena(single.stderr) < arena(done.stderr) < arena(batch.stderr), f"memory: {arena(single.stderr)}, {arena(done.stderr)}, {arena(batch.stderr)} KiB")


def test_gradient_accumulation_by_flag(folder):
    """--gradient_accumulation_steps of run_mindformer.py is the key, also behind the launcher and over a file that says otherwise."""
    prepare(folder)
    train(folder, "yaml", block("accumulation.yaml"), **SEMI)
    train(folder, "flag", "", "--gradient_accumulation_steps", "4", **SEMI)
    train(folder, "over", block("accumulation.yaml").replace("steps: 4", "steps: 2"), "--gradient_accumulation_steps", "4", **SEMI)
    (folder / "run.sh").write_text("python run_mindformer.py --config flag.yaml --train_dataset_dir data.mindrecord --gradient_accumulation_steps 4 --output_dir script\n")
    page.run(folder, "--script", "run.sh")
    for name in ("flag", "over", "script"):
        check(page.numbers(folder / name) == page.numbers(folder / "yaml"), f"{name}: {page.numbers(folder / name)}")


def test_gradient_accumulation_on_data_ranks(folder):
    prepare(folder)
    train(folder, "two", block("accumulation.yaml"), ranks=2, parallel_config={"data_parallel": 2}, **SEMI)
    train(folder, "one", "", "--batch_size", "8", **SEMI)
    check(len(page.rows(folder / "two")) == 4 and near(page.numbers(folder / "two"), page.numbers(folder / "one")), f"{page.numbers(folder / 'two')}\n{page.numbers(folder / 'one')}")


def test_where_gradient_accumulation_counts_nothing(folder):
    """Under stages micro_batch_num stands in its place, and outside of semi-automatic parallelism it is 1: the run says so, and is the run without the key."""
    prepare(folder)
    stages = {"ranks": 2, "parallel_config": {"pipeline_stage": 2, "micro_batch_num": 2}, **SEMI}
    said = train(folder, "stages", block("accumulation.yaml"), **stages).stderr
    check(re.search(r"notice: .*gradient_accumulation_steps.*pipeline.*micro_batch_num", said), said[:1500])
    train(folder, "plain-stages", "", **stages)
    check(page.numbers(folder / "stages") == page.numbers(folder / "plain-stages") and len(page.rows(folder / "stages")) == 16, f"{page.numbers(folder / 'stages')}")
    why = page.explained(folder, "--config", "stages.yaml", "--train_dataset_dir", "data.mindrecord", "--ranks", "2")["runner_config.gradient_accumulation_steps"]
    check(why["status"] == "inert" and "micro_batch_num" in why["reason"], f"{why}")
    said = train(folder, "alone", block("accumulation.yaml")).stderr
    check(re.search(r"notice: .*gradient_accumulation_steps is 4.*semi_auto_parallel", said), said[:1500])
    train(folder, "plain", "")
    check(page.numbers(folder / "alone") == page.numbers(folder / "plain"), "outside of semi-automatic parallelism")


def moved(folder, name, step):
    """The length of the way that the weights went in a step."""
    at = lambda s: r.load_tensors(folder / name / "checkpoint/rank_0", f"llama3_1_8b_rank_0-{s}_1.safetensors")
    before, after = at(step - 1), at(step)
    weights = [key for key in after if key.startswith(("model.", "lm_head."))]
    return math.sqrt(sum((a - b) ** 2 for key in weights for a, b in zip(page.floats(after[key]), page.floats(before[key]))))


def test_gradient_clipping(folder):
    """Under plain descent of rate 0.01 the weights go 0.01 x min(norm, 1.0) in a step; the norm that is shown is that before clipping. Without it they go 0.01 x norm."""
    prepare(folder)
    plain = {"optimizer": {"type": "SGD", "betas": None, "eps": None}, "lr_schedule": {"type": "ConstantWarmUpLR", "learning_rate": "1.0e-2", "lr_end": None, "warmup_ratio": None, "warmup_steps": 0},
             "callbacks": [{"type": "CheckpointMonitor", "prefix": "llama3_1_8b", "save_checkpoint_steps": 1, "checkpoint_format": "safetensors"}], "runner_config": {"stop_step": 2}}
    train(folder, "clipped", block("clipping.yaml"), **plain)
    train(folder, "free", "", **{**plain, "runner_wrapper": {"use_clip_grad": False}})
    for name, limit in (("clipped", 1.0), ("free", math.inf)):
        norm = page.numbers(folder / name)[1][2]
        check(norm > 1.2, f"a gradient that is clipped: {norm}")
        check(math.isclose(moved(folder, name, 2), 0.01 * min(norm, limit), rel_tol=2e-3), f"{name}: {moved(folder, name, 2)} under a norm of {norm}")
    refused = train(folder, "no", block("clipping.yaml").replace("max_grad_norm: 1.0", "max_grad_norm: 0"), status=2).stderr
    check("max_grad_norm" in refused and "above 0" in refused, refused)


def mixture(**more):
    return {"moe_config": {**EXPERTS, **more}, "runner_config": {"stop_step": 4}}


def test_grouped_matmul(folder):
    """use_gmm lets no token fall, whatever the capacity; use_fused_ops_permute moves tokens, and no number."""
    prepare(folder)
    train(folder, "grouped", block("grouped_matmul.yaml"), **mixture(capacity_factor=0.5))
    train(folder, "capacity", "", **mixture(capacity_factor=0.5))
    train(folder, "none", "", **mixture(capacity_factor=-1.0))
    grouped, capacity, none = (page.rows(folder / name) for name in ("grouped", "capacity", "none"))
    check(all(sum(row.get("drop_rate", [])) == 0 for row in grouped) and all(sum(row["drop_rate"]) > 0 for row in capacity), "a capacity of one half drops tokens, use_gmm none")
    check(page.numbers(folder / "grouped") == page.numbers(folder / "none") != page.numbers(folder / "capacity"), f"{grouped[0]} {capacity[0]} {none[0]}")
    train(folder, "unfused", block("grouped_matmul.yaml").replace("use_fused_ops_permute: True", "use_fused_ops_permute: False"), **mixture(capacity_factor=0.5))
    check(page.numbers(folder / "unfused") == page.numbers(folder / "grouped"), "use_fused_ops_permute")


def test_an_expert_without_tokens(folder):
    """The page's error for experts that got no token does not come here, with enable_gmm_safe_tokens and without: the key is inert, and a reason is given."""
    page.save_rows(folder / "data.mindrecord", [(5,) * (page.LENGTH + 1)] * 8)
    starved = mixture(expert_num=16, num_experts_chosen=1, use_gmm=True)
    for name, yaml in (("safe", block("safe_tokens.yaml")), ("plain", "")):
        said = train(folder, name, yaml, **starved).stderr
        check("Reshape" not in said and all(load == 16 for row in page.rows(folder / name) for load in row["expert_load"]), f"one of 16 experts has all tokens: {page.rows(folder / name)[0]}")
    check(page.numbers(folder / "safe") == page.numbers(folder / "plain"), "another run")
    said = page.explained(folder, "--config", "safe.yaml", "--train_dataset_dir", "data.mindrecord")["moe_config.enable_gmm_safe_tokens"]
    check(said["status"] == "inert" and said["reason"], f"{said}")


def droprates(log):
    """(layer, rate) in the order of the log, step by step."""
    steps, lines = [], [line for line in log.splitlines() if "{ Epoch:[" in line or "drop_rate" in line]
    for line in lines:
        if "{ Epoch:[" in line:
            steps.append([])
            continue
        found = re.fullmatch(r".* - INFO - layer: (\d+), drop_rate: (\d\.\d{5})", line)
        check(found, f"a line of another form: {line}")
        steps[-1].append((int(found[1]), float(found[2])))
    return steps


def check_droprates(log, rows, layers):
    """A line of each layer of experts in every step. Tokens of the first step are all one: in the first layer two of four experts get all, and 1/2 - 1.5/4 of each is dropped."""
    steps = droprates(log)
    check(len(steps) == len(rows) > 1, f"{len(steps)} steps, {len(rows)} rows")
    for said, row in zip(steps, rows):
        check([layer for layer, _ in said] == layers, f"layers {said}")
        for (_, rate), load in zip(said, row["expert_load"], strict=True):  # load: the share of the fullest expert, times four
            check(load / 4 - 1.5 / 4 - 1e-3 <= rate < 1 and (rate > 0) == (load > 1.5), f"{rate}, a load of {load}")
    check(steps[0][0][1] == 0.25 and rows[0]["expert_load"][0] == 2, f"two of four experts have all: {steps[0]} {rows[0]}")


def mixed_rows(folder):
    draw = random.Random(1)
    page.save_rows(folder / "data.mindrecord", [(7,) * (page.LENGTH + 1)] + [tuple(draw.randrange(1, 128) for _ in range(page.LENGTH + 1)) for _ in range(7)])


def test_droprates(folder):
    """The page's block with its own word `callback`: eight layers, four experts, a capacity of 1.5."""
    mixed_rows(folder)
    moe = {"model_config": {"num_layers": 8}, **mixture(capacity_factor=1.5)}
    done = train(folder, "page", block("droprate.yaml"), **moe)
    check_droprates(done.stderr, page.rows(folder / "page"), list(range(8)))
    # beside the section of the real name, both lists count
    callbacks = page.job()["callbacks"]
    (folder / "both.yaml").write_text(page.fill(block("droprate.yaml"), page.job(output_dir="both", callbacks=[], **moe)) + "\n".join(page.section("callbacks", callbacks)) + "\n")
    said = page.run(folder, "--config", "both.yaml", "--train_dataset_dir", "data.mindrecord").stderr
    check(droprates(said) == droprates(done.stderr) and (folder / "both/checkpoint/rank_0/meta.json").exists(), "a list under each of the two names")
    quiet = train(folder, "quiet", "", **moe).stderr
    check("drop_rate" not in quiet and page.numbers(folder / "quiet") == page.numbers(folder / "page"), "lines that nobody asked for, or another run")


def test_droprates_of_deepseek(folder):
    """With the class that has all the block's sizes: layers before first_k_dense_replace have no experts, and no line; the model has moe_config's four experts."""
    mixed_rows(folder)
    latent = {"type": "DeepseekV3Config", "n_kv_heads": None, "num_layers": 8, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
    moe = mixture(capacity_factor=1.5, first_k_dense_replace=3, moe_intermediate_size=16, shared_expert_num=1, use_gating_sigmoid=True)
    done = train(folder, "page", block("droprate.yaml"), model_config=latent, **moe)
    check_droprates(done.stderr, page.rows(folder / "page"), [3, 4, 5, 6, 7])


def test_fused_operators(folder):
    """use_fused_rope and use_fused_swiglu round once where unfused operators round between: in bf16 they give other bits of the same numbers; in f32 few, or none."""
    prepare(folder)
    narrow = {"model_config": {"compute_dtype": "bfloat16"}, "runner_config": {"stop_step": 4}}
    runs = {"plain": "", "rope": block("fused_rope.yaml"), "swiglu": block("fused_swiglu.yaml"),
            "both": block("fused_rope.yaml").replace("  ...\n", "  ...\n  use_fused_swiglu: True\n", 1)}
    for name, yaml in runs.items():
        train(folder, name, yaml, **narrow)
    losses = {name: page.numbers(folder / name) for name in runs}
    for name in ("rope", "swiglu", "both"):
        check(near(losses[name], losses["plain"], rel=5e-3), f"{name} is another model: {losses[name]} {losses['plain']}")
        check(losses[name] != losses["plain"], f"{name}: the switch acts on nothing: {losses[name]}")
    check(len({json.dumps(x) for x in losses.values()}) == 4, f"each switch acts by itself: {losses}")
    train(folder, "off", block("fused_rope.yaml").replace("True", "False"), **narrow)
    check(page.numbers(folder / "off") == losses["plain"], "False is the default")


def test_the_files_are_those_of_the_page(folder):
    page.check_lines_of_page(NAME)


if __name__ == "__main__":
    r.main(globals())
