"""Preference training on several ranks: the curves of TRL, PEFT and PyTorch on every kind of layout, bit for bit where sums keep their order; resumes under another one.

python3 preferences.py PATH_OF_ravine [FUNCTION ..]
"""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from training import LAUNCH
import ravine_run as r
from ravine_run import check

place = Path(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "preferences.py")
spec = importlib.util.spec_from_file_location("one_rank_preferences", place)
one = importlib.util.module_from_spec(spec)
spec.loader.exec_module(one)


def train(case, folder, ranks, kind, layout, **more):
    words = one.settings(case, folder, kind, **{"train__micro_batch": 1, "parallel__sum_leaves": 2, "parallel__zero_threshold": 16, **{"parallel__" + k: v for k, v in layout.items()}, **more})
    done = subprocess.run([*(LAUNCH + ["-n", str(ranks)] if ranks > 1 else []), *r.command("train", *words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == 0, f"{case} {layout}: {done.returncode}\n{done.stdout}{done.stderr}")
    return one.rows(folder)


# The bits are those of one rank, or (tensor ranks; ZeRO 2 and 3 where a leaf of the sums is several micro batches) within what PyTorch's own orders of sums differ by.
LAYOUTS = [({}, 1, True), ({"data": 2}, 2, True), ({"data": 2, "zero": 1}, 2, True), ({"data": 2, "zero": 3}, 2, False), ({"pipeline": 2}, 2, True), ({"pipeline": 2, "data": 2, "zero": 2}, 4, False),
           ({"tensor": 2}, 2, False), ({"tensor": 2, "sequence": True}, 2, False), ({"tensor": 2, "pipeline": 2}, 4, False)]


def over_layouts(folder, case, kind, layouts, **more):
    first = None
    for i, (layout, ranks, exact) in enumerate(layouts):
        out = folder / f"{case}{i}"
        got = train(case, out, ranks, kind, layout, **more)
        what = f"{case} in {kind}, {layout}"
        one.compare_curve(case, got, kind, what)
        one.compare_weights(case, out, kind, what)
        if exact:
            first = first or (got, out)
            one.same_rows(got, first[0], what)
            for kept in ("adapter", "model"):
                if (out / kept).exists():
                    check(r.load_tensors(out / kept) == r.load_tensors(first[1] / kept), f"{what}: the weights in the end")


def test_whole_weights(folder):
    over_layouts(folder, "sigmoid", "f64", LAYOUTS if r.FULL else [LAYOUTS[i] for i in (0, 3, 4, 7)])  # short: one of each kind


@r.full("test_whole_weights has ZeRO; DataRanksAndStages.KeepEveryBit has such leaves on threads")
def test_zero_with_leaves_of_one_micro_batch(folder):
    exact = [(layout, ranks, True) for layout, ranks, _ in (LAYOUTS[0], LAYOUTS[2], LAYOUTS[3], LAYOUTS[5])]
    over_layouts(folder, "sigmoid", "f32", exact, train__micro_batch=3)
    over_layouts(folder, "lora", "f32", [exact[0], exact[2]], train__micro_batch=3)


@r.full("test_whole_weights has these layouts in double")
def test_whole_weights_in_single(folder):
    over_layouts(folder, "ftx", "f32", [LAYOUTS[0], LAYOUTS[2], LAYOUTS[5], LAYOUTS[6]])


def test_adapters(folder):
    over_layouts(folder, "lora", "f64", [LAYOUTS[0], LAYOUTS[2], LAYOUTS[4], LAYOUTS[6]] if r.FULL else [LAYOUTS[0], LAYOUTS[6]])


def test_a_resume_under_another_layout(folder):
    whole = train("sigmoid", folder / "whole", 1, "f32", {}, checkpoint__every=1)
    train("sigmoid", folder / "half", 2, "f32", {"pipeline": 2}, checkpoint__every=1, train__steps=3)
    (folder / "half" / "reference.safetensors").unlink()
    one.same_rows(train("sigmoid", folder / "half", 2, "f32", {"data": 2, "zero": 1}, checkpoint__every=1), whole, "resumed")


if __name__ == "__main__":
    r.main(globals())
