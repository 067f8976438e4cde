"""`ravine check data`: each check is red on a planted fault and silent on clean data, of every source; two streams part at the first token that differs."""
import json
import random

import ravine_run as r
from ravine_run import check


def ids_of(rows, columns, seed=1, vocabulary=250):
    draw = random.Random(seed)
    return [[draw.randrange(3, vocabulary) for _ in range(columns)] for _ in range(rows)]


def records(path, rows, labels=None):
    path.write_text("".join(json.dumps({"input_ids": ids, **({"labels": labels(ids)} if labels else {})}) + "\n" for ids in rows))
    return path


def batches(path, rows):
    return r.save_tensors(path, {"input_ids": ("I32", (len(rows), len(rows[0])), [i for row in rows for i in row])})


def ask(*words, status=0):
    answer = json.loads(r.run("check", "data", *words, "--json", status=status).stdout)
    check(answer["agrees"] == (status == 0) == (not answer["findings"]), f"{answer}")
    return answer


def found(answer, name, source=0):
    return next(f for f in answer["sources"][source]["checks"] if f["check"] == name)


def run_yaml(folder, data, name="run.yaml", **model):
    r.save_config(folder / f"{name}.json", **model)
    (folder / name).write_text(f"model: {{config: {folder / (name + '.json')}}}\ndata: {{train: [{data}], sequence_length: 16, shuffle: false}}\ntrain: {{steps: 2, global_batch: 2}}\nschedule: {{warmup_steps: 1}}\n")
    return folder / name


def test_one_stream_in_every_form(folder):
    """The same rows as records, arrays, MindRecord, fixed batches and the samples of a run: no two part, and a changed token is found in its row and column."""
    rows = ids_of(12, 16)
    r.save_mindrecord(folder / "a.mindrecord", rows)
    sources = {"records": records(folder / "a.jsonl", rows), "batches": batches(folder / "a.safetensors", rows), "mindrecord": folder / "a.mindrecord"}
    sources["run"] = run_yaml(folder, sources["batches"])
    names = list(sources)
    for a, b in zip(names, names[1:] + names[:1]):
        answer = ask(sources[a], sources[b])
        check(answer["streams"] == {"equal_tokens": 192, "a_ended": True, "b_ended": True}, f"{a}, {b}: {answer['streams']}")
    rows[7][5] += 1
    changed = records(folder / "b.jsonl", rows)
    for name, source in sources.items():
        split = ask(source, changed, status=1)["streams"]
        check(split["equal_tokens"] == 7 * 16 + 5 and split["row_a"] == split["row_b"] == 7 and "column 5" in split["place_b"], f"{name}: {split}")
        check(split["text_a"] != split["text_b"], f"{split}")
    short = records(folder / "c.jsonl", ids_of(4, 16))
    check(ask(short, sources["records"])["streams"] == {"equal_tokens": 64, "a_ended": True, "b_ended": False}, "a stream that is the beginning of another")


def test_token_files_and_dumps(folder):
    """Megatron's token files against the text, and the ids that a dump has recorded against the samples of its run."""
    r.save_text(folder / "book.txt", 2000, 1)
    (folder / "book.jsonl").write_text("".join(json.dumps({"text": part}) + "\n" for part in (folder / "book.txt").read_text().split("\n\n") if part))
    r.run("tokenizer", "train", "--input", folder / "book.txt", "--output", folder / "tokenizer", "--vocab-size", 300)
    r.run("preprocess", "--input", folder / "book.jsonl", "--tokenizer", folder / "tokenizer", "--output-prefix", folder / "book", cwd=folder)
    answer = ask(folder / "book_text_document", folder / "book.jsonl", "--tokenizer", folder / "tokenizer")
    check(answer["streams"]["a_ended"] and answer["streams"]["b_ended"], f"{answer['streams']}")
    check(any(word in answer["sources"][0]["samples"][0]["text"] for word in (folder / "book.txt").read_text().split()[:400]), f"{answer['sources'][0]['samples']}")
    data = batches(folder / "ids.safetensors", ids_of(8, 16))
    config = run_yaml(folder, data)
    r.run("train", "--config", config, f"train.output={folder / 'run'}", f"probe.dump={{dir: {folder / 'dump'}, paths: [model.embed_tokens], what: tensors}}", "log.tensorboard=false")
    answer = ask(folder / "dump", config)
    check(answer["streams"]["equal_tokens"] == 2 * 2 * 16 and answer["streams"]["a_ended"], f"{answer['streams']}")


