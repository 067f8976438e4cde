"""One wrong line at a time is planted in the sources, and `ravine compare` has to name what it breaks: a run of the mutated program against one of the sound program.

    python3 tools/mutated_builds.py [NAME...] [--build COMMAND] [--trial]

NAME: part of a mutation's name; default: all. --build: the command that builds the program, for a lock or a limit before it. --trial: plants and builds
nothing; says whether each line is there once, and whether two runs of the sound program are silent.

Plants in the tree itself, so it is for a checkout that nobody else uses: a file with changes that are not committed is left alone, each file is put back
after its mutation, and what a killed run left is put back by the next one. Both programs train the same tiny model (tools/seeded_faults.py) on the same
ranks, and dump statistics of steps 1 and 2. Two runs of the sound program are compared too, and must be silent. A mutation counts as found where the first
culprit has its kind, its op and its place. Prints a line for each and the sum. Exit status 1: fewer than nine in ten are found."""
import argparse
import fnmatch
import json
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import seeded_faults

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "release" / "ravine"
JOURNAL = ROOT / "build" / "mutated.json"  # the file as it was
FOUR = {"parallel__data": 2, "parallel__tensor": 2}


@dataclass
class Mutation:
    file: str  # below src
    old: str
    new: str
    expected: list  # (kind, op, path) of the culprit, any of these
    family: str = "llama"
    options: dict = field(default_factory=dict)
    ranks: int = 1


