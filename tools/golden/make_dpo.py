#!/usr/bin/env python3
"""Writes tests/golden/dpo/: preference training by TRL, PEFT and PyTorch, which tests/e2e/preferences.py demands of `ravine train`.

Usage: make_dpo.py OUT_DIR          (needs torch, transformers, peft, trl, safetensors)

model/               a tiny Llama with a tokenizer of characters and a chat template; adapter/: of PEFT, for it, B not zero
*.jsonl              pairs: texts, texts without a prompt, conversations, and three for validation
dpo.json             ids: per file what TRL's DPOTrainer makes of it; rewards: pairs of log-probabilities with loss and derivatives by autograd;
                     cases: options of `ravine train`, the numbers of each step in double, and `distance`: how far single precision lay from them at most
                     (relative; weights: L2 of the difference over that of the tensor)
final/CASE.safetensors   the weights in the end, from double, rounded to f32

The ids, the masks and the truncation are TRL's own; so are f32 runs of DPOTrainer, which must agree with the loop here (asserted). The loop is PyTorch's: the formulas of the
papers, autograd, torch.optim.AdamW, clip_grad_norm_. Label smoothing of sigmoid is not in TRL 1.x.
"""
import copy
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import datasets
import peft
import torch
import torch.nn.functional as F
import transformers
import trl
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast
from trl.trainer.dpo_trainer import DataCollatorForPreference

from double import AllDouble

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
datasets.disable_progress_bars()
STEPS, PAIRS, MICRO, VALID_EVERY, DRAWS = 6, 6, 2, 3, 6
LR, BETAS, EPS, COLUMNS, CLIP = 0.002, (0.8, 0.97), 1e-6, 96, 1.0
CHARACTERS = list(" abcdefghijklmnopqrstuvwxyz?.,!") + ["\n", "ü"]
SPECIAL = ["<unk>", "<s>", "</s>", "<|q|>", "<|a|>"]
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ {'system': '', 'user': '<|q|>', 'assistant': '<|a|>'}[m.role] }}{{ m.content }}"
            "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|a|>{% endif %}")

TEXTS = [("two and two? ", "four.", "five, or so."), ("name a colour. ", "blue", "a dog"), ("say hello", ", friend!", "."), ("grün? ", "ja, grün ist es.", "nein"),
         ("what is far? ", "the moon.", "the nose."), ("count: ", "one two three four", "one three")]
VALID = [("two and three? ", "five.", "four."), ("name a dog. ", "rex", "blue"), ("bye", "!", ", friend.")]
IMPLICIT = [(p + c, p + r) for p, c, r in TEXTS[:4]] + [("the same and more", "the same"), ("alike until here", "alike until there")]
user, assistant, system = (lambda role: lambda text: {"role": role, "content": text})("user"), (lambda text: {"role": "assistant", "content": text}), (lambda text: {"role": "system", "content": text})
CHATS = [{"prompt": [user(p)], "chosen": [assistant(c)], "rejected": [assistant(r)]} for p, c, r in TEXTS[:4]]
CHATS += [{"prompt": [system("be short. "), user("hello"), assistant("hi"), user("who?")], "chosen": [assistant("me")], "rejected": [assistant("it is me who is here")]},
          {"prompt": [user("a?")], "chosen": [assistant("b"), user("c?"), assistant("d")], "rejected": [assistant("b"), user("c?"), assistant("nothing")]}]

PLAIN = {"data.train": "texts.jsonl", "dpo.beta": 0.3}
CASES = {"sigmoid": PLAIN, "hinge": {**PLAIN, "dpo.loss": "hinge", "dpo.beta": 0.2}, "ipo": {**PLAIN, "dpo.loss": "ipo"}, "smoothed": {**PLAIN, "dpo.label_smoothing": 0.2},
         "ftx": {**PLAIN, "dpo.ftx": 0.5}, "chats": {"data.train": "chats.jsonl", "dpo.beta": 0.1}, "implicit": {**PLAIN, "data.train": "implicit.jsonl"},
         "cut": {**PLAIN, "data.sequence_length": 40}, "lora": {**PLAIN, "lora.path": "adapter"}}


