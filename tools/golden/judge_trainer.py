"""Transformers' Trainer goes on from our checkpoints without DeepSpeed, and we go on from its: the next losses are those of the run that never stopped.

    python3 tools/golden/judge_trainer.py BUILD/ravine [PYTHON_OF_4.37]      needs torch, transformers 5.24, accelerate, peft, safetensors (CPU); the second one transformers 4.37.2

Judged, of small models of Llama, Qwen 3 (norms of q and k), GPT-2, GPT-NeoX and Bloom (biases, joined and turned matrices), Mistral and of an adapter, 6 steps of AdamW of which 3 come after the checkpoint: 1 every file of checkpoint-3 loads with
torch.load(weights_only=True); 2 the Trainer, asked for another rate, betas, eps and decay, goes on from our checkpoint-3 with the losses of our whole run; 3 we go on from its checkpoint-3 with the losses of its whole run;
4 the random states of rng_state.pth are taken by Python, NumPy and torch. Control: with the moments exchanged the losses must be beyond the bound. Exit status 1: a row is beyond.

Bound, with u = 2^-24, the rounding unit of float32, relative to the loss: 16 u, as in judge_deepspeed.py."""
import json, os, random, shutil, subprocess, sys, tempfile

os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
U, STEPS, SAVED, BATCH, COLUMNS, VOCABULARY = 2.0**-24, 6, 3, 4, 17, 64
ADAM = dict(learning_rate=4e-3, weight_decay=0.1, adam_beta1=0.85, adam_beta2=0.97, adam_epsilon=1e-7)
WRONG = dict(learning_rate=1e-9, weight_decay=0.0, adam_beta1=0.5, adam_beta2=0.5, adam_epsilon=1.0)

if len(sys.argv) < 2:
    sys.exit(__doc__)
if sys.argv[1] == "--trainer":  # JOB: {"model", "rows", "output", "resume", "lora", "wrong", "result"}
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    torch.set_num_threads(1)
    job, losses = json.load(open(sys.argv[2])), {}
    rows = load_file(job["rows"])["input_ids"].long()

    class InOrder(Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, model, inputs, *words, **more):  # its log rounds; 5 divides by labels of GPT-2 that nothing predicts
            loss = model(**inputs).loss
            losses[self.state.global_step + 1] = loss.item()
            return loss

    arguments = TrainingArguments(job["output"], use_cpu=True, per_device_train_batch_size=BATCH, max_steps=STEPS, logging_steps=1, save_steps=SAVED, report_to=[], lr_scheduler_type="linear", warmup_steps=2, **(WRONG if job["wrong"] else ADAM))
    model = AutoModelForCausalLM.from_pretrained(job["model"], attn_implementation="eager")
    if job["lora"]:
        from peft import LoraConfig, get_peft_model
        torch.manual_seed(5)
        model = get_peft_model(model, LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM"))
    InOrder(model, arguments, train_dataset=[{"input_ids": x, "labels": x} for x in rows]).train(resume_from_checkpoint=job["resume"])
    json.dump(losses, open(job["result"], "w"))
    sys.exit()

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

ravine, old = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
room, beyond = tempfile.TemporaryDirectory(), 0
work = room.name
torch.manual_seed(3)
start, hop = torch.randint(0, VOCABULARY, (STEPS * BATCH, 1)), torch.randint(1, 4, (STEPS * BATCH, 1))
save_file({"input_ids": ((start + hop * torch.arange(COLUMNS)) % VOCABULARY).int()}, work + "/rows.safetensors")
SMALL = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=32)
MODELS = {"llama": ("llama", dict(SMALL, tie_word_embeddings=False)), "qwen3": ("qwen3", dict(SMALL, head_dim=8, tie_word_embeddings=True)), "mistral": ("mistral", SMALL), "lora": ("llama", SMALL),
          "gpt2": ("gpt2", dict(n_embd=16, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=32, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, bos_token_id=0, eos_token_id=0)),
          "gpt_neox": ("gpt_neox", dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=VOCABULARY, max_position_embeddings=32, bos_token_id=0, eos_token_id=0)),
          "bloom": ("bloom", dict(hidden_size=16, n_layer=2, n_head=4, vocab_size=VOCABULARY))}
LORA = ["lora.rank=2", "lora.alpha=8", "lora.targets=[q_proj,v_proj,down_proj]"]


def row(what, measured, bound, unit="", control=False):
    global beyond
    good = bound < measured < float("inf") if control else measured <= bound
    beyond += not good
    print(f"{'ok' if good else 'BEYOND':7}{what:104}{measured:>12.4g}{'  >' if control else ' <='}{bound:>10.4g} {unit}".rstrip(), flush=True)


def losses(what, a, b, steps, control=False):
    far = [abs(a[i] - b[i]) / abs(b[i]) / U if a and b and i in a and i in b else float("inf") for i in steps]
    row(f"{what}: loss, steps {steps[0]}-{steps[-1]}", max(far), 16, "u", control)


