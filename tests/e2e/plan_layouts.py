"""`ravine plan --layouts` and `--decide`: every layout once, those that fit before the others, the fastest first; what is said of the best follows from the list; and each row is what
`plan` says of that layout alone."""
import json
import re
import sys

import ravine_run as r
from ravine_run import check

RANKS = 4


def plan(folder, *words, status=0):
    model = r.save_config(folder / "config.json", num_hidden_layers=4, hidden_size=64, num_attention_heads=4, num_key_value_heads=4, head_dim=16, intermediate_size=128)
    return r.run("plan", f"model.config={model}", "data.sequence_length=32", "train.global_batch=16", "train.micro_batch=1", "--ranks", RANKS, *words, status=status).stdout


def layouts(folder, *words):
    return json.loads(plan(folder, "--layouts", "--json", *words))


def key(row):
    return row["data"], row["tensor"], row["pipeline"], row["zero"], row["recompute"]


def mesh(row):
    return key(row)[:3]


def test_every_layout_once_and_the_fastest_first(folder):
    said = layouts(folder, "--memory", 64)
    rows = said["layouts"]
    meshes = [(d, t, p) for d in (1, 2, 4) for t in (1, 2, 4) for p in (1, 2, 4) if d * t * p == RANKS]
    want = {(*m, zero, recompute) for m in meshes for zero in range(4 if m[0] > 1 else 1) for recompute in ("cheap", "full")}
    check({key(row) for row in rows} == want and len(rows) == len(want), f"{sorted(want ^ {key(row) for row in rows})}")
    check((said["ranks"], said["memory_available"]) == (RANKS, 64 << 30) and all(row["fits"] for row in rows), "all fit")
    seconds = [row["step"]["seconds"] for row in rows]
    check(seconds == sorted(seconds), f"{seconds}")
    for row in rows:
        sent = [row["sent_data"] > 0, row["sent_tensor"] > 0, row["sent_pipeline"] > 0, row["bubble"] > 0]
        check(sent == [row["data"] > 1, row["tensor"] > 1, row["pipeline"] > 1, row["pipeline"] > 1], row)
    # The words about the best, from the list.
    best, step = rows[0], rows[0]["step"]
    other = next(row for row in rows if mesh(row) != mesh(best))
    check(f"{100 * step['compute'] / step['seconds']:.0f} % are arithmetic" in said["best"], said["best"])
    m = re.search(r"the best other mesh, (.*), takes (\S+) x as long", said["best"])
    check(m and m[2] == f"{other['step']['seconds'] / step['seconds']:.2f}", f"{said['best']}: {other}")
    for axis in ("data", "tensor", "pipeline"):
        check((f"{axis} {other[axis]}" in m[1]) == (other[axis] > 1), f"{m[1]}: {other}")
    for what, part in (("sums over tensor ranks", step["tensor"]), ("exchange between data ranks", step["data"]), ("update", step["update"])):
        check((f"{100 * part / step['seconds']:.0f} % {what}" in said["best"]) == (part > 0.005 * step["seconds"]), f"{what}: {said['best']} {step}")


