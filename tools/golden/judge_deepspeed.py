"""DeepSpeed itself goes on from our checkpoints, and we go on from its: the next losses are those of the run that never stopped.

    python3 tools/golden/judge_deepspeed.py BUILD/ravine FOLDER_OF_GOLDEN      the folder has checkpoint-model-init (a small Llama of odd sizes)

Judged, at ZeRO 0 to 3, with 1 and 2 ranks (gloo, CPU), 6 steps of AdamW of which 3 come after the checkpoint: 1 our whole run and DeepSpeed's; 2 DeepSpeed goes on from our step 3, as
`ravine convert --to deepspeed` writes it, also in bf16; its own config says another rate, so that what counts is the checkpoint's; and from checkpoint-3 of a run of ours; 3 we go on from its step 3, by `ravine convert --to ravine` and in place;
4 universal checkpoints: ours at other stages and ranks, and those of its ds_to_universal; 5 Transformers' Trainer goes on from our folder. Controls: without the moments the losses must be beyond the bound.
Needs deepspeed 0.19, torch and transformers (CPU), safetensors. Exit status 1: a row is beyond.

Bounds, with u = 2^-24, the rounding unit of float32, relative to the loss:
  whole runs, theirs against ours      16 u. DeepSpeed's recorded curves lie within 2 u of float64 (f64.json); the spacing of float32 at these losses is up to 2 u.
  going on                             16 u as well: the states are equal bit for bit, so that only roundings of the three steps are left.
  bf16                                 0.1 of 2^-8, its rounding unit: 4e-4. Two programs that round activations in other places differ by some 1e-4 (curves.json has such pairs).
  all else                             0. It counts tensors or bytes that differ."""
import copy, glob, json, os, shutil, socket, subprocess, sys, tempfile

os.environ.update(DS_ACCELERATOR="cpu", TORCH_COMPILE_DISABLE="1", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
U, STEPS, SAVED, LR, COLUMNS, BATCH = 2.0**-24, 6, 3, 2e-3, 33, 4
ADAM = {"lr": LR, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.05}

if len(sys.argv) < 3:
    sys.exit(__doc__)
if sys.argv[1] == "--train":  # RANK WORLD PORT JOBS: {"jobs": [..], "rows": .., "model": .., "result": ..}
    rank, world = int(sys.argv[2]), int(sys.argv[3])
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[4])
    import torch
    torch.set_num_threads(1)
    import deepspeed
    import deepspeed.comm as dist
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM
    spec = json.load(open(sys.argv[5]))
    deepspeed.init_distributed("gloo", verbose=False)
    rows, out = load_file(spec["rows"])["input_ids"].long(), []
    for job in spec["jobs"]:
        each = BATCH // world
        config = {"train_micro_batch_size_per_gpu": each, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0, "steps_per_print": 1000000,
                  "zero_optimization": {"stage": job["stage"]}, "optimizer": {"type": "AdamW", "params": {**ADAM, "lr": job.get("lr", LR)}},
                  "checkpoint": {"load_universal": job.get("universal", False)}}
        if job.get("bf16"):
            config["bf16"] = {"enabled": True}
        model = LlamaForCausalLM.from_pretrained(spec["model"], dtype=torch.float32, attn_implementation="eager")
        engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
        losses = {}
        try:
            if job.get("load"):
                path, client = engine.load_checkpoint(job["load"])
                assert path is not None, job["load"]
                assert engine.global_steps == SAVED, engine.global_steps
            for k in range(engine.global_steps, STEPS):
                ids = rows[k * BATCH + rank * each:][:each]
                logits = engine(input_ids=ids[:, :-1]).logits.float()
                loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
                engine.backward(loss)
                engine.step()
                whole = loss.detach().clone().reshape(1)
                dist.all_reduce(whole)
                losses[k + 1] = whole.item() / world
                if job.get("save") and k + 1 == SAVED:
                    engine.save_checkpoint(job["save"])
        except Exception as e:
            losses = f"{type(e).__name__}: {str(e)[:300]}"
        out.append(losses)
        engine.destroy()
        if rank == 0:
            json.dump(out, open(spec["result"], "w"))
    dist.barrier()
    sys.exit()
