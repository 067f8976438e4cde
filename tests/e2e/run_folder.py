"""The folder of a run: what is there is gone on with or refused, never replaced unasked; the default folder does not mix runs; lines that stand for several
steps show their means; what a terminal is sent; and the picture of a plan."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import xml.etree.ElementTree as ET
from pathlib import Path

import ravine_run as r
from ravine_run import check

CHAT = Path(__file__).resolve().parent.parent / "golden" / "chat"


def values(folder, **more):
    out = {"model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 64, 17)], "data.sequence_length": 17,
           "train.steps": 4, "train.global_batch": 4, "train.micro_batch": 2, "optimizer.lr": 1e-2, "schedule.warmup_steps": 1, "schedule.steps": 8,
           "checkpoint.every": 2, "log.tensorboard": False, "train.threads": 1}
    out.update({key.replace("__", "."): value for key, value in more.items()})
    return {key: value for key, value in out.items() if value is not None}


def train(folder, name="run", status=0, cwd=None, **more):
    given = values(folder, **more)
    if name:
        given["train.output"] = folder / name
    return r.run("train", *r.settings(given), status=status, cwd=cwd).stderr


def test_words_are_no_paths(folder):
    """A folder beside the config that has the name of a choice, or a folder that is one's output."""
    (folder / "conf").mkdir()
    for word in ("auto", "none", "alpaca"):
        (folder / "conf" / word).mkdir()
    for word in ("auto", "none"):
        given = values(folder, checkpoint__resume=word, train__output=f"out-{word}")
        lines = {}
        for key, value in given.items():
            section, name = key.split(".")
            lines.setdefault(section, []).append(f"  {name}: {json.dumps(str(value) if isinstance(value, Path) else [str(x) for x in value] if isinstance(value, list) else value)}\n")
        (folder / "conf" / "run.yaml").write_text("".join(f"{s}:\n{''.join(of)}" for s, of in lines.items()))
        for command in ("plan", "train"):
            r.run(command, "--config", "conf/run.yaml", cwd=folder)
        check((folder / f"out-{word}" / "model").is_dir(), word)
        r.run("train", "--config", "conf/run.yaml", f"train.output={word}", cwd=folder)
        check((folder / word / "model").is_dir(), f"a run in a folder with the name {word}")
    chats = folder / "chats.jsonl"
    chats.write_text("".join(json.dumps({"instruction": f"Say {i}.", "input": "", "output": "No."}) + "\n" for i in range(8)))
    (folder / "conf" / "chat.yaml").write_text(f"data: {{train: [{chats}], chat_template: alpaca, sequence_length: 128}}\nmodel: {{config: {r.save_config(folder / 'chat.json', vocab_size=512, max_position_embeddings=256)}, tokenizer: {CHAT.parent / 'tokenizer/llama'}}}\n"
                                               "train: {steps: 1, global_batch: 2, output: chat}\nlog: {tensorboard: false}\n")
    r.run("train", "--config", "conf/chat.yaml", cwd=folder)


def error_of(log):
    line = log.splitlines()[-1]
    check(line.startswith("error: "), log)
    return line


def contents(output):
    return {p: p.read_bytes() for p in Path(output).rglob("*") if p.is_file() and p.name not in ("log.txt", ".lock")}


def test_a_run_whose_checkpoints_are_gone_does_not_begin_anew(folder):
    train(folder)
    kept = folder / "kept"
    shutil.move(folder / "run" / "checkpoints", kept)
    before = contents(folder / "run")
    for steps in (4, 6):
        error = error_of(train(folder, status=2, train__steps=steps))
        check("the checkpoints of this run are gone" in error and "step_000004" in error and "checkpoint.resume=none" in error and "another train.output" in error, error)
        check(f"model.config={folder / 'config.json'}" in error, f"which run is there: {error}")
    shutil.rmtree(folder / "run" / "model")
    check("are gone" in error_of(train(folder, status=2)), "without its model the run is still there")
    shutil.move(kept, folder / "run" / "checkpoints")
    log = train(folder, train__steps=6)
    check("after step 4" in log, log)
    shutil.rmtree(folder / "run" / "checkpoints")
    log = train(folder, checkpoint__resume="none")
    check(sorted(r.metrics(folder / "run")) == [1, 2, 3, 4], "asked for, it begins anew")
    check(r.weights(folder / "run") == before[folder / "run" / "model" / "model.safetensors"], "and ends as the first did")


