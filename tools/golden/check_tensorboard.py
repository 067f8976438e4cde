"""TensorBoard opens what src/files/tensorboard.cpp writes.

python tools/golden/check_tensorboard.py build/release/tests/unit_files --file files_tensorboard      writes a sample and opens it
python tools/golden/check_tensorboard.py RUN_FOLDER          compares a run's tensorboard/ with its metrics.jsonl
(needs tensorboard)
"""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def opened(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def check_sample(program):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--gtest_filter=Events.Sample"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "RAVINE_SAMPLE_FOLDER": folder})
        # Files are joined in the order of their names; the second begins where the first is to be forgotten.
        events = opened(folder)
        loss = [(e.step, e.value, e.wall_time) for e in events.Scalars("train/loss")]
        expected = [(i, 100.0 + i, 1000.0 + i) for i in range(1, 6)] + [(i, f32(1 / i), 2000.0 + i) for i in range(6, 13)]
        assert loss == expected, loss
        (big,) = events.Scalars("big step")
        assert (big.step, big.value, big.wall_time) == (2**40, f32(-1e30), 3000.5), big
        (nan,) = events.Scalars("nan")
        assert math.isnan(nan.value), nan
        (text,) = events.Tensors("config")
        assert text.tensor_proto.string_val[0].decode() == "*model*: caf\u00e9\n\n    lr: 3e-4\n", text
        assert events.SummaryMetadata("config").plugin_data.plugin_name == "text"
    print("sample: TensorBoard reads every event")


def check_run(folder):
    events = opened(folder / "tensorboard")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    compared = 0
    for tag in events.Tags()["scalars"]:
        key = tag.split("/")[-1]
        expected = {row["step"]: f32(row[key]) for row in rows if row.get(key) is not None}
        if not expected:
            continue
        got = {e.step: e.value for e in events.Scalars(tag)}
        assert got == expected, f"{tag}: {[s for s in {*got, *expected} if got.get(s) != expected.get(s)][:5]} differ"
        compared += len(got)
    assert compared, "no scalar of the run was found"
    print(f"{compared} values equal metrics.jsonl")


target = pathlib.Path(sys.argv[1])
check_run(target) if target.is_dir() else check_sample(target.resolve())
