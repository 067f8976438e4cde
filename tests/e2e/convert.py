"""`ravine convert`: every layout gives the same weights bit for bit, there and back; what does not fit is refused and leaves nothing behind.

Small checkpoints in tests/golden/convert were written by torch (tools/golden/make_convert.py); with RAVINE_SHARED the recorded ones of real
programs are read too.
"""
import array
import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check, run

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "convert"
CONFIG = GOLDEN / "hf" / "config.json"


def numbers(kind, raw):
    """Values as f32 bits."""
    if kind == "F32":
        return raw
    if kind == "BF16":
        return b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
    return array.array("f", struct.unpack(f"<{len(raw) // 2}e", raw)).tobytes()


def weights(folder):
    return {name: (shape, numbers(kind, raw)) for name, (kind, shape, raw) in r.load_tensors(folder).items()}


def same(folder, want=None, what=""):
    got, want = weights(folder), want or weights(GOLDEN / "hf")
    bad = [n for n in sorted(set(got) | set(want)) if got.get(n) != want.get(n)]
    check(not bad, f"{what or folder}: {bad[:5]} differ")


def convert(source, target, to, *extra, status=0):
    return run("convert", "--input", source, "--output", target, "--to", to, *extra, status=status)


def refused(source, says, folder, to="hf", *extra):
    target = folder / "refused"
    done = convert(source, target, to, *extra, status=2)
    check(says in done.stderr, f"'{says}' is not in: {done.stderr}")
    check(not target.exists() and not list(folder.glob("refused.*")), "something was left behind")


def test_every_layout_to_hf(folder):
    for source in ("hf", "hf_bin", "legacy", "mcore", "te", "torch_dist", "zero1", "zero2", "zero3"):
        convert(GOLDEN / source, folder / source, "hf", "--dtype", "f32")
        same(folder / source)
    for source in ("classic", "merged", "mf", "mf_ranks", "mf_fused.ckpt"):
        convert(GOLDEN / source, folder / source, "hf", "--dtype", "f32", "--model-config", CONFIG)
        same(folder / source)


def test_folders_of_torch_distributed_checkpoint(folder):
    """torch_dist and FSDP's: recognised, read, and what is missing or cut is named. Whole conversions and moments stand beside those of the other layouts."""
    convert(GOLDEN / "fsdp/pytorch_model_fsdp_0", folder / "fsdp", "hf", "--dtype", "f32", "--model-config", CONFIG)
    same(folder / "fsdp")
    for path, says in (("torch_dist", "torch_dist"), ("torch_dist/iter_0000007", "torch_dist"), ("fsdp/pytorch_model_fsdp_0", "FSDP")):
        said = run("info", GOLDEN / path).stdout
        check(says in said and "one file per tensor" not in said, said)
    bad = copy(folder, "torch_dist")
    place = bad / "iter_0000007"
    whole = {p.name: p.read_bytes() for p in place.iterdir()}

    def put(name, data):
        for other, was in whole.items():
            (place / other).write_bytes(was)
        (place / name).write_bytes(data)

    chunks = copy(folder, "fsdp")
    description = chunks / "pytorch_model_fsdp_0" / ".metadata"
    good, size, second, sizes = description.read_bytes(), b"K2K\x10\x86", b"K\x19K\x00\x86", b"K\x19K\x10\x86"
    for old, new, says in ((size, b"K3K\x10\x86", "800 of 816 elements"), (second, b"K\x00K\x00\x86", "lie on each other"), (sizes, b"K\x18K\x10\x86", "by .metadata its shape is [24, 16]")):
        check(good.count(old) >= 1, f"{old} in {description}")
        description.write_bytes(good.replace(old, new, 1))
        refused(description.parent, says, folder, "hf", "--model-config", CONFIG)
    put("__1_0.distcp", whole["__1_0.distcp"][:3000])
    refused(bad, "__1_0.distcp", folder)
    put(".metadata", whole[".metadata"].replace(b"ChunkStorageMetadata", b"ChunkStorageMetadatb"))
    refused(bad, "which is not executed", folder)
    put(".metadata", whole[".metadata"].replace(b"decoder.layers.", b"decoder_layers."))
    refused(bad, "--ckpt-format torch", folder)
    put(".metadata", whole[".metadata"][:3000])
    refused(bad, ".metadata", folder)
    put("common.pt", whole["common.pt"])
    (place / "__0_0.distcp").unlink()
    refused(bad, "missing file", folder)
    put("common.pt", whole["common.pt"])
    (place / "common.pt").unlink()
    refused(bad, "without common.pt", folder)


