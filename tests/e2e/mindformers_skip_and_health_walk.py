"""MindFormers' page on data skip and the health of checkpoints, from top to bottom: its YAML and its command, as files of examples/mindformers-skip-and-health; the
lines that it prints are those of the log, letter by letter but for what a run measures; what steps and checkpoints are left in is held against its words.

The placeholder {path} is the job's folder; sizes are tiny. Rows are made so that norms come to lie on both sides of the page's thresholds, 3.0 and 270.0.
"""
import json
import random
import shlex

import mindformers_page as page
import ravine_run as r
from ravine_run import check

NAME = "mindformers-skip-and-health"
CHECKPOINT = "llama3_1_8b_rank_{}-{}_1.safetensors"
WIDE = tuple(random.Random(1).sample(range(3, page.LLAMA["vocab_size"]), page.LENGTH + 1))  # a quiet row
FLAT = (7,) * (page.LENGTH + 1)  # one whose gradient spikes


def block(name):
    return (page.EXAMPLES / NAME / name).read_text()


def prepare(folder, yaml, steps, batch, base, ranks=8):
    """The job that the page's command starts. steps: of the first ones, a row that all of its rows are, or a list of them; an epoch has 6500 steps, as in the page's log."""
    config = folder / page.CONFIG
    config.parent.mkdir(parents=True)
    config.write_text(page.fill(yaml, base))
    (folder / "train.sh").write_text(block("train.sh").replace("/{path}", str(folder)).replace('" 8', f'" {ranks}'))
    page.save_rows(folder / "wiki4096.mindrecord", [row for step in [*steps, *[WIDE] * (6500 - len(steps))] for row in (step if isinstance(step, list) else [step] * batch)])


def train(folder, *words, ranks, status=0):
    return page.run(folder, "--script", "train.sh", *words, ranks=ranks, status=status)


def skipping(folder, steps, **more):
    """Two data ranks in the place of the page's eight."""
    base = page.job(parallel_config={"data_parallel": 2}, callbacks=[{"type": "MFLossMonitor"}, {"type": "CheckpointMonitor", "prefix": "llama3_1_8b", "save_checkpoint_steps": 1, "checkpoint_format": "safetensors"}], **more)
    prepare(folder, block("skip.yaml"), steps, 2, base, ranks=2)


def weights(folder, step, rank=0):
    """The weights and moments of a checkpoint, without its counters."""
    stored = r.load_tensors(folder / "output/checkpoint" / f"rank_{rank}", CHECKPOINT.format(rank, step))
    return {name: tensor for name, tensor in stored.items() if name.startswith(("model.", "lm_head.", "adam_m.", "adam_v."))}


def test_two_spikes_in_a_row_end_the_run(folder):
    """The page's two pieces of log are the whole log of its command on such data."""
    skipping(folder, [FLAT, FLAT])
    done = train(folder, ranks=2, status=1)
    page.check_said(done.stderr, block("skipped_once.log"), block("skipped_twice.log"))
    check(done.stderr.count("ValueError: ") == 1 and [line for line in done.stderr.splitlines() if line.startswith("ValueError: ")], done.stderr[-1500:])
    said = page.said_of_steps(done.stderr)
    check(page.said_of_steps((folder / "output/log.txt").read_text())[:7] == said[:7], "log.txt has other lines")
    for step in (said[:4], said[4:]):
        norm = step[0].split("global_norm: ")[1].split("]")[0]
        check(f"Current global norm {norm}] of step" in step[3], f"the line of the step has another norm: {step}")
    row = page.rows(folder / "output")[0]
    check(row["skipped"] and row["lr"] == 0 and row["grad_norm"] > 3, f"{row}")
    check(not (folder / "output" / "checkpoint" / "rank_0" / CHECKPOINT.format(0, 2)).exists(), "the step that ends the run has a checkpoint")


def test_a_quiet_step_clears_the_count(folder):
    """A spike skips the data of its step: no weight moves. After a quiet step counting begins anew, so that three spikes of four end the run at the fourth step."""
    skipping(folder, [FLAT, WIDE, FLAT, FLAT], lr_schedule={"learning_rate": "1.0e-2"})
    done = train(folder, ranks=2, status=1)
    counted = [line.split("] ")[1] for line in page.said_of_steps(done.stderr) if "Current global norm" in line]
    check(counted == ["of step 1 has been 1 consecutive times greater than threshold: 3.0", "of step 3 has been 1 consecutive times greater than threshold: 3.0",
                      "of step 4 has been 2 consecutive times greater than threshold 3.0, stop training..."], f"{counted}")
    check(done.stderr.count("opt_global_step: 0, ") == 1 and done.stderr.count("opt_global_step: 1, ") == 2, "updates are counted, not steps")
    rows = page.rows(folder / "output")
    check([row["step"] for row in rows if row.get("skipped")][:2] == [1, 3] and rows[0]["lr"] == rows[1]["lr"] < rows[2]["lr"], f"{rows}")
    for rank in (0, 1):
        one, two, three = (weights(folder, step, rank) for step in (1, 2, 3))
        check(one.keys() == two.keys() and one != two and two == three, f"rank {rank}: the spike of step 3 moved a weight, or the quiet step 2 none")