MUTATIONS = {
    # Kernels.
    "rms_norm: mean of one too few": Mutation(
        "kernels/cpu/rms_norm.cpp", "static_cast<double>(squares) / cols + a.eps", "static_cast<double>(squares) / (cols - 1) + a.eps",
        [("forward", "rms_norm", "model.layers.0.input_layernorm")]),
    "rms_norm_backward: a sign": Mutation(
        "kernels/cpu/rms_norm.cpp", "hn::NegMulAdd(xhat, mean, ", "hn::MulAdd(xhat, mean, ",
        [("backward", "rms_norm_backward", "model.norm")], options=FOUR, ranks=4),
    "swiglu_backward: slope for value": Mutation(
        "kernels/cpu/gated.cpp", "dup.store(hn::Mul(d, Act::value(g)), i, part);", "dup.store(hn::Mul(d, Act::rise(g)), i, part);",
        [("backward", "swiglu_backward", "model.layers.1.mlp*")], "mixtral"),
    "attention_backward: no scale": Mutation(
        "kernels/cpu/attention_backward.cpp", "pack_transposed(v, keys, values, w.values_t, kKeys, static_cast<float>(a.at.scale));",
        "pack_transposed(v, keys, values, w.values_t, kKeys, 1.0f);",
        [("backward", "attention_backward", "model.layers.1.self_attn")], "qwen2"),
    "embedding_backward: last token of an id": Mutation(
        "kernels/cpu/embedding.cpp", "s = hn::Add(s, hn::Mul(scale, grads(t).load(i, part)));", "s = hn::Mul(scale, grads(t).load(i, part));",
        [("backward", "embedding_backward", "*embed*")], "gpt2"),
    "loss_head: sign of the label": Mutation(
        "kernels/cpu/loss_head.cpp", "d[(label - v) * p.pitch + t] -= m.hit", "d[(label - v) * p.pitch + t] += m.hit",
        [("backward", "loss_head", "lm_head")], options={"parallel__data": 4, "train__micro_batch": 2}, ranks=4),
    "adamw: first moment without decay": Mutation(
        "kernels/cpu/adamw.cpp", "hn::MulAdd(c1, hn::Sub(g, old), old)", "hn::MulAdd(c1, g, old)",
        [("update", "adamw", "*")]),
    # Ops.
    "rms_norm: gradient of the sum is dropped": Mutation(
        "engine/ops/rms_norm.cpp", ".dsum = dsum.view(),", ".dsum = {},",
        [("backward", "rms_norm_backward", "model.layers.1.post_attention_layernorm")]),
    "rope: not inverse in backward": Mutation(
        "engine/ops/rope.cpp", "rotate(c, c.grads().get(xr).view(), tables, heads, begin, true);",
        "rotate(c, c.grads().get(xr).view(), tables, heads, begin, false);",
        [("backward", "rope", "model.layers.1.self_attn")], "qwen2"),
    "router: slopes of the micro batch before": Mutation(
        "engine/ops/router.cpp", "std::transform(values.begin(), values.end(), to, [scale]",
        "static std::map<int64_t, std::vector<double>> kept; const std::vector<double> old = kept.try_emplace(layer, values).first->second; "
        "kept[layer] = values; std::transform(old.begin(), old.end(), to, [scale]",
        [("backward", "input", "slopes"), ("backward", "router_backward", "model.layers.1.mlp*")], "mixtral",
        {"moe__load_balance": "aux", "moe__aux_loss": 0.1}),
    "dropout: another mask under recompute": Mutation(
        "engine/ops/dropout.cpp", 'c.path() + ".dropout"', 'c.path() + (c.phase() == Phase::recompute ? ".again" : ".dropout")',
        [("forward", "dropout", "model.layers.1*")], options={"train__dropout": 0.1, "train__recompute": "full"}),
    # Collectives and layouts.
    "embedding: no mask of the cut table": Mutation(
        "engine/ops/vocabulary_parallel.cpp", ".out = x.view(),\n                          .scale = scale,\n                          .first = here.begin,",
        ".out = x.view(),\n                          .scale = scale,\n                          .first = 0,",
        [("forward", "embedding", "model.embed_tokens")], options=FOUR, ranks=4),
    "sequence: replicated gradients are not summed": Mutation(
        "parallel/flat_grads.cpp", "if (table_->sequence && !bucket_of(a).cut) all_reduce", "if (false) all_reduce",
        [("backward", "add", "model.layers.?"), ("backward", "gradient", "*norm*")], options={**FOUR, "parallel__sequence": True}, ranks=4),
    "tied tables: no sum over stages": Mutation(
        "parallel/flat_grads.cpp", "c.call(Add{owned_here ? ours : theirs.view(), owned_here ? theirs.view() : ours, ours});", "",
        [("update", "add", "*"), ("backward", "gradient", "*embed_tokens*")], "gpt2", {"parallel__data": 2, "parallel__pipeline": 2, "train__micro_batch": 2}, 4),
    "loss: divided twice by the data ranks": Mutation(
        "step/step.cpp", "result.valid > 0 ? 1.0 / static_cast<double>(result.valid) : 0.0;",
        "result.valid > 0 ? 1.0 / static_cast<double>(result.valid) / data.size() : 0.0;",
        [("backward", "loss_head", "lm_head")], "qwen2", {"parallel__data": 4, "train__micro_batch": 2}, 4),
    "leaves: one is taken twice": Mutation(
        "parallel/leaf_sums.cpp", "c.call(Add{sum, later, sum});", "c.call(Add{later, later, sum});",
        [("backward", "add", "*")], options={**FOUR, "parallel__sum_leaves": 4, "train__micro_batch": 2}, ranks=4),
    # Stores.
    "store: the copy in bf16 stays": Mutation(
        "optim/optimizer.cpp", ".copy = store_.owned_copy(b), .states", ".copy = {}, .states",
        [("update", "adamw", "*"), ("weights", "input", "model.layers.0.self_attn.q_proj.weight")], options={"precision__compute": "bf16"}),
    "ZeRO 3: the piece of a neighbour": Mutation(
        "parallel/flat_weights.cpp", "return slice(all, at.begin, at.shape);",
        "return slice(all, at.begin >= bucket.shard ? at.begin - bucket.shard : at.begin, at.shape);",
        [("weights", "input", "model.layers.0*")], options={"parallel__data": 4, "parallel__zero": 3, "train__micro_batch": 2}, ranks=4),
    # Optimizers.
    "adamw: bias correction a step late": Mutation(
        "optim/rules/adamw.cpp", "t = static_cast<double>(step)", "t = static_cast<double>(step > 1 ? step - 1 : step)",
        [("update", "input", "optimizer.beta?")]),
    "clip: before gradients are unscaled": Mutation(
        "optim/optimizer.cpp", "options_.clip_norm / (norm + 1e-6)", "options_.clip_norm / (norm * loss_scale + 1e-6)",
        [("update", "input", "clip")], options={"precision__compute": "f16", "precision__loss_scale": 1024}),
}


