"""`ravine curves`: two training curves of any program, judged as one or not; the limit of norms that it draws from them.

The curves are made here: a common course, and differences whose size, side and slope are known."""
import json
import math
import random

import ravine_run as r

STEPS = 400


def course(step):
    return 6 * math.exp(-step / 120) + 2


def series(difference=lambda t: 0.0, scatter=0.0, seed=0, steps=STEPS):
    """Losses of steps 1 to `steps`: the course, a difference, and a scatter that grows from nothing over the first hundred steps."""
    draw = random.Random(seed)
    return [course(t) + difference(t) + scatter * draw.gauss(0, 1) * min(1, (t / 100) ** 4) for t in range(1, steps + 1)]


def norms(seed=0, factor=1.0, steps=STEPS):
    draw = random.Random(1000 + seed)
    return [factor * math.exp(draw.gauss(0, 0.1)) for _ in range(steps)]


def save(path, losses, norm=None):
    rows = [f"{t},{x!r},{n!r}" for t, (x, n) in enumerate(zip(losses, norm or norms()), 1)]
    path.write_text("\n".join(["step,loss,grad_norm", *rows]) + "\n")
    return path


def judge(*curves, status=0, flags=()):
    said = json.loads(r.run("curves", *curves, "--json", *flags, status=status).stdout)
    r.check(said.get("agrees", True) == (status == 0), said)
    return said


def test_the_guides_case(folder):
    """0.1 to one side late in the run is refused; within 0.03 around 0 is accepted, as the precision guide does."""
    reference = save(folder / "b.csv", series())
    for name, difference, scatter in (("steady", lambda t: 0.1 * min(1, (t / 200) ** 4), 0.01), ("below", lambda t: -0.1 * min(1, (t / 200) ** 4), 0.01)):
        said = judge(save(folder / f"{name}.csv", series(difference, scatter, 1)), reference, status=1)
        r.check(not said["late"]["in_band"] and abs(abs(said["late"]["most"]) - 0.1) < 0.02 and said["early"]["first_beyond"] is None, said)
    said = judge(save(folder / "around.csv", series(scatter=0.01, seed=2)), reference)
    r.check(said["late"]["centred"] and said["late"]["level"], said)
    # Half the band, but always on one side: said as such.
    said = judge(save(folder / "side.csv", series(lambda t: 0.018 * min(1, (t / 100) ** 4), 0.004, 3)), reference, status=1)
    r.check(said["late"]["in_band"] and not said["late"]["centred"] and "to one side" in said["verdict"] and "ravine eval" in said["verdict"], said)


def test_where_they_part(folder):
    reference = save(folder / "b.csv", series())
    for name, difference, first in (("forward", lambda t: 0.1, 1), ("update", lambda t: 0.0 if t < 10 else 0.2, 10)):
        said = judge(save(folder / f"{name}.csv", series(difference)), reference, status=1)
        r.check(said["early"]["first_beyond"] == first and said["exact"] == first - 1, said)
        r.check(("first loss already differs" in said["verdict"]) == (first == 1), said["verdict"])
    # f32 explains less than bf16 does.
    close = save(folder / "close.csv", series(lambda t: 1e-3))
    judge(close, reference, flags=["--compute", "bf16"])
    r.check(judge(close, reference, status=1, flags=["--compute", "f32"])["early"]["first_beyond"] == 1, "a thousandth is no rounding of f32")
    slope = save(folder / "slope.csv", series(lambda t: 0.025 * max(0, t - 100) / (STEPS - 100), 0.002, 4))
    r.check(not judge(slope, reference, status=1)["late"]["level"], "a slope")
    broken = series()
    broken[120] = float("nan")
    r.check(judge(save(folder / "nan.csv", broken), reference, status=1)["not_finite"] == 121, "a loss that is not finite")
    r.check("the gradient norms differ" in judge(save(folder / "norms.csv", series(), norms(factor=1.3)), reference, status=1)["verdict"], "norms")


