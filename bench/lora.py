"""LoRA steps of Ravine against PEFT on PyTorch (Transformers' LlamaForCausalLM, SDPA, fused AdamW) and against Ravine's own full steps, in turns.

    python bench/lora.py build/release/ravine configs/llama-134m.json [--bf16] [--rounds 3] [--rank 8] [--length 1024] [--batch 1]

Rank 8 on all linear layers of the blocks, no dropout, base in the type of the arithmetic. Everything is measured from outside: the time of a step is
the wall clock of a process of 7 steps less that of one of 3, divided by 4; memory is ru_maxrss. Ratios are of the best round of each side.
Needs torch, transformers, peft and safetensors."""
import argparse, json, os, sys, tempfile

from outside import process

p = argparse.ArgumentParser()
p.add_argument("ravine"), p.add_argument("config")
p.add_argument("--batch", type=int, default=1)
p.add_argument("--length", type=int, default=1024)
p.add_argument("--rank", type=int, default=8)
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--bf16", action="store_true", help="bf16 arithmetic and base on both sides")
p.add_argument("--only", default="lora,full,peft")
p.add_argument("--torch-base", help=argparse.SUPPRESS)
p.add_argument("--torch-steps", type=int, help=argparse.SUPPRESS)
a = p.parse_args()


def make_base(folder):
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(**json.load(open(a.config)))
    torch.manual_seed(1)
    LlamaForCausalLM(config).to(torch.bfloat16 if a.bf16 else torch.float32).save_pretrained(os.path.join(folder, "base"))
    save_file({"input_ids": torch.randint(3, config.vocab_size, (64, a.length), dtype=torch.int32)}, os.path.join(folder, "ids.safetensors"))


def torch_side(steps):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaForCausalLM
    torch.set_num_threads(a.threads)
    model = LlamaForCausalLM.from_pretrained(a.torch_base, dtype=torch.bfloat16 if a.bf16 else torch.float32, attn_implementation="sdpa")
    model = get_peft_model(model, LoraConfig(r=a.rank, lora_alpha=16, target_modules="all-linear")).train()
    update = torch.optim.AdamW([x for x in model.parameters() if x.requires_grad], lr=1e-3, fused=True)
    for _ in range(steps):
        ids = torch.randint(3, model.config.vocab_size, (a.batch, a.length))
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([x for x in model.parameters() if x.requires_grad], 1.0)
        update.step()
        update.zero_grad()


if a.torch_steps:
    torch_side(a.torch_steps)
    sys.exit()


def ours(folder, steps, adapted):
    with tempfile.TemporaryDirectory(dir=folder) as out:
        return process([a.ravine, "train", "--threads", a.threads, f"model.path={folder}/base", f"data.train=[{folder}/ids.safetensors]",
                        f"data.sequence_length={a.length}", f"train.global_batch={a.batch}", f"train.micro_batch={a.batch}", f"train.steps={steps}",
                        f"train.output={out}/run", "checkpoint.every=0", "log.tensorboard=false", "schedule.type=constant", "schedule.warmup_steps=0",
                        "optimizer.lr=1e-3", "precision.compute=" + ("bf16" if a.bf16 else "f32"),
                        *([f"lora.rank={a.rank}", "lora.alpha=16", "lora.targets=all-linear"] if adapted else [])])


def peft(folder, steps):
    return process([sys.executable, __file__, a.ravine, a.config, "--torch-base", f"{folder}/base", "--torch-steps", steps, "--batch", a.batch,
                    "--length", a.length, "--rank", a.rank, "--threads", a.threads, *(["--bf16"] if a.bf16 else [])])


with tempfile.TemporaryDirectory() as folder:
    child = os.fork()  # torch's memory goes with the process
    if child == 0:
        make_base(folder)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the base was not made")
    sides = {"lora": lambda n: ours(folder, n, True), "full": lambda n: ours(folder, n, False), "peft": lambda n: peft(folder, n)}
    best, peak = {}, {}
    for _ in range(a.rounds):
        for name in a.only.split(","):
            short, (long, memory) = sides[name](3)[0], sides[name](7)
            step = (long - short) / 4
            best[name], peak[name] = min(step, best.get(name, step)), max(memory, peak.get(name, 0))
            print(f"{'bf16' if a.bf16 else 'f32'} {name:4} {step:7.3f} s/step  {a.batch * a.length / step:7.1f} tokens/s  {memory:6.0f} MiB", flush=True)
    if "lora" in best and "peft" in best:
        print(f"of PEFT's: speed {best['peft'] / best['lora']:.2f}, memory {peak['lora'] / peak['peft']:.2f}")
    if "lora" in best and "full" in best:
        print(f"of a full step: time {best['lora'] / best['full']:.2f}, memory {peak['lora'] / peak['full']:.2f}")
