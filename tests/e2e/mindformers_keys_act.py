"""Keys of MindFormers' YAML that change the run: experts, seeds, epochs, recomputation, fused switches, compute types; and the lines of a run as its pages print them."""
import json
import random
import re
import struct

import ravine_run as r
from mindformers import EXAMPLES, LENGTH, line, prepare
from ravine_run import check

MODEL = "--model.model_config."


def model(**keys):
    return [word for key, value in keys.items() for word in (f"{MODEL}{key}", str(value))]


def rows(folder, run):
    return [json.loads(text) for text in (folder / run / "metrics.jsonl").read_text().splitlines() if '"loss"' in text]


def first(folder, run, *flags, **more):
    """The first step of a run with these flags: loss and norm."""
    line(folder, "--epochs", "1", "--output_dir", run, *flags, **more)
    row = rows(folder, run)[0]
    return row["loss"], row["grad_norm"]


def shapes(folder, run, prefix="llama_small", place="1_8"):
    tensors = r.load_tensors(folder / run / "checkpoint" / "rank_0", f"{prefix}_rank_0-{place}.safetensors")
    return {name: tensors[name][1] for name in tensors if not name.startswith(("adam_", "loss", "scale", "epoch", "step", "global"))}


def save_tokens(prefix, documents):
    """Token files as Megatron's preprocessing writes them."""
    pointers, at = [], 0
    for d in documents:
        pointers.append(at)
        at += 4 * len(d)
    count = len(documents)
    prefix.with_suffix(".bin").write_bytes(b"".join(struct.pack(f"<{len(d)}i", *d) for d in documents))
    prefix.with_suffix(".idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, count, count + 1) + struct.pack(f"<{count}i", *map(len, documents))
                                           + struct.pack(f"<{count}q", *pointers) + struct.pack(f"<{count + 1}q", *range(count + 1)))


def token_flags(folder, sizes="[8, 0, 0]", **config):
    if not (folder / "tokens.bin").exists():
        draw = random.Random(3)
        save_tokens(folder / "tokens", [[draw.randrange(1, 256) for _ in range(draw.randrange(20, 200))] for _ in range(80)])
    given = {"data_path": ["tokens"], "split": "100,0,0", "seq_length": LENGTH, "eod": 0, **config}
    return ("--train_dataset.data_loader", json.dumps({"type": "BlendedMegatronDatasetDataLoader", "sizes": json.loads(sizes), "config": given}))


LATENT = model(type="DeepseekV3Config", kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8) + [f"{MODEL}n_kv_heads", "4"]
EXPERTS = ("--moe_config.expert_num", "4", "--moe_config.num_experts_chosen", "2", "--moe_config.moe_intermediate_size", "32", "--moe_config.routing_policy", "TopkRouterV2")


def test_experts_of_the_deepseek_class(folder):
    """moe_config says how many experts the layers have, which are dense, how many are shared, and how they are chosen."""
    prepare(folder)
    more = ("--moe_config.first_k_dense_replace", "1", "--moe_config.shared_expert_num", "2")
    plain = first(folder, "one", *LATENT, *EXPERTS, *more)
    found = shapes(folder, "one")
    sizes = {name: shape for name, shape in found.items() if "expert" in name or "router" in name}
    check(any(4 in shape for shape in sizes.values()) and not any(256 in shape and "router" in name for name, shape in sizes.items()), f"four experts: {sizes}")
    check(not [name for name in sizes if "layers.0." in name] and [name for name in sizes if "layers.1." in name], f"the first layer is dense: {sizes}")
    check(any("shared" in name and 64 in shape for name, shape in sizes.items()), f"two shared experts of width 32: {sizes}")
    sigmoid = first(folder, "sigmoid", *LATENT, *EXPERTS, *more, "--moe_config.use_gating_sigmoid", "True")
    check(sigmoid != plain, "softmax is what MoEConfig has by default")
    scaled = first(folder, "scaled", *LATENT, *EXPERTS, *more, "--moe_config.routed_scaling_factor", "2.5")
    check(scaled != plain, "routed_scaling_factor")
    all_sparse = first(folder, "sparse", *LATENT, *EXPERTS, "--moe_config.first_k_dense_replace", "0")
    check(all_sparse != plain and [name for name in shapes(folder, "sparse") if "layers.0." in name and "expert" in name], "no dense layer")
    said = line(folder, *LATENT, *EXPERTS, *model(num_experts_per_tok=3), status=2).stderr
    check("num_experts_chosen is 2" in said and "num_experts_per_tok 3" in said, said)


