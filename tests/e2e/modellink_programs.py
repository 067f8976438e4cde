"""ModelLink's programs that do not train, by their scripts: benchmarks in the folders of its page and its own words behind them, worked examples, the six tasks of its
demonstration, conversations, conversions, merged adapters. The page itself is walked elsewhere; here stand the corners of each."""
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from chat_model import chat_model
from eval import lines, table, write_lines
from ravine_run import check

LABEL = "AscendSpeed:"


def script(folder, program, *flags, more=(), status=0, typed=""):
    (folder / "run.sh").write_text(f"python -m torch.distributed.launch --nproc_per_node 1 {program} " + " ".join(map(str, flags)) + "\n")
    done = subprocess.run(r.command("megatron", "--script", "run.sh", *more), cwd=folder, input=typed, capture_output=True, text=True, timeout=r.LIMIT)
    check(status in (done.returncode, None), f"exit {done.returncode} instead of {status}: {program} {flags} {more}\n{done.stderr}")
    return done


def item(task, name):
    """A file of this task; `name` says which form."""
    rows = {"boolq": [{"passage": "Deep.", "question": "is it deep", "answer": True}], "gsm8k": [{"question": "1 + 1?", "answer": ["2"] if name.endswith(".json") else "Add.\n#### 2"}],
            "human_eval": [{"task_id": "HumanEval/0", "prompt": "def add(a, b):\n", "entry_point": "add", "test": "def check(f):\n    assert f(2, 3) == 5\n"}],
            "agieval": [{"passage": "", "question": "1?", "options": ["(A)1", "(B)2"], "label": "B", "answer": None}], "bbh": {"examples": [{"input": "1?", "target": "No"}]}}[task]
    return json.dumps(rows) if name.endswith(".json") else "".join(json.dumps(row) + "\n" for row in rows)


def test_a_benchmark_that_is_not_there(folder):
    """The folder is named that is not there, not a line of what lies where it should be."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    write_lines(folder / "data" / "books.jsonl", [{"text": "Once upon a time."}] * 3)
    for given, words in (("data", "(data/boolq)"), ("data/boolq", "no such folder (data/boolq)"), ("data/test", "no such folder (data/test)"), ("data/boolq/test", "no such folder (data/boolq/test)"),
                         ("bench/boolq", "no such folder (bench/boolq): --data holds a folder for each task; check the path: there is no bench")):
        said = script(folder, "evaluation_llama.py", "--task-data-path", given, "--task", "boolq", "--load", model, "--max-new-tokens", 1, status=2).stderr
        check(words in said.splitlines()[-1] and not said.splitlines()[-1].startswith("error: field"), f"{given}: {said}")


def test_sizes_of_another_model(folder):
    """Sizes of the flags are held against those of the model that is loaded, all at once, unless its own are asked for."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    own = json.loads((Path(model) / "config.json").read_text())
    wrong = ["--num-layers", own["num_hidden_layers"] + 1, "--ffn-hidden-size", 9 * own["intermediate_size"]]
    for program in (["inference_llama.py", "--task", "greedy"], ["evaluation_llama.py", "--task", "boolq", "--task-data-path", "nothing"]):
        said = script(folder, *program, "--load", model, *wrong, status=2).stderr
        check(all(w in said for w in ("num_layers of", "--num-layers is", "--ffn-hidden-size is", "ffn_hidden_size of")), said)
    right = ["--num-layers", own["num_hidden_layers"], "--hidden-size", own["hidden_size"], "--num-attention-heads", own["num_attention_heads"]]
    for flags in (right, [*wrong, "--use-checkpoint-args"]):
        script(folder, "inference_llama.py", "--task", "greedy", "--load", model, "--max-new-tokens", 1, *flags)


