"""Guards on several ranks: all ranks take the same decision, so that a skipped step gives the bits of one rank; a checkpoint is unhealthy if one rank of the first stage
says so; norms of each rank.

python3 health.py PATH_OF_ravine [FUNCTION ..]
"""
import json
import math

from training import STEPS, few, prepare, r, same, train
from ravine_run import check


def rows_of(output):
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def verdicts(output):
    return [v["is_health"] for v in json.loads((output / "health_ckpts.json").read_text())]


def test_a_step_is_skipped_on_all_ranks(folder):
    base = {**prepare(folder), "train.valid_every": 0, "train.steps": 6}
    norms = sorted(row["grad_norm"] for row in rows_of(train(base, folder / "plain")))
    base["health.skip_norm"] = (norms[2] + norms[3]) / 2
    one = train(base, folder / "one")
    skipped = [row["step"] for row in rows_of(one) if row.get("skipped")]
    check(0 < len(skipped) < 6, f"{skipped}")
    for name, ranks, parallel in few((("data", 2, {"data": 2}), ("zero 2", 4, {"data": 4, "zero": 2}), ("zero 3", 2, {"data": 2, "zero": 3}), ("pipeline", 2, {"pipeline": 2}),
                                      ("virtual", 2, {"pipeline": 2, "virtual": 2}), ("both", 4, {"pipeline": 2, "data": 2, "zero": 1})), "zero 3", "pipeline"):
        out = train(base, folder / name, ranks, **{f"parallel__{k}": v for k, v in parallel.items()})
        same(one, out, name)
        check([row["step"] for row in rows_of(out) if row.get("skipped")] == skipped, name)
    if not r.FULL:  # the norm of tensor ranks is summed as that of stages is
        return
    # Tensor ranks round otherwise; the limit lies halfway between two norms, so the decisions are the same.
    out = train(base, folder / "tensor", 2, parallel__tensor=2)
    check([row["step"] for row in rows_of(out) if row.get("skipped")] == skipped, "tensor")


def test_an_overflow_on_one_rank_is_one_on_all(folder):
    """f16 from a scale that is too large: gradients of some sequences overflow before those of others, and every layout has the bits of one rank."""
    base = {**prepare(folder), "train.valid_every": 0, "train.steps": 30, "precision.compute": "f16", "precision.scale_initial": 2.0 ** 36, "precision.scale_hysteresis": 1,
            "precision.scale_window": 3, "checkpoint.every": 0}
    one = train(base, folder / "one")
    overflows = [row["overflow"] for row in rows_of(one)]
    check(overflows[0] and 3 < overflows.count(False) < 25, f"{overflows}")
    for name, ranks, parallel in few((("data", 2, {"data": 2}), ("zero 2", 4, {"data": 4, "zero": 2}), ("zero 3", 2, {"data": 2, "zero": 3}), ("both", 4, {"pipeline": 2, "data": 2, "zero": 1})),
                                     "data"):
        out = train(base, folder / name, ranks, **{f"parallel__{k}": v for k, v in parallel.items()})
        same(one, out, name)
        check([(row["overflow"], row["loss_scale"]) for row in rows_of(out)] == [(row["overflow"], row["loss_scale"]) for row in rows_of(one)], name)


def test_one_rank_of_the_first_stage_is_enough(folder):
    """Each data rank has the embedding's gradient of its own batches, before they are added up."""
    base = {**prepare(folder), "train.valid_every": 0, "checkpoint.every": 1, "checkpoint.keep": 0}
    mesh = {"parallel__pipeline": 2, "parallel__data": 2}
    out = train({**base, "log.local_norms": "model.embed_tokens.weight", "health.embedding_norm": 1e12}, folder / "all", 4, **mesh)
    check(verdicts(out) == [0] * STEPS, f"{verdicts(out)}")
    squares = []
    for row in rows_of(out):
        table = row["local_norms"]["model.embed_tokens.weight"]
        check(len(table["squares"]) == 2 and table["norms"] == [math.sqrt(x) for x in table["squares"]], f"ranks of the first stage alone: {table}")
        check(row["embedding_local_norm"] == table["squares"][0], f"{row}")
        squares.append(table["squares"])
    check(any(a != b for a, b in squares), f"each rank has its own: {squares}")
    for rank in r.rows(range(2), 1, "either rank is one alone"):  # a limit that one rank alone is above, in some step
        step = next((s for s in range(STEPS) if squares[s][rank] == max(squares[s])), None)
        if step is None:
            continue
        limit = (squares[step][0] + squares[step][1]) / 2
        out = train({**base, "health.embedding_norm": limit}, folder / f"rank {rank}", 4, **mesh)
        want = [int(max(pair) > limit) for pair in squares]
        check(verdicts(out) == want and want[step] == 1, f"limit {limit} of {squares}: {verdicts(out)}")
    # A resume takes the newest healthy one; without stages all are.
    healthy = [s + 1 for s, bad in enumerate(verdicts(out)) if not bad]
    if healthy and healthy[-1] < STEPS:
        log = r.run("train", *r.settings({**base, "health.embedding_norm": limit, "parallel.pipeline": 1, "train.output": out, "train.steps": STEPS + 1})).stderr
        check(f"after step {healthy[-1]}" in log, log)
    ranks = 2 if r.FULL else 1
    flat = train({**base, "health.embedding_norm": 1e-9}, folder / "flat", ranks, parallel__data=ranks)
    check(verdicts(flat) == [0] * STEPS, f"without stages: {verdicts(flat)}")


def test_a_norm_that_is_no_number_is_unhealthy(folder):
    """The step itself is skipped; what was saved after it is not gone on from."""
    base = {**prepare(folder), "train.valid_every": 0, "train.steps": 3, "checkpoint.every": 1, "checkpoint.keep": 0, "health.embedding_norm": 1e12, "health.skip_norm": 1e9,
            "probe.inject": "[{step: 2, op: embedding_backward, phase: backward, value: nan}]"}
    out = train(base, folder / "run", 2, parallel__pipeline=2)
    rows = rows_of(out)
    check([bool(row.get("skipped")) for row in rows] == [False, True, False], f"{rows}")
    check(verdicts(out) == [0, 1, 0], f"{verdicts(out)}")


def test_local_norms_of_ranks(folder):
    """Squares of the parts that tensor ranks hold add up to those of the whole; those of data ranks are of their own batches."""
    base = {**prepare(folder), "train.valid_every": 0, "train.steps": 1, "log.local_norms": "model.layers.*"}
    (one,) = rows_of(train(base, folder / "one"))
    (tensor,) = rows_of(train(base, folder / "tensor", 2, parallel__tensor=2))
    names = sorted(one["local_norms"])
    check(len(names) == 4 * 9 and sorted(tensor["local_norms"]) == names, f"{names}")
    for name in names:
        whole, parts = one["local_norms"][name]["squares"], tensor["local_norms"][name]["squares"]
        check(len(whole) == 1 and len(parts) == 2, name)
        cut = "layernorm" not in name
        got = sum(parts) if cut else parts[0]
        check(math.isclose(got, whole[0], rel_tol=1e-3), f"{name}: {parts} of {whole}")  # sums of f32 in another order, squared
        check(cut or parts[0] == parts[1], f"{name}: what is not cut is the same on both")
    if not r.FULL:  # the test of the first stage has norms of data ranks
        return
    (data,) = rows_of(train(base, folder / "data", 2, parallel__data=2))
    for name in names:
        check(len(data["local_norms"][name]["squares"]) == 2, name)


if __name__ == "__main__":
    r.main(globals())