def test_ranks_without_what_others_keep(folder):
    """remove_redundancy: of two data ranks one has a tensor's part. Parts lie by their tensor rank, whichever data rank keeps them; one that nobody keeps is missed."""
    convert(GOLDEN / "hf", folder / "two", "mindformers", "--tensor", 2)
    ranks = [r.load_tensors(next(folder.glob(f"two/**/rank_{rank}"))) for rank in (0, 1)]
    config = next(folder.glob("two/**/config.json"))
    def save(name, lost=""):
        kept = [{}, {}, {}, {}]
        for i, key in enumerate(sorted(ranks[0])):
            for tensor in (0, 1):  # one part in four ways: of data rank 0 or 1
                if key != lost or tensor == 0:
                    kept[2 * ((i >> tensor) % 2) + tensor][key] = ranks[tensor][key]
        for rank, tensors in enumerate(kept):
            (folder / name / f"rank_{rank}").mkdir(parents=True)
            r.save_tensors(folder / name / f"rank_{rank}" / f"m_rank_{rank}-1_1.safetensors", tensors)
    save("lean")
    convert(folder / "lean", folder / "lean-hf", "hf", "--dtype", "f32", "--model-config", config)
    same(folder / "lean-hf")
    lost = next(key for key in sorted(ranks[0]) if "wq" in key or "q_proj" in key)
    save("lost", lost)
    refused(folder / "lost", lost.split(".")[-2], folder, "hf", "--model-config", config)


def test_parts_of_the_pipeline_and_padding_of_the_vocabulary(folder):
    """--stage-layers and --vocab-multiple; what is written so is read."""
    convert(GOLDEN / "hf", folder / "parts", "megatron-mcore", "--pipeline", 2, "--tensor", 2, "--stage-layers", 1, 3, "--vocab-multiple", 13)
    files = sorted((folder / "parts").rglob("model_optim_rng.pt"))
    check([len(set(re.findall(rb"layers\.(\d+)\.", f.read_bytes()))) for f in files] == [1, 3, 1, 3], "layers of the stages")
    dry = run("convert", "--input", GOLDEN / "hf", "--to", "megatron-mcore", "--tensor", 2, "--vocab-multiple", 13, "--dry-run").stdout
    check(dry.count("[26, 16]") == 4 and "[128, 16]" not in dry, dry)
    convert(folder / "parts", folder / "back", "hf")
    same(folder / "back")
    for flags in (["--pipeline", 2, "--stage-layers", 1, 2], ["--pipeline", 2, "--stage-layers", 4], ["--pipeline", 2, "--virtual", 2, "--stage-layers", 1, 1, 1, 1]):
        refused(GOLDEN / "hf", "stages without virtual ones", folder, "megatron-mcore", *flags)
    refused(GOLDEN / "hf", "--stage-layers", folder, "hf", "--stage-layers", 4)
    refused(GOLDEN / "hf", "--zero", folder, "hf", "--zero", 2)


def test_there_and_back(folder):
    """Each layout to each other: what is written is read by the next."""
    start = GOLDEN / "hf"
    for i, (to, *layout) in enumerate((
            ("megatron-legacy", 2, 2, 1), ("mindformers", 2, 1, 1), ("megatron-mcore", 1, 2, 2), ("megatron-legacy", 1, 1, 1),
            ("megatron-mcore", 2, 4, 1), ("hf", 1, 1, 1), ("mindformers", 1, 1, 1), ("mindformers", 2, 1, 0), ("megatron-legacy", 2, 2, 2), ("hf", 1, 1, 1))):
        ranks = [] if to == "hf" else ["--tensor", layout[0]] + ["--fused"] * (layout[2] == 0) if to == "mindformers" else ["--tensor", layout[0], "--pipeline", layout[1], "--virtual", layout[2]]
        convert(start, folder / f"{i}", to, *ranks)
        convert(folder / f"{i}", folder / f"{i}-hf", "hf")
        same(folder / f"{i}-hf", what=f"step {i}: {to} {layout}")
        start = folder / f"{i}"