if sys.argv[1] == "--trainer":  # PORT ROWS MODEL CHECKPOINT OUTPUT LOSSES: Hugging Face's Trainer goes on
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
    import torch
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM, Trainer, TrainingArguments
    rows, losses = load_file(sys.argv[3])["input_ids"].long(), {}

    class InOrder(Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *words, **more):  # its log rounds
            loss = super().compute_loss(*words, **more)
            losses[self.state.global_step + 1] = loss.item()
            return loss

    arguments = TrainingArguments(sys.argv[6], use_cpu=True, per_device_train_batch_size=BATCH, max_steps=STEPS, logging_steps=1, save_strategy="no", report_to=[], learning_rate=1e-9, lr_scheduler_type="constant", adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8, weight_decay=0.05, max_grad_norm=1.0,
                                  deepspeed={"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": BATCH, "gradient_clipping": 1.0,
                                             "optimizer": {"type": "AdamW", "params": {**ADAM, "lr": 1e-9}}})
    model = LlamaForCausalLM.from_pretrained(sys.argv[4], dtype=torch.float32, attn_implementation="eager")
    trainer = InOrder(model, arguments, train_dataset=[{"input_ids": x, "labels": x} for x in rows])
    trainer.train(resume_from_checkpoint=sys.argv[5])
    json.dump(losses, open(sys.argv[7], "w"))
    sys.exit()

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

ravine, golden = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MODEL = golden + "/checkpoint-model-init"
room, beyond = tempfile.TemporaryDirectory(), 0
work = room.name
rng = np.random.default_rng(7)
vocabulary = json.load(open(MODEL + "/config.json"))["vocab_size"]
start, hop = rng.integers(0, vocabulary, (STEPS * BATCH, 1)), rng.integers(1, 4, (STEPS * BATCH, 1))  # something to learn: numbers that count up
save_file({"input_ids": ((start + hop * np.arange(COLUMNS)) % vocabulary).astype("i4")}, work + "/rows.safetensors")


def row(what, measured, bound, unit="", control=False):
    global beyond
    good = bound < measured < float("inf") if control else measured <= bound
    beyond += not good
    print(f"{'ok' if good else 'BEYOND':7}{what:104}{measured:>12.4g}{'  >' if control else ' <='}{bound:>10.4g} {unit}".rstrip(), flush=True)


