"""Alternates `ravine bench prefill` and `bench decode` with PyTorch (Transformers' LlamaForCausalLM, SDPA, KV cache) on one shape, in one run.

    python bench/inference.py build/release/ravine configs/llama-134m.json --compute f32 --rounds 2
Needs torch and transformers. Random weights on both sides; both compute the logits of the last token of a prompt only. Prints one line
per measurement and the ratio of the best of each side. Decode: one token per sequence and step, greedy, from a cache of --context tokens on."""
import argparse, json, resource, subprocess, sys, time

p = argparse.ArgumentParser()
p.add_argument("ravine"), p.add_argument("config")
p.add_argument("--compute", choices=["f32", "bf16"], default="f32")
p.add_argument("--length", type=int, default=1024, help="tokens of the prompt of prefill")
p.add_argument("--context", type=int, default=128, help="tokens in the cache when decode begins")
p.add_argument("--batches", type=int, nargs="+", default=[1, 8], help="of decode")
p.add_argument("--steps", type=int, default=24, help="of decode")
p.add_argument("--rounds", type=int, default=2)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--no-torch", action="store_true")
p.add_argument("--torch-only", action="store_true", help=argparse.SUPPRESS)
a = p.parse_args()


def torch_side():
    import torch
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    config = LlamaConfig(**json.load(open(a.config)))
    torch.set_default_dtype(torch.bfloat16 if a.compute == "bf16" else torch.float32)
    torch.nn.init.normal_ = torch.nn.init.trunc_normal_ = lambda t, *_, **__: t  # drawing takes longer than the measurement
    model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad():
        for w in model.parameters():
            if w.dim() == 2:
                w.copy_(torch.randn(64, w.shape[1]).mul_(0.02).repeat(-(-w.shape[0] // 64), 1)[:w.shape[0]])
    out = {}
    with torch.inference_mode():
        ids = torch.randint(0, config.vocab_size, (1, a.length))
        times = []
        for _ in range(3):
            began = time.perf_counter()
            model(ids, logits_to_keep=1, use_cache=True).logits[:, -1].argmax(-1)
            times.append(time.perf_counter() - began)
        out["prefill"] = a.length / min(times[1:])
        for batch in a.batches:
            ids = torch.randint(0, config.vocab_size, (batch, a.context))
            cache = DynamicCache(config=config)
            token = model(ids, past_key_values=cache, logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
            times = []
            for _ in range(a.steps + 2):
                began = time.perf_counter()
                token = model(token, past_key_values=cache).logits[:, -1].argmax(-1, keepdim=True)
                times.append(time.perf_counter() - began)
            out[f"decode batch {batch}"] = batch / sorted(times[2:])[a.steps // 2]
    out["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(out))


def run(argv):
    return json.loads(subprocess.run([str(x) for x in argv], capture_output=True, check=True).stdout.decode().splitlines()[-1])


def ravine_side():
    common = ["--model", a.config, "--threads", a.threads, "--json", "precision.compute=" + a.compute]
    out = {"prefill": run([a.ravine, "bench", "prefill", "--sequence-length", a.length, "--steps", 2, *common])}
    for batch in a.batches:
        out[f"decode batch {batch}"] = run([a.ravine, "bench", "decode", "--sequence-length", a.context, "--steps", a.steps, "--batch", batch, *common])
    return out


if a.torch_only:
    torch_side()
    sys.exit()
best, best_how = {}, {}
for r in range(a.rounds):
    for what, x in ravine_side().items():
        how = f"sol {x['sol']:.3f}" if "sol" in x else f"{x['bandwidth_fraction']:.3f} of {x['read_bytes_per_second'] * 1e-9:.1f} GB/s"
        if x["tokens_per_second"] > best.get(("ravine", what), 0):
            best["ravine", what], best_how[what] = x["tokens_per_second"], how
        print(f"round {r + 1} ravine {what:14} {x['tokens_per_second']:8.1f} tokens/s  {how}  peak {x['peak_memory_mb']:.0f} MB", flush=True)
    if a.no_torch:
        continue
    x = run([sys.executable, *sys.argv, "--torch-only"])
    for what, speed in x.items():
        if what == "peak_memory_mb":
            continue
        best["torch", what] = max(best.get(("torch", what), 0), speed)
        print(f"round {r + 1} torch  {what:14} {speed:8.1f} tokens/s  peak {x['peak_memory_mb']:.0f} MB", flush=True)
name = a.config.split("/")[-1].removesuffix(".json")
for (side, what), speed in best.items():
    if side == "ravine" and ("torch", what) in best:
        print(f"{name} {a.compute} {what}: {speed:.1f} tokens/s, {best_how[what]}; ravine / torch = {speed / best['torch', what]:.2f}")
first = f"decode batch {a.batches[0]}"
for batch in a.batches[1:]:
    steps = best["ravine", first] / a.batches[0] / (best["ravine", f"decode batch {batch}"] / batch)
    print(f"{name} {a.compute}: a step of batch {batch} takes {steps:.2f} times a step of batch {a.batches[0]}")
