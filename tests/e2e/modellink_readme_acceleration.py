"""The chapter on acceleration of ModelLink's README, flag by flag on a tiny pretraining. Where the arithmetic is the same,
the losses are those of a run without the flag. What the flag is for stands in the run's lines of ranks and memory."""
import json
import re

import ravine_run as r
from modellink_readme_walk import DEEPSPEED, TRAIN, UNITS, near, page, script, text_data, train
from ravine_run import check


def flag(begin, *values):
    """A line of the acceleration chapter, with the value that the page leaves to its reader."""
    line = next(line for line in page("acceleration.txt").splitlines() if line == begin)
    return [*line.replace('"', "").split(), *values]


def test_tensor_and_sequence_parallel(folder):
    data = text_data(folder)
    whole, size, _ = train(folder, "whole", *data)
    two = flag("--tensor-model-parallel-size", 2)
    cut, half, _ = train(folder, "tensor", *data, *two, ranks=2)
    near(cut, whole, "two tensor ranks")
    check(half["weights"] < 0.6 * size["weights"] and half["arena"] < 0.8 * size["arena"], f"{half} of {size}")
    along, less, _ = train(folder, "sequence", *data, *two, *flag("--sequence-parallel"), ranks=2)
    near(along, whole, "sequence parallel")
    check(less["arena"] < half["arena"], f"{less} of {half}")
    fused, _, _ = train(folder, "fused", *data, *flag("--mlp-layer-fusion"))
    check(fused == whole and r.weights(folder / "fused") == r.weights(folder / "whole"), f"one product for gate and up: {fused} and {whole}")
    near(train(folder, "both", *data, *two, *flag("--mlp-layer-fusion"), ranks=2)[0], whole, "fused on two ranks")
    alone, _, _ = train(folder, "alone", *data, *flag("--sequence-parallel"))
    check(alone == whole, f"one tensor rank has no sequence to cut: {alone} and {whole}")


def test_kept_activations_are_cut(folder):
    """--distribute-saved-activations keeps of the inputs of layers the part of a tensor rank."""
    data, two = text_data(folder), flag("--tensor-model-parallel-size", 2)
    full = ["--recompute-granularity", "full", "--recompute-method", "uniform"]
    batch = {"SEQ": 256, "MBS": 8}
    whole, size, _ = train(folder, "whole", *data, *two, *full, ranks=2, **batch)
    cut, less, _ = train(folder, "cut", *data, *two, *full, "--distribute-saved-activations", ranks=2, **batch)
    near(cut, whole, "cut along the sequence")
    check(less["activations"] < 0.9 * size["activations"], f"{less} of {size}")


def test_pipelines(folder):
    data = [*text_data(folder), "--num-layers", 8]
    batch = {"SEQ": 16, "MBS": 4, "GBS": 64, "STEPS": 2}
    whole, size, _ = train(folder, "whole", *data, **batch)
    four = flag("--pipeline-model-parallel-size", 4)
    virtual = [*flag("--num-layers-per-virtual-pipeline-stage", 1), *flag("--no-overlap-p2p-communication")]
    said = {}
    for name, more in {"stages": [], "virtual": virtual, "dynamic": [*flag("--optimized-pipeline"), *flag("--manual-mbs example-config-1")], "folded": [*virtual, *flag('--fold-mode "aiao"')]}.items():
        losses, part, said[name] = train(folder, name, *data, *four, *more, ranks=4, **batch)
        near(losses, whole, name)
        check(part["weights"] < 0.5 * size["weights"], f"{name}: {part} of {size}")
    check(re.search("virtual", said["virtual"]) and not re.search("virtual", said["stages"]), said["virtual"])
    sizes = [*flag("--optimized-pipeline"), *flag("--manual-mbs example-config-1")]
    for more, ranks, words in (([*flag("--pipeline-model-parallel-size", 2), *virtual], 2, "greater than 2"), ([*four, *flag('--fold-mode "aiao"')], 4, "--num-layers-per-virtual-pipeline-stage"),
                               ([*four, *sizes, "--global-batch-size", 32], 4, "--manual-mbs"), ([*four, *flag("--optimized-pipeline")], 4, "--manual-mbs")):
        refused = script(folder, "no.sh", TRAIN, *data, *more, "--save", "no", status=2, **{**batch, "NPUS": ranks}).stderr
        check(words in refused, refused)


def test_recompute(folder):
    data, batch = text_data(folder), {"SEQ": 256, "MBS": 8}
    whole, size, _ = train(folder, "whole", *data, **batch)
    full, least, _ = train(folder, "full", *data, *flag("--checkpoint-activations"), **batch)
    check(full == whole and least["activations"] < 0.5 * size["activations"], f"{full} and {whole}, {least} of {size}")
    room = int((size["all"] + least["all"]) / 2 / UNITS["MiB"])
    auto = flag("--auto-recompute-device-size", room)
    losses, part, _ = train(folder, "auto", *data, *auto, *flag("--auto-recompute-profiling-step", 10), **batch)
    check(losses == whole and least["activations"] <= part["activations"] < size["activations"] and part["all"] <= room * UNITS["MiB"], f"{losses} and {whole}; within {room} MB: {part}, {least}, {size}")
    for more, words in ((flag("--checkpoint-activations"), "--checkpoint-activations"), (flag("--auto-recompute-profiling-step", 4), "5 or more")):
        said = script(folder, "no.sh", TRAIN, *data, *auto, *more, "--save", "no", status=2).stderr
        check(words in said, said)