def test_experts_of_llama(folder):
    """Shared experts of a layer, with a gate and without; the router of a grouped product; what MindFormers' layers refuse."""
    prepare(folder)
    first(folder, "gated", *EXPERTS, "--moe_config.shared_expert_num", "2", "--moe_config.use_shared_expert_gating", "True")
    gated = shapes(folder, "gated")
    check(gated["model.layers.0.feed_forward.shared_experts.w1.weight"] == [64, 64] and gated["model.layers.0.feed_forward.shared_experts_gate.weight"] == [1, 64], f"{gated}")
    plain = first(folder, "plain", *EXPERTS, "--moe_config.shared_expert_num", "2")
    found = shapes(folder, "plain")
    check("model.layers.0.feed_forward.shared_experts.w1.weight" in found and not [name for name in found if "gate.weight" in name], f"{found}")
    said = line(folder, "--output_dir", "on", "--load_checkpoint", "plain/checkpoint", "--resume_training", "True", "--epochs", "2", *EXPERTS, "--moe_config.shared_expert_num", "2").stderr
    check("Epoch:[  2/  2]" in said, said[-600:])
    older = [*EXPERTS[:-1], "TopkRouterV1"]
    check("TopkRouterV2" in line(folder, *older, status=2).stderr, "a router that MindFormers' layers refuse")
    grouped = first(folder, "grouped", *older, "--moe_config.use_gmm", "True", "--moe_config.shared_expert_num", "2")
    free = first(folder, "free", *EXPERTS, "--moe_config.capacity_factor", "-1", "--moe_config.shared_expert_num", "2")
    check(grouped == free != plain, f"a grouped product has a router of its own, which leaves nothing out: {grouped} {free} {plain}")
    one = first(folder, "one", *EXPERTS, "--moe_config.num_experts_chosen", "1")
    check(one != first(folder, "two", *EXPERTS), "one expert for a token")
    idle = line(folder, "--output_dir", "dense", "--moe_config.use_gmm", "True", "--explain").stdout
    check("the model has no experts" in idle, idle[-300:])


def test_the_pages_own_callback(folder):
    """`callback:` as the page spells it, with the arguments that it prints; a line for each layer with experts."""
    prepare(folder)
    text = (folder / "pretrain_llama.yaml").read_text()
    head, tail = text.split("callbacks:\n")
    tail = tail[tail.index("\ncontext:"):]
    page = "callback:\n  - type: MFLossMonitor\n  - type: MoEDropRateCallback\n    expert_num: 4\n    capacity_factor: 0.5\n    num_layers: 8\n    mtp_depth: 1\n"
    moe = "moe_config:\n  expert_num: 4\n  num_experts_chosen: 2\n  capacity_factor: 0.5\n  routing_policy: TopkRouterV2\n  callback_moe_droprate: True\n"
    (folder / "page.yaml").write_text(head + page + moe + tail)
    said = line(folder, "--epochs", "1", config="page.yaml").stderr
    drops = re.findall(r"- INFO - layer: ([01]), drop_rate: (\d\.\d{5})\n", said)
    check(len(drops) == 16 and all(float(d) > 0 for _, d in drops), f"{drops} {said[-600:]}")
    (folder / "page.yaml").write_text(head + page.replace("  - type: MFLossMonitor\n", "") + moe + "callbacks:\n  - type: MFLossMonitor\n    per_print_times: 4\n" + tail)
    both = line(folder, "--epochs", "1", "--output_dir", "both", config="page.yaml").stderr
    check(both.count("{ Epoch:[") == 2 and "drop_rate: " in both, f"both lists count: {both[-800:]}")
    for was, wrong in (("    capacity_factor: 0.5", "capacity_factor: 1.5"), ("    expert_num: 4", "expert_num: 8")):
        (folder / "page.yaml").write_text(head + page.replace(was, "    " + wrong) + moe + tail)
        said = line(folder, "--epochs", "1", config="page.yaml", status=2).stderr
        check(wrong.replace(": ", " is ") in said and f"write {was.split(': ')[1]}" in said, said)