def make_tokenizer(folder):
    pieces = SPECIAL + CHARACTERS
    t = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=[], unk_token="<unk>"))
    t.add_special_tokens(SPECIAL)
    t.decoder = decoders.Fuse()
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<unk>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    for extra in ("chat_template.jinja",):  # in the settings, so that one file is enough
        path = os.path.join(folder, extra)
        if os.path.exists(path):
            os.remove(path)
    path = os.path.join(folder, "tokenizer_config.json")
    settings = json.load(open(path))
    settings["chat_template"] = TEMPLATE
    json.dump(settings, open(path, "w"), indent=1)
    return tokenizer, len(pieces)


def write(path, rows):
    with open(path, "w") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")


def make_files(out):
    triple = lambda t: dict(zip(("prompt", "chosen", "rejected"), t))
    write(f"{out}/texts.jsonl", map(triple, TEXTS))
    write(f"{out}/valid.jsonl", map(triple, VALID))
    write(f"{out}/implicit.jsonl", ({"chosen": c, "rejected": r} for c, r in IMPLICIT))
    write(f"{out}/chats.jsonl", CHATS)


def settings(case):
    o = CASES[case]
    return o.get("dpo.loss", "sigmoid"), o["dpo.beta"], o.get("dpo.label_smoothing", 0.0), o.get("dpo.ftx", 0.0), o.get("data.sequence_length", COLUMNS) // 2


def trainer(out, case, tokenizer, folder):
    """TRL's, in f32, of the options of a case."""
    loss, beta, _, ftx, longest = settings(case)
    model = AutoModelForCausalLM.from_pretrained(f"{out}/model", dtype=torch.float32, attn_implementation="eager")
    more = {"loss_type": [loss, "sft"], "loss_weights": [1.0, ftx]} if ftx else {"loss_type": [loss]}
    args = trl.DPOConfig(output_dir=folder, beta=beta, per_device_train_batch_size=1, gradient_accumulation_steps=PAIRS, max_steps=STEPS, learning_rate=LR, adam_beta1=BETAS[0],
                         adam_beta2=BETAS[1], adam_epsilon=EPS, max_grad_norm=CLIP, lr_scheduler_type="constant", weight_decay=0.0, logging_steps=1, max_length=longest, bf16=False,
                         gradient_checkpointing=False, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_first_step=False, **more)
    kind = trl.DPOTrainer
    if "lora.path" in CASES[case]:
        return None  # an adapter that is there already is TRL's reference too; here the reference is the base
    rows = [json.loads(line) for line in open(f"{out}/{CASES[case]['data.train']}")]
    t = kind(model=model, args=args, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer)
    t._get_train_sampler = lambda *a, **k: torch.utils.data.SequentialSampler(t.train_dataset)
    return t


def tokens(out, file, tokenizer, folder):
    """What TRL's DPOTrainer makes of a file."""
    rows = [json.loads(line) for line in open(f"{out}/{file}")]
    model = AutoModelForCausalLM.from_pretrained(f"{out}/model")
    args = trl.DPOConfig(output_dir=folder, max_length=None, use_cpu=True, bf16=False, report_to=[])
    t = trl.DPOTrainer(model=model, args=args, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer)
    return [{k: r[k] for k in ("prompt_ids", "chosen_ids", "rejected_ids")} for r in t.train_dataset]


def answers(ids, longest):
    """Per pair and answer (ids, mask), cut by TRL's collator."""
    out = []
    for row in ids:
        batch = DataCollatorForPreference(pad_token_id=0, max_length=longest)([row])
        pair = []
        for k in (0, 1):
            n = int(batch["attention_mask"][k].sum())
            pair.append((batch["input_ids"][k, :n], batch["completion_mask"][k, :n].bool()))
        out.append(pair)
    return out


def log_prob(model, ids, mask):
    logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1]
    picked = torch.log_softmax(logits, -1).gather(1, ids[1:, None])[:, 0]
    return picked[mask[1:]].sum(), int(mask[1:].sum())


def pair_loss(kind, beta, smoothing, ftx, chosen, rejected, counts):
    c, r = chosen[0] - chosen[1], rejected[0] - rejected[1]
    z = beta * (c - r)
    if kind == "sigmoid":
        loss = -(1 - smoothing) * F.logsigmoid(z) - smoothing * F.logsigmoid(-z)
    elif kind == "hinge":
        loss = torch.relu(1 - z)
    else:
        loss = (c / counts[0] - r / counts[1] - 1 / (2 * beta)) ** 2
    return loss - ftx * chosen[0] / counts[0]