def test_benchmarks_in_the_folders_of_the_page(folder):
    """dataset/TASK/test and dataset/TASK, under several names; what is there to learn from is not asked."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    files = {"boolq": ["test/boolq.jsonl", "dev.jsonl"], "gsm8k": ["test/gsm8k.json", "test/test.jsonl", "test.jsonl"], "human_eval": ["test/human_eval.jsonl", "HumanEval.jsonl"],
             "agieval": ["test/sat-math.jsonl", "sat-math.jsonl"], "bbh": ["test/navigate.json", "navigate.json"]}
    places = [(task, name, given) for task, names in files.items() for name in names for given in ("test", "")]
    for i, (task, name, given) in enumerate(places):
        of = folder / f"d{i}" / "dataset" / task
        (of / name).parent.mkdir(parents=True, exist_ok=True)
        (of / name).write_text(item(task, name))
        (of / "train.jsonl").write_text("no question\n")
        done = script(folder / f"d{i}", "evaluation_llama.py", "--task-data-path", f"dataset/{task}/{given}".rstrip("/"), "--task", task, "--load", model, "--max-new-tokens", 2,
                      more=["--allow-code"] if task == "human_eval" else [], status=None)
        check(done.returncode == 0 or "no sandbox on this machine" in done.stderr, f"{task}, {name}: {done.stderr}")
        if done.returncode == 0:
            rows = lines(folder / f"d{i}" / f"eval-{task}" / f"samples_{task}.jsonl")
            check(len(rows) == 1, f"{task}, {name} asked by '{given}': {rows}")
            check(("no such folder; the data of" in done.stderr) == (given == "test" and "/" not in name), done.stderr)
    for task, header in (("mmlu", False), ("ceval", True)):
        split, subject, head = ("val", "law", [["id", "question", "A", "B", "C", "D", "answer", "explanation"]]) if header else ("test", "anatomy", [])
        row = lambda i: [*([i] if header else []), f"Bone {i}", "p", "q", "r", "s", "C", *(["so"] if header else [])]
        for name in (split, "dev"):
            table(folder / "dataset" / task / name / f"{subject}_{name}.csv", [*head, *(row(i) for i in range(5))])
        for given in (f"/{split}", "/test", ""):
            out = f"{task}{given.replace('/', '-')}"
            script(folder, "evaluation_llama.py", "--task-data-path", f"dataset/{task}{given}", "--task", task, "--load", model, "--max-new-tokens", 1, more=["--output", out, "--shots", 2, "--limit", 3])
            rows = lines(folder / out / f"samples_{task}.jsonl")
            check(len(rows) == 3 and rows[0]["prompt"].count("Bone") == 3, f"{out}: {rows[:1]}")


def test_splits_that_hold_no_questions(folder):
    """C-Eval's test split has no answers: that those of val are asked is said. A split under another name, a file in place of its folder."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    of = folder / "dataset" / "ceval"
    head = ["id", "question", "A", "B", "C", "D"]
    table(of / "val" / "law_val.csv", [[*head, "answer"], *([i, f"Bone {i}", "p", "q", "r", "s", "C"] for i in range(3))])
    table(of / "dev" / "law_dev.csv", [[*head, "answer", "explanation"], *([i, f"Bone {i}", "p", "q", "r", "s", "C", "so"] for i in range(5))])
    table(of / "test" / "law_test.csv", [head, *([i, f"Bone {i}", "p", "q", "r", "s"] for i in range(5))])
    (folder / "dataset" / "boolq").mkdir()
    (folder / "dataset" / "boolq" / "dev.jsonl").write_text(item("boolq", "dev.jsonl"))
    ask = lambda task, path, **more: script(folder, "evaluation_llama.py", "--task-data-path", path, "--task", task, "--load", model, "--max-new-tokens", 1, more=["--output", "out", "--overwrite"] if not more else [], **more)
    for given, notice in (("dataset/ceval/test", True), ("dataset/ceval/test/", True), ("dataset/ceval/val", False), ("dataset/ceval", False), ("dataset/ceval/validation", False)):
        done = ask("ceval", given)
        check(len(lines(folder / "out" / "samples_ceval.jsonl")) == 3 and ("those of val are asked" in done.stderr) == notice, f"{given}: {done.stderr}")
    check("the data of dataset/boolq are taken" in ask("boolq", "dataset/boolq/dev").stderr, "a folder of a split that is not there")
    said = ask("boolq", "dataset/boolq/dev.jsonl", status=2).stderr
    check("a file (dataset/boolq/dev.jsonl)" in said and "name the folder that it lies in, dataset/boolq" in said, said)


def test_of_several_folders_each_task_takes_its_own(folder):
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    for of, count in (("a/boolq/test", 2), ("b/gsm8k/test", 3)):
        task = of.split("/")[1]
        write_lines(folder / of / "rows.jsonl", [json.loads(item(task, "x.jsonl"))] * count)
    done = script(folder, "evaluation_gpt.py", "--task-data-path", "a/boolq/test", "b/gsm8k/test", "--task", "boolq", "gsm8k", "--load", model, "--max-new-tokens", 2)
    counts = {task: len(lines(folder / "eval-boolq,gsm8k" / f"samples_{task}.jsonl")) for task in ("boolq", "gsm8k")}
    check(counts == {"boolq": 2, "gsm8k": 3}, f"{counts}")
    check("gsm8k: worked examples are our own" in done.stderr + done.stdout, done.stderr)


