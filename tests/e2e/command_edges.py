"""What single commands say and do at their edges: flags that exclude each other, words in the wrong place, lines of stdin, files with nothing in them, figures of a plan for ranks."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from figures import SMALL, save_model
from ravine_run import check

CHAT = Path(__file__).resolve().parent.parent / "golden" / "chat"


def told(words, *wanted, status=2, **options):
    done = subprocess.run(r.command(*words), capture_output=True, text=True, timeout=r.LIMIT, **{"stdin": subprocess.DEVNULL, **options})
    said = done.stderr + done.stdout
    check(done.returncode == status and all(w in said for w in wanted), f"{words}: status {done.returncode}, wanted {wanted}: {said}")
    return done.stdout


def piped(words, text, *wanted, status=0):
    done = subprocess.run(r.command(*words), input=text, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status and all(w in done.stderr for w in wanted), f"{words}: status {done.returncode}, wanted {wanted}: {done.stderr}")
    return done.stdout


def test_flags_that_exclude_each_other(folder):
    (folder / "p.txt").write_text("a\n")
    (folder / "p.json").write_text("[[1]]")
    model = ["generate", "--model", folder / "none"]  # said before anything is opened
    (folder / "none").mkdir()
    for more, wanted in ((["--prompt", "a", "--prompts", folder / "p.txt"], "several kinds of prompts"), (["--prompts", folder / "p.txt", "--prompt-ids", folder / "p.json"], "several kinds of prompts"),
                         (["--prompt", "a", "--prompt-ids", folder / "p.json"], "several kinds of prompts"), ([], "no prompt"), (["--chat", "--prompt", "a", "--prompts", folder / "p.txt"], "several kinds of prompts"),
                         (["--chat", "--prompt-ids", folder / "p.json"], "--chat with --prompt-ids"), (["--prompt", "a", "--template", "chatml"], "--template without --chat"),
                         (["--prompt", "a", "--system", "b"], "--system without --chat"), (["--prompt", "a", "--system", "b", "--template", "chatml"], "--system without --chat"),
                         (["--prompt", "a", "--num-return", 1], "--num-return without --beams"), (["--prompt", "a", "--early-stopping"], "--early-stopping without --beams"),
                         (["--prompt", "a", "--length-penalty", 1, "--num-return", 2], "--length-penalty and --num-return without --beams"),
                         (["--prompt", "a", "--beams", 2, "--num-return", 3], "there are 2 beams"), (["--prompt", "a", "--beams", 1, "--num-return", 2], "there is 1 beam"),
                         (["--prompt", "a", "--beams", 2, "--num-return", 2], "config.json")):
        told([*model, *more], wanted)
    for words, wanted in ((["config", "--list", "--markdown"], "only one of them at a time"), (["config", "--list", "--explain", "train.steps"], "only one of them at a time"),
                          (["config", "--markdown", "--explain", "train.steps"], "only one of them at a time"), (["tokenizer", "render", "--template", "chatml"], "add --jsonl"), (["tokenizer", "render", "--jsonl"], "no chat template"),
                          (["tokenizer", "render", "--jsonl", "--tokenizer", CHAT, "--eos-token", "x"], "the tokenizer has its own"), (["tokenizer", "encode", "--tokenizer", CHAT, "--npy", folder / "x.npy", "--jsonl"], "--npy and --jsonl"),
                          (["plan", "--svg", folder / "x.svg", "--layouts"], "--svg with"), (["plan", "--svg", folder / "x.svg", "--decide"], "--svg with"), (["plan", "--svg", folder / "x.svg", "--schedule", "-"], "--svg with"),
                          (["plan", "--svg", folder / "x.png"], "must end in .svg"), (["plan"], "no model"), (["plot", folder, "--output", folder / "x.png"], ".svg or .html"),
                          ([folder / "run.yaml"], f"a run is started by `ravine train --config {folder / 'run.yaml'}`"), (["run.yml"], "ravine train --config run.yml"), (["help", "tokenizer", "enc"], "unknown action 'enc'"),
                          (["man", "bench", "trian"], "did you mean 'ravine-bench-train'?"), (["man", "zzzzzzzzzzzz"], "see `ravine --help`"),
                          (["bench", "train", "--model", folder, "--micro-batch", 3, "--sequence-length", 2 ** 30], "sequence"), (["bench", "decode", "--model", folder, "--batch", 2 ** 15, "--sequence-length", 2 ** 20], "a batch has at most")):
        told(words, wanted)
    check("ravine\\-bench\\-train" in told(["man", "bench", "train"], status=0) and not list(folder.glob("x.*")), "man, and nothing is written")
    check(told(["version"], status=0) == told(["-V"], status=0) == told(["--version"], status=0) and told(["help"], status=0) == told([], status=0), "the same under all its names")
    check(told(["help", "tokenizer", "encode"], status=0) == told(["tokenizer", "encode", "--help"], status=0), "the same page")


def test_warnings_of_generate(folder):
    save_model(folder / "m", SMALL)
    (folder / "p.json").write_text("[[1, 2]]")
    base = ["generate", "--model", folder / "m", "--prompt-ids", folder / "p.json", "--max-new-tokens", 1]
    for more, wanted in ((["--top-k", 3, "--temperature", 2], "without --sample there is no effect of --temperature and --top-k"), (["--top-p", 0.5], "without --sample there is no effect of --top-p"), (["--temperature", 0], ""),
                         (["--sample", "--top-k", 3], ""), (["--beams", 2, "--beam-rules", "modellink", "--top-k", 3], ""), (["--beams", 2, "--beam-rules", "modellink", "--early-stopping"], "ModelLink's rules know no early stopping"),
                         (["--beams", 2, "--early-stopping"], ""), (["--beams", 2, "--beam-rules", "modellink"], ""), ([], "")):
        said = r.run(*base, *more).stderr
        check(wanted in said if wanted else "effect" not in said, f"{more}: {said}")
    (folder / "m" / "generation_config.json").write_text(json.dumps({"eta_cutoff": 0.5, "top_k": 3}))
    said = r.run(*base).stderr
    check("'eta_cutoff' of generation_config.json is not offered and has no effect" in said and "'top_k'" not in said, said)
    (folder / "none.json").write_text("[]")
    told([*base[:4], folder / "none.json"], "none.json")


def test_lines_of_ids_and_texts(folder):
    encode, decode = ["tokenizer", "encode", "--tokenizer", CHAT, "--no-special"], ["tokenizer", "decode", "--tokenizer", CHAT]
    ids = json.loads(piped(encode, "the ship"))
    text = piped(decode, f"{ids}\n\n  \t\n {ids}\r\n")
    check(text == "the ship\nthe ship\n", f"lines without anything give none: {text!r}")
    for line, wanted in (("1 2 3", "ids without brackets"), ("1, 2", "ids without brackets"), ('"1"', "ids without brackets"), ("the ship", "text becomes ids by"), ('{"ids": [1]}', "no token ids"), ("[1.5]", "correct the input"),
                         ("[2147483648]", "correct the input"), ("[-2147483649]", "correct the input"), ("[[1]]", "correct the input")):
        piped(decode, f"{ids}\n{line}\n", wanted, "stdin:2", status=2)
    for line in ("[1]", '{"id": [1]}', '{"ids": 1}', '{"ids": [true]}', "7"):
        piped([*decode, "--jsonl"], line + "\n", "{\"ids\": [1, 2, ..]}" if line != "{" else "", "stdin:1", status=2)
    said = [json.loads(line) for line in piped([*decode, "--jsonl"], f'{{"ids": {ids}}}\n\n{{"ids": []}}\n').splitlines()]
    check(said == [{"text": "the ship"}, {"text": ""}], said)
    check(piped(encode, "\nthe ship\n").splitlines()[1] == json.dumps(ids, separators=(",", ":")), "an empty line is a text")
    check(len(piped([*encode, "--jsonl"], '\n{"text": "the ship"}\n \n').splitlines()) == 1, "of --jsonl it is none")
    for line in ('{"message": []}', "[]", '{"messages": {}}'):
        piped(["tokenizer", "render", "--template", "chatml", "--jsonl"], line + "\n", "{\"messages\": [..]}", "stdin:1", status=2)
    # One that reads a file through stdin does not write it.
    (folder / "t.txt").write_text("the ship")
    with open(folder / "t.txt") as source:
        told(["tokenizer", "encode", "--tokenizer", CHAT, "--npy", folder / "t.txt", "--overwrite"], "is the file of stdin", stdin=source)
    check((folder / "t.txt").read_text() == "the ship", "the input")


def test_what_diff_and_plot_say(folder):
    one = r.save_tensors(folder / "one.safetensors", {"a": ("F32", (2,), [1.0, 2.0])})
    ints = r.save_tensors(folder / "ints.safetensors", {"a": ("I32", (2,), [1, 2])})
    two = r.save_tensors(folder / "two.safetensors", {"a": ("F32", (2,), [1.0, 2.0]), "b": ("F32", (1,), [3.0])})
    wide = r.save_tensors(folder / "wide.safetensors", {"a": ("F32", (1, 2), [1.0, 2.0]), "b": ("F32", (1,), [3.0])})
    check(r.run("diff", one, one).stdout == "the one tensor is bitwise equal\n" and r.run("diff", two, two).stdout == "all 2 tensors are bitwise equal\n", "equal ones")
    told(["diff", one, two, "--only", "x*,y"], "no tensor matches", "--only")
    rows = {t["name"]: t["status"] for t in json.loads(r.run("diff", one, two, "--json", status=1).stdout)["tensors"]}
    check(rows == {"a": "equal", "b": "only in B"}, rows)
    check("only in A" in r.run("diff", two, one, status=1).stdout and r.run("diff", two, one, "--only", "a").stdout.startswith("the one"), "the other way round")
    said = json.loads(r.run("diff", one, ints, "--json", status=1).stdout)
    check(not said["equal"] and said["tensors_equal"] == 0 and said["tensors"][0]["status"] == "dtype" and said["tensors"][0]["differing"] == 0, f"the same numbers in another type: {said}")
    said = json.loads(r.run("diff", two, wide, "--json", status=1).stdout)
    check([t["status"] for t in said["tensors"]] == ["shape", "equal"] and "elements" not in said["tensors"][0], said)
    text = r.run("diff", two, wide, status=1).stdout
    check("f32 [2] / f32 [1, 2]" in text and text.endswith("1 of 2 tensors are bitwise equal, 1 are not\n"), f"nothing is measured where shapes differ: {text}")
    run = folder / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0, "lr": 1.0}\n{"step": 2, "loss": 1.0, "lr": 0.5}\n')
    told(["plot", run, "--keys", "loss,lr"], "keys are separated by blanks", "write --keys loss lr")
    told(["plot", run, "--keys", "los"], "no key 'los'", "the metrics hold loss, lr", "did you mean 'loss'?")
    check("lr" in r.run("plot", run, "--keys", "lr").stdout and "loss" not in r.run("plot", run, "--keys", "lr").stdout, "only what is asked for")


def test_json_of_no_kind(folder):
    for text, wanted in (("", "there is nothing in it"), ("<html>", "it does not begin as JSON does"), ('{"model_type": "llama"', "repair or replace the file"), ("[" * 5000, "JSON is nested too deeply")):
        (folder / "config.json").write_text(text)
        told(["plan", f"model.config={folder / 'config.json'}"], wanted, "config.json")
    r.save_config(folder / "config.json")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text[:-1] + ', "num_hidden_layers": 5, "num_hidden_layers": 3}')
    plan = json.loads(r.run("info", folder / "config.json", "--json").stdout)
    check(plan["config"]["num_hidden_layers"] == 3 and list(plan["config"]).index("num_hidden_layers") == list(json.loads(text)).index("num_hidden_layers"), "of equal keys the last counts, at the place of the first")


def test_paths_of_a_config(folder):
    made = folder / "made"
    (made / "data").mkdir(parents=True)
    r.save_config(made / "m.json")
    r.save_ids(made / "data" / "ids.safetensors", 4, 16)
    (made / "run.yml").write_text("model: {config: m.json}\ndata: {train: [data/ids.safetensors], sequence_length: 16}\n")
    plan = ["plan", "--config"]
    told([*plan, made / "run.yml"], "it is next to the config", "m.json", cwd=folder)
    told([*plan, "run.yml"], status=0, cwd=made)
    # Of a list each path is looked at, and options of the command line are those of this folder.
    told([*plan, made / "run.yml", f"model.config={made / 'm.json'}"], "it is next to the config", str(made / "data" / "ids.safetensors"), cwd=folder)
    told([*plan, made / "run.yml", "model.config=m.json", f"data.train={made / 'data' / 'ids.safetensors'}"], "no such file", cwd=folder)
    # Paths that were whole, of a folder that has moved.
    (made / "run.yml").write_text(f"model: {{config: {folder / 'old' / 'm.json'}}}\ndata: {{train: [{{path: {folder / 'old' / 'data' / 'ids.safetensors'}}}]}}\n")
    told([*plan, made / "run.yml"], "it seems that the config was moved", f"write {made / 'm.json'} in it")
    told([*plan, made / "run.yml", f"model.config={made / 'm.json'}"], "it seems that the config was moved", f"write {made / 'data' / 'ids.safetensors'} in it")


def test_a_plan_for_ranks_divides_its_time(folder):
    plan = ["plan", f"model.config={r.save_config(folder / 'config.json')}", "data.sequence_length=32", "train.global_batch=4"]
    unit = {"ms": 1e-3, "s": 1.0}
    for words, ranks in (([], 1), (["--ranks", 4], 4), (["parallel.data=2", "parallel.pipeline=2"], 4)):
        said, text = json.loads(r.run(*plan, *words, "--json").stdout), r.run(*plan, *words).stdout
        found = re.search(r"per step: (\S+) (ms|s) at (?:(\d+) times )?the machine's peak of (\d+) GFLOP/s \(sol 1\), (\S+) (ms|s) at sol 0.7", text)
        check(found and (found[3] or "1") == str(ranks), text)
        at_peak, at_share = float(found[1]) * unit[found[2]], float(found[5]) * unit[found[6]]
        check(abs(at_peak / said["seconds_per_step_at_peak"] - 1) < 0.0051 and abs(at_share * 0.7 / at_peak - 1) < 0.0101, f"{words}: {found[0]}, {said['seconds_per_step_at_peak']}")
        check(len(said["ranks"]) == (2 if "parallel.pipeline=2" in words else 1) and text.count("each rank of it") == (len(said["ranks"]) if ranks > 1 else 0), text)
        want = said["flops_per_step"] / (float(found[4]) * 1e9) / ranks
        check(abs(said["seconds_per_step_at_peak"] / want - 1) < 0.5 / float(found[4]) + 1e-6, f"{said['seconds_per_step_at_peak']} and {want}")


def test_info_of_ids_and_tokens(folder):
    small = folder / "small.safetensors"
    r.save_tensors(small, {"input_ids": ("I32", (2, 4), [3, 4, 5, 6, 7, 8, 9, 10 ** 6])})
    said = json.loads(r.run("info", small, "--json", "--tokenizer", CHAT).stdout)
    check(["note" in s for s in said["samples"]] == [False, True] and said["samples"][1]["note"] == "ids beyond this tokenizer" and said["samples"][1]["ids"] == [7, 8, 9, 10 ** 6] and "parts" in said["samples"][0], said)
    check([len(json.loads(r.run("info", small, "--json", "--samples", n).stdout)["samples"]) for n in (0, 1, 5)] == [0, 1, 2], "as many samples as are asked for")
    r.save_tensors(folder / "odd.safetensors", {"input_ids": ("I32", (8,), list(range(8)))})
    said = json.loads(r.run("info", folder / "odd.safetensors", "--json").stdout)
    check("no_batch_file" in said and said["tensors"] == 1, said)
    # Tokens that a run keeps, and what its checkpoints know of data and tokenizer.
    (folder / "text.txt").write_text("the ship sank and the crew swam home\n" * 40)
    options = r.options(folder, folder / "run", model__config=r.save_config(folder / "config.json"), model__tokenizer=CHAT, data__train=[str(folder / "text.txt")], train__steps=1)
    r.run("train", *options)
    kept = json.loads(r.run("info", folder / "run" / "tokens", "--json").stdout)
    files = list((folder / "run" / "tokens").glob("*.safetensors"))
    check(kept["kind"] == "tokens that a run keeps for its next start" and (kept["files"], kept["bytes"]) == (len(files), sum(f.stat().st_size for f in files)), kept)
    one = json.loads(r.run("info", files[0], "--json").stdout)
    check(one["kind"] == "tokens that a run keeps for its next start", one)
    saved = json.loads(r.run("info", folder / "run" / "checkpoints" / "step_000001", "--json").stdout)["manifest"]
    check(re.fullmatch("[0-9a-f]{16}", saved["tokenizer_checksum"]) and re.fullmatch(re.escape(str(folder / "text.txt")) + r" \([0-9a-f]{16}\)", saved["data"]), saved)
    said = json.loads(r.run("info", CHAT / "tokenizer_config.json", "--json").stdout)
    check(said["kind"] == "settings of a tokenizer" and said["chat_template"] is True, said)
    shutil.copytree(folder / "run" / "tokens", folder / "mixed")
    (folder / "mixed" / "notes.md").write_text("mine")
    check("keeps" not in json.loads(r.run("info", folder / "mixed", "--json").stdout)["kind"], "a folder that holds something else too")


def test_what_init_refuses(folder):
    text, chats, ids = folder / "t.txt", folder / "c.jsonl", folder / "ids.safetensors"
    text.write_text("the ship sank\n" * 40)
    chats.write_text('{"instruction": "Say it.", "output": "It."}\n' * 30)
    r.save_ids(ids, 4, 16)
    model = folder / "m"
    save_model(model, SMALL)
    (folder / "full").mkdir()
    (folder / "full" / "notes").write_text("mine")
    init = ["init"]
    for words, wanted in ((["pretrain"], "ravine init pretrain first"), (["sft"], "ravine init sft first"), (["sfs", folder / "x"], "did you mean 'sft'?"), (["sft", "a", "b"], "3 names"), ([folder / "x\ty"], "has a control character"),
                          ([folder / "full"], "not empty"), ([text], f"ravine init first --data {text}"), ([chats], f"ravine init sft first --data {chats}"), (["sft", folder / "x", "--data", text], f"ravine init pretrain {folder / 'x'} --data {text}"),
                          ([folder / "x", "--data", chats, "--model", model], f"ravine init sft {folder / 'x'} --data {chats} --model {model}"), ([folder / "x", "--data", ids], f"ravine train model.path=DIR data.train={ids}"),
                          ([folder / "x", "--data", text, "--model", model], "the model has no tokenizer")):
        told([*init, *words], wanted)
        check(not (folder / "x").exists(), f"{words}: something was made")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CHAT / name, model / name)
    told([*init, folder / "x", "--data", text, "--model", model], "every id must have a row in the embedding")
    size = json.loads(r.run("tokenizer", "info", "--tokenizer", CHAT, "--json").stdout)["size"]
    save_model(folder / "w", {**SMALL, "vocab_size": size, "max_position_embeddings": 50})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CHAT / name, folder / "w" / name)
    # What the model can: as many positions as it has, and its own template.
    made = {}
    for kind, data, length in (("pretrain", text, 50), ("sft", chats, 50)):
        r.run("init", kind, folder / kind, "--data", data, "--model", folder / "w")
        made[kind] = (folder / kind / "run.yaml").read_text()
        check(f"  sequence_length: {length} " in made[kind] and not (folder / kind / "tokenizer").exists() and not (folder / kind / "model.json").exists(), made[kind])
    has = json.loads((CHAT / "tokenizer_config.json").read_text()).get("chat_template")
    check(('  chat_template: "" ' if has else "  chat_template: chatml ") in made["sft"] and "chat_template" not in made["pretrain"], made["sft"])
    check("\n  # valid_every: 50" in made["sft"] and "\n  valid_every: 50" in made["pretrain"] and "valid_fraction: 0.05" in made["pretrain"] and "valid_fraction" not in made["sft"], "only text has a part held out")
    check("  lr: 1.0e-3 " in made["pretrain"] and "  lr: 3.0e-4 " in made["sft"], "rates")
    said = r.run("init", "sft", folder / "again", "--data", chats, "--model", folder / "w", "--text-key", "body").stderr
    check("--text-key=body has no effect: conversations have keys of their own" in said, said)
    r.run("init", "sft", folder / "own", "--data", chats)
    said = (folder / "own" / "run.yaml").read_text()
    check("  sequence_length: 256 " in said and "  chat_template: chatml " in said, said)
    pieces = json.loads(r.run("tokenizer", "info", "--tokenizer", folder / "own" / "tokenizer", "--json").stdout)["size"]
    check(json.loads((folder / "own" / "model.json").read_text())["vocab_size"] == pieces and not (folder / "own" / "tokenizer" / "words.txt").exists() and sorted(p.name for p in (folder / "own").iterdir()) == ["model.json", "run.yaml", "tokenizer"],
          "a model of the tokenizer's size, and nothing else")


def test_data_show_at_its_edges(folder):
    words = [w for w in r.options(folder, folder / "run", train__global_batch=6, train__micro_batch=2, train__steps=4) if w.startswith(("model.", "data.", "train."))]
    show = ["data", "show", *words]
    for more, wanted in ((["--rank", 1], "there are 1 data-parallel ranks"), (["--rank", 3, "--ranks", 3], "there are 3 data-parallel ranks"), (["--ranks", 2], "it is not shared evenly by 2 ranks in micro batches of 2"),
                         (["parallel.data=2"], "it is not shared evenly by 2 ranks"), (["parallel.data=2", "--ranks", 4], "by 4 ranks")):
        told([*show, *more], wanted)
    sequences = {}
    for more in ((), ("--ranks", 3, "--rank", 0), ("--ranks", 3, "--rank", 2), ("parallel.data=3", "--rank", 1), ("parallel.data=3", "--ranks", 1)):
        sequences[more] = [json.loads(line)["sequence"] for line in r.run(*show, "--json", "--step", 2, *more).stdout.splitlines()]
    check(list(sequences.values()) == [[6, 7, 8, 9, 10, 11], [6, 7], [10, 11], [8, 9], [6, 7, 8, 9, 10, 11]], sequences)
    done = r.run(*show, "--step", 2)
    check("16 sequences of 16 tokens: a pass takes 2.67 steps of 6, train.steps=4 are 1.50 passes" in done.stderr, done.stderr)
    check(re.findall(r"sequence (\d+) \(micro batch (\d), row (\d)\)", done.stdout) == [(str(6 + i), str(i // 2), str(i % 2)) for i in range(6)], done.stdout)
    done = r.run(*show, "--step", 2, "data.skip_steps=[2]")
    check(done.stdout == "" and "step 2 is left out (data.skip_steps)" in done.stderr, done.stderr)
    check([json.loads(line)["sequence"] for line in r.run(*show, "--json", "--step", 3, "data.skip_steps=[2]").stdout.splitlines()] == list(range(12, 18)), "those of a step that is left out are not taken by the next")


def test_checks_in_words(folder):
    run = r.settings({"model.config": r.save_config(folder / "config.json"), "data.sequence_length": 12, "train.global_batch": 2, "train.threads": 1})
    text = r.run("check", "determinism", "--steps", 2, *run).stdout
    check(text.startswith("2 steps of 2 sequences, f32, recompute cheap, 1 thread, against:\n") and text.endswith("\nall equal, bit for bit\n") and "differ" not in text.splitlines()[2], text)
    told(["check", "layouts", *run], "nothing to compare", "this job has one rank")
    text = r.run("check", "layouts", "--steps", 1, "--inject", "mask", *run, status=1).stdout
    check("1 step of 8 micro batches in 8 leaves, 1 rank at hand" in text and "NOT KEPT, first: loss of step 1" in text and text.endswith("\nNOT all as promised\n"), text)


def test_options_that_only_act_together(folder):
    """Each limit of two or three options at its edge: the last that is taken, and the first that is not."""
    rules = (
        ("optimizer.lr=5 optimizer.groups=[{match: x,lr_mult: 2}]", None), ("optimizer.lr=5 optimizer.groups=[{match: x,lr_mult: 3}]", "optimizer.lr=5 times the factors of optimizer.groups[0] is 15"),
        ("optimizer.groups=[{match: x,lr_mult: 2},{match: y,lr_mult: 40000}]", "times the factors of optimizer.groups[1] is 1"), ("optimizer.lr=0.5 optimizer.weight_decay=1 optimizer.groups=[{match: x,wd_mult: 2}]", None),
        ("optimizer.lr=0.5 optimizer.weight_decay=1 optimizer.groups=[{match: x,wd_mult: 3}]", "times the factors of optimizer.groups[0] is 1.5"), ("optimizer.lr=1 optimizer.weight_decay=1", None),
        ("optimizer.lr=1 optimizer.weight_decay=2", "optimizer.lr=1 times optimizer.weight_decay=2 is 2"), ("optimizer.type=sgd optimizer.lr=1 optimizer.weight_decay=2", "is 2"), ("optimizer.type=adam optimizer.lr=1 optimizer.weight_decay=2", None),
        ("optimizer.type=sgd optimizer.nesterov=true", None), ("optimizer.nesterov=true", "adamw has no such setting, sgd, muon have"), ("optimizer.type=sgd optimizer.nesterov=true optimizer.momentum=0", "needs a momentum above 0"),
        ("optimizer.type=sgd optimizer.nesterov=true optimizer.dampening=0.1", "and a dampening of 0"), ("optimizer.type=sgd optimizer.momentum=0 optimizer.dampening=0.1", None),
        ("schedule.type=polynomial schedule.end_lr=1e-4 optimizer.lr=1e-4", "falls from optimizer.lr to schedule.end_lr"), ("schedule.type=polynomial schedule.end_lr=1e-4 optimizer.lr=1.1e-4", None), ("schedule.end_lr=1e-3 optimizer.lr=1e-4", "cosine has no such setting, polynomial has"),
        ("schedule.type=greedy train.valid_every=1 optimizer.lr=1e-3", None), ("schedule.type=greedy train.valid_every=1 optimizer.lr=9e-4", "the rate moves between the two"), ("schedule.type=greedy train.valid_every=1 optimizer.lr=1", None),
        ("schedule.type=greedy train.valid_every=1 optimizer.lr=1.1", "the rate moves between the two"), ("schedule.type=greedy train.valid_every=1 optimizer.lr=9e-4 schedule.lowest_lr=0", None), ("schedule.type=greedy optimizer.lr=1e-3", "the rate follows the validation loss"),
        ("schedule.type=reduce_lr_on_plateau optimizer.lr=1e-9 train.valid_every=1", None), ("schedule.type=reduce_lr_on_plateau", "schedule.type is reduce_lr_on_plateau, train.valid_every 0"),
        ("parallel.split=cost parallel.stage_layers=[1,1]", "layers are shared by one of them"), ("parallel.stage_layers=[1,1]", None), ("parallel.split=cost", None), ("health.skip_count=1", "set health.skip_norm too"), ("health.skip_count=1 health.skip_norm=1", None),
        ("precision.recipes=[{path: x,compute: f32},{path: y}]", "precision.recipes[1] changes nothing"), ("precision.recipes=[{path: x,compute: f32}]", None),
        ("train.global_batch=65536", None), ("train.global_batch=65537", "a step has at most 65536 micro batches"), ("train.global_batch=131074 train.micro_batch=2", "a step has at most 65536 micro batches"),
        ("train.micro_batch=16384 train.global_batch=16384", None), ("train.micro_batch=16384 train.global_batch=16384 data.sequence_length=1025", "train.micro_batch=16368 is the most for this length"),
        ("train.global_batch=7 train.micro_batch=3", "use 9 or another multiple"), ("train.global_batch=2 train.micro_batch=3", "use 3 or another multiple"), ("train.global_batch=9 train.micro_batch=3", None),
        ("parallel.data=32 parallel.tensor=32 parallel.pipeline=32", None), ("parallel.data=32 parallel.tensor=32 parallel.pipeline=33", "their product is the number of ranks, at most 32768"), ("parallel.tensor=32768", None), ("parallel.tensor=32768 parallel.pipeline=2", "at most 32768"),
        ("data.valid=[a] data.valid_fraction=0.1", "validation data come from one of them"), ("model.path=a model.config=b", "a model comes from one of them"),
        ("data.order=megatron data.split=1", None), ("data.order=megatron data.split=969/30/1", None), ("data.order=megatron data.split= 98 1 .5", None), ("data.order=megatron data.split=1,0,0", None), ("data.order=megatron data.split=0,0", "one of them above 0"), ("data.order=megatron data.split=1,2,3,4", "one to three numbers"), ("data.order=megatron data.split=1;2", "one to three numbers"),
        ("data.order=megatron data.split=-1,2", "one to three numbers"), ("data.order=megatron data.split=1e3,1", "one to three numbers"), ("data.order=megatron data.split=/", "one to three numbers"))
    for words, wanted in rules:
        told(["config", *re.split(r" (?=[a-z_]+\.[a-z_]+=)", words)], *([wanted, "command line"] if wanted else []), status=2 if wanted else 0)
    # The place is that of the option which was given.
    (folder / "run.yaml").write_text("data:\n  append_eos: false\ntrain:\n  micro_batch: 3\n")
    told(["config", "--config", folder / "run.yaml"], f"{folder / 'run.yaml'}:4", "train.global_batch is 8")
    told(["config", "--config", folder / "run.yaml", "train.global_batch=10"], "(command line)", "use 12 or another multiple")


if __name__ == "__main__":
    r.main(globals())