def metrics(rows):
    mean = lambda k: sum(r[k] for r in rows) / len(rows)
    out = {k: mean(k) for k in ("loss", "rewards/chosen", "rewards/rejected", "rewards/accuracies", "logps/chosen", "logps/rejected")}
    out["rewards/margins"] = out["rewards/chosen"] - out["rewards/rejected"]
    return out


def run(out, case, ids, valid_ids, dtype, draw):
    loss_type, beta, smoothing, ftx, longest = settings(case)
    model = AutoModelForCausalLM.from_pretrained(f"{out}/model", dtype=dtype, attn_implementation="eager").to(dtype).eval()
    adapter = CASES[case].get("lora.path")
    if adapter:
        model = peft.get_peft_model(model, peft.LoraConfig.from_pretrained(f"{out}/{adapter}"), autocast_adapter_dtype=False).to(dtype).eval()
        peft.set_peft_model_state_dict(model, {n: t.to(dtype) for n, t in ADAPTER.items()})
    pairs, valid = answers(ids, longest), answers(valid_ids, longest)

    def reference_of(pair):
        with torch.no_grad():
            if adapter:
                with model.disable_adapter():
                    return [log_prob(model, *a)[0].item() for a in pair]
            return [log_prob(model, *a)[0].item() for a in pair]

    references = {id(p): reference_of(p) for p in pairs + valid}

    def one(pair):
        (c, nc), (r, nr) = (log_prob(model, *a) for a in pair)
        fc, fr = references[id(pair)]
        loss = pair_loss(loss_type, beta, smoothing, ftx, (c, fc), (r, fr), (nc, nr))
        rewards = beta * (c.item() - fc), beta * (r.item() - fr)
        return loss, {"loss": loss.item(), "rewards/chosen": rewards[0], "rewards/rejected": rewards[1], "rewards/accuracies": float(rewards[0] > rewards[1]),
                      "logps/chosen": c.item(), "logps/rejected": r.item()}

    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, betas=BETAS, eps=EPS, weight_decay=0.0, foreach=False)
    g = torch.Generator().manual_seed(draw)
    steps = []
    for step in range(STEPS):
        order = torch.randperm(PAIRS, generator=g).tolist() if draw else range(PAIRS)
        optimizer.zero_grad()
        rows = []
        for i in order:
            loss, row = one(pairs[i])
            (loss / PAIRS).backward()
            rows.append(row)
        row = metrics(rows)
        row["grad_norm"] = torch.nn.utils.clip_grad_norm_(trained, CLIP, foreach=False).item()
        optimizer.step()
        if (step + 1) % VALID_EVERY == 0:
            with torch.no_grad():
                row.update({"valid_" + k: v for k, v in metrics([one(p)[1] for p in valid]).items()})
        steps.append(row)
    final = peft.get_peft_model_state_dict(model) if adapter else {n: p.detach() for n, p in model.named_parameters()}
    return steps, {n: t.clone() for n, t in final.items()}


def in_double(*arguments):
    torch.set_default_dtype(torch.float64)
    try:
        with AllDouble():
            return run(*arguments, torch.float64, 0)
    finally:
        torch.set_default_dtype(torch.float32)


def rewards():
    """Loss and derivatives of pairs of log-probabilities, in double."""
    out = []
    for loss, beta, smoothing, ftx in (("sigmoid", 0.1, 0.0, 0.0), ("sigmoid", 2.0, 0.3, 0.0), ("sigmoid", 0.5, 0.0, 0.7), ("hinge", 0.4, 0.0, 0.0), ("ipo", 0.2, 0.0, 0.1)):
        for c, fc, nc, r, fr, nr in ((-12.5, -11.0, 7, -9.25, -10.5, 4), (-3.0, -900.0, 3, -1200.0, -2.0, 11), (-900.0, -3.0, 5, -2.0, -1200.0, 1), (-4.0, -4.0, 2, -6.0, -6.0, 2)):
            x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (c, r))
            value = pair_loss(loss, beta, smoothing, ftx, (x, fc), (y, fr), (nc, nr))
            value.backward()
            out.append({"options": [loss, beta, smoothing, ftx], "chosen": [c, fc, nc], "rejected": [r, fr, nr], "loss": value.item(), "by": [x.grad.item(), y.grad.item()]})
    return out