def test_a_finished_model_is_not_replaced_unasked(folder):
    train(folder, checkpoint__every=0)
    before = contents(folder / "run")
    error = error_of(train(folder, status=2, checkpoint__every=0, train__seed=7))
    check("holds a finished model and no checkpoint" in error and "checkpoint.resume=none" in error and str(folder / "run" / "model") in error, error)
    check(contents(folder / "run") == before, "a refused start wrote something")
    train(folder, checkpoint__every=0, train__seed=7, checkpoint__resume="none")
    check(r.weights(folder / "run") != before[folder / "run" / "model" / "model.safetensors"], "asked for, it is replaced")


def test_a_checkpoint_of_another_folder_does_not_go_over_a_run(folder):
    train(folder)
    train(folder, name="other", train__seed=7)
    before = contents(folder / "other")
    there = folder / "run" / "checkpoints" / "step_000002"
    error = error_of(train(folder, name="other", status=2, checkpoint__resume=there))
    check("already holds another run, saved after step 4" in error and "checkpoint.resume=auto" in error, error)
    check(contents(folder / "other") == before, "a refused start wrote something")
    check("after step 2" in train(folder, name="new", checkpoint__resume=there), "a folder of its own takes it")
    check("after step 2" in train(folder, checkpoint__resume=there), "and so does the run's own")
    shutil.rmtree(folder / "other" / "checkpoints")  # a finished model alone is a run's too
    before = contents(folder / "other")
    error = error_of(train(folder, name="other", status=2, checkpoint__resume=there))
    check("already holds another run" in error and contents(folder / "other") == before, error)
    error = error_of(train(folder, name="run/checkpoints/step_000002/inside", status=2, checkpoint__resume=there))
    check("inside checkpoint.resume" in error, error)


def test_a_run_goes_on_with_the_model_it_began_with(folder):
    for name, seed in (("a", 1), ("b", 2)):
        train(folder, name=f"make-{name}", train__steps=1, train__seed=seed, checkpoint__every=0)
        (folder / f"make-{name}" / "model").rename(folder / name)
    given = {"model__config": None, "train__steps": 2}
    train(folder, model__path=folder / "a", **given)
    before = contents(folder / "run")
    error = error_of(train(folder, status=2, model__path=folder / "b", **given))
    check(f"model.path is {folder / 'b'}, was {folder / 'a'}" in error and "another train.output" in error, error)
    check("model.path is" in error_of(train(folder, status=2, model__config=folder / "config.json", train__steps=2)), "no weights are another model too")
    check(contents(folder / "run") == before, "a refused start wrote something")
    log = train(folder, model__path=f"{folder}/./b/../a/", **{**given, "train__steps": 3})
    check("after step 2" in log and "changed  model.path" not in log, f"another spelling of the same place: {log}")
    (folder / "a").rename(folder / "moved")
    log = train(folder, model__path=folder / "moved", **{**given, "train__steps": 4})
    check("after step 3" in log and "changed  model.path" in log, f"the same weights at another place: {log}")
    shutil.rmtree(folder / "moved")
    shutil.copytree(folder / "b", folder / "moved")
    log = train(folder, model__path=folder / "moved", **{**given, "train__steps": 5})
    check("after step 4" in log and "holds other weights than when this run began" in log, log)
    train(folder, name="new", model__path=folder / "b", **given)


def test_the_default_folder_holds_one_run(folder):
    (folder / "work").mkdir()
    train(folder, name=None, cwd=folder / "work")
    before = contents(folder / "work")
    other = r.save_ids(folder / "other.safetensors", 64, 17, seed=2)
    wide = r.save_config(folder / "wide.json", hidden_size=48)
    for more, words in (({"data__train": [other]}, f"this run is model.config={folder / 'config.json'} data.train=[{other}]"),
                        ({"model__config": wide}, f"this run is model.config={wide}")):
        error = error_of(train(folder, name=None, status=2, cwd=folder / "work", **more))
        check(f"another run is in runs/default: model.config={folder / 'config.json'} data.train=[{folder / 'ids.safetensors'}], saved after step 4" in error, error)
        check(words in error and "train.output=runs/" in error, error)
    check(contents(folder / "work") == before, "a refused start wrote something")
    check("complete: 4 of 4 steps" in train(folder, name=None, cwd=folder / "work"), "the same command is the same run")
    # What a run sees is shown without looking at somebody else's.
    words = [w for w in r.settings(values(folder, data__train=[other], train__global_batch=8)) if w.split(".")[0] in ("model", "data", "train")]
    plain = r.run("data", "show", "--step", 3, *words, cwd=folder).stdout
    done = r.run("data", "show", "--step", 3, *words, cwd=folder / "work")
    check(done.stdout == plain and "runs/default" in done.stderr, done.stdout + done.stderr)


