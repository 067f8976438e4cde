"""Compares what `ravine data show` says of conversations, ids and which of them are learned, with Transformers' apply_chat_template and its assistant masks.

  python tools/golden/compare_chat.py --ravine build/release/ravine --tokenizer tokenizer.json[.xz] SET.json..

Each set is of the form alpaca. Templates hold generation blocks, so that Transformers can say what the assistant spoke.
"""
import argparse, json, lzma, os, subprocess, sys, tempfile, time
from transformers import PreTrainedTokenizerFast

a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
a.add_argument("--ravine", required=True)
a.add_argument("--tokenizer", required=True)
a.add_argument("--limit", type=int, default=10000)
a.add_argument("sets", nargs="+")
args = a.parse_args()
GEN, END = "{% generation %}", "{% endgeneration %}"
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}" + GEN + "{{ m.content + eos_token }}" + END + "{{ '\n' }}{% else %}{{ m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "alpaca": "{% for m in messages %}{% if m.role == 'assistant' %}{{ '### Response:\n' }}" + GEN + "{{ m.content + eos_token }}" + END + "{{ '\n\n' }}{% else %}{{ '### Instruction:\n' + m.content + '\n\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}",
    "inst": "{% for m in messages %}{% if m.role == 'assistant' %}" + "{{ ' ' }}" + GEN + "{{ m.content + eos_token }}" + END + "{% else %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endif %}{% endfor %}",
}
bad = total = 0
with tempfile.TemporaryDirectory() as d:
    raw = (lzma.open(args.tokenizer) if args.tokenizer.endswith(".xz") else open(args.tokenizer, "rb")).read()
    open(os.path.join(d, "tokenizer.json"), "wb").write(raw)
    special = [t["content"] for t in json.loads(raw)["added_tokens"] if t["special"]]
    eos = next(s for s in ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "</s>") if s in special)
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos}, open(os.path.join(d, "tokenizer_config.json"), "w"))
    tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(d, "tokenizer.json"), eos_token=eos)
    for path in args.sets:
        records = json.load(open(path))[:args.limit]
        chats = [[{"role": "user", "content": r["instruction"] + ("\n" + r["input"] if r.get("input") else "")}, {"role": "assistant", "content": r["output"]}] for r in records]
        for name, template in TEMPLATES.items():
            open(os.path.join(d, "t.jinja"), "w").write(template)
            json.dump(records, open(os.path.join(d, "set.json"), "w"))
            words = ["data", "show", "--json", f"model.tokenizer={d}", f"data.train=[{d}/set.json]", "data.format=alpaca", f"data.chat_template={d}/t.jinja", "data.pack=false", "data.shuffle=false",
                     "data.sequence_length=8192", f"train.global_batch={len(chats)}", f"train.output={d}/none"]
            began = time.time()
            out = subprocess.run([args.ravine] + words, stdout=subprocess.PIPE, check=True).stdout.splitlines()
            seconds, differ = time.time() - began, 0
            assert len(out) == len(chats), (len(out), len(chats))
            for chat, line in zip(chats, out):
                row = json.loads(line)
                n = row["segments"][0][1]
                got_ids = row["ids"][:n] + [row["labels"][n - 1]]
                got = [0] + [int(x != -100) for x in row["labels"][:n]]
                e = tok.apply_chat_template(chat, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
                ids, mask = e["input_ids"], e["assistant_masks"]
                while mask and not mask[-1]:
                    mask.pop(), ids.pop()
                total += 1
                if got_ids != ids or got != mask:
                    differ += 1
                    at = next((i for i in range(min(len(mask), len(got))) if got[i] != mask[i] or got_ids[i] != ids[i]), -1)
                    if differ < 3:
                        print("DIFFERS", name, repr(chat[0]["content"][-40:]), repr(chat[1]["content"][:40]), "at", at, repr(tok.decode(ids[max(0, at - 3):at + 3])), got[at - 1:at + 3], mask[at - 1:at + 3])
            bad += differ
            print(f"{os.path.basename(path)} {name}: {len(chats)} conversations, {differ} differ; read in {seconds:.2f} s", flush=True)
print(f"{total} conversations, {bad} differ")
sys.exit(bad > 0)