def test_a_model_trains_and_goes_on_from_converted_weights(folder):
    """.bin folders are read in place, and a Ravine checkpoint converts to the weights of its final model."""
    ids = r.save_ids(folder / "ids.safetensors", 4, 8, vocabulary=50)
    for source in ("hf", "hf_bin"):
        run("trace", "--model", GOLDEN / source, "--input", ids, "--out", folder / f"{source}.safetensors")
    check(r.load_raw(folder / "hf.safetensors") == r.load_raw(folder / "hf_bin.safetensors"), "traces of safetensors and .bin differ")
    run("train", *r.settings({
        "model.path": GOLDEN / "hf_bin", "data.train": [ids], "data.sequence_length": 8, "train.steps": 2, "train.global_batch": 2,
        "train.output": folder / "run", "checkpoint.every": 2, "log.tensorboard": False}))
    convert(folder / "run", folder / "out", "hf", "--dtype", "f16")  # as RUN/model: the type of the weights that it began from
    same(folder / "out", weights(folder / "run" / "model"))
    convert(folder / "run" / "checkpoints", folder / "mg", "megatron-mcore", "--tensor", 2)
    convert(folder / "mg", folder / "back", "hf", "--dtype", "f16")
    same(folder / "back", weights(folder / "run" / "model"))


def test_vocabulary(folder):
    old = weights(GOLDEN / "hf")
    for rows in (60, 40):
        convert(GOLDEN / "hf", folder / f"{rows}", "hf", "--resize-vocab", rows)
        new = weights(folder / f"{rows}")
        check(json.loads((folder / f"{rows}/config.json").read_text())["vocab_size"] == rows, "vocab_size")
        for name, (shape, raw) in new.items():
            if shape[0] != rows:
                check(old[name] == (shape, raw), name)
                continue
            keep = 4 * 16 * min(rows, 50)
            check(raw[:keep] == old[name][1][:keep], f"old rows of {name}")
            if rows > 50:
                table = array.array("f", old[name][1])
                mean = array.array("f", [sum(table[c::16]) / 50 for c in range(16)])  # sums of multiples of 1/64 are exact
                check(raw[keep:] == mean.tobytes() * (rows - 50), f"new rows of {name}")
    # The vocabulary of a Megatron folder: padding goes, or what the config says stays.
    config = json.loads(CONFIG.read_text()) | {"vocab_size": 128}
    (folder / "config.json").write_text(json.dumps(config))
    convert(GOLDEN / "mcore", folder / "padded", "hf", "--model-config", folder / "config.json")
    check(weights(folder / "padded")["lm_head.weight"][0] == [128, 16], "rows that the config asks for")


def test_dry_run(folder):
    done = run("convert", "--input", GOLDEN / "legacy", "--to", "megatron-mcore", "--tensor", 2, "--dry-run")
    check(len(done.stdout.splitlines()) == 2 * (3 + 4 * 6) and "q, k, v of 1 groups" in done.stdout, done.stdout)
    check(not list(folder.iterdir()), "nothing is written")


def copy(folder, name):
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(GOLDEN / name, folder / name)
    return folder / name


