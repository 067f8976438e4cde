"""Several adapters on one base in `generate`: each prompt is answered as by `generate` with its adapter alone, and the base is in memory once; adapters that differ in rank, in what
they stand beside, and in modules that were trained whole; what is refused."""
import json
import random
import shutil

import ravine_run as r
from inference_memory import WIDE, peak_mb, save_model
from ravine_run import check
from chat_model import chat_model

if not r.FULL:
    r.os.environ.setdefault("OMP_NUM_THREADS", "1")  # the peaks of the machine are measured for one number of threads

JUDGE = ["--backend", "ref", "precision.compute=f64"]
KINDS = {
    "poet": {"lora.rank": 4, "lora.targets": "all-linear"},
    "lawyer": {"lora.rank": 2, "lora.targets": ["q_proj", "v_proj"], "lora.alpha": 64},
    "clerk": {"lora.rank": 3, "lora.targets": ["down_proj"], "lora.save": ["k_proj", "lm_head"]},
    "herald": {"lora.rank": 2, "lora.targets": ["lm_head", "o_proj"]},
    "table": {"lora.rank": 2, "lora.targets": ["embed_tokens", "lm_head"]},
}
TEXTS = ["The ravine", "is deep", "The river runs", "below. The", "is deep and the river", "The"]
ASKED = ["poet", None, "lawyer", "clerk", "herald", "table"]


def train_adapters(folder, model, kinds=KINDS):
    """Trained for a few steps each at a high rate, so that what they say differs."""
    for i, (name, lora) in enumerate(kinds.items()):
        r.run("train", *r.settings({"model.path": model, "data.train": str(folder / "text.txt"), "data.sequence_length": 32, "train.steps": 3, "train.global_batch": 2, "train.seed": i,
                                    "train.output": str(folder / name), "log.tensorboard": False, "schedule.warmup_steps": 0, "checkpoint.every": 0, "optimizer.lr": 0.3, **lora}))
    return {name: folder / name / "adapter" for name in kinds}


def named(adapters):
    return [word for name, path in adapters.items() for word in ("--adapter", f"{name}={path}")]


def save_prompts(folder, asked=ASKED):
    (folder / "plain.txt").write_text("".join(t + "\n" for t in TEXTS))
    (folder / "asked.jsonl").write_text("".join(json.dumps({"prompt": t, **({"adapter": a} if a else {})}) + "\n" for t, a in zip(TEXTS, asked)))
    return folder / "plain.txt", folder / "asked.jsonl"


def generate(*words):
    return [json.loads(line) for line in r.run("generate", "--json", "--max-new-tokens", 7, *words).stdout.splitlines()]


def same_answer(a, b):
    return {k: v for k, v in a.items() if k != "adapter"} == {k: v for k, v in b.items() if k != "adapter"}


def test_answers_are_those_of_each_adapter_alone(folder):
    model = chat_model(folder)
    adapters = train_adapters(folder, model)
    plain, asked = save_prompts(folder)
    ways = {"greedy": [], "drawn": ["--sample", "--seed", 3, "--top-k", 0], "beams": ["--beams", 3, "--num-return", 2], "one by one": ["--batch", 1]}
    for way, more in r.rows(ways.items(), 1, "the ways take turns"):
        alone = {name: generate("--model", model, *(["--adapter", adapters[name]] if name else []), "--prompts", plain, *JUDGE, *more) for name in (None, *KINDS)}
        check(len({json.dumps([x["ids"] for x in a]) for a in alone.values()}) == len(alone), f"{way}: two of them say the same")
        got = generate("--model", model, *named(adapters), "--prompts", asked, *JUDGE, *more)
        check(len(got) == len(TEXTS), got)
        for i, name in enumerate(ASKED):
            check(got[i].get("adapter") == name and same_answer(got[i], alone[name][i]), f"{way}, {i}, {name}:\n{got[i]}\n{alone[name][i]}")
    # The fast kernels, and those that bf16 has.
    for more in r.rows(([], ["precision.compute=bf16"]), 1, "the types take turns"):
        got = generate("--model", model, *named(adapters), "--prompts", asked, *more)
        for i, name in enumerate(ASKED):
            alone = generate("--model", model, *(["--adapter", adapters[name]] if name else []), "--prompt", TEXTS[i], *more)[0]
            check(got[i]["ids"] == alone["ids"], f"{more}, {name}: {got[i]}\n{alone}")


def test_one_base_in_blocks_of_4_bits(folder):
    model = chat_model(folder)
    adapters = train_adapters(folder, model)
    _, asked = save_prompts(folder)
    words = ["--model", model, *JUDGE, "lora.base=nf4"]
    got = generate(*words, *named(adapters), "--prompts", asked)
    for i, name in enumerate(ASKED):
        alone = generate(*words, *(["--adapter", adapters[name]] if name else []), "--prompt", TEXTS[i])[0]
        check(got[i].get("adapter") == name and same_answer(got[i], alone), f"{name}:\n{got[i]}\n{alone}")
    check([x["logprob"] for x in got] != [x["logprob"] for x in generate("--model", model, *JUDGE, *named(adapters), "--prompts", asked)], "four bits change something")