def test_a_run_without_spikes_says_nothing(folder):
    """Data skip and a run without it have the same steps, where no norm is above the threshold."""
    (folder / "with").mkdir()
    skipping(folder / "with", [WIDE] * 3, runner_config={"stop_step": 3})
    done = train(folder / "with", ranks=2)
    check("is_skip" not in done.stderr and "consecutive" not in done.stderr, done.stderr[-1500:])
    train(folder / "with", "--use_skip_data_by_global_norm", "False", "--output_dir", "plain", ranks=2)
    check(page.numbers(folder / "with/output") == page.numbers(folder / "with/plain"), "other steps")


def test_throughput_of_a_device(folder):
    """train_throughput_per_npu is the work of a step over its time, in TFLOPS a rank: 6 x weights of matrices x tokens, and attention, within a half and twice."""
    rows, hidden, wide = 64, 384, 64
    skipping(folder, [[WIDE] * rows] * 2, model_config={"hidden_size": hidden}, runner_config={"stop_step": 2, "batch_size": rows // 2})
    log = train(folder, "--use_skip_data_by_global_norm", "False", ranks=2).stderr
    line = [line for line in page.said_of_steps(log) if "{ Epoch:[" in line][1]
    seconds = page.rows(folder / "output")[1]["step_time"]
    matrices = 2 * (3 * hidden * hidden + 3 * hidden * wide) + 128 * hidden  # wq, wo, and the halves wk, wv; w1, w2, w3; the head
    want = 6 * matrices * rows * page.LENGTH / 2 / seconds / 1e12
    check("train_throughput_per_npu: " in line, line)
    got = float(line.split("train_throughput_per_npu: ")[1].rstrip("T"))
    check(want / 2 - 5e-4 <= got <= 2 * want + 5e-4 and want > 2e-3, f"{got} T, expected {want}: {line}")


def test_data_skip_and_fault_recovery_exclude_each_other(folder):
    skipping(folder, [WIDE])
    said = train(folder, "--monitor_config.check_for_global_norm", "True", ranks=2, status=2).stderr
    check("check_for_global_norm and use_skip_data_by_global_norm are both on" in said and not (folder / "output").exists(), said)


def watching(folder, steps=(FLAT, WIDE), stop=2):
    """The page's own layout: four data ranks by two stages. In a wide model with large weights it is the row of many tokens that is above the page's 270.0."""
    base = page.job(model_config={"hidden_size": 384, "init_method_std": 0.2}, runner_config={"stop_step": stop})
    prepare(folder, block("health.yaml"), steps, 8, base)


def health(folder):
    return json.loads((folder / "output/health_ckpts.json").read_text())


def first_step(log):
    """The number of the first step that a run makes."""
    line = next(line for line in log.splitlines() if "{ Epoch:[" in line)
    return int(line.split("step:[")[1].split("/")[0])


def test_health_of_checkpoints(folder):
    """The command on eight ranks; its log; the file; then what goes on from it."""
    watching(folder)
    done = train(folder, ranks=8)
    page.check_said(done.stderr, block("local_norms.log"))
    norms = [float(line.split("embedding_local_norm: ")[1]) for line in page.said_of_steps(done.stderr) if "embedding_local_norm" in line]
    check(norms[0] < 270 < norms[1], f"{norms}")
    written = (folder / "output/health_ckpts.json").read_text()
    check(written.strip() == block("health_ckpts.json").strip(), written)
    for rank in range(8):
        there = sorted(file.name for file in (folder / f"output/checkpoint/rank_{rank}").glob("*.safetensors"))
        check(there == [CHECKPOINT.format(rank, step) for step in (1, 2)], f"rank {rank}: {there}")
    embeds = [rank for rank in range(8) if "model.tok_embeddings.embedding_weight" in weights(folder, 1, rank)]
    check(embeds == [0, 1, 2, 3], f"the embedding is on stage 0, on ranks {embeds}")
    # the newest healthy one
    goes_on = ("--load_checkpoint", "output/checkpoint", "--runner_config.stop_step", "3")
    newest = train(folder, *goes_on, "--resume_training", "True", "--output_dir", "output", ranks=8)
    check(first_step(newest.stderr) == 2, f"the newest healthy checkpoint is that of step 1: {page.said_of_steps(newest.stderr)[:1]}")
    check(health(folder)[:2] == json.loads(written) and health(folder)[-1]["ckpt_name"].endswith("-3_1.safetensors"), f"what was known stays, what is saved is added: {health(folder)}")


def test_one_rank_is_enough(folder):
    """A checkpoint is unhealthy where the norm of a single rank of stage 0 is above the threshold, here that of rank 3; the log shows rank 0's."""
    watching(folder, [FLAT, [FLAT] * 6 + [WIDE] * 2])
    log = train(folder, ranks=8).stderr
    check([one["is_health"] for one in health(folder)] == [0, 1], f"{health(folder)}")
    norms = [float(line.split("embedding_local_norm: ")[1]) for line in page.said_of_steps(log) if "embedding_local_norm" in line]
    check(max(norms) < 270, f"{norms}")


def test_a_named_checkpoint_counts_before_its_health(folder):
    """The second is unhealthy and gone on with, being named; without any that is healthy a run is not gone on with, and says what to do."""
    watching(folder)
    train(folder, ranks=8)
    there = (folder / "output/health_ckpts.json").read_text()
    named = train(folder, "--load_checkpoint", "output/checkpoint", "--runner_config.stop_step", "3", "--resume_training", CHECKPOINT.format(0, 2), "--output_dir", "named", ranks=8)
    check(first_step(named.stderr) == 3, f"{page.said_of_steps(named.stderr)[:1]}")
    (folder / "output/health_ckpts.json").write_text(there.replace('"is_health": 0', '"is_health": 1'))
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}
    said = train(folder, "--load_checkpoint", "output/checkpoint", "--resume_training", "True", ranks=8, status=2).stderr
    check("no healthy checkpoints" in said and "start training again" in said and "embedding_local_norm" in said, f"{said}")
    changed = [file.name for file in folder.rglob("*") if file.is_file() and file.name != ".lock" and before.get(file) != file.stat().st_mtime_ns]
    check(not changed, f"a refused run writes {changed}")


def test_the_command_as_it_is_typed(folder):
    """Behind `ravine mindformers` the launcher's line is what it is in a script; on another number of ranks than its 8 it says how to start them."""
    watching(folder)
    typed = shlex.split((folder / "train.sh").read_text().replace("\\\n", " "))[1:]
    check(typed[0] == "scripts/msrun_launcher.sh" and typed[2:] == ["8"], f"{typed}")
    printed = [page.run(folder, *words, "--print-config").stdout for words in (typed, ["--script", "train.sh"])]
    check(printed[1] == "# mpirun -n 8 ravine mindformers --script train.sh\n" + printed[0], "two configs")
    said = train(folder, ranks=1, status=2).stderr
    check("mpirun -n 8" in said and not (folder / "output").exists(), said)
    register = page.explained(folder, *typed)["register_path"]
    check(register["status"] == "inert" and register["reason"], f"{register}")


def test_what_the_monitor_needs(folder):
    """Local norms, and a dataset_strategy of the data ranks; without stages every checkpoint is healthy. Full batches, which the page rules out, are judged alike."""
    watching(folder)
    for flags, words in ((("--runner_wrapper.local_norm", "False"), "local_norm"), (("--parallel.dataset_strategy", "[[2, 1], [2, 1]]"), "dataset_strategy")):
        said = train(folder, *flags, ranks=8, status=2).stderr
        check(words in said and not (folder / "output").exists(), f"{flags}: {said}")
    train(folder, "--parallel.full_batch", "True", "--output_dir", "whole", ranks=8)
    check([one["is_health"] for one in json.loads((folder / "whole/health_ckpts.json").read_text())] == [0, 1], "full batches")
    alone = ("--parallel_config.pipeline_stage", "1", "--parallel_config.data_parallel", "1", "--parallel.dataset_strategy", "[[1, 1], [1, 1]]", "--ranks", "1")
    train(folder, *alone, ranks=1)
    check([one["is_health"] for one in health(folder)] == [0, 0], f"{health(folder)}")


def test_the_files_are_those_of_the_page(folder):
    page.check_lines_of_page(NAME)


if __name__ == "__main__":
    r.main(globals())
