"""`ravine plan --procedure`: the nine steps of the DeepSpeed guide. Their bytes are those of plans of the same options; the less memory there is, the later the step; the file that comes out
is the file that went in, but for what was decided, and `ravine trainer` takes it."""
import json
from pathlib import Path

import ravine_run as r
from ravine_run import check

CONFIG = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 0, "reduce_bucket_size": 200000}, "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}},
          "gradient_clipping": 0.5, "wall_clock_breakdown": True}
ORDER = ["train.global_batch=16", "data.sequence_length=32"]


def prepare(folder, **more):
    r.save_config(folder / "model" / "config.json", hidden_size=256, intermediate_size=512, vocab_size=1024)
    (folder / "ds.json").write_text(json.dumps({**CONFIG, **more}))


def procedure(folder, *flags, status=0):
    return r.run("plan", "--procedure", "--config", folder / "ds.json", "--ranks", 2, "--model", folder / "model", *ORDER, *flags, status=status)


def as_json(folder, *flags, **more):
    return json.loads(procedure(folder, "--json", *flags, **more).stdout)


def test_bytes_are_those_of_plans(folder):
    prepare(folder)
    steps = {s["step"]: s for s in as_json(folder, "--memory", 0.001, status=1)["steps"]}
    check(sorted(steps) == list(range(1, 10)), f"steps {sorted(steps)}")
    for number, zero in ((1, 0), (2, 2), (4, 3)):
        plan = json.loads(r.run("plan", "--model", folder / "model", "--json", "--ranks", 2, *ORDER, "train.micro_batch=1", "train.recompute=full", f"parallel.zero={zero}", "optimizer.clip_norm=0.5",
                                "optimizer.weight_decay=0.01", "optimizer.decay=all").stdout)
        check(steps[number]["device"] == plan["total"] - plan["base"], f"step {number}: {steps[number]} and {plan['total'] - plan['base']}")
    check(steps[3]["device"] + steps[3]["host"] == steps[2]["device"], "an offload moves bytes and makes none")
    check(steps[5]["device"] + steps[5]["host"] == steps[4]["device"] == steps[6]["device"] + steps[6]["host"], "so does that of weights")
    check(steps[9]["host"] == 0 and steps[9]["disk"] > 0, "nvme is no memory of the host")
    check(not steps[7]["possible"] and "sequence_length" in steps[7]["what"], "step 7 says why it has nothing to lower")


def test_less_memory_leads_further(folder):
    prepare(folder)
    steps = as_json(folder, "--memory", 0.001, status=1)["steps"]
    for wanted in (s["device"] for s in steps):
        first = next(s["step"] for s in steps if s["possible"] and s["device"] <= wanted)
        came = as_json(folder, "--memory", max(0.001, (wanted + 0.5) / 2**30))
        check(came["first"] is not None and [s["step"] for s in came["steps"] if s["fits"]][0] == first, f"{wanted} bytes: {came['first']} and {first}")
        chosen = came["ds_config"]["zero_optimization"]
        check(chosen["stage"] == {1: 0, 2: 2, 3: 2}.get(first, 3), f"step {first}: {chosen}")
        check(chosen.get("offload_param", {}).get("device") == {5: "cpu", 6: "cpu", 8: "cpu", 9: "nvme"}.get(first), f"step {first}: {chosen}")
    check(len({s["device"] for s in steps}) >= 6, f"{steps}")


def test_the_file_is_the_users(folder):
    prepare(folder)
    done = procedure(folder, "--memory-mb", 2000)
    out = json.loads(done.stdout)
    check(out["zero_optimization"]["stage"] == 0 and out["zero_optimization"]["reduce_bucket_size"] == 200000 and out["wall_clock_breakdown"], f"{out}")
    check(out["train_micro_batch_size_per_gpu"] == 8 and out["gradient_accumulation_steps"] == 1 and "train_batch_size" not in out, f"with room for it the largest micro batch: {out}")
    check("step 1 is the first that fits" in done.stderr and "gradient checkpointing" in done.stderr, done.stderr)
    procedure(folder, "--memory-mb", 2000, "--ds-config", folder / "chosen.json")
    r.save_ids(folder / "ids.safetensors", 16, 32)
    line = ["trainer", "--deepspeed", folder / "chosen.json", "--model_name_or_path", folder / "model", "--train_file", folder / "ids.safetensors", "--do_train", "--max_steps", 1, "--learning_rate", "3e-4",
            "--per_device_train_batch_size", 8, "--max_grad_norm", 0.5, "--weight_decay", 0.01, "--output_dir", folder / "run", "--ranks", 2, "--print-config"]
    check("global_batch: 16" in r.run(*line).stdout, "the trainer takes it")


def test_auto_leaves_options_as_they_are(folder):
    auto = {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}}, "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
            "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto"}}}
    prepare(folder, **auto)
    done = r.run("plan", "--procedure", "--config", folder / "ds.json", "--ranks", 2, "--model", folder / "model", "data.sequence_length=32", "--memory-mb", 2000)
    out = json.loads(done.stdout)
    check("--per_device_train_batch_size 1024" in done.stderr and out["train_micro_batch_size_per_gpu"] == "auto", f"nothing says how large a batch is: {done.stderr}")
    check(out["optimizer"] == auto["optimizer"] and out["scheduler"] == auto["scheduler"] and out["bf16"] == auto["bf16"], f"{out}")


def test_mistakes_are_said(folder):
    prepare(folder, fp17={"enabled": True})
    check("fp17" in procedure(folder, status=2).stderr, "an unknown key")
    prepare(folder)
    check("add --procedure" in r.run("plan", "--deepspeed", folder / "ds.json", "--model", folder / "model", status=2).stderr, "without --procedure")
    check("leave one of them out" in procedure(folder, "--layouts", status=2).stderr, "two plans at once")
    check("nothing fits" in procedure(folder, "--memory", 0.001, status=1).stderr, "no step fits")


if __name__ == "__main__":
    r.main(globals())