def test_whose_worked_examples_are_shown(folder):
    """Those of --template, else of ModelLink's tree, else our own; the log says which, and the prompts hold them."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=4096)
    for task, name in (("gsm8k", "test.jsonl"), ("bbh", "navigate.json"), ("agieval", "sat-math.jsonl")):
        (folder / "dataset" / task).mkdir(parents=True)
        (folder / "dataset" / task / name).write_text(item(task, name))

    def prompts(out, *more):
        said = script(folder, "evaluation_llama.py", "--task-data-path", "dataset", "--task", "gsm8k", "bbh", "agieval", "--load", model, "--max-new-tokens", 2, more=["--output", out, *more])
        return said.stderr + said.stdout, {task: lines(folder / out / f"samples_{task}.jsonl")[0]["prompt"] for task in ("gsm8k", "bbh", "agieval")}

    said, own = prompts("own")
    check(all(f"{task}: worked examples are our own" in said for task in own), said)
    check(own["gsm8k"].count("The answer is") == 3 and own["bbh"].count("\nA:") == 4 and own["agieval"].count("Problem ") == 6, f"{own}")
    _, none = prompts("none", "--shots", 0)
    check(none["gsm8k"] == "1 + 1?" and all(own[task].endswith(none[task].lstrip()) for task in own), f"{none}")
    tree = folder / "tasks/evaluation/eval_impl/fewshot_template"
    tree.mkdir(parents=True)
    (tree / "gsm8k_3shot_template.json").write_text(json.dumps({"few_shot": "Q: Of the tree.\n\nA: The answer is 7."}))
    (tree / "AGI_fewshot.json").write_text(json.dumps({"sat-math": ["Of the tree.", "\nChoose:\n", "\nSay:"]}))
    said, there = prompts("tree")
    check("gsm8k: worked examples are tasks/evaluation/eval_impl/fewshot_template/gsm8k_3shot_template.json" in said and "bbh: worked examples are our own" in said, said)
    check(there["gsm8k"].startswith("Q: Of the tree.") and there["agieval"].startswith("Of the tree.") and there["bbh"] == own["bbh"], f"{there}")
    (folder / "mine.json").write_text(json.dumps({"gsm8k": {"few_shot": "Of mine."}, "template": "<{instruction}>"}))
    said, mine = prompts("mine", "--template", "mine.json")
    check("gsm8k: worked examples are mine.json" in said and mine["gsm8k"].startswith("<Of mine.") and mine["agieval"].startswith("<Of the tree."), f"{mine}")
    (folder / "dataset" / "bbh" / "riddles.json").write_text(item("bbh", "x.json"))
    said = script(folder, "evaluation_llama.py", "--task-data-path", "dataset", "--task", "bbh", "--load", model, more=["--output", "no"], status=2).stderr
    check("no few-shot text for bbh.riddles" in said and "--shots 0" in said, said)


def test_what_stands_around_a_question_as_a_text(folder):
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    (folder / "dataset/boolq/test").mkdir(parents=True)
    (folder / "dataset/boolq/test/test.jsonl").write_text(item("boolq", "test.jsonl"))
    flags = ["--task-data-path", "dataset/boolq/test", "--task", "boolq", "--load", model, "--max-new-tokens", 1]
    for template, begins in (("{instruction}", "Deep."), ("Read on. {instruction}", "Read on. Deep.")):
        script(folder, "evaluation_llama.py", *flags, more=["--template", template, "--overwrite"])
        prompt = lines(folder / "eval-boolq" / "samples_boolq.jsonl")[0]["prompt"]
        check(prompt.startswith(begins), prompt)
    check("--overwrite" in script(folder, "evaluation_llama.py", *flags, status=2).stderr, "another template is another evaluation")


def test_tasks_of_the_demonstration(folder):
    """All in order where none is named; beams keep ModelLink's rules, drawn ones are drawn by their seed at each step."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    flags = ["--load", model, "--max-new-tokens", 12, "--tensor-model-parallel-size", 2, "--pipeline-model-parallel-size", 1, "--seed", 3]
    ask = lambda *more, **options: script(folder, "tasks/inference/inference_llama.py", *flags, *more, **options)
    beams = ["generate", "--model", model, "--prompt", "how are you?", "--max-new-tokens", 12, "--beams", 2, "--top-k", 50, "--top-p", 0.95]
    drawn = [*beams, "--sample", "--temperature", 0.7, "--seed"]
    answers = {task: ask("--task", task).stdout for task in "12345"}
    check(answers["3"] == r.run(*beams, "--beam-rules", "modellink").stdout and answers["4"] == r.run(*drawn, 3).stdout, f"{answers}")
    check(r.run(*drawn, 4).stdout != answers["4"], "another seed draws another text")
    check(ask("--task", "4", more=["--seed", 4]).stdout == r.run(*drawn, 4).stdout, "--seed acts")
    done = ask(typed="Who?\nq\n")
    check(done.stdout.startswith("".join(answers.values())) and done.stdout.count(LABEL) == 1, done.stdout)
    check("parallel.tensor=2 is left out" in done.stderr, done.stderr)
    chosen = ask("--task", "3", "1")
    check(chosen.stdout == answers["3"] + answers["1"], chosen.stdout)
    printed = ask("--task", "1", "6", more=["--print-config"]).stdout.splitlines()
    check(len(printed) == 2 and "parallel.tensor=2" in printed[0] and " chat " in printed[1] and "parallel" not in printed[1], f"{printed}")


