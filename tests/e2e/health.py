"""Guarding a run: steps that are skipped by their norm leave everything but the data alone; so many in a row end the run; what gradients come to on a rank is
shown; verdicts on checkpoints, and what a resume makes of them."""
import json
import math
import shutil

import ravine_run as r
from ravine_run import check

STEPS = 8


def values(folder, **more):
    out = {"model.config": r.save_config(folder / "config.json"), "data.train": [r.save_ids(folder / "ids.safetensors", 64, 17)], "data.sequence_length": 17,
           "train.steps": STEPS, "train.global_batch": 4, "train.micro_batch": 2, "optimizer.lr": 1e-2, "schedule.warmup_steps": 4, "checkpoint.every": 1,
           "checkpoint.keep": 0, "train.threads": 1}
    out.update({key.replace("__", "."): value for key, value in more.items()})
    return {key: value for key, value in out.items() if value is not None}


def train(folder, name, status=0, **more):
    return r.run("train", *r.settings({**values(folder, **more), "train.output": folder / name}), status=status).stderr


def metrics(run):
    """Step -> all of its row."""
    return {row["step"]: row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())}


def state(run, step):
    return r.load_tensors(run / "checkpoints" / f"step_{step:06}")


def middle(rows):
    """A limit that some steps of a run are above and some are not."""
    norms = sorted(row["grad_norm"] for row in rows.values())
    return (norms[len(norms) // 2 - 1] + norms[len(norms) // 2]) / 2


def test_a_skipped_step_leaves_everything_but_the_data_alone(folder):
    train(folder, "plain")
    limit = middle(metrics(folder / "plain"))
    log = train(folder, "run", health__skip_norm=limit)
    rows = metrics(folder / "run")
    skipped = [s for s in rows if rows[s].get("skipped")]
    check(skipped and len(skipped) < STEPS, f"{skipped}")
    before = None
    for s in range(1, STEPS + 1):
        check((rows[s]["grad_norm"] > limit) == (s in skipped), f"step {s}: {rows[s]}")
        now = state(folder / "run", s)
        if before:
            check((now == before) == (s in skipped), f"step {s}: weights and moments")
        before = now
    # The rate follows the updates: the n-th that is applied has that of the n-th step of a run without spikes.
    plain, updates = metrics(folder / "plain"), 0
    for s in range(1, STEPS + 1):
        check(rows[s]["lr"] == plain[updates + 1]["lr"], f"step {s}: {rows[s]['lr']}, updates so far {updates}")
        updates += s not in skipped
    tokens = [rows[s]["tokens"] for s in rows]
    check(tokens == [plain[s]["tokens"] for s in plain], "data goes on")
    check("skip_data_grad_norm_threshold" in log and "has been 1 consecutive times greater than threshold" in log, log)


def test_the_same_steps_without_the_skipped_ones_give_the_same_weights(folder):
    train(folder, "plain")
    limit = middle(metrics(folder / "plain"))
    train(folder, "run", health__skip_norm=limit)
    rows = metrics(folder / "run")
    train(folder, "left-out", data__skip_steps=[s for s in rows if rows[s].get("skipped")])
    check(state(folder / "run", STEPS) == state(folder / "left-out", STEPS), "a step that is skipped is a step whose batch is left out")


def test_a_norm_that_is_not_finite_is_a_spike(folder):
    train(folder, "run", health__skip_norm=1e6, probe__inject=[{"step": 3, "op": "matmul", "value": "nan"}])
    rows = metrics(folder / "run")
    check([s for s in rows if rows[s].get("skipped")] == [3] and rows[3]["grad_norm"] is None, f"{rows[3]}")
    check(state(folder / "run", 2) == state(folder / "run", 3) != state(folder / "run", 4), "nothing was learned in step 3 only")


def test_so_many_in_a_row_end_the_run_and_a_resume_goes_on_counting(folder):
    train(folder, "run", status=1, health__skip_norm=1e-6, health__skip_count=3)
    rows = metrics(folder / "run")
    check(sorted(rows) == [1, 2], f"{sorted(rows)}: the third spike ends the run")
    log = train(folder, "run", status=1, health__skip_norm=1e-6, health__skip_count=3)
    check("after step 2" in log and "of step 3 has been 3 consecutive times" in log, log)
    log = train(folder, "run", health__skip_norm=1e6, health__skip_count=3)
    check(sorted(metrics(folder / "run")) == list(range(1, STEPS + 1)), log)


def test_a_count_without_a_limit_is_refused(folder):
    log = train(folder, "run", status=2, health__skip_count=3)
    check("health.skip_norm" in log, log)


def test_local_norms(folder):
    train(folder, "run", log__local_norms="*")
    rows = metrics(folder / "run")
    for s, row in rows.items():
        names = row["local_norms"]
        check("model.embed_tokens.weight" in names and "model.norm.weight" in names, f"{sorted(names)}")
        total = sum(n["squares"][0] for n in names.values())
        check(math.isclose(math.sqrt(total), row["grad_norm"], rel_tol=1e-6), f"step {s}: {math.sqrt(total)}, {row['grad_norm']}")
        for n in names.values():
            check(n["norms"] == [math.sqrt(n["squares"][0])], f"{n}")
    train(folder, "other", log__local_norms="*.q_proj.weight")
    check(sorted(metrics(folder / "other")[1]["local_norms"]) == [f"model.layers.{i}.self_attn.q_proj.weight" for i in range(2)], "the pattern")
    check(state(folder / "run", STEPS) == state(folder / "other", STEPS), "looking changes nothing")


def test_verdicts_without_stages_are_always_healthy(folder):
    train(folder, "run", health__embedding_norm=1e-9)
    verdicts = json.loads((folder / "run" / "health_ckpts.json").read_text())
    check(verdicts == [{"is_health": 0, "ckpt_name": f"step_{s:06}"} for s in range(1, STEPS + 1)], f"{verdicts}")
    check(all(row["embedding_local_norm"] > 1e-9 for row in metrics(folder / "run").values()), "the value is shown")


def test_a_resume_takes_the_newest_healthy_one(folder):
    train(folder, "run", train__steps=6, schedule__steps=STEPS, health__embedding_norm=1e-9)
    file = folder / "run" / "health_ckpts.json"
    verdicts = json.loads(file.read_text())
    for v in verdicts[3:]:
        v["is_health"] = 1
    file.write_text(json.dumps(verdicts))
    shutil.copytree(folder / "run", folder / "named")
    log = train(folder, "run", schedule__steps=STEPS, health__embedding_norm=1e-9)
    check("after step 3" in log, log)
    log = train(folder, "named", schedule__steps=STEPS, health__embedding_norm=1e-9, checkpoint__resume=folder / "named" / "checkpoints" / "step_000005")
    check("after step 5" in log, f"a checkpoint that is named is taken as it is: {log}")
    file.write_text(json.dumps([{**v, "is_health": 1} for v in json.loads(file.read_text())]))
    log = train(folder, "run", status=2, train__steps=STEPS + 1, schedule__steps=STEPS, health__embedding_norm=1e-9)
    check("no healthy checkpoints" in log and "health.embedding_norm" in log, log)


def test_a_checkpoint_that_the_file_lacks_carries_its_own_verdict(folder):
    """As after a kill between a save and the line about it."""
    train(folder, "run", train__steps=6, schedule__steps=STEPS, health__embedding_norm=1e-9)
    file = folder / "run" / "health_ckpts.json"
    verdicts = json.loads(file.read_text())
    file.write_text(json.dumps(verdicts[:-1]))
    shutil.copytree(folder / "run", folder / "none")
    log = train(folder, "run", schedule__steps=STEPS, health__embedding_norm=1e-9)
    check("after step 6" in log, log)
    (folder / "none" / "health_ckpts.json").unlink()
    log = train(folder, "none", schedule__steps=STEPS, health__embedding_norm=1e-9)
    check("after step 6" in log, log)
    check([v["ckpt_name"] for v in json.loads((folder / "none" / "health_ckpts.json").read_text())] == ["step_000007", "step_000008"], "what was saved since")


def test_a_file_that_cannot_be_read_ends_no_run(folder):
    train(folder, "run", train__steps=2, schedule__steps=STEPS, health__embedding_norm=1e-9)
    file = folder / "run" / "health_ckpts.json"
    file.write_text('[{"is_health": 0,')
    log = train(folder, "run", status=2, schedule__steps=STEPS, health__embedding_norm=1e-9)
    check("health_ckpts.json" in log, log)
    log = train(folder, "run", schedule__steps=STEPS, checkpoint__keep=1)  # not judged: nothing asks the file
    check("warning: " in log and "health_ckpts.json" in log and f"saved    step_{STEPS:06}" in log, log)
    check(len(r.checkpoints(folder / "run")) == STEPS, "nothing goes whose verdict is not known")


def test_steps_that_are_left_out_report_saves_too(folder):
    train(folder, "run", health__embedding_norm=1e-9, data__skip_steps=[3, 4, 5, 6, 7, 8])
    verdicts = json.loads((folder / "run" / "health_ckpts.json").read_text())
    check([v["ckpt_name"] for v in verdicts] == [f"step_{s:06}" for s in range(1, STEPS + 1)], f"{verdicts}")


if __name__ == "__main__":
    r.main(globals())
