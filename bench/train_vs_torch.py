"""Training steps of Ravine against PyTorch (Transformers' LlamaForCausalLM, SDPA, fused AdamW, clipping), alternating in one run.

    python bench/train_vs_torch.py build/release/ravine configs/llama-134m.json --batch 1 --rounds 2 [--bf16] [--compile]

Everything is measured from outside: the time of a step is the wall clock of a process of 9 steps less that of one of 3, divided by 6;
memory is ru_maxrss. The ratio is of the best round of each side. Needs torch and transformers."""
import argparse, json, os, subprocess, sys, tempfile, time

p = argparse.ArgumentParser()
p.add_argument("ravine"), p.add_argument("config")
p.add_argument("--batch", type=int, default=1)
p.add_argument("--length", type=int, default=1024)
p.add_argument("--rounds", type=int, default=2)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--bf16", action="store_true", help="bf16 arithmetic (PyTorch: autocast), f32 master weights")
p.add_argument("--compile", action="store_true", help="PyTorch with torch.compile")
p.add_argument("--torch-steps", type=int, help=argparse.SUPPRESS)
a = p.parse_args()


def torch_side(steps):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(a.threads)
    model = LlamaForCausalLM._from_config(LlamaConfig(**json.load(open(a.config))), attn_implementation="sdpa").train()
    call = torch.compile(model) if a.compile else model
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, model.config.vocab_size, (a.batch, a.length))
    for _ in range(steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            loss = call(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)


def process(argv):
    """Wall-clock seconds, peak resident bytes and standard output of a process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        child = subprocess.Popen([str(x) for x in argv], stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - began
        child.returncode = status
        for f in (out, err):
            f.seek(0)
        if status:
            sys.exit(err.read().decode())
        return seconds, usage.ru_maxrss * 1024, out.read().decode()


def side(name, steps):
    if name == "torch":
        return process([sys.executable, *sys.argv, "--torch-steps", steps])
    return process([a.ravine, "bench", "train", "--model", a.config, "--sequence-length", a.length, "--micro-batch", a.batch, "--steps", steps,
                    "--threads", a.threads, "--json", "precision.compute=" + ("bf16" if a.bf16 else "f32")])


if a.torch_steps:
    torch_side(a.torch_steps)
    sys.exit()
best, memory = {}, {}
if a.compile:
    side("torch", 1)  # fills the compiler's cache, which the runs that are timed read
for r in range(a.rounds):
    for name in ("ravine", "torch"):
        short, (long, peak, out) = side(name, 3)[0], side(name, 9)
        speed = a.batch * a.length * 6 / (long - short)
        best[name], memory[name] = max(best.get(name, 0), speed), max(memory.get(name, 0), peak)
        line = f"round {r + 1} {name:6} {speed:7.1f} tokens/s  peak {peak / 2**20:7.0f} MiB"
        if name == "ravine":
            x = json.loads(out)
            sol = x["sol"] / x["tokens_per_second"] * speed
            line += f"  sol {sol:.3f} of {x['peak_flops'] * 1e-9:.0f} GFLOP/s  planned {x['planned_memory_mb']:.0f} MiB"
        print(line, flush=True)
print(f"{'bf16' if a.bf16 else 'f32'} batch {a.batch} length {a.length}{' torch.compile' if a.compile else ''}: "
      f"ravine / torch = {best['ravine'] / best['torch']:.2f} in speed, {memory['ravine'] / memory['torch']:.2f} in memory")