def test_refusals(folder):
    bad = copy(folder, "legacy")
    shutil.rmtree(bad / "release" / "mp_rank_01_001")
    refused(bad, "missing rank", folder)
    bad = copy(folder, "legacy")
    shutil.copy(GOLDEN / "te/iter_0000001/mp_rank_01/model_optim_rng.pt", bad / "release/mp_rank_01_001/model_optim_rng.pt")
    refused(bad, "missing rank", folder)  # its arguments say another layout
    bad = copy(folder, "te")
    file = bad / "iter_0000001/mp_rank_01/model_optim_rng.pt"
    data = file.read_bytes()
    file.write_bytes(data.replace(b"iterationq", b"iteratioNq", 1) if b"iterationq" in data else data)
    refused(bad, "ranks of different steps", folder)
    file.write_bytes(data[:-100])
    refused(bad, "bad zip archive", folder)
    (bad / "latest_checkpointed_iteration.txt").write_text("../x")
    refused(bad, "bad tracker file", folder)
    (bad / "latest_checkpointed_iteration.txt").write_text("17")
    refused(bad, "iter_0000017", folder)
    refused(GOLDEN / "classic", "give --model-config", folder)
    config = json.loads(CONFIG.read_text())
    other = folder / "other.json"
    for key, value, says in (("num_key_value_heads", 4, "misshapen tensor"), ("num_hidden_layers", 5, "missing layers"), ("vocab_size", 1000, "misshapen tensor"),
                             ("intermediate_size", 32, "misshapen tensor"), ("model_type", "bloom", "intermediate_size"),
                             ("attention_bias", True, "missing tensor"), ("model_type", "nothing", "is not known")):
        other.write_text(json.dumps(config | {key: value}))
        refused(GOLDEN / "te", says, folder, "hf", "--model-config", other)
    other.write_text(json.dumps(config | {"num_hidden_layers": 3}))
    refused(GOLDEN / "hf", "unknown tensor", folder, "hf", "--model-config", other)
    refused(GOLDEN / "hf", "they must divide the 2 key/value heads", folder, "megatron-mcore", "--tensor", 4)
    refused(GOLDEN / "hf", "they must divide the 4 layers", folder, "megatron-mcore", "--pipeline", 3)
    refused(GOLDEN / "hf", "--tensor (command line)", folder, "hf", "--tensor", 2)
    refused(GOLDEN / "hf", "--pipeline and --virtual", folder, "mindformers", "--pipeline", 2)
    refused(GOLDEN / "hf", "--fused", folder, "hf", "--fused")
    bad = copy(folder, "zero3")
    (bad / "global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    refused(bad, "missing rank", folder)
    bad = copy(folder, "mf_ranks")
    shutil.rmtree(bad / "rank_0")
    refused(bad, "missing rank", folder, "hf", "--model-config", CONFIG)
    bad = copy(folder, "mf")
    (bad / "model-00002-of-00002.safetensors").unlink()
    refused(bad, "missing tensor", folder, "hf", "--model-config", CONFIG)
    # A tensor that belongs to nothing: refused, or left out when asked.
    bad = copy(folder, "hf")
    header, body = r.load_raw(bad / "model.safetensors")
    header["model.layers.0.surprise"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(body), len(body) + 4]}
    r.save_raw(bad / "model.safetensors", header, body + b"\0" * 4)
    refused(bad, "unknown tensor", folder)
    convert(bad, folder / "without", "hf", "--allow-unknown")
    same(folder / "without")
    # Pickles that call something are named, not run.
    bad = copy(folder, "hf_bin")
    (bad / "pytorch_model-00001-of-00002.bin").write_bytes(b"cos\nsystem\n(S'touch " + str(folder / "owned").encode() + b"'\ntR.")
    refused(bad, "this is neither", folder)
    check(not (folder / "owned").exists(), "a pickle was executed")
    (folder / "full").mkdir()
    (folder / "full" / "notes").write_text("dear")
    done = convert(GOLDEN / "hf", folder / "full", "hf", status=2)
    check("output exists" in done.stderr and (folder / "full" / "notes").read_text() == "dear", done.stderr)


def test_expert_ranks_that_are_not_whole(folder):
    """Folders of expert-parallel ranks of which one is there, and experts of DeepSpeed."""
    for number in (0, 1):
        bad = copy(folder, "legacy")
        rank = bad / "release" / f"mp_rank_0{number}_000"
        rank.rename(bad / "release" / f"mp_rank_0{number}_000_003")
        refused(bad, "missing rank", folder)
    bad = copy(folder, "zero1")
    (bad / "global_step3" / "layer_0_expert_1_mp_rank_00_model_states.pt").write_bytes(b"")
    refused(bad, "experts", folder)