def main(out):
    global ADAPTER
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(f"{out}/final")
    tokenizer, size = make_tokenizer(f"{out}/model")
    make_files(out)
    config = LlamaConfig(vocab_size=size, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                         rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=None)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    g = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for n, p in sorted(model.named_parameters()):
            r = torch.randn(p.shape, generator=g)
            p.copy_(1 + 0.25 * r if "norm" in n else 0.25 * r)
    model.save_pretrained(f"{out}/model")
    adapted = peft.get_peft_model(copy.deepcopy(model), peft.LoraConfig(r=3, lora_alpha=6, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for n, p in sorted(adapted.named_parameters()):
            if p.requires_grad:
                p.copy_(0.2 * torch.randn(p.shape, generator=g))
    adapted.peft_config["default"].base_model_name_or_path = "model"
    adapted.save_pretrained(f"{out}/adapter")
    ADAPTER = load_file(f"{out}/adapter/adapter_model.safetensors")
    for extra in (f"{out}/adapter/README.md", f"{out}/model/generation_config.json"):
        if os.path.exists(extra):
            os.remove(extra)
    scratch = "/tmp/trl-out"
    files = ["texts.jsonl", "valid.jsonl", "implicit.jsonl", "chats.jsonl"]
    record = {"steps": STEPS, "pairs": PAIRS, "micro_batch": MICRO, "valid_every": VALID_EVERY, "columns": COLUMNS,
              "options": {"optimizer.lr": LR, "optimizer.betas": list(BETAS), "optimizer.eps": EPS, "optimizer.weight_decay": 0.0, "optimizer.clip_norm": CLIP,
                          "schedule.type": "constant", "schedule.warmup_steps": 0},
              "torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__, "peft": peft.__version__,
              "ids": {f: tokens(out, f, tokenizer, scratch) for f in files}, "rewards": rewards(), "cases": {}}
    for case, options in CASES.items():
        ids, valid_ids = record["ids"][options["data.train"]], record["ids"]["chats.jsonl" if case == "chats" else "valid.jsonl"]
        steps, final = in_double(out, case, ids, valid_ids)
        distance = {key: 0.0 for row in steps for key in row}
        weights = dict.fromkeys(final, 0.0)
        for draw in range(DRAWS):
            single, ends = run(out, case, ids, valid_ids, torch.float32, draw)
            for a, b in zip(single, steps):
                for key in b:
                    scale = abs(b[key]) if "rewards" not in key else settings(case)[1] * abs(b[key.replace("rewards/" + key.split("/")[-1], "logps/chosen")])
                    distance[key] = max(distance[key], abs(a[key] - b[key]) / (scale or 1.0))
            for n in final:
                weights[n] = max(weights[n], float((ends[n].double() - final[n]).norm() / final[n].norm()))
        clipped = sum(r["grad_norm"] > CLIP for r in steps)
        theirs = trainer(out, case, tokenizer, scratch) if case != "smoothed" else None
        if theirs:
            theirs.train()
            logged = [row for row in theirs.state.log_history if "rewards/chosen" in row]
            assert len(logged) == STEPS, theirs.state.log_history
            for a, b in zip(logged, steps):
                for key in b:
                    if key in a:
                        assert abs(a[key] - b[key]) <= 2e-3 * max(abs(b[key]), abs(b["logps/chosen"]) * 0.1), (case, key, a[key], b[key])
        print(f"{case:9} clipped {clipped} of {STEPS}, loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}, norms {steps[0]['grad_norm']:.3g} to {steps[-1]['grad_norm']:.3g}, accuracy "
              f"{steps[-1]['rewards/accuracies']:.2f}, {'TRL agrees' if theirs else 'without TRL'}; distance " + " ".join(f"{v:.1e}" for v in distance.values()), flush=True)
        record["cases"][case] = {"options": options, "curve": steps, "distance": {**distance, "weights": weights}}
        save_file({n: t.float().contiguous() for n, t in final.items()}, f"{out}/final/{case}.safetensors")
    json.dump(record, open(f"{out}/dpo.json", "w"), separators=(",", ":"))
    for case in CASES:
        if case not in ("sigmoid", "ipo", "lora"):  # enough; the curves show the others
            os.remove(f"{out}/final/{case}.safetensors")


if __name__ == "__main__":
    main(sys.argv[1])
