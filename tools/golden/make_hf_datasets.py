"""What load_dataset of Hugging Face's `datasets` gives for small local folders: tests/golden/hf_datasets.json, and the folders that only the library can write in
tests/golden/hf_datasets/. Needs datasets (5.2.0 made the recorded ones): python3 tools/golden/make_hf_datasets.py"""
import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
import datasets  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
datasets.disable_progress_bars()


def lines(word, count):
    return "".join(json.dumps({"id": i, "text": f"{word} {i}"}) + "\n" for i in range(count))


CARD = """---
license: mit
configs:
- config_name: en
  data_files:
  - split: train
    path: en/part-*.jsonl
  - split: test
    path: en/held.jsonl
  default: true
- config_name: de
  data_files: de/*.jsonl
- config_name: fr
  data_dir: fr
---
A card.
"""
TREES = {
    "names": {"train.jsonl": lines("train", 7), "test.jsonl": lines("test", 3), "valid-0.jsonl": lines("valid", 2), "README.md": "No configs.\n"},
    "sharded": {"data/train-00000-of-00002.jsonl": lines("a", 5), "data/train-00001-of-00002.jsonl": lines("b", 6), "data/test-00000-of-00001.jsonl": lines("t", 2), "data/extra.jsonl": lines("x", 9)},
    "folders": {"train/b.jsonl": lines("b", 2), "train/a.jsonl": lines("a", 3), "eval/c.jsonl": lines("c", 4)},
    "plain": {"one.jsonl": lines("one", 3), "two.jsonl": lines("two", 2), "notes.txt": "not this\n", "__pycache__/three.jsonl": lines("three", 5), ".hidden.jsonl": lines("hidden", 5)},
    "words": {"my_train_set.jsonl": lines("my", 2), "trainer.jsonl": lines("trainer", 5), "contest.jsonl": lines("contest", 5), "x.dev.jsonl": lines("dev", 2)},
    "card": {"README.md": CARD, "en/part-0.jsonl": lines("en0", 4), "en/part-1.jsonl": lines("en1", 3), "en/held.jsonl": lines("held", 2), "de/a.jsonl": lines("de", 3), "fr/train.jsonl": lines("fr", 2), "fr/test.jsonl": lines("frt", 1)},
    "field": {"book.json": json.dumps({"version": 1, "note": {"text": ["]", "\\\""]}, "data": [{"text": f"in {i}"} for i in range(5)], "more": []})},
    "kinds": {"a.csv": "id,text\n1,one\n2,two\n", "b.csv": "id,text\n3,three\n", "c.jsonl": lines("json", 2)},
    "deep": {"x/y/train/a.jsonl": lines("a", 2), "x/y/test/b.jsonl": lines("b", 2)},
    "texts": {"a.txt": "first\nsecond\n", "b.txt": "third\n"},
}
CASES = [("names", {}), ("names", {"split": "test"}), ("names", {"split": "validation"}), ("names", {"split": "train[:50%]"}), ("names", {"split": "train[2:4]+test[-2:]"}),
         ("names", {"split": "train[30%:-1]"}), ("names", {"split": "train[25%:75%]"}), ("names", {"split": "train[100:]"}), ("names", {"split": "valid"}), ("names", {"split": "train[:-30%]"}),
         ("names", {"name": "en"}), ("names", {"data_files": "t*.jsonl"}), ("names", {"data_files": {"train": "test.jsonl", "test": ["train.jsonl"]}}), ("names", {"data_files": "none.jsonl"}),
         ("sharded", {}), ("sharded", {"split": "test"}), ("sharded", {"split": "train[4:7]"}), ("folders", {}), ("folders", {"split": "test"}), ("folders", {"data_dir": "train"}),
         ("plain", {}), ("words", {}), ("words", {"split": "validation"}), ("card", {}), ("card", {"split": "test"}), ("card", {"name": "de"}), ("card", {"name": "fr"}), ("card", {"name": "it"}),
         ("card", {"data_files": "en/held.jsonl"}), ("field", {"field": "data"}), ("field", {"field": "none"}), ("kinds", {}), ("deep", {}), ("deep", {"split": "test"}), ("texts", {}),
         ("plain", {"data_files": ["two.jsonl", "one.jsonl"]}), ("plain", {"data_files": "**/*.jsonl"})]
SAVED = [("saved", {}), ("dict", {}), ("dict", {"split": "test"}), ("dict", {"split": "train[1:]"}), ("cache", {"name": "en"}), ("cache", {"name": "en", "split": "test"})]


def rows(path, arguments, cache):
    """The texts, in order; None: the library refuses."""
    try:
        found = datasets.load_dataset(path, cache_dir=cache, **{"split": "train", **arguments})
        return [r["text"] for r in found]
    except Exception as e:
        print(f"  refused: {type(e).__name__}: {str(e)[:100]}", file=sys.stderr)
        return None


def main():
    out, kept = [], ROOT / "hf_datasets"
    shutil.rmtree(kept, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, files in TREES.items():
            for file, text in files.items():
                (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / name / file).write_text(text)
        for number, (name, arguments) in enumerate(CASES):
            print(name, arguments, file=sys.stderr)
            out.append({"tree": name, "arguments": arguments, "rows": rows(str(folder / name), arguments, folder / f"cache{number}")})
        table = lambda word, count: datasets.Dataset.from_list([{"id": i, "text": f"{word} {i}"} for i in range(count)])
        table("saved", 5).save_to_disk(kept / "saved", num_shards=2)
        datasets.DatasetDict(train=table("train", 4), test=table("test", 2)).save_to_disk(kept / "dict")
        made = folder / "prepared"
        for split, count in (("train", 3), ("test", 2)):
            (made / "en").mkdir(parents=True, exist_ok=True)
            (made / "en" / f"{split}.jsonl").write_text(lines(f"cached {split}", count))
        datasets.load_dataset(str(made / "en"), cache_dir=folder / "own")
        at = next((folder / "own").glob("*/*/*/*/dataset_info.json")).parent
        (kept / "cache" / "en").mkdir(parents=True)
        shutil.copytree(at, kept / "cache" / "en" / "0.0.0" / "0123456789abcdef", ignore=shutil.ignore_patterns("*.lock"))
        info = kept / "cache" / "en" / "0.0.0" / "0123456789abcdef" / "dataset_info.json"
        info.write_text(json.dumps({k: v for k, v in json.loads(info.read_text()).items() if k in ("builder_name", "dataset_name", "config_name", "splits")}).replace(str(folder), ""))
        for name, arguments in SAVED:  # load_from_disk, and the table of the cache, are the truth here
            split = arguments.get("split", "train")
            whole = {"saved": lambda: datasets.load_from_disk(kept / "saved"), "dict": lambda: datasets.load_from_disk(kept / "dict")[split.split("[")[0]],
                     "cache": lambda: datasets.load_dataset(str(made / "en"), cache_dir=folder / "own", split=split)}[name]()
            texts = [r["text"] for r in whole]
            out.append({"tree": name, "arguments": arguments, "rows": texts[1:] if "[1:]" in split else texts})
    (ROOT / "hf_datasets.json").write_text(json.dumps({"made_by": f"datasets {datasets.__version__}", "trees": TREES, "cases": out}, indent=0, ensure_ascii=False) + "\n")


main()