def test_ids_beyond_the_vocabulary(folder):
    rows = ids_of(12, 16, vocabulary=90)
    data = batches(folder / "ids.safetensors", rows)
    check(found(ask(run_yaml(folder, data, vocab_size=90)), "ids")["kept"] is True, "ids below the vocabulary")
    rows[3][2] = 99
    data = batches(folder / "ids.safetensors", rows)
    said = found(ask(run_yaml(folder, data, vocab_size=90), status=1), "ids")
    check(said["kept"] is False and "id 99 at column 2" in said["text"] and "sample 3" in said["text"], f"{said}")


def test_labels(folder):
    rows = ids_of(12, 16)
    for labels, kept, words in ((lambda ids: list(ids), True, "its own column"), (lambda ids: ids[1:] + [-100], False, "the next token"), (lambda ids: ids[2:] + [-100, -100], False, "after the next"),
                                (lambda ids: ids[::-1], False, "no token nearby")):
        said = found(ask(records(folder / "a.jsonl", rows, labels), status=0 if kept else 1), "labels")
        check(said["kept"] is kept and words in said["text"], f"{said}")
    said = found(ask(run_yaml(folder, batches(folder / "ids.safetensors", rows))), "labels")
    check(said["kept"] is True and "the next token" in said["text"], f"{said}")


def test_duplicates_and_samples(folder):
    rows = ids_of(30, 16)
    source = records(folder / "a.jsonl", rows)
    first, again, other = (ask(source, "--samples", 5, "--seed", seed)["sources"][0]["samples"] for seed in (1, 1, 2))
    check(first == again and first != other and len(first) == 5, f"{first}")
    check(first[0]["text"] == " ".join(map(str, rows[first[0]["row"]])), f"{first[0]}")
    said = found(ask(records(folder / "b.jsonl", rows + rows[4:6]), status=1), "duplicates")
    check(said["kept"] is False and "2 of 32" in said["text"] and "b.jsonl:31 repeats" in said["text"] and "b.jsonl:5" in said["text"], f"{said}")


def chats(folder, template):
    """A tokenizer with a template, and alpaca records."""
    r.save_text(folder / "book.txt", 2000, 1)
    if not (folder / "tokenizer").exists():
        r.run("tokenizer", "train", "--input", folder / "book.txt", "--output", folder / "tokenizer", "--vocab-size", 300)
    (folder / "chat.jsonl").write_text("".join(json.dumps({"instruction": f"What is {i}?", "input": "", "output": f"{i} is a number."}) + "\n" for i in range(12)))
    (folder / "tokenizer" / "chat_template.jinja").write_text(template)


CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def test_templates_and_special_ids(folder):
    chats(folder, CHATML)
    r.save_config(folder / "model.json", vocab_size=300, max_position_embeddings=256, eos_token_id=2, bos_token_id=1)

    def text(**model):
        r.save_config(folder / "model.json", vocab_size=300, max_position_embeddings=256, **model)
        return f"model: {{config: {folder / 'model.json'}, tokenizer: {folder / 'tokenizer'}}}\ndata: {{train: [{folder / 'chat.jsonl'}], sequence_length: 192, chat_template: TEMPLATE, pack: false}}\ntrain: {{steps: 2, global_batch: 2}}\nschedule: {{warmup_steps: 1}}\n"
    info = json.loads((folder / "tokenizer" / "tokenizer_config.json").read_text()) if (folder / "tokenizer" / "tokenizer_config.json").exists() else {}
    (folder / "same.yaml").write_text(text().replace(", chat_template: TEMPLATE", ""))
    said = found(ask(folder / "same.yaml"), "template")
    check(said["kept"] is True, f"{said} {info}")
    (folder / "other.yaml").write_text(text().replace("TEMPLATE", "alpaca"))
    said = found(ask(folder / "other.yaml", status=1), "template")
    check(said["kept"] is False and " differs: the training has" in said["text"] and "<|im_start|>" in said["text"] and "Below is an instruction" in said["text"], f"{said}")
    (folder / "ids.yaml").write_text(text(eos_token_id=77).replace(", chat_template: TEMPLATE", ""))
    said = found(ask(folder / "ids.yaml", status=1), "special ids")
    check(said["kept"] is False and "77 in the model" in said["text"], f"{said}")


def test_mistakes(folder):
    for words, said in (([folder / "none.jsonl"], "not there"), ([records(folder / "a.jsonl", ids_of(2, 4))] * 3, "one is checked")):
        done = r.run("check", "data", *words, status=2)
        check(said in done.stderr, done.stderr)
    (folder / "text.jsonl").write_text(json.dumps({"text": "hello"}) + "\n")
    check("--tokenizer" in r.run("check", "data", folder / "text.jsonl", status=2).stderr, "no fix is named")


if __name__ == "__main__":
    r.main(globals())
