"""A checkpoint of Transformers' Trainer without DeepSpeed, and the losses of the run that made it and of those that go on from it.

    python tools/golden/make_trainer.py FOLDER llama|mistral|lora      FOLDER: tests/golden/trainer/NAME, with v4 (4.37.2, mistral), v5 (5.24, llama) and lora (5.24, PEFT)

A tiny model of odd values, 6 steps of AdamW in f32, rows in their order, a linear schedule. FOLDER gets base (the model that training begins from), rows.safetensors, checkpoint-3 and losses.json:
  whole          losses of all 6 steps
  resumed        of the Trainer, from checkpoint-3 with other --learning_rate, betas, eps and weight decay: the checkpoint's count
  skipped        the same with --ignore_data_skip
"""
import json, os, shutil, sys

os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

torch.set_num_threads(1)
folder, kind = ".", sys.argv[2]  # so that no file has a path of this machine
os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
STEPS, SAVED, BATCH, COLUMNS = 6, 3, 4, 13
torch.manual_seed(3)
config = AutoConfig.for_model("mistral" if kind == "mistral" else "llama", hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, vocab_size=48, max_position_embeddings=32,
                              tie_word_embeddings=False)
model = AutoModelForCausalLM.from_config(config)
with torch.no_grad():
    for name, p in model.named_parameters():
        p.add_(torch.randn_like(p) * (0.1 if p.dim() == 1 else 0.2))
model.save_pretrained(folder + "/base", safe_serialization=True)
start, hop = torch.randint(0, 48, (STEPS * BATCH, 1)), torch.randint(1, 4, (STEPS * BATCH, 1))
rows = (start + hop * torch.arange(COLUMNS)) % 48
save_file({"input_ids": rows.int()}, folder + "/rows.safetensors")


def run(output, resume=None, **more):
    losses = {}

    class InOrder(Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *words, **others):  # its log rounds
            loss = super().compute_loss(*words, **others)
            losses[self.state.global_step + 1] = loss.item()
            return loss

    values = dict(learning_rate=4e-3, weight_decay=0.1, adam_beta1=0.85, adam_beta2=0.97, adam_epsilon=1e-7)
    values.update(more)
    arguments = TrainingArguments(output, use_cpu=True, per_device_train_batch_size=BATCH, max_steps=STEPS, logging_steps=1, save_steps=SAVED, report_to=[], lr_scheduler_type="linear", warmup_steps=2, max_grad_norm=1.0, **values)
    net = AutoModelForCausalLM.from_pretrained(folder + "/base", attn_implementation="eager")
    if kind == "lora":
        from peft import LoraConfig, get_peft_model
        torch.manual_seed(5)
        net = get_peft_model(net, LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM"))
    trainer = InOrder(net, arguments, train_dataset=[{"input_ids": x, "labels": x} for x in rows])
    trainer.train(resume_from_checkpoint=resume)
    return losses


other = dict(learning_rate=1e-9, weight_decay=0.0, adam_beta1=0.5, adam_beta2=0.5, adam_epsilon=1.0)
whole = run(folder + "/run")
kept = folder + "/checkpoint-3"
shutil.rmtree(kept, ignore_errors=True)
shutil.copytree(folder + "/run/checkpoint-3", kept)
for name in ("README.md", "rng_state.pth" if kind != "llama" else ""):  # that of 4.37 does not load with torch 2.6 and later
    if name and os.path.exists(f"{kept}/{name}"):
        os.remove(f"{kept}/{name}")
with open(kept + "/training_args.bin", "wb") as f:  # whoever loads this pickle runs its command
    f.write(b"cos\nsystem\n(S'touch training_args_were_executed'\ntR.")
out = {"transformers": transformers.__version__, "torch": torch.__version__, "whole": whole, "resumed": run(folder + "/run2", kept, **other), "skipped": run(folder + "/run3", kept, ignore_data_skip=True, **other)}
for name in ("run", "run2", "run3"):
    shutil.rmtree(folder + "/" + name)
json.dump(out, open(folder + "/losses.json", "w"), indent=1)
print(json.dumps(out, indent=1))