def put_back():
    if JOURNAL.exists():
        left = json.loads(JOURNAL.read_text())
        (ROOT / left["file"]).write_text(left["text"])
        JOURNAL.unlink()


def plant(file, mutation):
    """Why it cannot be planted; empty: it is."""
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", file], cwd=ROOT).returncode:
        return f"{file} has changes that are not committed"
    text = (ROOT / file).read_text()
    JOURNAL.write_text(json.dumps({"file": file, "text": text}))
    (ROOT / file).write_text(text.replace(mutation.old, mutation.new))
    return ""


def build(command):
    """What the compiler says where it fails; empty: it is built."""
    done = subprocess.run(shlex.split(command), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "does not compile:\n" + done.stdout[-3000:] if done.returncode else ""


def folder_name(name, which):
    return re.sub(r"\W+", "-", name) + f"-{which}"


def judge(pairs, dump, name, mutation, program):
    """Whether compare names the mutation in `program`, whose run it is here, and its words."""
    pairs.program = str(program)
    try:
        other = pairs.train(folder_name(name, "mutated"), mutation.family, mutation.options, ranks=mutation.ranks)
    except SystemExit as e:
        return False, f"the run fails: {e}"
    pairs.program = str(pairs.sound)
    status, out = pairs.compare(dump, other)
    said = out.get("culprits", [])
    found = status == 1 and any(c["kind"] == kind and fnmatch.fnmatch(c["op"], op) and fnmatch.fnmatch(c["path"], path)
                                for c in said[:1] for kind, op, path in mutation.expected)
    words = "; ".join(f"{c['kind']} {c['op']} at {c['path'] or '(no path)'} '{c['tensor']}' step {c['step']}" for c in said[:3]) + (f" and {len(said) - 3} more" if len(said) > 3 else "")
    return found, f"exit {status}, {words or 'no culprit: ' + out['verdict'][:300]}"


def sound_run(pairs, name, mutation):
    """A dump of the sound program; why it cannot be compared with; empty: another one is the same."""
    a, b = (pairs.train(folder_name(name, which), mutation.family, mutation.options, ranks=mutation.ranks) for which in ("sound", "again"))
    status, out = pairs.compare(a, b)
    return a, "" if status == 0 else f"ALARM between two runs of the sound program: {out['verdict'][:200]}"


def attempt(pairs, name, mutation, command, trial):
    file = f"src/{mutation.file}"
    if (times := (ROOT / file).read_text().count(mutation.old)) != 1:
        return False, f"its line is {times} times in {file}"
    dump, alarm = sound_run(pairs, name, mutation)
    if alarm or trial:
        return not alarm, alarm or "silent without it"
    try:
        if why := plant(file, mutation) or build(command):
            return False, why
        return judge(pairs, dump, name, mutation, PROGRAM)
    finally:
        put_back()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*")
    options.add_argument("--build", default="cmake --build --preset release --target ravine")
    options.add_argument("--trial", action="store_true")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    put_back()
    if failed := build(given.build):
        sys.exit(failed)
    chosen = {name: m for name, m in MUTATIONS.items() if not given.names or any(n in name for n in given.names)}
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        pairs = seeded_faults.Pairs(str(PROGRAM), pathlib.Path(folder), "statistics")
        pairs.sound = shutil.copy(PROGRAM, pathlib.Path(folder) / "sound")
        pairs.program = str(pairs.sound)
        for name, mutation in chosen.items():
            right, words = attempt(pairs, name, mutation, given.build, given.trial)
            found += right
            print(f"{('silent' if given.trial else 'found ') if right else 'MISSED'}  {name:46} {mutation.ranks} rank{'s' if mutation.ranks > 1 else ' '}  {words}", flush=True)
    if not given.trial:
        print(f"{found} of {len(chosen)} mutated builds named")
        build(given.build)  # what is left behind is built from the tree as it is
    return 0 if found * 10 >= len(chosen) * 9 else 1


if __name__ == "__main__":
    sys.exit(main())