def test_names_that_collide(folder):
    bad = copy(folder, "hf")
    header, body = r.load_raw(bad / "model.safetensors")
    # The same tensor with and without the prefix of the bare model, and a joined one beside its parts.
    header["norm.weight"] = {**header["model.norm.weight"], "data_offsets": [len(body), len(body) + 64]}
    r.save_raw(bad / "model.safetensors", header, body + b"\1" * 64)
    refused(bad, "norm.weight", folder)
    bad = copy(folder, "mf")
    file = bad / "model-00001-of-00002.safetensors"
    header, body = r.load_raw(file)
    header["model.layers.0.attention.w_qkv.weight"] = {"dtype": "F32", "shape": [32, 16], "data_offsets": [len(body), len(body) + 2048]}
    r.save_raw(file, header, body + b"\0" * 2048)
    refused(bad, "stored twice", folder, "hf", "--model-config", CONFIG)
    bad = copy(folder, "hf_bin")  # one tensor in two shards
    shutil.copy(bad / "pytorch_model-00001-of-00002.bin", bad / "pytorch_model-00002-of-00002.bin")
    refused(bad, "pytorch_model-00002-of-00002.bin", folder)
    bad = copy(folder, "mf_ranks")  # two files of one rank
    shutil.copy(bad / "rank_0" / "tiny_rank_0-1_7.safetensors", bad / "rank_0" / "tiny_rank_0-1_8.safetensors")
    refused(bad, "not one weight file per rank", folder, "hf", "--model-config", CONFIG)


def test_vocabulary_with_ties_and_padding(folder):
    """A tied table has no head to resize; Megatron pads what was asked for, and gives it back."""
    tied = folder / "tied"
    tied.mkdir()
    for file in ("config.json", "model.safetensors"):
        shutil.copy(GOLDEN.parent / "families" / "qwen2" / file, tied / file)
    config = json.loads((tied / "config.json").read_text())
    check(config["tie_word_embeddings"], "this model is tied")
    old, rows = weights(tied), config["vocab_size"]
    for more in (7, 200):
        convert(tied, folder / "mg", "megatron-mcore", "--resize-vocab", rows + more)
        convert(folder / "mg", folder / "hf", "hf")
        new = weights(folder / "hf")
        check(set(new) == {n for n in old if n != "lm_head.weight"}, sorted(new))
        shape, raw = new["model.embed_tokens.weight"]
        was = old["model.embed_tokens.weight"][1]
        check(shape[0] == rows + more and raw.startswith(was), "old rows keep their bits")
        first = raw[len(was):len(was) + 4 * shape[1]]
        check(raw[len(was):] == first * more and any(first), "new rows are one mean")
        check(json.loads((folder / "hf/config.json").read_text())["vocab_size"] == rows + more, "vocab_size")
        shutil.rmtree(folder / "mg"), shutil.rmtree(folder / "hf")


def exploits(command):
    """Pickles that run a command in Python, by name of the attack. Each writes nothing here."""
    import builtins
    import io
    import pickle

    class Call:
        def __init__(self, function, *arguments):
            self.call = function, arguments

        def __reduce__(self):
            return self.call

    state = {"model.norm.weight": Call(os.system, command)}
    yield "os.system", pickle.dumps(state, 2)
    yield "eval", pickle.dumps({"a": Call(eval, f"__import__('os').system({command!r})")}, 4)
    yield "nested reduce", pickle.dumps(Call(getattr, Call(__import__, "os"), "system"), 2)[:-1] + b"(X" + struct.pack("<I", len(command)) + command.encode() + b"tR."
    yield "inside args", pickle.dumps({"args": Call(exec, f"import os; os.system({command!r})"), "checkpoint_version": 3.0, "model": {}}, 2)
    yield "as a state", pickle.dumps({"a": builtins.object}, 2)[:-1] + b"(X" + struct.pack("<I", len(command)) + command.encode() + b"tb."
    bomb = io.BytesIO()
    bomb.write(b"\x80\x02(lq\0")
    for i in range(1, 60):  # each list holds the one before ten times: 10^60 values if walked
        bomb.write(b"(" + bytes([104, i - 1]) * 10 + b"l" + bytes([113, i]) + b"0" + bytes([104, i]))
    yield "memo bomb", bomb.getvalue() + b"."
    yield "memo flood", b"\x80\x04N" + b"\x94" * 5_000_000 + b"."
    yield "deep stack", b"\x80\x02" + b"(" * 9_000_000 + b"."