def test_tokens_that_end_an_answer(folder):
    """--add-eos-token ends an answer at its token; --tokenizer-kwargs are held against tokenizer_config.json."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    ask = lambda *more, program="tasks/inference/inference_llama.py", **options: script(folder, program, "--load", model, "--max-new-tokens", 12, "--task", "1", *more, **options)
    ids = json.loads(r.run("generate", "--model", model, "--prompt", "how are you?", "--max-new-tokens", 12, "--json").stdout)["ids"]
    vocabulary = {i: piece for piece, i in json.loads((model / "tokenizer.json").read_text())["model"]["vocab"].items()}
    third = next(i for i in ids[2:] if i in vocabulary and i not in ids[:2])
    ended = r.run("generate", "--model", model, "--prompt", "how are you?", "--max-new-tokens", 12, "--stop-ids", third).stdout
    whole = ask().stdout
    check(ask("--add-eos-token", shlex.quote(vocabulary[third])).stdout == ended != whole, f"{ended!r} and {whole!r}")
    check("no token 'nowhere'" in ask("--add-eos-token", "nowhere", status=2).stderr, "an unknown token")
    settings = json.loads((model / "tokenizer_config.json").read_text())
    eos = settings["eos_token"]
    check(ask("--tokenizer-kwargs", "eos_token", shlex.quote(eos), "pad_token", "any").stdout == whole, "the same is said twice")
    for more, says in ((["eos_token", shlex.quote(vocabulary[third])], f"has '{eos}' there"), (["eos_token"], "pairs"), (["use_fast", "x"], "tokenizer_config.json")):
        said = ask("--tokenizer-kwargs", *more, status=2).stderr
        check(says in said and "--tokenizer-kwargs" in said, said)
    (model / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in settings.items() if k != "eos_token"}))
    check(ask("--tokenizer-kwargs", "eos_token", shlex.quote(vocabulary[third])).stdout == ended, "a folder that names none")
    said = script(folder, "evaluation_llama.py", "--load", model, "--task", "boolq", "--task-data-path", "d", "--add-eos-token", "a", status=2).stderr
    check("--add-eos-token" in said and "evaluation programs" in said, said)


def test_tasks_of_the_demonstration_on_ranks(folder):
    """Each is done by the ranks, one behind the other, with the answers of one rank; chat alone is left out, and said once."""
    if not shutil.which("mpirun"):
        raise r.Skipped("no mpirun")
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    flags = ["--load", model, "--max-new-tokens", 8, "--tensor-model-parallel-size", 2, "--seed", 3]
    alone = script(folder, "inference_llama.py", *flags, "--task", "1", "3", "5")
    start = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", "2"]
    script(folder, "inference_llama.py", *flags, "--task", "1", "3", "5", "6", more=["--print-config"])
    done = subprocess.run([*start, *r.command("megatron", "--script", "run.sh")], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    texts = lambda out: re.sub(r'"logprob":[^}]*', "", out)
    check(done.returncode == 0 and texts(done.stdout) == texts(alone.stdout), f"{done.stdout}\n{alone.stdout}\n{done.stderr}")
    check(done.stderr.count("chat is left out") == 1 and done.stderr.count("command  ") == 3, done.stderr)


def test_conversations(folder):
    """ModelLink's words, its label, and its way of joining turns; any flag of ranks may stand beside."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    flags = ["--load", model, "--max-new-tokens", 6, "--tensor-model-parallel-size", 1, "--pipeline-model-parallel-size", 1, "--task", 6]
    talk = lambda typed, *more, program="inference_llama.py": script(folder, program, *flags, *more, more=["--top-k", 1], typed=typed).stdout
    for leave in ("q", "quit", " exit "):
        said = talk(f"Who?\nclear\nWho?\nnew\n\nWho?\n{leave}\nWho?\n")
        parts = said.split(LABEL)[1:]
        check(len(parts) == 3 and len({p.strip() for p in parts}) == 1, f"{leave}: {said}")
    # Without a word between them the second turn sees the first: both questions with nothing around them.
    first, second = (part.strip() for part in talk("Who?\nWhere?\n").split(LABEL)[1:])
    check("/help" in talk("/help\n") or LABEL in talk("/help\n"), "a line that begins with / is a turn")
    check(talk("Who?\n", program="inference_alpaca.py").split(LABEL)[1].strip() != first or second, "alpaca has a template of its own")
    named = script(folder, "inference_llama.py", *flags[:-1], "chat", more=["--top-k", 1], typed="Who?\n").stdout
    check("ModelLink:" in named and LABEL not in named, named)
    own = subprocess.run(r.command("chat", "--model", model, "--template", "empty", "--sample", "--top-k", 1, "--max-new-tokens", 6), input="Who?\n/reset\nq\n", capture_output=True, text=True, timeout=r.LIMIT)
    check(own.returncode == 0 and "ModelLink" not in own.stdout and own.stdout.strip().startswith(first), f"{own.stdout} {first}")


def save(folder):
    """A model in Hugging Face's form, with q, k, v of two groups."""
    config = r.save_config(folder / "config.json", vocab_size=512)
    (folder / "text.txt").write_text("The river runs below the ravine. " * 40)
    r.run("train", *r.settings({"model.config": config, "model.tokenizer": str(Path(__file__).resolve().parents[1] / "golden/tokenizer/llama"), "data.train": [str(folder / "text.txt")], "data.sequence_length": 32,
                                "train.steps": 3, "train.global_batch": 2, "schedule.warmup_steps": 0, "checkpoint.every": 0, "log.tensorboard": False, "train.threads": 1, "train.output": str(folder / "run")}))
    return folder / "run" / "model"


