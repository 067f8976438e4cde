"""Makes tests/golden/chat/: a small tokenizer, what Transformers makes of conversations and which tokens it says the assistant spoke (its
assistant masks), and what the record handlers of ModelLink (modellink/data/data_handler.py, written down again here) make of records.

  python tools/golden/make_chat.py tests/golden/chat         (needs tokenizers, transformers, jinja2)
"""
import json, os, random, sys
from tokenizers import Tokenizer, decoders as D, models as M, pre_tokenizers as P, processors as X, trainers as T
from transformers import PreTrainedTokenizerFast

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
r = random.Random(5)
words = "the ravine holds a river and river stones roll down to the sea what is why does it Below instruction Response appropriately completes request step by def return for in".split()
corpus = [" ".join(r.choice(words) for _ in range(12)) + ".\n" for _ in range(200)] + ["山谷里有一条河，河水流向大海。\n\n", "什么是细胞？\n"] * 30 + ["### Instruction:\n", "### Response:\n"] * 30
special = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]"]
t = Tokenizer(M.BPE())
t.pre_tokenizer, t.decoder = P.ByteLevel(add_prefix_space=False), D.ByteLevel()
t.train_from_iterator(corpus, T.BpeTrainer(vocab_size=520, show_progress=False, initial_alphabet=P.ByteLevel.alphabet(), special_tokens=special))
t.post_processor = X.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
t.save(os.path.join(out, "tokenizer.json"))

GEN, END = "{% generation %}", "{% endgeneration %}"
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}" + GEN + "{{ m.content + '<|im_end|>' }}" + END + "{{ '\n' }}{% else %}{{ m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "inst": "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}" + GEN + "{{ ' ' + m.content + eos_token }}" + END + "{% else %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endif %}{% endfor %}",
    # what is said of the system comes with the first question, answers are trimmed
    "trimmed": "{{ bos_token }}{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = m.content + '\n\n' %}{% elif m.role == 'assistant' %}{{ 'A:\n' }}" + GEN + "{{ m.content | trim + '<|im_end|>' }}" + END
               + "{{ '\n' }}{% else %}{{ 'Q: ' + ns.s + m.content | trim + '\n' }}{% set ns.s = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'A:\n' }}{% endif %}",
}
json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|im_end|>", "chat_template": TEMPLATES["chatml"]},
          open(os.path.join(out, "tokenizer_config.json"), "w"), indent=1)
tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(out, "tokenizer.json"), bos_token="<s>", eos_token="</s>", pad_token="<|im_end|>")
say = lambda *a: [{"role": role, "content": content} for role, content in zip(a[::2], a[1::2])]
CHATS = [
    say("user", "What is a ravine?", "assistant", "A ravine holds a river."),
    say("system", "Be short.", "user", "Why?", "assistant", "It is step by step.", "user", "And\nthe sea?", "assistant", "The river rolls down to the sea.\n\n"),
    say("user", "什么是细胞？", "assistant", "山谷里有一条河，河水流向大海。", "user", "为什么", "assistant", "  for in\n"),
    say("user", "a", "assistant", "\n\nBelow", "user", "  b ", "assistant", "c"),
    say("user", "What does </s> mean?", "assistant", "It is Ünïcödé \U0001F600 and more.", "user", "ok"),
    say("user", "x " * 60, "assistant", "y " * 90, "user", "z", "assistant", "return"),
]
rows = []
for name, template in TEMPLATES.items():
    for chat in CHATS:
        e = tok.apply_chat_template(chat, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        rows.append({"template": name, "messages": chat, "text": tok.apply_chat_template(chat, chat_template=template, tokenize=False), "ids": e["input_ids"], "mask": e["assistant_masks"]})

SYSTEM = ("Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately completes the request. "
          "Please note that you need to think through your response logically and step by step.")
RESPONSE = "### Response:"
encode = lambda text: tok(text=text)["input_ids"]


def prompt(messages):
    text = "" + "\n" + SYSTEM + "" + "\n"
    for user, content in messages:
        text += ("### Instruction:" if user else RESPONSE) + "\n" + content + "" + "\n"
    return text


def masked(messages, eod):
    full = prompt(messages)
    ids = encode(full)
    labels = list(ids)
    if eod:
        ids.append(tok.eos_token_id)
        labels.append(tok.eos_token_id)
    n = len(encode(full.rsplit(RESPONSE, maxsplit=1)[0] + RESPONSE + "\n"))
    labels[:n] = [-100] * n
    return ids, labels


def general(s, eod):
    return [masked([(True, s["instruction"] + "\n" + s["input"]), (False, s["output"])], eod)]


def belle(s, eod):
    messages = []
    for msg in s["instruction"].split("Human:"):
        if not msg:
            continue
        parts = msg.split("Assistant:")
        if len(parts) > 1:
            messages += [(True, parts[0].strip()), (False, parts[1].strip())]
        else:
            messages.append((False, parts[0].strip()))
    messages.pop()
    messages.append((False, s["output"].strip()))
    return [masked(messages, eod)]


def moss_turns(s):
    for turn in s["chat"].values():
        if turn:
            yield turn["Human"].replace("<eoh>", "").replace("<|Human|>: ", "").strip(), turn["MOSS"].replace("<|MOSS|>:", "").replace("<eom>", "").strip()


def moss(s, eod):
    messages, all_ = [], []
    for user, said in moss_turns(s):
        messages += [(True, user), (False, said)]
        all_.append(masked(messages, False))
    return all_


def moss_multi(s, eod):
    ids, labels = [], []
    for user, said in moss_turns(s):
        u, a = encode(user), encode(said)
        ids += [195] + u + [196] + a
        labels += [tok.eos_token_id] + [-100] * len(u) + [-100] + a
    return [(ids + [tok.eos_token_id], labels + [tok.eos_token_id])]


def leetcode(s, eod):
    return [masked([(True, s["code_with_problem"].split("```", maxsplit=1)[0].strip()), (False, s["code_only"] + "\n" + s["explanation_only"])], eod)]


def stack(s, eod):
    ids = encode(f"In python, {s['title']}\n### Question:\n{s['question_body']}\n### Response:\n{s['answer_body']}\n")
    return [(ids + [tok.eos_token_id] * eod, None)]


def alpaca_text(s, eod):
    given = f"\n\n### Input:\n{s['input']}" if s["input"] else ""
    text = ("A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions.USER: Below is an instruction that describes a task. "
            f"Write a response that appropriately completes the request.\n\n### Instruction:\n{s['instruction']}{given}\n\n### Response: ASSISTANT: {s['output']}")
    ids = encode(text)
    return [(ids + [tok.eos_token_id] * eod, None)]


ALPACA = [{"instruction": "What is a ravine?", "input": "", "output": "It holds a river."}, {"instruction": "什么是细胞？", "input": "河水", "output": "山谷里有一条河。\n\n"},
          {"instruction": "Say ### Response:", "input": "x", "output": "It is\n### Response:\nagain"}, {"instruction": "a", "input": "", "output": ""}]
BELLE = [{"instruction": "Human: What?\nAssistant: A river.\nHuman:\u3000Why?\x1f\nAssistant:", "output": "  It rolls.\n"}, {"instruction": "just text", "output": "done"},
         {"instruction": "Human:细胞\nAssistant:河\nHuman:大海", "output": "流向"}, {"instruction": "lead Human: a Assistant: b Assistant: c Human: d Assistant: ", "output": "e"}]
MOSS = [{"chat": {"turn_1": {"Human": "<|Human|>: What?<eoh>\n", "MOSS": "<|MOSS|>: A river.<eom>\n"}, "turn_2": {"Human": "<|Human|>: 细胞<eoh>\n", "MOSS": "<|MOSS|>: 大海<eom>\n"}, "turn_3": None, "turn_4": {}}},
        {"chat": {"turn_1": {"Human": "x", "MOSS": ""}}}]
LEET = [{"code_with_problem": " # Two sums\n\nfor the river\n```python\nx\n```\nmore ```", "code_only": "```python\ndef f(): return 1\n```", "explanation_only": "Step by step."}, {"code_with_problem": "no code", "code_only": "a", "explanation_only": "b"}]
STACK = [{"title": "for in", "question_body": "Why\n?", "answer_body": "def 河"}]
handlers = []
for name, f, records in (("GeneralInstructionHandler", general, ALPACA), ("BelleMultiTurnInstructionHandler", belle, BELLE), ("MOSSInstructionHandler", moss, MOSS), ("MOSSMultiTurnHandler", moss_multi, MOSS),
                         ("LeetcodePythonInstructionHandler", leetcode, LEET), ("StackOverflowPythonPretrainHandler", stack, STACK), ("AlpacaPretrainHandler", alpaca_text, ALPACA)):
    for record in records:
        for eod in (False, True):
            rows_ = f(record, eod)
            handlers.append({"handler": name, "append_eod": eod, "record": record, "ids": [a for a, _ in rows_], "labels": [b for _, b in rows_]})
json.dump({"templates": TEMPLATES, "chats": rows, "handlers": handlers}, open(os.path.join(out, "expected.json"), "w"), separators=(",", ":"))
print(len(rows), "chats,", len(handlers), "handler rows")