def test_two_sides_that_fail_alike(folder):
    """NaN on both sides is said, and is no agreement where the runs end in it; a step without a loss in the middle is said and passes."""
    nothing = [float("nan")] * STEPS
    a, b = save(folder / "nan.csv", nothing), save(folder / "again.csv", nothing)
    said = judge(a, b, status=1)
    r.check("No finite loss" in said["verdict"] and "equal." not in said["verdict"] and said["neither_finite"] == {"first": 1, "lost": True, "steps": STEPS}, said)
    lost = series()
    lost[200:] = nothing[200:]
    said = judge(save(folder / "lost.csv", lost), save(folder / "lost2.csv", lost), status=1)
    r.check("first at step 201" in said["verdict"] and said["neither_finite"]["steps"] == STEPS - 200, said)
    hole = series()
    hole[99] = float("nan")
    said = judge(save(folder / "hole.csv", hole), save(folder / "hole2.csv", hole))
    r.check("first at step 100" in said["verdict"] and not said["neither_finite"]["lost"], said)
    for value, passes in ((float("nan"), 1), (float("-inf"), 0)):  # a mask of -inf is no fault
        numbers = [1.0, 2.0, value, 4.0]
        for side, more in (("a", 0), ("b", 0), ("c", 1e-3)):
            r.save_tensors(folder / f"{side}.safetensors", {"hidden.0": ("F32", (1, 4), [1.0, 2.0, 3.0, 4.0]), "hidden.1": ("F32", (1, 4), numbers), "logits": ("F32", (1, 4), [x + more for x in numbers])})
        for other in ("b", "c"):
            done = r.run("compare", folder / "a.safetensors", folder / f"{other}.safetensors", status=passes if other == "b" else 1)
            r.check(("hold NaN, first in 'hidden.1'" in done.stdout) == bool(passes) and "-nan" not in done.stdout, done.stdout)
        done = r.run("diff", folder / "a.safetensors", folder / "b.safetensors", "--all", status=0) if passes else r.run("diff", folder / "a.safetensors", folder / "c.safetensors", status=1)
        r.check("nan" not in done.stdout.replace("NaN", ""), done.stdout)


def test_a_file_that_goes_back(folder):
    """What a run that was resumed has given up counts no longer: of logs, tables, rows and TensorBoard's files."""
    right = [course(t) for t in range(1, 101)]
    rows = [(t, x + (0.7 if t > 60 else 0)) for t, x in enumerate(right, 1)] + [(t, right[t - 1]) for t in range(61, 81)]
    reference = save(folder / "right.csv", right)
    log, table, lines = folder / "megatron.log", folder / "again.csv", folder / "again.jsonl"
    log.write_text("".join(f" iteration {t:8d}/     100 | consumed samples: {t:12d} | learning rate: 1.000E-03 | lm loss: {x!r} | grad norm: 1.000 |\n" for t, x in rows))
    table.write_text("step,loss\n" + "".join(f"{t},{x!r}\n" for t, x in rows))
    lines.write_text("".join(json.dumps({"step": t, "loss": x}) + "\n" for t, x in rows))
    for file in (log, table, lines):
        said = judge(file, reference)
        r.check(said["exact"] == said["steps"] == 80 and f"{file.name} goes back to step 61" in said["verdict"], said)
    unsorted = folder / "unsorted.csv"
    unsorted.write_text("step,loss\n" + "".join(f"{t},{x!r}\n" for t, x in reversed(list(enumerate(right, 1)))))
    said = judge(unsorted, reference)
    r.check(said["exact"] == said["steps"] == 100 and "goes back" not in said["verdict"], said)