def said(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        print(f"       exit {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-400:].replace(work + '/', '')}")
    return done.stdout if done.returncode == 0 else None


def theirs(world, jobs):
    """Losses by step of each job, or what went wrong."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    spec = tempfile.mktemp(dir=work)
    json.dump({"jobs": jobs, "rows": work + "/rows.safetensors", "model": MODEL, "result": spec + ".out"}, open(spec, "w"))
    all = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--train", str(r), str(world), port, spec], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if r == 0 else subprocess.DEVNULL, text=True)
           for r in range(world)]
    error = all[0].communicate()[1]
    for p in all:
        p.wait()
    if not os.path.exists(spec + ".out"):
        print("       " + error[-600:])
        return [None] * len(jobs)
    out = [{int(k): v for k, v in x.items()} if isinstance(x, dict) else print("       " + x) for x in json.load(open(spec + ".out"))]
    return out + [None] * (len(jobs) - len(out))


def ours(folder, steps=STEPS, ranks=1, **more):
    values = {"model.path": MODEL, "data.train": [work + "/rows.safetensors"], "data.sequence_length": COLUMNS, "train.steps": steps, "train.global_batch": BATCH, "train.micro_batch": 2, "train.threads": 1,
              "precision.compute": "f32", "optimizer.type": "adamw", "optimizer.lr": LR, "optimizer.betas": ADAM["betas"], "optimizer.eps": [1e-8], "optimizer.weight_decay": 0.05, "optimizer.decay": "all",
              "optimizer.clip_norm": 1, "schedule.type": "constant", "schedule.warmup_steps": 0, "checkpoint.every": SAVED, "log.tensorboard": False, "train.output": folder, **more}
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks] if ranks > 1 else []
    if said(*launch, ravine, "train", *(f"{k}={json.dumps(v) if not isinstance(v, str) else v}" for k, v in values.items() if v is not None)) is None:
        return None
    return {x["step"]: x["loss"] for x in map(json.loads, open(folder + "/metrics.jsonl")) if "loss" in x}


def losses(what, a, b, steps, bound=16, unit=U, control=False):
    far = [abs(a[i] - b[i]) / abs(b[i]) / unit if a and b and i in a and i in b else float("inf") for i in steps]
    row(f"{what}: loss, steps {steps[0]}-{steps[-1]}", max(far), bound, "u" if unit == U else "u of bf16", control)


def lose_moments(folder):
    """A copy whose moments are zero."""
    to = folder + "-lost"
    shutil.copytree(folder, to)
    def wipe(x):
        for k, v in x.items():
            if k in ("exp_avg", "exp_avg_sq") and torch.is_tensor(v):
                v.zero_()
            elif isinstance(v, dict):
                wipe(v)
    for file in glob.glob(to + "/global_step*/*.pt"):
        x = torch.load(file, weights_only=False)
        wipe(x)
        torch.save(x, file)
    return to


def trainer(checkpoint):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    out = tempfile.mktemp(dir=work)
    if said(sys.executable, os.path.abspath(__file__), "--trainer", port, work + "/rows.safetensors", MODEL, checkpoint, out + ".d", out) is None:
        return None
    return {int(k): v for k, v in json.load(open(out)).items()}


WHOLE, AFTER = range(1, STEPS + 1), range(SAVED + 1, STEPS + 1)
import deepspeed, transformers
print(f"deepspeed {deepspeed.__version__}, torch {torch.__version__}, transformers {transformers.__version__}, CPU; {said(ravine, '--version').strip()}")
base = ours(work + "/ours")
bf16 = ours(work + "/ours_bf16", **{"precision.compute": "bf16"})
in_place = {}
STEP = f"/checkpoints/step_{SAVED:06}"
for world in (1, 2):
    print(f"\n{world} {'rank' if world == 1 else 'ranks'}")
    jobs, what = [], []
    for stage in range(4):
        jobs.append({"stage": stage, "save": f"{work}/theirs_{stage}_{world}"})
        what.append(("whole", stage))
        to = f"{work}/to_{stage}_{world}"
        said(ravine, "convert", "--input", work + "/ours" + STEP, "--output", to, "--to", "deepspeed", "--zero", stage, "--ranks", world)
        jobs.append({"stage": stage, "load": to, "lr": 1e-9})
        what.append(("on", stage))
        jobs.append({"stage": stage, "load": lose_moments(to), "lr": 1e-9})
        what.append(("lost", stage))
        to = f"{work}/place_{stage}_{world}"
        in_place[stage, world] = ours(to, ranks=world, **{"checkpoint.layout": "deepspeed", "parallel.zero": stage})
        jobs.append({"stage": stage, "load": f"{to}/checkpoint-{SAVED}", "lr": 1e-9})
        what.append(("place", stage))
        if stage:
            to = f"{work}/bf16_{stage}_{world}"
            said(ravine, "convert", "--input", work + "/ours_bf16" + STEP, "--output", to, "--to", "deepspeed", "--zero", stage, "--ranks", world)
            jobs.append({"stage": stage, "load": to, "lr": 1e-9, "bf16": True})
            what.append(("bf16", stage))
            to = f"{work}/universal_{stage}_{world}"
            said(ravine, "convert", "--input", work + "/ours" + STEP, "--output", to, "--to", "deepspeed", "--zero", 2, "--ranks", 3, "--universal")
            jobs.append({"stage": stage, "load": to, "lr": 1e-9, "universal": True})
            what.append(("universal", stage))
    done = dict(zip(what, theirs(world, jobs)))
    for stage in range(4):
        losses(f"ZeRO {stage}: DeepSpeed's whole run against ours", done["whole", stage], base, WHOLE)
        losses(f"ZeRO {stage}: DeepSpeed from our step {SAVED} against our whole run", done["on", stage], base, AFTER)
        losses(f"ZeRO {stage}: DeepSpeed from checkpoint-{SAVED} of our run against that run", done["place", stage], in_place[stage, world], AFTER)
        losses(f"ZeRO {stage}, control: with moments 0", done["lost", stage], base, AFTER, control=True)
        if stage:
            losses(f"ZeRO {stage}, bf16: DeepSpeed from our step {SAVED} against our whole run", done["bf16", stage], bf16, AFTER, 0.1, 2.0**-8)
            losses(f"ZeRO {stage}: DeepSpeed from our universal checkpoint of step {SAVED} against our whole run", done["universal", stage], base, AFTER)
        back, saved = f"{work}/back_{stage}_{world}", f"{work}/theirs_{stage}_{world}"
        said(ravine, "convert", "--input", saved, "--output", back, "--to", "ravine", "--optimizer", "--model-config", MODEL + "/config.json")
        losses(f"ZeRO {stage}: ours from DeepSpeed's step {SAVED} against DeepSpeed's whole run", ours(back, **{"model.path": None, "model.config": back + "/config.json"}), done["whole", stage], AFTER)
        on = ours(f"{work}/on_{stage}_{world}", ranks=3 - world, **{"checkpoint.layout": "deepspeed", "checkpoint.resume": saved, "parallel.zero": min(2, stage)})
        losses(f"ZeRO {stage}: ours in place from DeepSpeed's step {SAVED}, at {3 - world} ranks, against DeepSpeed's whole run", on, done["whole", stage], AFTER)
        if stage:
            tag = glob.glob(saved + "/global_step*")[0]
            said(sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", tag, "--output_folder", tag + "_universal", "--inject_missing_state", "--num_extract_workers", "1", "--num_merge_workers", "1")
            again = f"{back}_universal"
            said(ravine, "convert", "--input", tag + "_universal", "--output", again, "--to", "ravine", "--optimizer", "--model-config", MODEL + "/config.json")
            a, b = (load_file(f) if os.path.exists(f := x + STEP + "/state-00000.safetensors") else {} for x in (back, again))
            row(f"ZeRO {stage}: tensors of ds_to_universal's checkpoint that differ from those of the shards", sum(k not in b or a[k].tobytes() != b[k].tobytes() for k in a) if a else float("inf"), 0, f"of {len(a)}")
            tag = glob.glob(f"{work}/to_{stage}_{world}/global_step*")[0]
            said(sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", tag, "--output_folder", tag + "_universal", "--num_extract_workers", "1", "--num_merge_workers", "1")
            zero, own = tag + "_universal/zero", glob.glob(f"{work}/universal_{stage}_{world}/global_step*/zero")[0]
            def value(path):
                x = torch.load(path, weights_only=False) if os.path.exists(path) else {}
                return (x.get("param") if isinstance(x, dict) else x)
            files = [os.path.relpath(f, own) for f in glob.glob(own + "/*/*.pt") if not f.endswith("step.pt")]
            bad = sum(value(f"{zero}/{f}") is None or not torch.equal(value(f"{zero}/{f}").reshape(-1), value(f"{own}/{f}").reshape(-1)) for f in files)
            row(f"ZeRO {stage}: files of ds_to_universal, made of our shards, that differ from our universal checkpoint's", bad, 0, f"of {len(files)}")
print("\nTrainer of Transformers, 1 rank")
losses(f"ZeRO 2: the Trainer from our step {SAVED} (rate, counts and schedule of the checkpoint) against our whole run", trainer(f"{work}/to_2_1"), base, AFTER)
print(f"\n{beyond} beyond")
sys.exit(beyond > 0)