def test_exploits(folder):
    """In every kind of file that Python would execute: refused by name, nothing run, memory bounded."""
    import resource
    import zipfile
    owned = folder / "owned"
    for name, pickled in r.rows(exploits(f"touch {owned}"), 2, "one reader refuses all that is called, and bounds what it holds"):
        file = folder / "evil.pt"
        with zipfile.ZipFile(file, "w") as z:
            z.writestr("archive/data.pkl", pickled)
            z.writestr("archive/version", "3\n")
        hf = copy(folder, "hf_bin")
        shutil.copy(file, hf / "pytorch_model-00001-of-00002.bin")
        megatron = copy(folder, "te")
        shutil.copy(file, megatron / "iter_0000001" / "mp_rank_00" / "model_optim_rng.pt")
        zero = copy(folder, "zero2")
        shutil.copy(file, zero / "global_step3" / "mp_rank_00_model_states.pt")
        other = copy(folder, "zero3")
        shutil.copy(file, other / "global_step3" / "zero_pp_rank_1_mp_rank_00_optim_states.pt")
        limit = None if r.sanitized() else lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        for source in (hf, megatron, zero, other):
            done = run("convert", "--input", source, "--output", folder / "out", "--to", "hf", status=2, preexec_fn=limit)
            check(str(source) in done.stderr and done.stderr.count("error:") == 1, f"{name}: {done.stderr}")
            check(not (folder / "out").exists() and not owned.exists(), f"{name} in {source.name}")
        for command in (["info", file], ["diff", file, file], ["info", megatron]):
            done = subprocess.run(r.command(*command), capture_output=True, text=True, timeout=r.LIMIT, preexec_fn=limit)
            check(done.returncode in (0, 2) and not owned.exists(), f"{name}: {command}: {done.stderr}")
        shutil.rmtree(hf), shutil.rmtree(megatron), shutil.rmtree(zero), shutil.rmtree(other)


def test_info_knows_what_a_folder_is(folder):
    for source, says in (("legacy", "Megatron checkpoint"), ("zero2", "DeepSpeed ZeRO checkpoint"), ("mf_ranks", "MindFormers checkpoint"), ("mf", "MindFormers weights"),
                         ("mf_fused.ckpt", "MindSpore checkpoint file"), ("hf_bin", "pytorch_model.bin")):
        done = run("info", GOLDEN / source)
        check(says in done.stdout and "convert" in done.stdout, done.stdout)
    done = run("diff", GOLDEN / "hf_bin", GOLDEN / "hf_bin")
    check("all 39 tensors are bitwise equal" in done.stdout, done.stdout)


def test_recorded_checkpoints(folder):
    golden = r.shared("golden")
    base = golden / "deepspeed"
    for name in ("z1_bf16", "z2_f32", "z3_bf16"):
        convert(base / "checkpoints" / name, folder / name, "hf", "--model-config", base / "checkpoint-model-init" / "config.json")
        same(folder / name, weights(base / "checkpoints" / f"{name}-fp32"))
    base = golden / "megatron" / "checkpoint"
    for style in ("legacy", "mcore", "mcore_te", "classic", "classic_merged_mlp"):
        for layout in r.rows(sorted((base / style).iterdir()), 1, "layouts are joined alike"):
            extra = ["--model-config", base / "hf" / "config.json"] if style.startswith("classic") else []
            convert(layout, folder / f"{style}-{layout.name}", "hf", *extra)
            same(folder / f"{style}-{layout.name}", weights(base / "hf"))


if __name__ == "__main__":
    r.main(globals())