def test_util_in_all_its_spellings(folder):
    model = save(folder)
    want = r.load_tensors(model)
    util = lambda *flags, **options: script(folder, "tools/checkpoint/util.py", "--model-type", "GPT", *flags, **options)
    util("--loader", "llama2_hf", "--saver", "megatron", "--target-tensor-parallel-size", 2, "--target-pipeline-parallel-size", 2, "--load-dir", model, "--save-dir", "ranks",
         "--tokenizer-model", model / "tokenizer.model", "--max-queue-size", 50, "--w-pack", "True")
    check((folder / "ranks/release/mp_rank_01_001/model_optim_rng.pt").exists(), "two by two ranks")
    # Names of the program's time: those of megatron-core are asked for.
    check(b"post_attention_norm" in (folder / "ranks/release/mp_rank_00_000/model_optim_rng.pt").read_bytes(), "legacy names")
    util("--loader", "llama2_hf", "--saver", "megatron", "--load-dir", model, "--save-dir", "core", "--use-mcore-models")
    check(b"pre_mlp_layernorm" in (folder / "core/release/mp_rank_00/model_optim_rng.pt").read_bytes(), "names of megatron-core")
    shutil.copytree(model, folder / "original")
    check(util("--loader", "mixtral_hf", "--saver", "mixtral", "--load-dir", model, "--save-dir", "no", more=["--print-config"]).stdout.split("--to ")[1].startswith("megatron-mcore"), "a saver by the family's name")
    for loader in ("megatron", "loader_megatron"):
        util("--loader", loader, "--saver", "megatron", "--save-model-type", "save_huggingface_llama", "--load-dir", "ranks", "--save-dir", "original", "--target-tensor-parallel-size", 1)
        check(r.load_tensors(folder / "original/mg2hg") == want, f"{loader}: not the weights that the ranks were made of")
        shutil.rmtree(folder / "original/mg2hg")
    for flags, word in ((["--loader", "nonsense"], "unable to load this plugin"), (["--save-model-type", "save_huggingface_llama", "--target-tensor-parallel-size", 2], "one tensor rank"), (["--loader", "megatron"], "mp_rank")):
        said = util("--load-dir", model, "--save-dir", "no", *flags, status=2).stderr
        check(word in said and not (folder / "no").exists(), f"{flags}: {said}")


def test_sizes_that_a_conversion_is_told(folder):
    """Layers of each stage and the padding of the vocabulary are followed; sizes that contradict the model are refused."""
    model = Path(__file__).resolve().parents[1] / "golden" / "convert" / "hf"
    ckpt = lambda *flags, **options: script(folder, "tools/checkpoint/convert_ckpt.py", "--model-type", "GPT", "--loader", "llama2_hf", "--saver", "megatron", "--load-dir", model, *flags, **options)
    stages = ["--target-tensor-parallel-size", 1, "--target-pipeline-parallel-size", 2]
    for i, flags in enumerate((["--num-layer-list", "1,3"], ["--partition-layers", "3,1"])):
        ckpt(*stages, *flags, "--make-vocab-size-divisible-by", 5, "--save-dir", f"o{i}")
        files = sorted((folder / f"o{i}").rglob("model_optim_rng.pt"))
        check([len(set(re.findall(rb"layers\.(\d+)\.", f.read_bytes()))) for f in files] == ([1, 3], [3, 1])[i], f"{flags}")
        r.run("convert", "--input", folder / f"o{i}", "--output", folder / f"back{i}", "--to", "hf")
        check(r.load_tensors(folder / f"back{i}") == r.load_tensors(model), "not the weights that it was made of")
    rows = {n: sum(p.stat().st_size for p in (folder / n).rglob("*.pt")) for n in ("o0", "o1")}
    ckpt(*stages, "--num-layer-list", "1,3", "--save-dir", "padded")
    check(sum(p.stat().st_size for p in (folder / "padded").rglob("*.pt")) - rows["o0"] > 2 * 70 * 16, "50 rows, or 128")
    for flags, words in ((["--num-layer-list", "1,2,1"], ["--num-layer-list", "there are 2"]), (["--num-layers", 2], ["--num-layers", "is 4"]), (["--true-vocab-size", 40], ["--true-vocab-size", "--resize-vocab"]),
                         (["--added-token-num", 2], ["--added-token-num"]), (["--target-expert-parallel-size", 2], ["--target-expert-parallel-size", "leave it out"]), (["--make-vocab-size-divisible-by", 0], ["1 or more"])):
        said = ckpt(*stages, *flags, "--save-dir", "no", status=2).stderr
        check(all(word in said for word in words) and not (folder / "no").exists(), f"{flags}: {said}")
    script(folder, "tools/checkpoint/convert_ckpt.py", "--loader", "megatron", "--saver", "megatron", "--save-model-type", "save_huggingface_llama", "--load-dir", "o0", "--save-dir", "out", "--make-vocab-size-divisible-by", 5)
    said = script(folder, "tools/checkpoint/convert_ckpt.py", "--loader", "megatron", "--saver", "megatron", "--save-model-type", "save_huggingface_llama", "--load-dir", "o0", "--save-dir", "no", "--num-layer-list", "1,3", status=2).stderr
    check("have no stages" in said, said)


