"""Models with experts on several ranks: stages, tensor ranks, expert ranks; checkpoints from any of these layouts to any other; what they send.

What is short and what full: training.py.

python3 experts.py PATH_OF_ravine [FUNCTION ..]
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from training import IN_DOUBLE, STEPS, Rounding, few, into_each_other, launch, prepare, same, train, with_even_rows
import ravine_run as r
from ravine_run import check

# Matrices of experts have 2048 elements.
MIXTRAL = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True, "router_aux_loss_coef": 0.1}
QWEN = {"model_type": "qwen2_moe", "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 24, "decoder_sparse_step": 1,
        "output_router_logits": False}


def routers(output):
    """What the log says of routers, by step."""
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [{k: row[k] for k in ("aux_loss", "z_loss", "drop_rate", "expert_load") if k in row} for row in rows]


def layouts(folder, cases, model, *short, **fields):
    """Runs the first case and compares every other (in the short tier those named `short`) with it, bit for bit; the layers that routers of the first are in."""
    cases = few(cases, cases[0][0], *short)
    base = {**prepare(folder, **model), **{key.replace("__", "."): value for key, value in fields.items()}}
    first = None
    for name, ranks, settings in cases:
        out = train(base, folder / name, ranks, **{f"parallel__{k}": v for k, v in settings.items()})
        first = first or out
        same(first, out, name)
        check(routers(first) == routers(out), f"{name}: routers did {routers(out)}, of one rank {routers(first)}")
    said = routers(first)
    check(all(len(step["expert_load"]) == 4 for step in said), f"not all layers: {said}")
    return said


def test_stages(folder):
    """The loss of Mixtral pools all layers: stages have the sums of all of them before the first gradient of a router."""
    stages = [("one", 1, {}), ("pipe 2", 2, {"pipeline": 2}), ("pipe 4", 4, {"pipeline": 4}), ("interleaved", 2, {"pipeline": 2, "virtual": 2}),
              ("uneven", 2, {"pipeline": 2, "stage_layers": [3, 1]}), ("pipe 2 data 2 zero 1", 4, {"pipeline": 2, "zero": 1}), ("zero 3", 4, {"pipeline": 2, "zero": 3})]
    for name, model, settings in few((("mixtral", MIXTRAL, {"moe__z_loss": 0.01}), ("qwen", QWEN, {"moe__load_balance": "seq_aux", "moe__aux_loss": 0.1})), "mixtral"):
        (folder / name).mkdir()
        said = layouts(folder / name, stages, model, "pipe 2", **settings)
        check(all(step["aux_loss"] > 0 for step in said), said)


def test_expert_ranks(folder):
    ranks = [("one", 1, {}), ("2", 2, {"expert": 2}), ("4", 4, {"expert": 4}), ("2 of 4", 4, {"expert": 2}), ("zero 1", 2, {"expert": 2, "zero": 1}),
             ("zero 2", 4, {"expert": 2, "zero": 2}), ("zero 3", 4, {"expert": 4, "zero": 3}), ("stages", 4, {"expert": 2, "pipeline": 2, "zero": 1})]
    for name, model, settings in few((("mixtral", MIXTRAL, {}), ("qwen", QWEN, {"optimizer__type": "muon"}),
                                      ("bf16", QWEN, {"precision__compute": "bf16", "precision__bf16_products": "widen", "train__recompute": "full", "train__dropout": 0.1})), "qwen"):
        (folder / name).mkdir()
        layouts(folder / name, ranks, model, "zero 1", **settings)


@r.full("ExpertRanks.CapacitiesAndIdleRanks on threads")
def test_capacity_on_expert_ranks(folder):
    said = layouts(folder, [("one", 1, {}), ("2", 2, {"expert": 2}), ("4", 4, {"expert": 4})], MIXTRAL, moe__capacity_factor=0.8, moe__drop="probs")
    check(all(0 < rate < 1 for step in said for rate in step["drop_rate"]), said)


def test_tensor_ranks(folder):
    for name, model in few((("mixtral", MIXTRAL), ("qwen", QWEN)), "mixtral"):
        (folder / name).mkdir()
        base = {**with_even_rows(folder / name, prepare(folder / name, **model)), "train.steps": 2, "moe.z_loss": 0.01}
        one = Rounding(base, folder / name)
        for layout, ranks, settings in few([("tensor", 2, {"tensor": 2}), ("sequence", 2, {"tensor": 2, "sequence": True}), ("experts", 4, {"tensor": 2, "expert": 2, "zero": 1}),
                                            ("stages", 4, {"tensor": 2, "pipeline": 2})], "sequence"):
            values = {f"parallel.{k}": v for k, v in settings.items()}
            one.demand(train({**base, **values}, folder / name / layout, ranks), f"{name}: {layout}")
            if not r.FULL:  # ExpertRanks.WithTensorRanks is in double
                continue
            exact = folder / name / f"{layout} in double"
            launch(ranks, ["train", "--backend", "ref", *r.settings({**base, **IN_DOUBLE, **values, "train.output": str(exact)})])
            one.demand(exact, f"{name}: {layout} in double", 2.0 ** -53)


def test_any_checkpoint_in_any_layout(folder):
    base = {**prepare(folder, **MIXTRAL), "checkpoint.every": 2, "checkpoint.keep": 0}
    whole = train(base, folder / "whole")
    kinds = {"one": (1, {}), "experts 2": (2, {"expert": 2}), "experts 2 of 4 zero 1": (4, {"expert": 2, "zero": 1}), "experts 4 zero 3": (4, {"expert": 4, "zero": 3}),
             "pipe 2": (2, {"pipeline": 2})}
    into_each_other(base, whole, folder, kinds)


@r.full("ExpertRanks.SendWhatThePlanPredicts on threads")
def test_what_is_sent_is_what_was_planned(folder):
    """With rows padded to a capacity messages are known before."""
    base = {**with_even_rows(folder, prepare(folder, **MIXTRAL)), "parallel.sum_leaves": 0, "train.valid_every": 0, "moe.capacity_factor": 1, "moe.drop": "position", "moe.pad_to_capacity": True}
    for ranks, settings in [(2, {"pipeline": 2}), (2, {"tensor": 2}), (2, {"expert": 2}), (4, {"expert": 2, "zero": 2}), (4, {"expert": 2, "tensor": 2})]:
        values = {f"parallel.{k}": v for k, v in settings.items()}
        out = train({**base, **values}, folder / "-".join(f"{k}{v}" for k, v in settings.items()), ranks)
        asked = {k: v for k, v in {**base, **values}.items() if k.split(".")[0] not in ("checkpoint", "log", "schedule")}
        planned = json.loads(launch(1, ["plan", "--json", "--ranks", ranks, *r.settings(asked)]).stdout)["ranks"][0]
        sent = json.loads((out / "metrics.jsonl").read_text().splitlines()[2])["comm_mb"] * 1e6
        want = sum(planned[f"sent_{axis}"] for axis in ("data", "tensor", "pipeline", "expert"))
        check(("expert" in settings) == (planned["sent_expert"] > 0), planned)
        check(abs(sent - want) < 0.02 * want + 8 * 700 * ranks, f"{settings}: sent {sent:.0f} bytes, planned {want:.0f}")


@r.full("dist_training has the command, and each layout above is compared here")
def test_check_layouts(folder):
    model = r.save_config(folder / "config.json", num_hidden_layers=4, vocab_size=257, **MIXTRAL)
    done = launch(4, ["check", "layouts", "--steps", "2", *r.settings({"model.config": model, "data.sequence_length": 16, "optimizer.lr": 0.01})])
    check("all as promised" in done.stdout and all(f"{name}" in done.stdout for name in ("data 2 x expert 2, ZeRO 3", "data 4 x expert 4", "expert 2 x pipeline 2", "tensor 2, sequence")),
          done.stdout)


if __name__ == "__main__":
    r.main(globals())