def test_two_seeds(folder):
    """The seed of the run draws weights, that of a Megatron data set the order of its samples."""
    prepare(folder)
    loss = {(a, b): first(folder, f"s{a}-{b}", "--seed", a, *token_flags(folder, seed=b))[0] for a, b in (("1", 7), ("2", 7), ("1", 8), ("1", 1))}
    check(len(set(loss.values())) == 4, f"each seed counts: {loss}")
    plain = first(folder, "plain", "--seed", "1", *token_flags(folder))[0]
    check(plain == first(folder, "standard", "--seed", "1", *token_flags(folder, seed=1234))[0] != loss["1", 1], "1234 is the seed of a data set without one")


def test_epochs_of_token_files(folder):
    """`sizes` is how many samples an epoch has, and each epoch has the same."""
    prepare(folder)
    still = ("--lr_schedule.learning_rate", "1e-12", "--lr_schedule.lr_end", "0")
    said = line(folder, "--epochs", "2", "--output_dir", "epochs", *still, *token_flags(folder, sizes="[9, 0, 0]")).stderr
    seen = re.findall(r"Epoch:\[ *(\d+)/ *(\d+)\], step:\[ *(\d+)/ *(\d+)\]", said)
    check(seen == [(str(e), "2", str(s), "4") for e in (1, 2) for s in (1, 2, 3, 4)], f"{seen}")
    losses = [row["loss"] for row in rows(folder, "epochs")]
    check(all(abs(a - b) < 1e-8 for a, b in zip(losses[:4], losses[4:], strict=True)) and len(set(losses[:4])) == 4, f"{losses}")


def test_recompute_by_stage(folder):
    """A list says of each stage how many of its layers are computed again; the numbers are the same, what a rank keeps is not."""
    prepare(folder)
    pipe = ("--use_parallel", "True", "--parallel.parallel_mode", "1", "--parallel_config.pipeline_stage", "2", "--parallel_config.micro_batch_num", "4", "--runner_wrapper.type", "MFPipelineWithLossScaleCell",
            *model(num_layers=8), "--recompute_config.recompute")
    lost, kept = {}, {}
    for name, value in (("none", "False"), ("all", "True"), ("some", "[3, 1]"), ("rows", "[[3, 1]]"), ("other", "[1, 0]")):
        done = line(folder, "--epochs", "1", "--output_dir", name, *pipe, value, ranks=2)
        lost[name] = [(row["loss"], row["grad_norm"]) for row in rows(folder, name)]
        kept[name] = [float(size) * (1 if unit == "KiB" else 1024) for size, unit in re.findall(r"memory   rank [01]: .*, arena ([\d.]+) (KiB|MiB)", done.stderr)]
    check(lost["none"] == lost["all"] == lost["some"] == lost["rows"] == lost["other"], "the numbers are the same")
    check(kept["some"] == kept["rows"] and all(a <= b <= c < d for a, b, c, d in zip(kept["all"], kept["some"], kept["other"], kept["none"], strict=True)), f"{kept}")
    check(kept["some"][0] < kept["other"][0] and kept["all"][1] < kept["some"][1] < kept["other"][1], f"each stage has its own number: {kept}")
    for wrong in ("[1, 2, 3]", "[[1, 0], [1, 0]]", "[-1, 0]"):
        said = line(folder, *pipe, wrong, ranks=2, status=2).stderr
        check("recompute is" in said and "2 stages" in said, said)