def test_rows_of_a_vocabulary_that_files_do_not_say(folder):
    """Arguments of Megatron's files rarely have them: then the flags count, and what stands behind is padding. Where they have them, another number is refused."""
    golden = Path(__file__).resolve().parents[1] / "golden" / "convert"
    (folder / "vocab.json").write_text(json.dumps({f"t{i}": i for i in range(46)}))
    ckpt = lambda load, out, *flags, **options: script(folder, "tools/checkpoint/convert_ckpt.py", "--model-type", "GPT", "--loader", "megatron", "--saver", "megatron", "--save-model-type", "save_huggingface_llama", "--load-dir", load, "--save-dir", out, *flags, **options)
    for i, (flags, rows) in enumerate(((["--true-vocab-size", 47], 47), (["--orig-vocab-size", 60], 60), (["--vocab-file", "vocab.json"], 46), (["--vocab-file", "vocab.json", "--true-vocab-size", 48], 48))):
        ckpt(golden / "mcore", f"o{i}", *flags)
        tensors = r.load_tensors(folder / f"o{i}/mg2hg")
        check(tensors["model.embed_tokens.weight"][1][0] == tensors["lm_head.weight"][1][0] == rows, f"{flags}: {tensors['model.embed_tokens.weight'][1]}")
        check(json.loads((folder / f"o{i}/mg2hg/config.json").read_text())["vocab_size"] == rows, f"{flags}")
    r.run("convert", "--input", golden / "mcore", "--output", folder / "own", "--to", "hf", "--vocab-size", 47)
    check(r.load_tensors(folder / "own") == r.load_tensors(folder / "o0/mg2hg"), "the option of our own")
    r.run("convert", "--input", golden / "hf", "--output", folder / "said", "--to", "megatron-mcore")
    (folder / "said/config.json").unlink()
    (folder / "nothing.json").write_text("[]")
    for load, flags, words in ((folder / "said", ["--orig-vocab-size", 47], "true_vocab_size"), (golden / "mcore", ["--true-vocab-size", 1000], "the embedding has"), (golden / "mcore", ["--vocab-file", "nothing.json"], "--true-vocab-size N"), (golden / "mcore", ["--orig-vocab-size", 0], "1 row or more")):
        said = ckpt(load, "no", *flags, status=2).stderr
        check((words in said or "say 50" in said) and not (folder / "no/mg2hg").exists(), f"{flags}: {said}")
    ckpt(folder / "said", "same", "--orig-vocab-size", 50)
    said = r.run("convert", "--input", golden / "hf", "--output", folder / "no", "--to", "megatron-mcore", "--vocab-size", 47, status=2).stderr
    check("--vocab-size 47" in said and "--resize-vocab" in said, said)


def test_the_tokenizer_of_the_flags_counts(folder):
    """It encodes the prompt there, whatever lies beside the weights; of the model's own folder nothing changes."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    r.run("tokenizer", "train", "--input", folder / "text.txt", "--output", folder / "other", "--vocab-size", 300)
    ask = lambda *flags: script(folder, "inference_llama.py", "--load", model, "--max-new-tokens", 6, "--task", 5, *flags)
    own = lambda *words: r.run("generate", "--model", model, "--prompt", "how are you?", "--max-new-tokens", 6, "--json", *words).stdout
    check(own() != own(f"model.tokenizer={folder / 'other'}"), "two tokenizers")
    check(ask("--tokenizer-name-or-path", "other").stdout == own(f"model.tokenizer={folder / 'other'}") and ask().stdout == own(), "the tokenizer of the flag")
    said = ask("--tokenizer-type", "PretrainedFromHF", "--tokenizer-name-or-path", model)
    check(said.stdout == own() and "--tokenizer-name-or-path" in said.stderr.split("no effect")[1], said.stderr)
    check("gone" in script(folder, "inference_llama.py", "--load", model, "--task", 1, "--tokenizer-name-or-path", "gone", status=None).stderr, "a folder that is not there")
    (folder / "dataset/boolq/test").mkdir(parents=True)
    (folder / "dataset/boolq/test/test.jsonl").write_text(item("boolq", "test.jsonl"))
    flags = ["--task-data-path", "dataset/boolq/test", "--task", "boolq", "--load", model, "--max-new-tokens", 1]
    for program, more, told in (("evaluation.py", [], True), ("evaluation.py", ["--no-chat-template"], False), ("evaluation_llama.py", [], False), ("evaluation.py", ["--tokenizer-name-or-path", "other"], False)):
        said = script(folder, program, *flags, *more, more=["--overwrite"]).stderr
        check(("without the model's chat template" in said) == told, f"{program} {more}: {said}")


def test_the_engine_says_the_arithmetic(folder):
    """--deepspeed holds the weights in f16, or as its file says; --fp16 and --bf16 count over it."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    (folder / "bf16.json").write_text('{"bf16": {"enabled": true}}')
    (folder / "f32.json").write_text('{"fp16": {"enabled": false}}')
    ask = lambda *flags: script(folder, "inference_llama.py", "--load", model, "--max-new-tokens", 6, "--task", 5, *flags).stdout
    own = {t: r.run("generate", "--model", model, "--prompt", "how are you?", "--max-new-tokens", 6, "--json", f"precision.compute={t}").stdout for t in ("f32", "bf16", "f16")}
    check(len(set(own.values())) == 3, f"{own}")
    for flags, of in (([], "f32"), (["--deepspeed"], "f16"), (["--deepspeed", "--deepspeed_config", "bf16.json"], "bf16"), (["--deepspeed", "--deepspeed_config", "f32.json"], "f32"), (["--deepspeed_config", "bf16.json"], "f32"),
                      (["--deepspeed", "--bf16"], "bf16")):
        check(ask(*flags) == own[of], f"{flags}: not {of}")