def test_a_config_of_an_older_version_is_not_taken_for_edited(folder):
    train(folder, train__steps=2)
    config, mark = folder / "run" / "config.yaml", folder / "run" / ".ravine"
    had = config.read_text()
    older = had.replace("  find_nan: false\n", "")
    check(older != had, had)
    config.write_text(older)
    saved = json.loads(mark.read_text())
    mark.write_text(json.dumps({**saved, "files": {}}))  # as older versions left it
    train(folder, train__steps=3)
    check(not list((folder / "run").glob("config.edited*")), "what an older version wrote is kept as if edited")
    # And what is edited in place is kept, though it reads as if the program had written it.
    edited = config.read_text().replace("steps: 3\n", "steps: 4\n", 1)
    config.write_text(edited)
    train(folder, train__steps=4)
    check((folder / "run" / "config.edited-1.yaml").read_text() == edited, "an edit was lost")


def chats(path, good, empty, long):
    rows = [{"instruction": f"What is {i}?", "input": "", "output": "It is a river"} for i in range(good)]
    rows += [{"instruction": f"And {i}?", "input": "", "output": ""} for i in range(empty)]
    rows += [{"instruction": f"Why {i}?", "input": "", "output": "of stones " * 200} for i in range(long)]
    Path(path).write_text(json.dumps(rows))
    return str(path)


def test_conversations_left_out_are_counted(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CHAT / name, folder / name)
    model = r.save_config(folder / "chat.json", vocab_size=520, max_position_embeddings=128)
    given = {"model__config": model, "model__tokenizer": folder, "data__sequence_length": 64, "data__too_long": "drop", "train__steps": 1, "checkpoint__every": 0}
    half = chats(folder / "half.json", 20, 0, 10)
    chats(folder / "few.json", 99, 0, 1)
    # An empty answer still has its end token to learn; a conversation without any learns nothing.
    rows = [{"messages": [{"role": "user", "content": "only asked"}]} for _ in range(10)] + [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]} for _ in range(10)]
    (folder / "asked.json").write_text(json.dumps(rows))
    for file, words in ((half, "10 of 30 conversations (33 %) are left out and not learned: 10 too long"), (folder / "asked.json", "10 of 20 conversations (50 %) are left out and not learned: 10 without an answer")):
        more = {**given, "data__train": [str(file)]}
        log = train(folder, name=Path(file).stem, **more)
        check(sum(f"warning: {file}: {words}" in line for line in log.splitlines()) == 1, log)
        show = r.run("data", "show", *[w for w in r.settings(values(folder, **more)) if w.split(".")[0] in ("model", "data", "train")])
        check(words in show.stderr and "warning: " in show.stderr and words not in show.stdout, show.stderr)
    log = train(folder, name="few", **{**given, "data__train": [str(folder / "few.json")]})
    check("1 left out: 1 too long" in log and "are left out and not learned" not in log, log)


def test_check_layouts_needs_ranks(folder):
    model = r.save_config(folder / "config.json")
    done = r.run("check", "layouts", f"model.config={model}", "data.sequence_length=16", status=2)
    check("mpirun -n 2" in done.stderr and "nothing to compare" in done.stderr and "as promised" not in done.stdout, done.stdout + done.stderr)


def rows_of(output):
    return [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]


def test_lines_show_means_of_their_steps(folder):
    # Rows of which more and more labels count, so that steps weigh differently.
    ids = [[(7 * i + j) % 253 + 3 for j in range(17)] for i in range(64)]
    labels = [[t if j % 16 < 1 + i % 16 else -100 for j, t in enumerate(row)] for i, row in enumerate(ids)]
    data = r.save_tensors(folder / "weighed.safetensors", {"input_ids": ("I32", (64, 17), sum(ids, [])), "labels": ("I64", (64, 17), sum(labels, []))})
    given = {"data__train": [data], "train__steps": 8, "checkpoint__every": 4, "checkpoint__keep": 0}
    train(folder, name="each", **given)
    log = train(folder, name="third", log__every=3, **given)
    each = {row["step"]: row for row in rows_of(folder / "each")}
    check(all("mean_loss" not in row for row in each.values()), "a line of one step has nothing to average")
    # Labels of columns 1.. of the rows of a step.
    weight = {s: sum(1 for i in range(4 * (s - 1), 4 * s) for j in range(1, 17) if labels[i][j] >= 0) for s in each}
    rows = rows_of(folder / "third")
    check([row["step"] for row in rows] == [3, 6, 8], rows)
    for row, steps in zip(rows, ((1, 2, 3), (4, 5, 6), (7, 8))):
        mean = sum(each[s]["loss"] * weight[s] for s in steps) / sum(weight[s] for s in steps)
        check(row["mean_steps"] == len(steps) and abs(row["mean_loss"] - mean) <= 8 * 2 ** -52 * mean, f"{row}: {mean}")
        check(row["loss"] == each[row["step"]]["loss"], f"loss is the step's own: {row}")
        check(abs(row["tokens_per_second"] * row["step_time"] - 68) < 1e-6, f"speed over the same steps, of 4 times 17 tokens each: {row}")
        line = next(l for l in log.splitlines() if f"step {row['step']}/8" in l)
        check(f"loss {row['mean_loss']:.4f}  lr" in line and f"{round(row['tokens_per_second'])} tok/s" in line, line)
    # A run that is resumed amid a line's steps shows the same means.
    shutil.copytree(folder / "third", folder / "again")
    for step in ("step_000008",):
        shutil.rmtree(folder / "again" / "checkpoints" / step)
    (folder / "again" / "checkpoints" / "latest").write_text("step_000004\n")
    train(folder, name="again", log__every=3, **given)
    for row, again in zip(rows, rows_of(folder / "again")):
        check(all(row[k] == again[k] for k in ("step", "loss", "mean_loss", "mean_steps")), f"{row}\n{again}")