def test_checkpoint_policy(folder):
    """The page has it choose what is recomputed. ModelLink's code of that day does not read it, and the page counts."""
    data, batch = text_data(folder), {"SEQ": 256, "MBS": 8}
    whole, size, _ = train(folder, "whole", *data, **batch)
    for policy in ("full", "block"):
        losses, part, _ = train(folder, policy, *data, *flag("--checkpoint-policy", policy), **batch)
        check(losses == whole and part["activations"] < 0.999 * size["activations"], f"{policy}: {losses} and {whole}, {part} of {size}")


def test_zero(folder):
    data = text_data(folder)
    whole, size, _ = train(folder, "whole", *data)
    plain, apart, _ = train(folder, "plain", *data, ranks=2)
    near(plain, whole, "two data ranks")
    check(apart["optimizer"] > 0.9 * size["optimizer"], f"{apart} and {size}")
    arenas = {}
    for name, stage, more in (("distributed", None, flag("--use-distributed-optimizer")), *((f"zero{n}", n, ["--deepspeed", "--deepspeed_config", "ds.json", "--zero-stage", n, "--no-pipeline-parallel"]) for n in (1, 2, 3))):
        if stage:
            (folder / "ds.json").write_text(json.dumps({**DEEPSPEED, "zero_optimization": {**DEEPSPEED["zero_optimization"], "stage": stage}}))
        losses, part, _ = train(folder, name, *data, *more, ranks=2)
        near(losses, whole, name)
        check(part["optimizer"] < 0.6 * size["optimizer"], f"{name}: {part} of {size}")
        arenas[name] = part["arena"]
        check((part["weights"] < 0.6 * size["weights"]) == (stage == 3), f"{name}: stage 3 cuts weights: {part} of {size}")
    check(arenas["zero2"] < arenas["zero1"] <= apart["arena"], f"gradients are cut by stage 2: {arenas}, {apart}")


def test_triangle(folder):
    data = text_data(folder)
    whole, size, _ = train(folder, "whole", *data)
    losses, part, _ = train(folder, "triangle", *data, *flag("--triangle-attn"))
    near(losses, whole, "triangle attention")
    check(part["arena"] <= size["arena"], f"{part} of {size}")
    said = script(folder, "no.sh", TRAIN, *data, *flag("--triangle-attn"), "--use-flash-attn", "--save", "no", status=2).stderr
    check("not used at the same time" in said, said)


def test_optimizers(folder):
    data, steps = text_data(folder), {"STEPS": 6}
    whole, size, _ = train(folder, "whole", *data, **steps)
    for name in ("adam", "fused_adam"):
        losses, part, _ = train(folder, name, *data, *flag(f"--optimizer {name}"), **steps)
        check(losses == whole and part["optimizer"] == size["optimizer"] and r.weights(folder / name) == r.weights(folder / "whole"), f"{name}: {losses} and {whole}")
    # A rate of a fifth, a decay of the fivefold. The second moment goes and the first one has two bytes.
    losses, part, _ = train(folder, "cadam", *data, *flag("--optimizer cadam"), *flag("--adam-beta1 0.965"), "--min-lr", 2e-6, LR=2e-4, DECAY=0.5, **steps)
    check(losses[0] == whole[0] and losses[1:] != whole[1:] and part["optimizer"] <= size["optimizer"] - 5 * size["weights"] / 4, f"{losses}, {part} of {size}")
    other, _, _ = train(folder, "other", *data, *flag("--optimizer cadam"), "--min-lr", 2e-6, LR=2e-4, DECAY=0.5, **steps)
    check(other[0] == losses[0] and other[2:] != losses[2:], f"its beta counts: {other} and {losses}")
    said = script(folder, "no.sh", TRAIN, *data, *flag("--optimizer", "lion"), "--save", "no", status=2).stderr
    check("--optimizer" in said and "cadam" in said, said)


def test_accumulation_and_gradients_of_16_bits(folder):
    data = text_data(folder)
    whole, size, _ = train(folder, "whole", *data, MBS=8)
    parts, less, _ = train(folder, "parts", *data, MBS=2)
    near(parts, whole, "four micro batches")
    check(less["activations"] < 0.5 * size["activations"], f"{less} of {size}")
    losses, _, said = train(folder, "ranks", *data, MBS=2, ranks=2)
    near(losses, whole, "two micro batches on each of two ranks")
    check("2 micro batches each" in said, said)  # N = 8 / 2 / 2
    half = ["--fp16", "--initial-loss-scale", 4096]
    plain, kept, _ = train(folder, "kept", *data, *half)
    released, freed, _ = train(folder, "released", *data, *half, *flag("--release-fp32-grad"))
    check(all(abs(a - b) < 2.0**-8 for a, b in zip(released, plain)) and freed["gradients"] < 0.6 * kept["gradients"], f"{released} and {plain}, {freed} of {kept}")
    apart, _, _ = train(folder, "apart", *data, *half, *flag("--release-fp32-grad"), *flag("--use-distributed-optimizer"), ranks=2)
    check(all(abs(a - b) < 2.0**-8 for a, b in zip(apart, plain)), f"with the distributed optimizer: {apart} and {plain}")
    said = script(folder, "no.sh", TRAIN, *data, *half, *flag("--release-fp32-grad"), *flag("--optimizer cadam"), "--save", "no", status=2).stderr
    check("--release-fp32-grad" in said, said)


if __name__ == "__main__":
    r.main(globals())
