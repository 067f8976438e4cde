"""Trains the same jobs with two programs and compares their bits: what a change that should change nothing has changed.

    python3 tools/same_bits.py OLD NEW

Dense Llama, GPT-2, Bloom and Mixtral on one rank in f32 and bf16, two data ranks with ZeRO 0 to 3, two tensor ranks, two pipeline stages, two expert
ranks, and a checkpoint of OLD that
NEW goes on from. Compared are losses, norms, rates and tokens of each step, and every byte of the final weights. Exit status 1: something differs."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "e2e"))
import ravine_run as r  # noqa: E402

FAMILIES = {
    "llama": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3},
    "gpt2": {"model_type": "gpt2", "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 256},
    "bloom": {"model_type": "bloom", "n_embed": 48, "n_layer": 2, "num_attention_heads": 3, "vocab_size": 256},
    "mixtral": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "architecture": {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}},
}
LAUNCH = ["mpirun", "--oversubscribe"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
RANKS = {**{f"data 2, ZeRO {z}": ["parallel.data=2", f"parallel.zero={z}"] for z in range(4)}, "tensor 2": ["parallel.tensor=2"],
         "pipeline 2": ["parallel.pipeline=2"]}


class Refused(Exception):
    pass


def train(program, words, ranks=1):
    launch = [*LAUNCH, "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launch, program, "train", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join([program, *words])}: {done.returncode}\n{done.stderr[-2000:]}")


def main(old, new):
    folder = pathlib.Path(tempfile.mkdtemp())
    differ = 0

    def compare(name, a, b):
        nonlocal differ
        difference = r.same_run(a, b)
        differ += bool(difference)
        print(f"{name:<28} {len(r.metrics(a))} steps: {difference or 'the same bits'}", flush=True)

    def job(family, output, *more):
        fields = FAMILIES[family]
        config = folder / f"{family}.json"
        more_fields = {k: v for k, v in fields.items() if k != "architecture"} | fields.get("architecture", {})
        r.save_config(config, **{**dict.fromkeys(r.TINY), **fields} if "model_type" in fields else more_fields)
        return [f"model.config={config}", f"data.train={r.save_ids(folder / 'ids.safetensors', 64, 32)}", "data.sequence_length=32", "train.steps=6",
                "train.global_batch=8", "train.micro_batch=2", "optimizer.lr=1e-2", "schedule.warmup_steps=2", "checkpoint.every=3", "log.tensorboard=false",
                "train.threads=1", f"train.output={output}", *more]

    def both(name, family, ranks, *more):
        outputs = [folder / f"{side} {name}" for side in ("old", "new")]
        try:
            train(old, job(family, outputs[0], *more), ranks)
        except Refused as e:  # an older program that does not know the model yet
            print(f"{name:<28} not compared, OLD refuses: {str(e).splitlines()[-1][:120]}", flush=True)
            return
        train(new, job(family, outputs[1], *more), ranks)
        compare(name, *outputs)

    for family in FAMILIES:
        for compute in ("f32", "bf16"):
            both(f"{family} {compute}", family, 1, f"precision.compute={compute}", "train.dropout=0.1")
    for name, words in RANKS.items():
        both(f"llama {name}", "llama", 2, *words)
    both("mixtral expert 2", "mixtral", 2, "parallel.expert=2")
    train(old, job("llama", folder / "went on"))
    train(new, job("llama", folder / "went on", "train.steps=9", "schedule.steps=6"))
    train(old, job("llama", folder / "whole", "train.steps=6"))
    train(old, job("llama", folder / "whole", "train.steps=9", "schedule.steps=6"))
    compare("llama, a checkpoint of OLD", folder / "whole", folder / "went on")
    return differ > 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