def on_terminal(arguments, kind, columns):
    """What the program sends to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(r.command(*arguments), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env={**os.environ, "TERM": kind})
    os.close(slave)
    out = b""
    while True:
        ready, _, _ = select.select([master], [], [], r.LIMIT)
        check(ready, "the program is silent")
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    os.close(master)
    check(process.wait() == 0, out.decode(errors="replace"))
    return out.decode(errors="replace")


def test_a_dumb_terminal_gets_plain_lines(folder):
    arguments = ["train", *r.settings(values(folder))]
    wide = on_terminal([*arguments, f"train.output={folder / 'a'}"], "xterm", 100)
    check("\033[J" in wide and "] 1/4  loss " in wide, wide)
    for line in re.split("[\r\n]", wide):
        if line.startswith("["):
            check(len(line.replace("\033[J", "")) < 100, line)
    dumb = on_terminal([*arguments, f"train.output={folder / 'b'}"], "dumb", 100)
    check("\033" not in dumb and "[#" not in dumb and "step 4/4" in dumb, dumb)
    show = ["data", "show", "--step", 1, *[w for w in arguments if w.startswith(("model.", "data."))]]
    check("\033" not in on_terminal(show, "dumb", 100), "colours on a dumb terminal")


def test_the_picture_of_a_plan(folder):
    model = r.save_config(folder / "config.json", num_hidden_layers=4)
    for name, more in (("one", []), ("pipeline", ["parallel.pipeline=2", "parallel.data=2", "parallel.zero=1"])):
        file = folder / f"{name}.svg"
        done = r.run("plan", f"model.config={model}", "data.sequence_length=32", "train.global_batch=8", "train.micro_batch=1", *more, "--svg", file, "--json")
        plan, root = json.loads(done.stdout), ET.parse(file).getroot()
        bars = [e.attrib for e in root.iter() if "data-bytes" in e.attrib]
        stages = sorted({int(b["data-stage"]) for b in bars})
        check(stages == list(range(len(plan["ranks"]))), f"a panel for each stage: {stages}")
        phases = {}
        for b in bars:
            if b["data-stage"] == "0":
                phases.setdefault(b["data-phase"], {})[b["data-kind"]] = int(b["data-bytes"])
        check(list(phases)[0] == "forward 0" and "update" in phases and "backward 0" in phases, f"{list(phases)}")
        fullest = max(phases.values(), key=lambda p: p["gradients"] + p["activations"] + p["workspace"])
        for kind in ("weights", "optimizer", "gradients", "activations", "workspace"):
            check(fullest[kind] == plan[kind], f"{kind}: drawn {fullest[kind]}, planned {plan[kind]}")
        check(fullest["program and batches"] == plan["base"] + plan["batches"], f"{fullest} {plan}")
        totals = [int(e.attrib["data-total"]) for e in root.iter() if "data-total" in e.attrib]
        check(totals[0] == plan["total"] and len(totals) == len(stages), f"{totals} {plan['total']}")
        check(phases["update"]["activations"] == 0 and phases["forward 0"]["gradients"] == 0 and phases["update"]["gradients"] > 0, f"{phases}")
        # Heights are to scale.
        tall = [e for e in root.iter() if e.attrib.get("data-stage") == "0" and "data-bytes" in e.attrib and int(e.attrib["data-bytes"]) > 0]
        scale = {float(e.attrib["height"]) / int(e.attrib["data-bytes"]) for e in tall if float(e.attrib["height"]) > 20}
        check(max(scale) - min(scale) < 0.01 / 20 * max(scale), f"{scale}")
        check("bubble" in "".join(root.itertext()), "the pipeline's chart is there")
    error = r.run("plan", f"model.config={model}", "--svg", folder / "x.png", status=2).stderr
    check(".svg" in error, error)


if __name__ == "__main__":
    r.main(globals())