def test_what_does_not_fit_comes_last_and_the_smallest_of_it_first(folder):
    rows = layouts(folder, "--memory", 64)["layouts"]
    sizes = sorted(row["memory"] for row in rows)
    check(sizes[0] < sizes[-1], "layouts differ in memory")
    said = layouts(folder, "--memory", f"{(sizes[0] + sizes[-1]) / 2 / 2**30:.9f}")
    have, rows = said["memory_available"], said["layouts"]
    fits = [row["fits"] for row in rows]
    check(True in fits and False in fits and fits == sorted(fits, reverse=True), f"{fits}")
    check(all(row["fits"] == (row["memory"] <= have) for row in rows), "fits is by memory")
    n = fits.count(True)
    for part, what in ((rows[:n], lambda row: row["step"]["seconds"]), (rows[n:], lambda row: row["memory"])):
        check([what(row) for row in part] == sorted(what(row) for row in part), "order")
    # Another process: the program itself is not the same size each time, so a layout near the limit may fall on either side of it. Its rows are held to each other.
    text = plan(folder, "--layouts", "--memory", f"{have / 2**30:.9f}")
    shown = [(float(m[1]), m[2].endswith("does not fit")) for m in re.finditer(r"(\S+) MiB  (.*)", text)]
    check(len(shown) == len(rows) and text.count("  best\n") == 1, text)
    refused = [not_fit for _, not_fit in shown]
    check(True in refused and False in refused and refused == sorted(refused), text)
    limit = have / 2**20
    check(all(not_fit == (size > limit) for size, not_fit in shown if abs(size - limit) > 0.05), f"{limit} MiB: {text}")  # a tenth of a MiB is what is printed
    said = layouts(folder, "--memory", 0.001)
    check(said["best"] == "nothing fits; the first needs least" and [row["memory"] for row in said["layouts"]] == sorted(row["memory"] for row in said["layouts"]), said["best"])


def test_a_row_is_what_plan_says_of_it(folder):
    rows = layouts(folder, "--memory", 64, "parallel.sum_leaves=8")["layouts"]
    uneven = layouts(folder, "--memory", 64, "parallel.sum_leaves=8", "parallel.stage_layers=[3,1]")["layouts"]  # the first stage sends more than the last
    chosen = [(row, []) for row in rows if key(row) in ((2, 1, 2, 1, "full"), (1, 2, 2, 0, "cheap"), (4, 1, 1, 3, "cheap"))]
    for row, more in chosen + [(row, ["parallel.stage_layers=[3,1]"]) for row in uneven if key(row) == (2, 1, 2, 1, "cheap")]:
        d, t, p, zero, recompute = key(row)
        one = json.loads(plan(folder, "--json", f"parallel.data={d}", f"parallel.tensor={t}", f"parallel.pipeline={p}", f"parallel.zero={zero}", f"train.recompute={recompute}",
                              f"parallel.sum_leaves={row['leaves']}", *more))
        check(one["step"] == row["step"], f"{key(row)}: {one['step']} {row['step']}")
        most = max(one["ranks"], key=lambda rank: rank["sent_data"] + rank["sent_tensor"] + rank["sent_pipeline"])
        check([most[k] for k in ("sent_data", "sent_tensor", "sent_pipeline")] == [row[k] for k in ("sent_data", "sent_tensor", "sent_pipeline")], f"{key(row)}: {one['ranks']} {row}")
        # The program itself is not the same size each time; what the run needs beyond it is.
        need = max(rank["total"] for rank in one["ranks"]) - one["base"]
        check(abs(row["memory"] - need - one["base"]) < 0.3 * one["base"], f"{key(row)}: {row['memory']}, {need} and {one['base']} of the program")
    check({row["leaves"] for row in rows} == {8}, f"leaves that are asked for: { {row['leaves'] for row in rows} }")
    for leaves in (3, 32):  # of no number of data ranks; more than micro batches
        check(all(row["leaves"] == row["data"] for row in layouts(folder, "--memory", 64, f"parallel.sum_leaves={leaves}")["layouts"] if row["data"] > 1), f"{leaves} leaves fit nowhere")


def test_a_decision_is_the_last_that_fits(folder):
    said = json.loads(plan(folder, "--decide", "--json", "--memory", 64))
    check(said["choice"] and all(f.split("=")[0] in ("parallel.zero", "train.recompute", "train.micro_batch", "precision.compute") for f in said["choice"]), said)
    check(said["steps"][-1]["setting"] in said["choice"] and f"train.micro_batch={16 // RANKS}" in said["choice"], said)
    text = plan(folder, "--decide", "--memory", 64)
    check(f"use {' '.join(said['choice'])}\n" in text, text)
    small = json.loads(plan(folder, "--decide", "--json", "--memory", 0.001))
    check(small["choice"] is None and not any(s["fits"] for s in small["steps"]), small)
    check("nothing fits: the least is" in plan(folder, "--decide", "--memory", 0.001), "and says so")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
