"""Alternates `ravine bench train` with PyTorch (Transformers' LlamaForCausalLM, SDPA, fused AdamW, clipping) on one shape, in one run.

    python bench/train_vs_torch.py build/release/ravine configs/llama-134m.json --batch 1 --rounds 2 [--bf16]
Needs torch and transformers. Prints one line per measurement and the ratio of the best of each side."""
import argparse, json, resource, subprocess, sys, time

p = argparse.ArgumentParser()
p.add_argument("ravine"), p.add_argument("config")
p.add_argument("--batch", type=int, default=1)
p.add_argument("--length", type=int, default=1024)
p.add_argument("--rounds", type=int, default=2)
p.add_argument("--steps", type=int, default=3)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--bf16", action="store_true")
p.add_argument("--torch-only", action="store_true", help=argparse.SUPPRESS)
a = p.parse_args()


def torch_side():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(a.threads)
    model = LlamaForCausalLM._from_config(LlamaConfig(**json.load(open(a.config))), attn_implementation="sdpa").train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, model.config.vocab_size, (a.batch, a.length))
    best = 1e9
    for _ in range(a.steps + 1):
        t = time.time()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        best = min(best, time.time() - t)
    print(json.dumps({"tokens_per_second": a.batch * a.length / best, "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def run(argv):
    return json.loads(subprocess.run([str(x) for x in argv], capture_output=True, check=True).stdout.decode().splitlines()[-1])


if a.torch_only:
    torch_side()
    sys.exit()
best = {"ravine": 0.0, "torch": 0.0}
for r in range(a.rounds):
    one = {"ravine": run([a.ravine, "bench", "train", "--model", a.config, "--sequence-length", a.length, "--micro-batch", a.batch, "--steps", a.steps,
                          "--threads", a.threads, "--json", "precision.compute=" + ("bf16" if a.bf16 else "f32")]),
           "torch": run([sys.executable, *sys.argv, "--torch-only"])}
    for side, x in one.items():
        best[side] = max(best[side], x["tokens_per_second"])
        print(f"round {r + 1} {side:6} {x['tokens_per_second']:7.1f} tokens/s  peak {x['peak_memory_mb']:7.0f} MB" +
              (f"  sol {x['sol']:.3f}  planned {x['planned_memory_mb']:.0f} MB" if "sol" in x else ""), flush=True)
print(f"{'bf16' if a.bf16 else 'f32'} batch {a.batch}: ravine / torch = {best['ravine'] / best['torch']:.2f}")
