"""Rate of saving and of resuming a checkpoint of the 134 M model against fio on the same disk, alternating, and what a save costs the step
that runs beside it.

    python3 bench/checkpoint.py build/release/ravine [--rounds 3] [--folder DIR]     # needs fio
    python3 bench/checkpoint.py build/release/ravine --ranks 4                       # the same checkpoint by one rank and by so many, in turns
Must: saving at 0.8 of fio's direct write rate; steps that a save runs beside at most 10 % slower than the others of the same run; ranks as fast as one."""
import argparse, json, os, random, re, shutil, statistics, struct, subprocess, sys, tempfile
from pathlib import Path

p = argparse.ArgumentParser()
p.add_argument("ravine")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--steps", type=int, default=8)
p.add_argument("--ranks", type=int, default=1, help="instead: compares so many ranks (ZeRO 1) with one")
p.add_argument("--folder", help="a folder on the disk to measure")
a = p.parse_args()
program = os.path.abspath(a.ravine)
CONFIG = Path(__file__).parent.parent / "configs" / "llama-134m.json"
SIZE = 1536  # MiB, about that of the checkpoint
COLUMNS = 64 if a.ranks > 1 else 1024  # where no step is timed they are short


def fio(folder, kind):
    file = folder / "fio"
    out = subprocess.run(["fio", "--name=x", f"--filename={file}", f"--size={SIZE}M", f"--rw={kind}", "--bs=4M", "--direct=1", "--ioengine=io_uring",
                          "--iodepth=4", "--end_fsync=1", "--fallocate=native", "--output-format=json"], capture_output=True, text=True, check=True).stdout
    job = json.loads(out[out.index("{"):])["jobs"][0][kind]
    return job["bw_bytes"] * 1e-9


def train(folder, steps, every, ranks=1, *more):
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    run = subprocess.run([*launch, program, "train", f"model.config={CONFIG}", f"data.train=[{folder / 'ids.safetensors'}]", f"data.sequence_length={COLUMNS}",
                          f"train.steps={steps}", f"train.output={folder / 'run'}", f"checkpoint.every={every}",
                          "checkpoint.keep=1", "log.tensorboard=false", *(more or ["train.global_batch=1"])], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return run.stderr


def compare_ranks(folder):
    ratios = []
    for r in range(a.rounds):
        rates = {}
        for ranks in (1, a.ranks):
            text = train(folder, 4, 2, ranks, f"train.global_batch={a.ranks}", "parallel.zero=1", "train.micro_batch=1")
            seconds = float(re.findall(r"saved +step_\d+: .* in ([\d.]+) s", text)[-1])  # of the last one, beside which no step runs
            files = [f.stat().st_size for f in (folder / "run" / "checkpoints" / "step_000004").glob("*.safetensors")]
            rates[ranks] = sum(files) * 1e-9 / seconds
            print(f"round {r + 1}: {ranks} rank{'s' * (ranks > 1)}: {sum(files) * 1e-9:.2f} GB in {len(files)} files, {rates[ranks]:.2f} GB/s", flush=True)
            shutil.rmtree(folder / "run")
        ratios.append(rates[a.ranks] / rates[1])
    print(f"median: {a.ranks} ranks save at {statistics.median(ratios):.2f} times the rate of one")


folder = Path(tempfile.mkdtemp(prefix="ravine-checkpoint-", dir=a.folder))
try:
    draw = random.Random(1)
    data = struct.pack("<8192i", *(draw.randrange(32000) for _ in range(8192)))
    header = json.dumps({"input_ids": {"dtype": "I32", "shape": [8192 // COLUMNS, COLUMNS], "data_offsets": [0, len(data)]}}).encode()
    (folder / "ids.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    if a.ranks > 1:
        compare_ranks(folder)
        sys.exit()
    writes, reads, beside, alone, resumes, ratios, free, saving = [], [], [], [], [], [], [], []
    for r in range(a.rounds):
        before, read = fio(folder, "write"), fio(folder, "read")
        text = train(folder, a.steps, 2)
        after = fio(folder, "write")
        (folder / "fio").unlink()
        found = re.findall(r"saved +step_(\d+): .* in ([\d.]+) s, ([\d.]+) GB/s", text)
        rate = float(found[-1][2])  # of the last one, beside which no step runs
        steps = {x["step"]: x["step_time"] for x in map(json.loads, (folder / "run" / "metrics.jsonl").read_text().splitlines())}
        # Odd steps run beside the save of the step before; even ones beside nothing. The first two warm up.
        with_save = [t for s, t in steps.items() if s % 2 == 1 and s > 2]
        without = [t for s, t in steps.items() if s % 2 == 0 and s > 2]
        text = train(folder, a.steps + 1, 0)
        resumed = float(re.search(r"resume .* read in ([\d.]+) s", text)[1])
        size = (folder / "run" / "checkpoints" / f"step_{a.steps:06}" / "state-00000.safetensors").stat().st_size
        shutil.rmtree(folder / "run")
        disk = (before + after) / 2
        slower = statistics.median(with_save) / statistics.median(without)
        ratios.append(rate / disk), saving.append(slower)
        print(f"round {r + 1}: fio write {before:.2f} and {after:.2f} GB/s, read {read:.2f}; save alone {rate:.2f} GB/s, {rate / disk:.2f} of fio; "
              f"saves beside a step {', '.join(x[2] for x in found[:-1])} GB/s; step {statistics.median(without):.3f} s, beside a save "
              f"{statistics.median(with_save):.3f} s, {slower:.3f} times; resume reads {size * 1e-9 / resumed:.2f} GB/s", flush=True)
    print(f"median: save {statistics.median(ratios):.2f} of fio, step beside a save {statistics.median(saving):.3f} times")
finally:
    shutil.rmtree(folder, ignore_errors=True)
