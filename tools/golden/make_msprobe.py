"""Writes tests/golden/msprobe: dumps of msprobe of the model and batch of tests/golden/torch_trace.

    python3 tools/golden/make_msprobe.py [FOLDER]

statistics (L0, two micro batches), and the same with another RoPE base (rope); of the first micro batch tensors of one module (tensors), and the forward pass of one layer at L1 (api). Of
mindstudio-probe 26.2, torch 2.15, transformers 5.24. tests/e2e/dumps.py holds them against runs of Ravine and against each other."""
import json
import shutil
import sys
import tempfile
from pathlib import Path

from msprobe.pytorch import PrecisionDebugger
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

GOLDEN = Path(__file__).resolve().parent.parent.parent / "tests" / "golden"
# Level, task, names that are recorded (none: all), what of the pass, micro batches, changes of the config.
DUMPS = {
    "statistics": ("L0", "statistics", [], "all", 2, {}),
    "rope": ("L0", "statistics", [], "all", 2, {"rope_parameters": {"rope_type": "default", "rope_theta": 50000.0}}),
    "tensors": ("L0", "tensor", ["model.layers.0.mlp.down_proj"], "all", 1, {}),
    "api": ("L1", "statistics", [], "forward", 1, {"num_hidden_layers": 1}),
}


def main(folder=None):
    """One dump per process: msprobe keeps the hooks of the first."""
    if folder is None or folder not in DUMPS:
        import subprocess
        for name in DUMPS:
            subprocess.run([sys.executable, __file__, name, *([folder] if folder else [])], check=True)
        return
    name, to = folder, Path(sys.argv[2] if len(sys.argv) > 2 else GOLDEN / "msprobe")
    level, task, names, mode, micros, changes = DUMPS[name]
    model = LlamaForCausalLM.from_pretrained(GOLDEN / "torch_trace" / "model", attn_implementation="eager", **changes)
    model.train()
    ids = load_file(GOLDEN / "torch_trace" / "ids.safetensors")["input_ids"].long()
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "config.json"
        config.write_text(json.dumps({"task": task, "dump_path": scratch + "/dump", "rank": [], "step": [], "level": level, task: {"scope": [], "list": names, "data_mode": [mode]}}))
        debugger = PrecisionDebugger(config_path=str(config))
        debugger.start(model=model)
        for micro in range(micros):
            x = ids[2 * micro:][:2]
            (model(input_ids=x, labels=x).loss / 2).backward()
        debugger.stop()
        debugger.step()
        rank = next(Path(scratch).glob("dump/step0/*/dump.json")).parent
        for file in ("stack.json", "construct.json"):  # not read
            (rank / file).unlink(missing_ok=True)
        shutil.rmtree(to / name, ignore_errors=True)
        shutil.copytree(rank, to / name / "step0" / "rank0")
        dump = to / name / "step0" / "rank0" / "dump.json"
        dump.write_text(json.dumps(json.loads(dump.read_text()), separators=(",", ":")))  # without blanks, for its size
    print(name, sum(f.stat().st_size for f in (to / name).rglob("*") if f.is_file()), "bytes")


if __name__ == "__main__":
    main(*sys.argv[1:2])