def test_who_answers_what_does_not_say(folder):
    model = chat_model(folder)
    adapters = train_adapters(folder, model, {"poet": KINDS["poet"], "lawyer": KINDS["lawyer"]})
    two, one = named(adapters), ["--adapter", f"poet={adapters['poet']}"]
    plain, asked = save_prompts(folder, ["lawyer", None, None, None, None, None])
    by = {name: generate("--model", model, *(["--adapter", adapters[name]] if name else []), "--prompts", plain) for name in (None, *adapters)}
    ids = lambda answers: [x["ids"] for x in answers]
    got = generate("--model", model, *two, "--use", "poet", "--prompts", asked)
    check(got[0]["adapter"] == "lawyer" and got[0]["ids"] == by["lawyer"][0]["ids"] and ids(got[1:]) == ids(by["poet"][1:]), f"--use: {got}")
    got = generate("--model", model, *two, "--prompts", asked)
    check(ids(got[1:]) == ids(by[None][1:]) and "adapter" not in got[1], f"the model alone: {got}")
    check(ids(generate("--model", model, *two, "--use", "lawyer", "--prompts", plain)) == ids(by["lawyer"]), "--use with a file of lines")
    check(ids(generate("--model", model, *one, "--prompts", plain)) == ids(by["poet"]), "one adapter answers what cannot name one")
    (folder / "ids.json").write_text(json.dumps([by["poet"][0]["prompt_ids"]]))
    check(generate("--model", model, *two, "--use", "poet", "--prompt-ids", folder / "ids.json")[0]["ids"] == by["poet"][0]["ids"], "--use with ids")
    said = r.run("generate", "--model", model, *two, "--prompt", TEXTS[0], status=2).stderr
    check("2 adapters, and none is chosen" in said and "--use poet" in said, said)
    said = r.run("generate", "--model", model, *two, "--use", "poet", "--prompt", TEXTS[0], "--max-new-tokens", 1).stderr
    check("no prompt asks for the adapter 'lawyer'" in said and "'poet'" not in said, said)
    chat = lambda *more: r.run("generate", "--model", model, "--chat", "--prompt", "Who are you?", "--max-new-tokens", 5, "--json", *more).stdout
    check(json.loads(chat(*two, "--use", "poet"))["ids"] == json.loads(chat("--adapter", adapters["poet"]))["ids"], "questions to an adapter")
    # The name of a run stands for its adapter, also behind a name, and one name is taken by commands that run one model.
    check(ids(generate("--model", model, "--adapter", f"poet={folder / 'poet'}", "--prompts", plain)) == ids(by["poet"]), "a run's folder")
    draw = random.Random(1)
    numbers = [draw.randrange(3, 500) for _ in range(12)]
    r.save_tensors(folder / "in.safetensors", {"input_ids": ("I64", [2, 6], numbers)})
    files = []
    for i, given in enumerate((f"poet={adapters['poet']}", adapters["poet"])):
        files.append(folder / f"trace{i}.safetensors")
        r.run("trace", "--model", model, "--adapter", given, "--input", folder / "in.safetensors", "--out", files[-1])
    check(r.load_raw(files[0]) == r.load_raw(files[1]), "trace with a name and without")
    said = r.run("trace", "--model", model, *two, "--input", folder / "in.safetensors", "--out", folder / "no.safetensors", status=2).stderr
    check("2 adapters" in said and not (folder / "no.safetensors").exists(), said)
    inside = folder / "copy" / "out.safetensors"
    shutil.copytree(adapters["poet"], inside.parent)
    said = r.run("trace", "--model", model, "--adapter", f"poet={inside.parent}", "--input", folder / "in.safetensors", "--out", inside, status=2).stderr
    check("inside --adapter" in said and not inside.exists(), said)


def test_each_has_its_own_words(folder):
    """Tokenizer, template and defaults of generation lie with the adapter, as with one adapter alone."""
    model = chat_model(folder)
    adapters = train_adapters(folder, model, {"poet": KINDS["poet"], "lawyer": KINDS["lawyer"]})
    (adapters["lawyer"] / "generation_config.json").write_text(json.dumps({"max_new_tokens": 3}))
    (adapters["lawyer"] / "chat_template.jinja").write_text("{% for m in messages %}Q: {{ m.content }}{% endfor %}{% if add_generation_prompt %} A:{% endif %}")
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        (adapters["poet"] / name).unlink(missing_ok=True)
    asked = folder / "asked.jsonl"
    asked.write_text('{"prompt": "Who?", "adapter": "poet"}\n{"prompt": "Who?", "adapter": "lawyer"}\n')
    def run(*more):
        return [json.loads(line) for line in r.run("generate", "--model", model, "--json", "--chat", *more).stdout.splitlines()]
    got = run(*named(adapters), "--prompts", asked)
    for i, name in enumerate(adapters):
        check(same_answer(got[i], run("--adapter", adapters[name], "--prompt", "Who?")[0]), f"{name}: {got[i]}")
    check(got[0]["prompt_ids"] != got[1]["prompt_ids"] and len(got[1]["ids"]) == 3 < len(got[0]["ids"]), got)