def test_what_only_training_uses(folder):
    """A flag of training says so in the programs that do not train, also where training has no use of it here."""
    model = chat_model(folder, vocab_size=440, max_position_embeddings=1024)
    said = script(folder, "inference_llama.py", "--load", model, "--task", 1, "--rampup-batch-size 16 16 300 --num-workers 4 --use-kv-cache --tokenizer-not-use-fast --distributed-backend nccl", more=["--explain"]).stdout
    rows = {x["key"]: x["reason"] for x in map(json.loads, said.splitlines())}
    check(rows["--rampup-batch-size"] == rows["--num-workers"] == "only training has a use of it", f"{rows}")
    check("ModelLink" in rows["--use-kv-cache"] and "ids" in rows["--tokenizer-not-use-fast"] and "MPI" in rows["--distributed-backend"], f"{rows}")


def test_a_folder_of_deepspeed(folder):
    """--deepspeed leaves what ModelLink's ZeRO branch reads; it goes back, answers, and is what a run begins from."""
    model = save(folder)
    convert = "tools/ckpt_convert/llama/convert_weights_from_huggingface.py"
    for ranks in (1, 2):
        out = f"deepspeed{ranks}"
        script(folder, convert, "--input-model-dir", model, "--output-model-dir", out, "--type", "7B", "--tensor-model-parallel-size", ranks, "--deepspeed")
        files = sorted(str(p.relative_to(folder / out)) for p in (folder / out).rglob("*.pt"))
        check((folder / out / "latest").read_text() == "release" and files == [f"release/mp_rank_{i:02}_model_states.pt" for i in range(ranks)], f"{files}")
        r.run("convert", "--input", folder / out, "--output", folder / f"{out}-back", "--to", "hf")
        check(r.load_tensors(folder / f"{out}-back") == r.load_tensors(model), f"{out}: not the weights that it was made of")
        answer = [r.run("generate", "--model", m, "--prompt", "The river", "--max-new-tokens", 6).stdout for m in (model, folder / out)]
        check(answer[0] == answer[1], f"{answer}")
    said = script(folder, convert, "--input-model-dir", model, "--output-model-dir", "no", "--pipeline-model-parallel-size", 2, "--deepspeed", status=2).stderr
    check("no stages" in said, said)


def adapters(folder, model, base, name, *more):
    """A run that trains adapters beside `base`, by the flags of a script."""
    write_lines(folder / "text.jsonl", [{"text": "The river runs below the ravine. " * 6}] * 20)
    if not (folder / "text_text_document.bin").exists():
        r.run("preprocess", "--input", folder / "text.jsonl", "--tokenizer", model, "--output-prefix", folder / "text", "--append-eod")
    return script(folder, "pretrain_gpt.py", "--num-layers 2 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 4 --group-query-attention --num-query-groups 2 --seq-length 32",
                  "--max-position-embeddings 64 --position-embedding-type rope --normalization RMSNorm --norm-epsilon 1e-5 --swiglu --disable-bias-linear --untie-embeddings-and-output-weights",
                  "--attention-dropout 0 --hidden-dropout 0 --padded-vocab-size 512 --tokenizer-type PretrainedFromHF --tokenizer-name-or-path", model, "--data-path text_text_document --split 100,0,0",
                  "--micro-batch-size 2 --global-batch-size 4 --lr 1e-2 --lr-decay-style constant --log-interval 1 --eval-iters 0 --finetune --lora-r 4 --lora-alpha 8",
                  "--lora-target-modules query_key_value dense gate_proj dense_h_to_4h dense_4h_to_h --load", base, *(["--save", name, "--save-interval 2"] if name else []), *more, more=["train.threads=1"])


def newest(output):
    return sorted((output / "checkpoints").glob("step_*"))[-1]