def test_lines_of_skipped_steps(folder):
    """As the page prints them, letter by letter."""
    prepare(folder)
    quiet = ("--use_skip_data_by_global_norm", "True", "--monitor_config.monitor_on", "True", "--runner_config.sink_mode", "True")
    done = line(folder, *quiet, "--monitor_config.global_norm_spike_threshold", "1e-3", "--monitor_config.global_norm_spike_count_threshold", "2", status=1)
    text = re.sub(r"^.*?(?=- INFO - |ValueError)", "", done.stderr, flags=re.M)
    number, info = r"[\d.]+", "- INFO - "
    step = info + r"\{ Epoch:\[  1/  2\], step:\[    %d/    8\], loss: [ \d.]+, per_step_time: \d+ms, lr: 0\.0, overflow cond: False, loss_scale: 1\.0, global_norm: \[[\d.]+\], train_throughput_per_npu: \d+\.\d{3}T\n"
    bar = info + r" {2,}%s%% \|[█ ]{50}\| %s samples/s/p  \d+:\d\d:\d\d \}\n" % (number, number)
    skip = info + r"opt_global_step: 0, skip_data_grad_norm_threshold: 0\.001, is_skip: \[ True\]\n"
    one = info + r"Current global norm \[[\d.]+\] of step 1 has been 1 consecutive times greater than threshold: 0\.001\n"
    two = r"ValueError: Current global norm \[[\d.]+\] of step 2 has been 2 consecutive times greater than threshold 0\.001, stop training\.\.\.\n"
    check(re.search(step % 1 + bar + skip + one + step % 2 + bar + skip + two, text), done.stderr[-2500:])
    line(folder, "--epochs", "1", "--output_dir", "whole", *quiet, "--monitor_config.global_norm_spike_threshold", "3")
    said = line(folder, "--epochs", "1", "--output_dir", "stiff", *quiet, "--optimizer.weight_decay", "0", "--monitor_config.global_norm_spike_threshold", "1", "--lr_schedule.learning_rate", "1e-9").stderr
    check("skip_data_grad_norm_threshold: 1.0, is_skip: [ True]" in said and "greater than threshold: 1.0\n" in said, said[-1200:])
    # metrics.jsonl has what the line tells
    speed = re.search(r"step:\[    1/    8\].*per_step_time: (\d+)ms.*train_throughput_per_npu: ([\d.]+)T", said)
    check(speed and float(speed[2]) >= 0, said[-500:])


def test_health_of_checkpoints(folder):
    """embedding_local_norm in the log, and health_ckpts.json as the page prints it."""
    prepare(folder)
    said = line(folder, "--callbacks[1].embedding_local_norm_threshold", "1e-9", config="guarded.yaml", ranks=2).stderr
    check(re.search(r"samples/s/p .*\n.*- INFO - embedding_local_norm: [\d.]+(e-\d+)?\n", said), said[-1500:])
    text = (folder / "runs/guarded/health_ckpts.json").read_text()
    check(text.startswith('[\n    {\n        "is_health": 1,\n        "ckpt_name": "llama_small_rank_0-1_2.safetensors"\n    },\n'), text)


FUSED = {"use_flash_attention": "attention", "use_fused_rope": "rope", "use_fused_swiglu": "swiglu"}


def test_fused_switches(folder):
    """Each switch is precision.unfused of its op, bit for bit; off is the default."""
    prepare(folder)
    half = model(compute_dtype="bfloat16")
    on = {key: "True" for key in FUSED}
    whole = first(folder, "fused", *half, *model(**on))
    seen = {whole}
    for key, op in FUSED.items():
        got = first(folder, key, *half, *model(**{**on, key: "False"}))
        rule = ["precision.recipes=[{op: rope, compute: f32}]"] if op == "rope" else []
        want = first(folder, key + "-op", *half, *model(**on), f"precision.unfused=[{op}]", *rule)
        check(got == want and got not in seen, f"{key}: {got} {want} {seen}")
        seen.add(got)
    bare = (EXAMPLES / "pretrain_llama.yaml").read_text().replace("    use_flash_attention: True\n", "")
    (folder / "bare.yaml").write_text(bare)
    none = first(folder, "bare", *half, config="bare.yaml")
    check(none == first(folder, "off", *half, *model(**{key: "False" for key in FUSED})) and none not in seen, "off is the default of each")
    check(first(folder, "core", *half, *model(apply_rope_fusion="True", bias_swiglu_fusion="True")) == whole, "the names of the newer classes")