def test_what_python_writes(folder):
    """NaN and Infinity, which json.dumps writes and JSON has not, are losses as in a table; the last line may be cut where a program was ended, and no other."""
    broken = [*(course(t) for t in range(1, 60)), *([math.nan, math.inf] * 10)]
    right, table = save(folder / "right.csv", [course(t) for t in range(1, 80)]), save(folder / "broken.csv", broken)
    wanted = judge(table, right, status=1)
    lines, state = folder / "broken.jsonl", folder / "trainer_state.json"
    rows = [{"step": t, "loss": x, "note": "NaN, -Infinity"} for t, x in enumerate(broken, 1)]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    state.write_text(json.dumps({"best_metric": -math.inf, "log_history": rows}))
    r.check("NaN" in lines.read_text() and "-Infinity" in state.read_text(), "what is tried")
    for file in (lines, state):
        said = judge(file, right, status=1)
        r.check(said["verdict"].replace(file.name, table.name) == wanted["verdict"] and said["steps"] == wanted["steps"] or file == state and "NaN" in said["verdict"] , (file, said, wanted))
    whole = folder / "whole.jsonl"
    whole.write_text("".join(json.dumps({"step": t, "loss": course(t)}) + "\n" for t in range(1, 101)))
    text = whole.read_text()
    cut = folder / "cut.jsonl"
    cut.write_text(text + '{"step": 101, "lo')
    said = judge(cut, whole)
    r.check(said["exact"] == said["steps"] == 100, said)
    for name, wrong in (("within", text + '{"step": 101, "lo\n' + text), ("ended", text + '{"step": 101, "lo\n'), ("alone", '{"step": 101, "lo'), ("key", '{NaN: 1}\n')):
        (folder / f"{name}.jsonl").write_text(wrong)
        said = r.run("curves", folder / f"{name}.jsonl", whole, status=2).stderr
        r.check(f"{name}.jsonl:" in said, said)


def test_steps_that_were_not_logged(folder):
    """The first loss that both have is not that of step 1: nobody can tell the forward pass from an update."""
    every = [(t, course(t)) for t in range(10, 201, 10)]
    for name, factor in (("a", 1.0), ("b", 1.1)):
        (folder / f"{name}.csv").write_text("step,loss\n" + "".join(f"{t},{x * factor!r}\n" for t, x in every))
    said = judge(folder / "a.csv", folder / "b.csv", status=1)["verdict"]
    r.check("Step 10 is the first that both have logged" in said and "log.every=1" in said and "already differs" not in said, said)


def test_repeats_say_how_wide_the_band_is(folder):
    runs = [save(folder / f"{k}.csv", series(scatter=0.05, seed=10 + k)) for k in range(4)]
    r.check(judge(*runs)["late"]["noise_ratio"] < 1.5, "four runs of one kind agree")
    quiet = [save(folder / f"quiet{k}.csv", series(scatter=0.0005, seed=20 + k)) for k in range(3)]
    off = save(folder / "off.csv", series(lambda t: 0.01 * min(1, (t / 100) ** 4), 0.0005, 30))
    r.check(judge(off, quiet[0], status=1)["late"]["in_band"], "a third of 0.03, to one side")
    said = judge(off, *quiet, status=1)
    r.check(not said["late"]["in_band"] and said["late"]["noise_ratio"] > 2, said)


def test_files_of_every_program(folder):
    """The same losses, as each program writes them: what is printed with fewer digits is judged by these."""
    losses, norm = series(), norms()
    reference = save(folder / "b.csv", losses, norm)
    megatron = folder / "megatron.log"
    megatron.write_text("".join(f" iteration {t:8d}/{STEPS:8d} | consumed samples: {t:12d} | learning rate: 1.000E-04 | lm loss: {x:.6E} | loss scale: 1.0 | grad norm: {n:.3f} |\n"
                                for t, (x, n) in enumerate(zip(losses, norm), 1)) + " validation loss at iteration 400 | lm loss value: 9.0E+00 | lm loss PPL: 8.1E+03 |\n")
    mindformers = folder / "mindformers.log"
    mindformers.write_text("".join(
        f"2024-01-01 - INFO - {{ Epoch:[{(t - 1) // 100 + 1:3d}/  4], step:[{(t - 1) % 100 + 1:5d}/  100], loss: {x:5.3f}, per_step_time: 12ms, lr: 1e-05, overflow cond: False, loss_scale: 1.0, global_norm: [{n}]\n"
        f"2024-01-01 - INFO -   25.0% |████| 1.0 samples/s/p  0:00:01 }}\n" for t, (x, n) in enumerate(zip(losses, norm), 1)))
    state = folder / "trainer_state.json"
    state.write_text(json.dumps({"log_history": [*({"step": t, "loss": round(x, 4), "grad_norm": n} for t, (x, n) in enumerate(zip(losses, norm), 1)), {"step": STEPS, "eval_loss": 9.0}]}))
    for file, digits in ((megatron, 1e-5), (mindformers, 1e-3), (state, 1e-4)):
        said = judge(file, reference)
        r.check(said["steps"] == STEPS and abs(said["late"]["most"]) < digits and said["norm"] < 1e-3, (file, said))
    # In three decimals nobody can tell what f32 would have.
    judge(mindformers, reference, flags=["--compute", "f32"])