def test_adapters_beside_folders_of_ranks(folder):
    """Their checkpoints hold adapters alone, go on as one run, become a model, and refuse another base."""
    model = save(folder)
    script(folder, "convert_weights_from_huggingface.py", "--input-model-dir", model, "--output-model-dir", "ranks", "--tensor-model-parallel-size", 2)
    adapters(folder, model, "ranks", "whole", "--train-iters 4")
    check("--save is not given" not in adapters(folder, model, "ranks", None, "--train-iters 1").stderr, "nothing is there yet")
    try:
        adapters(folder, model, "ranks", None, "--train-iters 1")
    except AssertionError as said:
        check("runs/default, which holds an earlier one: name a folder by --save" in str(said), str(said))
    names = list(r.load_tensors(newest(folder / "whole")))
    check(names and all("lora" in n for n in names), f"of the base: {[n for n in names if 'lora' not in n]}")
    adapters(folder, model, "ranks", "parts", "--train-iters 2")
    adapters(folder, model, "ranks", "parts", "--train-iters 4")
    a, b = (r.metrics(folder / name)[4]["loss"] for name in ("whole", "parts"))
    check(a == b, f"a run in two parts: {b} instead of {a}")
    r.run("train", *r.settings({"model.config": str(folder / "config.json"), "data.train": [str(folder / "text.txt")], "model.tokenizer": str(model), "train.seed": 9, "data.sequence_length": 32, "train.steps": 1, "train.global_batch": 2,
                                "schedule.warmup_steps": 0, "log.tensorboard": False, "train.output": str(folder / "other/run")}))
    shutil.move(folder / "ranks", folder / "kept")
    script(folder, "convert_weights_from_huggingface.py", "--input-model-dir", "other/run/model", "--output-model-dir", "ranks", "--tensor-model-parallel-size", 2)
    try:
        adapters(folder, model, "ranks", "parts", "--train-iters 6")
    except AssertionError as said:
        check("other weights than when this run began" in str(said), str(said))
    else:
        check(False, "another base is taken in silence")


def test_an_adapter_is_merged(folder):
    """merge_lora.py: of folders of ranks come such, of a Hugging Face folder one; both answer as base and adapter do."""
    model = save(folder)
    script(folder, "convert_weights_from_huggingface.py", "--input-model-dir", model, "--output-model-dir", "ranks", "--tensor-model-parallel-size", 2)
    adapters(folder, model, "ranks", "lora", "--train-iters 4")
    ask = lambda *words: r.run("generate", "--prompt", "The river", "--max-new-tokens", 8, *words, cwd=folder).stdout
    want = ask("--model", model, "--adapter", "lora/adapter")
    check(want != ask("--model", model), "the adapter changes the answer")
    merge = lambda *flags, **options: script(folder, "tools/lora/merge_lora.py", "--num-layers 2 --lora-r 4 --lora-alpha 8 --lora-target-modules query_key_value --no-load-rng", *flags, **options)
    # Other numbers than the adapter's own, and sizes that are not the model's, are no matter of taste.
    for load, adapter, flags, words in (("ranks", "lora", "--lora-alpha 16", ["--lora-alpha is 16", "lora_alpha", "is 8"]), (model, "lora/adapter", "--lora-r 2", ["--lora-r is 2", "is 4"]),
                                        (model, "lora/adapter", "--hidden-size 64", ["--hidden-size is 64", "hidden_size", "is 32"])):
        said = merge("--load", load, "--lora-load", adapter, "--save", "no", flags, status=2).stderr
        check(all(w in said for w in words) and not (folder / "no").exists(), said)
    merge("--load", "ranks", "--lora-load", "lora", "--save", "merged", "--tensor-model-parallel-size", 2)
    check((folder / "merged/release/mp_rank_01/model_optim_rng.pt").exists() and ask("--model", "merged") == want, "the ranks of the merged model")
    merge("--load", model, "--lora-load", "lora/adapter", "--save", "merged-hf", "--tensor-model-parallel-size", 2)
    check((folder / "merged-hf/config.json").exists() and ask("--model", "merged-hf") == want, "the folder of the merged model")
    for i, (load, adapter) in enumerate((("ranks", "lora"), (model, "lora/adapter"))):
        for flag, type in (("--bf16", "BF16"), ("--fp16", "F16")):
            merge("--load", load, "--lora-load", adapter, "--save", f"{i}{type}", flag)
            r.run("convert", "--input", folder / f"{i}{type}", "--output", folder / f"{i}{type}-hf", "--to", "hf")
            kinds = {kind for kind, _, _ in r.load_tensors(folder / f"{i}{type}-hf").values()}
            check(kinds == {type}, f"{load} {flag}: {kinds}")
    foreign = Path(__file__).resolve().parents[1] / "golden" / "megatron_lora" / "joined"  # r 3, alpha 12, by its arguments
    for flags, words in (("--lora-alpha 5", "--lora-alpha is 5, and lora_alpha of"), ("--lora-r 2", "--lora-r is 2, and lora_r of")):
        said = script(folder, "tools/checkpoint/util.py", "--model-type GPT --loader llama2_hf --saver megatron --load-dir", model, "--lora-load", foreign, "--save-dir no", flags, status=2).stderr
        check(words in said and "model_optim_rng.pt" in said and not (folder / "no").exists(), said)
    said = merge("--load", model, "--save", "no", status=2).stderr
    check("--lora-load is not given" in said and not (folder / "no").exists(), said)
    script(folder, "tools/checkpoint/util.py", "--model-type GPT --loader megatron --saver megatron --save-model-type save_huggingface_llama --load-dir ranks --lora-load lora/adapter --save-dir export")
    check(ask("--model", "export/mg2hg") == want, "merged on the way")


if __name__ == "__main__":
    r.main(globals())