def test_the_base_is_in_memory_once(folder):
    if r.sanitized():
        raise r.Skipped("sanitizers have memory of their own")
    model, prompts = folder / "wide", folder / "ids.json"
    weights_mb = save_model(model, WIDE, "F32") * 4 / 2**20
    prompts.write_text(json.dumps([[5, 9, 200]]))
    h = WIDE["hidden_size"]
    adapters = {}
    for a in ("one", "two", "three"):
        adapters[a] = folder / a
        adapters[a].mkdir()
        (adapters[a] / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}))
        tensors = {}
        for i in range(WIDE["num_hidden_layers"]):
            prefix = f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_"
            tensors[prefix + "A.weight"], tensors[prefix + "B.weight"] = ("F32", [2, h], [0.01] * (2 * h)), ("F32", [h, 2], [0.01] * (2 * h))
        r.save_tensors(adapters[a] / "adapter_model.safetensors", tensors)
    words = ["generate", "--model", model, "--prompt-ids", prompts, "--max-new-tokens", 2]
    alone = peak_mb(*words)
    with_three = peak_mb(*words, *named(adapters), "--use", "two")
    check(weights_mb > 100 and with_three - alone < 0.1 * weights_mb, f"{with_three:.0f} MB with three adapters, {alone:.0f} MB without, weights {weights_mb:.0f} MB")


def test_mistakes(folder):
    model = chat_model(folder)
    adapters = train_adapters(folder, model, {"poet": KINDS["poet"]})
    poet = adapters["poet"]
    plain, asked = save_prompts(folder, ["poet", None, "poett", None, None, None])
    def said(*more):
        return r.run("generate", "--model", model, "--max-new-tokens", 1, *more, status=2).stderr
    for words, expected in (
            (["--adapter", f"poet={poet}", "--adapter", f"poet={poet}", "--prompt", "x"], ["two adapters are called 'poet'"]),
            (["--adapter", f"poet={poet}", "--prompts", asked], ["no adapter is called 'poett'", f"{asked}:3", "did you mean 'poet'?"]),
            (["--prompts", asked], ["no adapter is called 'poet'", f"{asked}:1", "--adapter poet=DIR"]),
            (["--adapter", poet, "--prompts", asked], ["no adapter is called 'poet'", f"{asked}:1"]),
            (["--adapter", f"poet={poet}", "--use", "lawyer", "--prompt", "x"], ["no adapter is called 'lawyer'", "--use"]),
            (["--adapter", poet, "--adapter", f"poet={poet}", "--prompt", "x"], ["several adapters, one without a name"]),
            (["--adapter", f"po/et={poet}", "--prompt", "x"], ["'po/et' is no name for an adapter"]),
            (["--adapter", f"={poet}", "--prompt", "x"], ["'' is no name for an adapter"]),
            (["--adapter", f"po\u00ebt={poet}", "--prompt", "x"], ["is no name for an adapter"]),
            (["--adapter", "poet=", "--prompt", "x"], ["the adapter 'poet' has no folder"]),
            (["--adapter", f"poet={folder / 'nowhere'}", "--prompt", "x"], ["--adapter=", "no such folder"]),
            (["--adapter", "--prompt", "x"], ["--adapter has no value"])):
        text = said(*words)
        check(all(e in text for e in expected), f"{words}: {text}")
    odd = folder / "odd.jsonl"
    odd.write_text('{"prompt": "x", "adapter": 3}\n')
    text = said("--adapter", f"poet={poet}", "--prompts", odd)
    check('"adapter" is not a name' in text and f"{odd}:1" in text, text)
    # An adapter of another base, beside one that fits.
    other = folder / "other"
    shutil.copytree(poet, other)
    header, body = r.load_raw(other / "adapter_model.safetensors")
    name = sorted(n for n in header if "q_proj.lora_A" in n)[0]
    header[name]["shape"] = [header[name]["shape"][0] * 2, header[name]["shape"][1] // 2]
    r.save_raw(other / "adapter_model.safetensors", header, body)
    text = said("--adapter", f"poet={poet}", "--adapter", f"other={other}", "--use", "poet", "--prompt", "x")
    check(name in text and str(other) in text and "use the adapter with the base that it was trained on" in text, text)
    # '=' in the name of a folder that is there is no name.
    shutil.copytree(poet, folder / "lr=0.3")
    r.run("generate", "--model", model, "--max-new-tokens", 1, "--adapter", folder / "lr=0.3", "--prompt", "x")


if __name__ == "__main__":
    r.main(globals())