def test_runs_of_ours(folder):
    text = folder / "text.txt"
    text.write_text("The ravine is deep and the river runs below.\n" * 400)
    base = {"model.config": r.save_config(folder / "m.json", vocab_size=300), "data.train": [str(text)], "data.sequence_length": 16, "train.steps": 12, "train.global_batch": 2,
            "schedule.warmup_steps": 0, "checkpoint.every": 0}
    r.run("tokenizer", "train", "--input", text, "--output", folder / "tok", "--vocab-size", 300)
    for name, more in (("a", {}), ("b", {}), ("lr", {"optimizer.lr": 0.01})):
        r.run("train", *r.settings({**base, "model.tokenizer": folder / "tok", "train.output": folder / name, **more}))
    said = judge(folder / "a", folder / "b")
    r.check(said["exact"] == said["steps"] == 12 and said["compute"] == "f32" and "equal" in said["verdict"], said)
    r.check(judge(folder / "lr", folder / "a", status=1)["early"]["first_beyond"] == 2, "another rate shows from the second step on")
    said = judge(folder / "a" / "tensorboard", folder / "a" / "metrics.jsonl")
    r.check(said["steps"] == 12 and said["early"]["ratio"] <= 1, "TensorBoard's values are the same in f32")


def test_a_limit_of_norms(folder):
    spiky = norms(1)
    for at in (150, 151, 300):
        spiky[at] = 40.0
    said = judge(save(folder / "a.csv", series(), spiky), save(folder / "b.csv", series(), norms(2)), flags=["--suggest-threshold"], status=1)
    limit = said["threshold"]
    r.check(1.5 < limit["skip_norm"] < 2.5 and limit["per_million"] < 0.01, limit)
    r.check([run["above"] for run in limit["runs"]] == [[151, 152, 301], []] and limit["runs"][0]["in_a_row"] == 2, limit)
    r.check("health.skip_norm=" in r.run("curves", folder / "a.csv", "--suggest-threshold").stdout, "one run is enough for that")


def test_a_picture(folder):
    a, b = save(folder / "a.csv", series(scatter=0.01, seed=1)), save(folder / "b.csv", series())
    for name in ("p.svg", "p.html"):
        r.run("curves", a, b, "--svg", folder / name)
        picture = (folder / name).read_text()
        r.check(all(word in picture for word in ("loss of a.csv minus b.csv", "smoothed", "band", "gradient norm", "<svg")) and "http" not in picture.replace("http://www.w3.org/2000/svg", ""), name)
    (folder / "mine.svg").write_text("mine")
    r.check("mine.svg" in r.run("curves", a, b, "--svg", folder / "mine.svg", status=2).stderr and (folder / "mine.svg").read_text() == "mine", "a file of the user's stays")


def test_what_is_no_curve(folder):
    b = save(folder / "b.csv", series())
    (folder / "words.log").write_text("no steps here\n")
    (folder / "other.csv").write_text("when,how\n1,2\n")
    (folder / "far.csv").write_text("step,loss\n1000,2.0\n1001,2.0\n")
    for words, arguments in ((["no such file"], ["nothing", b]), (["no step with a loss", "words.log"], [folder / "words.log", b]), (["no column of steps", "other.csv", "when"], [folder / "other.csv", b]),
                             (["0 steps in common", "1000"], [folder / "far.csv", b]), (["a folder without curves"], [folder, b]), (["one curve", "ravine plot"], [b])):
        said = r.run("curves", *arguments, status=2).stderr
        r.check(all(word in said for word in words), (words, said))


if __name__ == "__main__":
    r.main(globals())