def said(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        print(f"       exit {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-600:].replace(work + '/', '')}")
    return done.returncode == 0


def theirs(name, output, resume=None, wrong=False, python=sys.executable):
    spec = tempfile.mktemp(dir=work)
    json.dump({"model": f"{work}/{name}", "rows": work + "/rows.safetensors", "output": output, "resume": resume, "lora": name == "lora", "wrong": wrong, "result": spec + ".out"}, open(spec, "w"))
    return {int(k): v for k, v in json.load(open(spec + ".out")).items()} if said(python, os.path.abspath(__file__), "--trainer", spec) else None


def ours(name, output, *words, wrong=False, version="5.23", ranks=1):
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks] if ranks > 1 else []
    flags = [x for k, v in (WRONG if wrong else ADAM).items() for x in (f"--{k}", v)]
    done = said(*launch, ravine, "trainer", "--model_name_or_path", f"{work}/{name}", "--train_file", work + "/rows.safetensors", "--do_train", "--max_steps", STEPS, "--per_device_train_batch_size", BATCH // ranks, "--logging_steps", 1, "--save_steps", SAVED,
                "--lr_scheduler_type", "linear", "--warmup_steps", 2, "--report_to", "none", "--transformers_version", version, "--output_dir", output, *flags, *(LORA if name == "lora" else []), *words)
    return {x["step"]: x["loss"] for x in map(json.loads, open(output + "/metrics.jsonl")) if "loss" in x} if done else None


def exchange_moments(folder):
    """A copy whose parameters of one shape have the moments of each other."""
    shutil.copytree(folder, folder + "-x")
    x = torch.load(folder + "-x/optimizer.pt", weights_only=True)
    for i, a in x["state"].items():
        for j, b in x["state"].items():
            if i < j and a["exp_avg"].shape == b["exp_avg"].shape:
                x["state"][i], x["state"][j] = b, a
                break
        else:
            continue
        break
    torch.save(x, folder + "-x/optimizer.pt")
    return folder + "-x"


WHOLE, AFTER = range(1, STEPS + 1), range(SAVED + 1, STEPS + 1)
print(f"torch {torch.__version__}, transformers {transformers.__version__}{' and 4.37.2' if old else ''}, CPU; {subprocess.run([ravine, '--version'], capture_output=True, text=True).stdout.strip()}")
for name, (kind, fields) in MODELS.items():
    print(f"\n{name}")
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **fields))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.1 if p.dim() == 1 else 0.2))
    model.save_pretrained(f"{work}/{name}")
    whole = theirs(name, f"{work}/{name}-theirs")
    run = f"{work}/{name}-ours"
    mine = ours(name, run)
    if name != "lora":  # whose first values are drawn
        losses("their whole run against ours", whole, mine, WHOLE)
    left = f"{run}/checkpoint-{SAVED}"
    files = [f for f in sorted(os.listdir(left)) if f.endswith((".pt", ".pth"))]
    bad = 0
    for f in files:
        try:
            torch.load(f"{left}/{f}", weights_only=True)
        except Exception as e:
            bad += 1
            print(f"       {f}: {str(e)[:300]}")
    row(f"files that torch.load(weights_only=True) does not read: {' '.join(files)}", bad, 0, f"of {len(files)}")
    if name == "gpt_neox":  # 5.24 stores its head as embed_out and does not load that back into lm_head: 4.37 judges ours
        losses("control: the Trainer from its own checkpoint, whose head it does not load", theirs(name, f"{work}/{name}-t1", f"{work}/{name}-theirs/checkpoint-{SAVED}"), whole, AFTER, control=True)
    else:
        losses(f"the Trainer from our checkpoint-{SAVED} against our whole run", theirs(name, f"{work}/{name}-t1", left, wrong=True), mine, AFTER)
    losses("control: with moments exchanged", theirs(name, f"{work}/{name}-t2", exchange_moments(left), wrong=True), mine, AFTER, control=True)
    losses(f"ours from the Trainer's checkpoint-{SAVED} against its whole run", ours(name, f"{work}/{name}-o1", "--resume_from_checkpoint", f"{work}/{name}-theirs/checkpoint-{SAVED}", wrong=True), whole, AFTER)
    losses("the same at 2 ranks", ours(name, f"{work}/{name}-o2", "--resume_from_checkpoint", f"{work}/{name}-theirs/checkpoint-{SAVED}", wrong=True, ranks=2), whole, AFTER)
    if old and name in ("llama", "gpt2", "gpt_neox", "bloom", "mistral"):
        # Its norms of Mistral decay, and it knows one order for all of them: our file is that of 5.
        whole = theirs(name, f"{work}/{name}-theirs4", python=old)
        losses(f"4.37: ours from the Trainer's checkpoint-{SAVED} against its whole run", ours(name, f"{work}/{name}-o4", "--resume_from_checkpoint", f"{work}/{name}-theirs4/checkpoint-{SAVED}", wrong=True, version="4.37"), whole, AFTER)
        if name != "mistral":
            state = json.load(open(f"{left}/trainer_state.json"))
            state.pop("stateful_callbacks")  # it knows no such field
            json.dump(state, open(f"{left}/trainer_state.json", "w"))
            losses(f"4.37: the Trainer from our checkpoint-{SAVED} against our whole run", theirs(name, f"{work}/{name}-t4", left, wrong=True, python=old), mine, AFTER)
x = torch.load(f"{work}/llama-ours/checkpoint-{SAVED}/rng_state.pth", weights_only=True)
random.setstate(x["python"]), np.random.set_state(x["numpy"]), torch.random.set_rng_state(x["cpu"])
drawn = random.random(), np.random.rand(), torch.rand(1).item()
torch.manual_seed(42 + SAVED)
print("\nrandom states")
row("torch's first number, against that of the same seed (42 + 3)", abs(drawn[2] - torch.rand(1).item()), 0)
row("numbers of Python and NumPy that differ (both are MT19937 of one seed)", float(drawn[0] != drawn[1]), 0)
print(f"\n{beyond} beyond")
sys.exit(beyond > 0)