def test_compute_types(folder):
    """Types of the precision guide: each changes the first step, in bf16; float32 is what is done without a word."""
    prepare(folder)
    half = [*model(compute_dtype="bfloat16", use_flash_attention="False"), "--runner_wrapper.local_norm", "True"]
    plain = first(folder, "plain", *half, *model(param_init_type="float32"))
    wide = {"layernorm_compute_type": "float32", "softmax_compute_type": "float32", "rotary_dtype": "float32", "embedding_init_type": "float32"}
    check(first(folder, "wide", *half, *model(param_init_type="float32", **wide)) == plain, "float32 is the default")
    for key in wide:
        got = first(folder, key, *half, *model(param_init_type="float32", **{key: "bfloat16"}))
        check(got != plain, f"{key}: {got} {plain}")
    # the guide's case: the embedding in bf16, as the other program has it, moves its local norm, and little else at the first step
    def embedding(run):
        text = (folder / run / "log.txt").read_text()
        values = [float(x) for x in re.search(r"local_norm:\s*\(([^)]*)\)", text)[1].split(",")]
        return values[0]
    check(first(folder, "stored", *half, *model(param_init_type="bfloat16")) != plain and embedding("stored") != embedding("plain"), "param_init_type")
    flash = [*half, *model(use_flash_attention="True", softmax_compute_type="bfloat16")]
    said = line(folder, *flash, "--explain").stdout
    check("without use_flash_attention alone" in said, said[:300])
    moe = [*half, *EXPERTS]
    check(first(folder, "router", *moe) != first(folder, "router16", *moe, "--moe_config.router_dense_type", "bfloat16"), "router_dense_type")


def test_what_is_refused_says_what_to_do(folder):
    prepare(folder)
    for flag, value, fix in (("--parallel_config.context_parallel", "2", "use_seq_parallel"), ("--swap_config.swap", "True", "recompute_config"), (MODEL + "mtp_depth", "1", "leave it out")):
        said = line(folder, flag, value, status=2).stderr
        check(flag[2:] in said and fix in said and "later" not in said, said)
    swap = "swap_config:\n  swap: {}\n  layer_swap:\n    - backward_prefetch: 1\n      layers: True\n  op_swap:\n    - op_name: wq\n      backward_prefetch: 1\n      layers: [0]\n"
    for on in (False, True):
        (folder / "swap.yaml").write_text((folder / "pretrain_llama.yaml").read_text() + "\n" + swap.format(on))
        said = line(folder, "--epochs", "1", "--output_dir", f"swap{on}", config="swap.yaml", status=2 if on else 0).stderr
        check("has no such key" not in said and ("recompute_config" in said) == on, f"keys that MindFormers has: {said[:600]}")


def test_what_is_made_again_layer_by_layer(folder):
    """select_recompute of some layers or operators is that of all here: said where it was asked for, and not where all are meant."""
    prepare(folder)
    whole = "recompute_config: {recompute: False, select_recompute: False}"
    text = (folder / "pretrain_llama.yaml").read_text()
    check(whole in text, text)
    (folder / "maps.yaml").write_text(text.replace(whole, "recompute_config: {recompute: False, select_recompute: {'feed_forward\\.mul': [1]}}"))
    check("is not followed" in line(folder, "--epochs", "1", "--output_dir", "maps", config="maps.yaml").stderr, "patterns of a file")
    for value, said_so in (("True", False), ("False", False), ("[1]", True), ('{"feed_forward.mul": true}', True), ("[0]", False)):
        done = line(folder, "--epochs", "1", "--output_dir", "again", "--recompute_config.select_recompute", value)
        check(("is not followed" in done.stderr) == said_so, f"{value}: {done.stderr[:600]}")
    said = line(folder, "--output_dir", "no", "--recompute_config.select_recompute", '{"feed_forward.mul": True}', status=2).stderr
    check("recompute_config.select_recompute is" in said and "JSON" in said, f"a text that is no JSON: {said}")


def test_a_run_that_skips_everything_says_why(folder):
    """No step overflowed: the threshold left each of them out."""
    prepare(folder)
    done = line(folder, "--epochs", "1", "--output_dir", "skips", "--use_skip_data_by_global_norm", "True", "--monitor_config.monitor_on", "True", "--monitor_config.global_norm_spike_threshold", "1e-6",
                "--monitor_config.global_norm_spike_count_threshold", "1000")
    check("changed a weight: each was left out" in done.stderr and "overflowed" not in done.stderr, done.stderr[-600:])


def test_what_would_change_a_run_there_is_refused(folder):
    """Keys that MindFormers acts on, with values that ask for what is not done here; beside them the values that are taken."""
    prepare(folder)
    pad, tokens = token_flags(folder, pad=-1), token_flags(folder, pad=3)
    monitor = "--callbacks[2].type"
    for name, flags, says in (("format", ["--load_ckpt_format", "bin"], ("load_ckpt_format", "safetensors")),
                              ("precision", ["--context.ascend_config.precision_mode", "force_fp16"], ("precision_mode", "must_keep_origin_dtype")),
                              ("hidden", [MODEL + "return_hidden_states", "True"], ("return_hidden_states", "ravine dump")),
                              ("pad", tokens, ("config.pad is 3", "set it to -1")),
                              ("summary", [monitor, "SummaryMonitor"], ("MindInsight", "tensorboard_dir")),
                              ("loss", [monitor, "LossMonitor", "--callbacks[2].learning_rate", "1"], ("callbacks[2].learning_rate",)),
                              ("clock", [monitor, "TimeMonitor", "--callbacks[2].every", "1"], ("callbacks[2].every",))):
        said = line(folder, *flags, status=2).stderr
        check(all(words in said for words in says), f"{name}: {said}")
    line(folder, "--context.ascend_config.precision_mode", "must_keep_origin_dtype", MODEL + "return_hidden_states", "False", *pad, "--epochs", "1")
    parallel = ["--use_parallel", "True", "--parallel.parallel_mode", "1", "--parallel_config.data_parallel", "2", "--epochs", "1"]
    said = line(folder, *parallel, "--parallel.gradients_mean", "True", ranks=2, status=2).stderr
    check("gradients_mean is True" in said and "set it to False" in said, said)
    line(folder, *parallel, "--parallel.gradients_mean", "False", ranks=2)


def test_files_of_the_format_that_is_asked_for(folder):
    """A folder with a .ckpt and a .safetensors: load_ckpt_format says which; the lines of a LossMonitor come as often as it says."""
    prepare(folder)
    (folder / "both").mkdir()
    for ending, seed in (("ckpt", "1"), ("safetensors", "2")):
        line(folder, "--epochs", "1", "--seed", seed, "--output_dir", ending, "--callbacks[1].checkpoint_format", ending)
        made = sorted((folder / ending / "checkpoint" / "rank_0").glob(f"*.{ending}"))[-1]
        (folder / "both" / f"w.{ending}").write_bytes(made.read_bytes())
    losses = {}
    for ending in ("ckpt", "safetensors"):
        losses[ending] = [first(folder, f"{ending}-{how}", "--load_checkpoint", str(folder / "both" / place), "--load_ckpt_format", ending)[0] for how, place in (("folder", ""), ("file", f"w.{ending}"))]
    check(all(a == b for a, b in losses.values()) and losses["ckpt"] != losses["safetensors"], f"{losses}")
    said = line(folder, "--epochs", "1", "--output_dir", "sparse", "--callbacks[0].type", "LossMonitor", "--callbacks[0].per_print_times", "4").stderr
    check(said.count("{ Epoch:[") == 2, said[-900:])


if __name__ == "__main__":
    r.main(globals())
