"""Every command block of README.md, README.zh-CN.md, docs/howto and docs/zh runs, on small files under the names that the pages use.

A page has a folder of its own, where its blocks run one after the other by bash; what one block writes the next ones find. `NOT_RUN` lists the only lines
that are left out, with the reason, and `STAND_INS` the only words that are replaced. Runs are shortened by `SHORTER`, jobs have as few ranks as their layout needs (`put_wrappers`), nothing else is touched:
a flag, option, file or value that the program refuses fails the test. Blocks of YAML are trained with, instruction data in JSON is shown. A Chinese block that is
the English one apart from comments runs once.
"""
import functools
import json
import os
import re
import shutil
import struct
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ravine_run as r

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "convert"
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs" / "howto").glob("*.md")), *sorted((ROOT / "docs" / "zh").glob("*.md"))]

# Lines that begin so are left out.
NOT_RUN = {
    "scripts/demo": "installs packages and trains for minutes",
    "scripts/install": "installs",
    "pipx install": "installs, from the network",
    "docker build": "needs docker and the network",
    "ravine serve": "runs until it is stopped; tests/e2e/serve.py starts it as these lines do",
    "curl": "asks a server",
}

# (page, words there, words that run): what cannot be had in a test.
STAND_INS = [
    ("convert.md", "step_000100", "step_000001"),             # a run of one step
    ("instruction-data.md", "chats.parquet", "chats.jsonl"),  # a build may be without parquet
    ("tokenizers.md", "[15496,995]", "[5,6]"),                # ids of GPT-2, whose tokenizer has more of them
]

# Lines that begin so end with another status than 0, as their page says.
STATUS = {"ravine check determinism --config run.yaml --inject": 1, "ravine compare dumps/moved dumps/origin": 1, "ravine compare dumps/moved-1 dumps/origin": 1,
          "ravine check config run.yaml pretrain_llama.sh": 1,
          "ravine bisect run.yaml other.yaml": 1}

# Options put behind those of a page, by command: few and small steps, one thread.
SHORTER = {
    "train": "train.steps=2 schedule.steps=0 schedule.warmup_steps=0 train.global_batch=4 train.micro_batch=1 train.valid_batches=1 train.threads=1 log.tensorboard=false",
    "check determinism": "--steps 2 train.threads=1 data.sequence_length=16",
    "check layouts": "--steps 2 train.threads=1 data.sequence_length=16",
    "data index": "--samples 200,20,",
}

TINY = dict(num_hidden_layers=4, hidden_size=16, intermediate_size=32, vocab_size=400, max_position_embeddings=2048)
WORDS = r"ravine|\$ravine|\S*/ravine|scripts/\S+|mpirun|srun|docker|pipx|pip|apt|sudo|echo|printf|cat|python3?|make|cmake"
COMMAND = re.compile(rf"^(?:\$ )?(?:\w+=\S+ +)*(?:{WORDS})(?: |$)", re.M)


class Block:
    def __init__(self, page, line, language, text):
        self.page, self.line, self.language, self.text = page, line, language, text

    def __str__(self):
        return f"{self.page.name if self.page.parent.name != 'zh' else 'zh/' + self.page.name}:{self.line}"

    def is_commands(self):
        return self.language in ("sh", "bash", "shell", "console") or (self.language == "" and bool(COMMAND.search(self.text)))

    def code(self):
        """The lines to run: behind `$ ` where there are such, since the others are what is printed."""
        lines = self.text.split("\n")
        if any(x.startswith("$ ") for x in lines):
            lines = [x[2:] for x in lines if x.startswith("$ ")]
        return "\n".join(lines)

    def bare(self):
        return "\n".join(re.sub(r"(^|\s)#.*$", "", x).rstrip() for x in self.code().split("\n"))


def blocks_of(page, text):
    """Fenced blocks, and blocks indented by four spaces behind an empty line."""
    out, lines, i = [], text.split("\n"), 0
    while i < len(lines):
        fence = re.fullmatch(r"( *)(`{3,})(\w*) *", lines[i])
        end = i
        if fence:
            end = next(j for j in range(i + 1, len(lines)) if lines[j].strip() == fence[2])
            out.append(Block(page, i + 1, fence[3], "\n".join(x[len(fence[1]):] for x in lines[i + 1:end])))
        elif lines[i].startswith("    ") and lines[i].strip() and (i == 0 or not lines[i - 1].strip()):
            while end + 1 < len(lines) and (lines[end + 1].startswith("    ") or not lines[end + 1].strip()):
                end += 1
            out.append(Block(page, i + 1, "", "\n".join(x[4:] for x in lines[i:end + 1]).rstrip()))
        i = end + 1
    return out


# In the short tier a job of ranks is one process: its options of layout are read, the rest of the command runs without them. A command that one rank refuses has its
# options read (check layouts) or ranks all the same (megatron, mindformers). Jobs of ranks are those of other tests.
ONE_RANK = """#!/bin/bash
[ "$1" = -n ] || { echo "mpirun: -n first" >&2; exit 2; }
case "$4" in megatron|mindformers) exec {ranks};; esac
shift 2; layout=(); rest=()
for a; do case "$a" in parallel.*) layout+=("$a");; *) rest+=("$a");; esac; done
[ "$2 $3" = "check layouts" ] && exec ravine config "${@:4}"
ravine config "${layout[@]}" > /dev/null && exec "${rest[@]}"
"""


def put_wrappers(folder):
    """Programs of the pages as this test has them: the built ravine with SHORTER, mpirun with the ranks that tensor, pipeline and expert need, at least two, srun as mpirun."""
    folder.mkdir()
    cases = "".join(f'  "{" ".join(k.split())}{"" if " " in k else " "}"*) set -- "$@" {v} ;;\n' for k, v in SHORTER.items())
    scripts = {
        "ravine": f'#!/bin/bash\ncase "$1 ${{2:-}}" in\n{cases}esac\nexec "{r.PROGRAM}" "$@"\n',
        "mpirun": '#!/bin/bash\n[ "$1" = -n ] || { echo "mpirun: -n first" >&2; exit 2; }\n'
                  'shift 2; n=1; for a; do case "$a" in parallel.tensor=*|parallel.pipeline=*|parallel.expert=*) n=$((n * ${a#*=}));; esac; done; [ $n -gt 1 ] || n=2\n'
                  f'exec {shutil.which("mpirun")} --oversubscribe --mca mpi_yield_when_idle 1 {"--allow-run-as-root" if os.geteuid() == 0 else ""} -n "$n" "$@"\n',
        "srun": '#!/bin/bash\nshift  # --mpi=pmix\nexec mpirun "$@"\n',
    }
    if not r.FULL:
        scripts["mpirun"] = ONE_RANK.replace("{ranks}", scripts["mpirun"].splitlines()[-1].removeprefix("exec ").replace('-n "$n" "$@"', '-n 2 "${@:3}"'))
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def conversations(path, form, count=24):
    def one(i):
        question, answer = f"What is ravine number {i}?", f"Ravine {i} is a deep, narrow valley." + " It is long." * (i % 5)
        if form == "alpaca":
            return {"instruction": question, "input": "", "output": answer}
        return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
    rows = [one(i) for i in range(count)]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(x) + "\n" for x in rows))


def prepare(folder):
    """The files that the pages name: texts, models, conversations, a run.yaml. Copied for each page."""
    r.save_text(folder / "book.txt", 16000, 1)
    for name in ("corpus", "books"):
        (folder / name).mkdir()
        shutil.copy(folder / "book.txt", folder / name / "a.txt")
    (folder / "wikipedia").mkdir()
    (folder / "wikipedia" / "a.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in (folder / "book.txt").read_text().split("\n\n")))
    for name, form in (("alpaca_en.json", "alpaca"), ("alpaca_zh.json", "alpaca"), ("alpaca.json", "alpaca"), ("chats/a.jsonl", "messages"), ("chats.jsonl", "messages"), ("valid.jsonl", "messages")):
        conversations(folder / name, form)
    (folder / "pairs.jsonl").write_text("".join(json.dumps({"instruction": f"What is {i}?", "chosen": f"{i} is a number.", "rejected": "No."}) + "\n" for i in range(24)))
    r.run("tokenizer", "train", "--input", folder / "book.txt", "--output", folder / "made-tokenizer", "--vocab-size", 400)
    r.save_config(folder / "config.json", **TINY)
    one_step = ["train.steps=1", "schedule.warmup_steps=0", "train.global_batch=1", "train.threads=1", "log.tensorboard=false"]
    r.run("train", "model.config=config.json", "model.tokenizer=made-tokenizer", "data.train=[alpaca_en.json]", "data.chat_template=chatml", "data.sequence_length=256", *one_step, "train.output=made", cwd=folder)
    (folder / "made" / "model").rename(folder / "llama-chat")
    shutil.rmtree(folder / "made")
    for name in ("llama", "llama-2-7b", "my-llama", "DIR"):
        shutil.copytree(folder / "llama-chat", folder / name)
    r.run("preprocess", "--input", "book.txt", "--tokenizer", "llama", "--output-prefix", "books", cwd=folder)
    (folder / "questions.jsonl").write_text('{"prompt": "Once"}\n{"prompt": "Why is"}\n')
    (folder / "ids.json").write_text("[[1, 15]]")
    (folder / "held_out.jsonl").write_text("".join(json.dumps({"text": "held out " * 30}) + "\n" for _ in range(100)))
    r.save_ids(folder / "batches.safetensors", 8, 32)
    ids = [3 + i % 200 for i in range(4 * 32)]
    r.save_tensors(folder / "ids.safetensors", {name: ("I32", (4, 32), ids) for name in ("input_ids", "labels")})
    (folder / "run.yaml").write_text("model: {config: config.json, tokenizer: made-tokenizer}\ndata: {train: [book.txt], valid_fraction: 0.05, sequence_length: 64}\n"
                                     "train: {steps: 4, global_batch: 8, micro_batch: 1, output: runs/mine}\nschedule: {warmup_steps: 1}\n")
    for page, extra in EXTRA.items():
        (folder / "of" / page).mkdir(parents=True)
        extra(folder, folder / "of" / page)


# What a page takes for granted beyond `prepare`: it says so in words, or another page makes it. (folder of all files, folder of what is added)
def _data(base, out):
    (out / "data").mkdir()
    r.run("preprocess", "--input", "alpaca_en.json", "--handler", "GeneralInstructionHandler", "--tokenizer", "llama", "--append-eod", "--output-prefix", out / "data" / "alpaca", cwd=base)


def _convert(base, out):
    shutil.copytree(GOLDEN / "zero2", out / "deepspeed-run")
    r.save_ids(out / "small.safetensors", 8, 16, vocabulary=50)
    (out / "run.yaml").write_text("data: {train: [small.safetensors], sequence_length: 16}\n")
    r.run("train", "model.config=config.json", "model.tokenizer=made-tokenizer", "data.train=[book.txt]", "data.sequence_length=64", "train.steps=1", "schedule.warmup_steps=0", "train.global_batch=1",
          "train.threads=1", "log.tensorboard=false", "checkpoint.every=1", f"train.output={out / 'runs' / 'book'}", cwd=base)


def _instruction(base, out):
    (out / "run.yaml").write_text("model: {path: llama-chat}\ndata: {train: [alpaca_zh.json], sequence_length: 256}\ntrain: {steps: 4, output: runs/mine}\nschedule: {warmup_steps: 1}\n")


def _readme(base, out):
    shutil.copytree(base / "llama", out / "runs" / "demo-book.txt-1" / "run" / "model")  # what scripts/demo leaves


def _adapters(base, out):
    for name in ("poet", "lawyer"):
        r.run("train", "model.path=llama-chat", "lora.rank=2", "data.train=[alpaca_en.json]", "data.sequence_length=256", "train.steps=1", "schedule.warmup_steps=0", "train.global_batch=1", "train.threads=1",
              "log.tensorboard=false", "checkpoint.every=0", f"train.output={out / 'runs' / name}", cwd=base)


def _finetune(base, out):
    shutil.copytree(ROOT / "tests" / "golden" / "megatron_lora" / "joined", out / "modellink-lora")
    shutil.copytree(ROOT / "tests" / "golden" / "lora" / "llama" / "base", out / "base")


def _evaluate(base, out):
    """Small benchmarks in the files of the real ones."""
    def lines(path, rows):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(x) + "\n" for x in rows))
    of = out / "benchmarks"
    lines(of / "boolq" / "dev.jsonl", [{"passage": "Deep.", "question": "is it deep", "answer": True}] * 2)
    lines(of / "gsm8k" / "test.jsonl", [{"question": "How many?", "answer": "Two.\n#### 2"}])
    lines(of / "piqa" / "valid.jsonl", [{"goal": "Cross.", "sol1": "a bridge", "sol2": "a spoon"}])
    (of / "piqa" / "valid-labels.lst").write_text("0\n")
    lines(of / "hellaswag" / "hellaswag_val.jsonl", [{"activity_label": "Walk", "ctx_a": "One.", "ctx_b": "he", "endings": ["a", "b", "c", "d"], "label": 1}])
    for split, count in (("test", 2), ("dev", 5)):
        (of / "mmlu" / split).mkdir(parents=True, exist_ok=True)
        (of / "mmlu" / split / f"anatomy_{split}.csv").write_text("How deep?,1,2,3,4,B\n" * count)
    (out / "few_shot.json").write_text(json.dumps({"gsm8k": {"few_shot": "Q: One?\n\nA:The answer is 1."}}))


def _difference(base, out):
    """Two runs of one course, repeats of one of them, and the log of another program; a dump of msprobe, and the trace of the same step in place of our dump."""
    golden = ROOT / "tests" / "golden"
    shutil.copytree(golden / "msprobe" / "statistics", out / "dumps" / "msprobe")
    shutil.copytree(golden / "torch_trace" / "trace", out / "dumps" / "ravine")
    (out / "grads").mkdir()
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }".ljust(117) + "\n"
    (out / "grads" / "grad_1.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<4f", 1, -1, 1, -1))
    r.save_tensors(out / "weights.safetensors", {"p.w": ("F32", (2, 2), [0.5, 0.5, -0.5, -0.5])})
    r.save_tensors(out / "after.safetensors", {"p.w": ("F32", (2, 2), [x * (1 - 1e-4) - y for x, y in ((0.5, 1e-3), (0.5, -1e-3), (-0.5, 1e-3), (-0.5, -1e-3))])})
    shutil.copy(ROOT / "examples" / "megatron" / "pretrain_llama.sh", out)
    losses = [6 * 0.99 ** t + 2 for t in range(1, 201)]
    for name in ("here", "there", "there-again", "there-once-more"):
        (out / "runs" / name).mkdir(parents=True)
        (out / "runs" / name / "metrics.jsonl").write_text("".join(json.dumps({"step": t, "loss": x, "grad_norm": 1 + t % 7 / 10}) + "\n" for t, x in enumerate(losses, 1)))
    (out / "other.yaml").write_text((base / "run.yaml").read_text() + "optimizer: {eps: 0.001}\n")
    (out / "megatron.log").write_text("".join(f" iteration {t:8d}/     200 | consumed samples: {8 * t} | lm loss: {x:.6E} | grad norm: {1 + t % 7 / 10:.3f} |\n" for t, x in enumerate(losses, 1)))


def _deepspeed(base, out):
    shutil.copy(ROOT / "examples" / "deepspeed" / "zero2.json", out / "ds.json")


def _megatron(base, out):
    for file in (ROOT / "examples" / "megatron").iterdir():
        shutil.copy(file, out)


def _experts(base, out):
    r.save_config(out / "config.json", **{**TINY, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2})


def _mindformers(base, out):
    for file in (ROOT / "examples" / "mindformers").iterdir():
        shutil.copy(file, out)


EXTRA = {"README.md": _readme, "evaluate.md": _evaluate, "experts.md": _experts, "find-a-difference.md": _difference, "from-deepspeed.md": _deepspeed, "from-megatron.md": _megatron, "from-mindformers.md": _mindformers, "generate.md": _adapters, "finetune.md": _finetune, "README.zh-CN.md": _readme, "data.md": _data, "convert.md": _convert, "instruction-data.md": _instruction}

ALONE = ("from-megatron.md", "from-mindformers.md")  # their first lines make all that the others read


def script_of(block, assignments):
    text = block.code()
    for page, words, instead in STAND_INS:
        if page == block.page.name:
            text = text.replace(words, instead)
    lines = ["true" if any(x.startswith(n) for n in NOT_RUN) else x for x in text.split("\n")]
    for start, status in STATUS.items():
        lines = [f"got=0; {x} || got=$?; [ $got = {status} ]" if x.startswith(start) else x for x in lines]
    return "\n".join([*assignments, "trap 'echo \"this failed: $BASH_COMMAND\" >&2' ERR", *lines])


def run_page(page, text, base, root, done):
    """Runs what a page says in a folder of its own; the blocks that failed, each as text. `done`: blocks (without comments) that another page has run."""
    here = root / (page.parent.name + "-" + page.name)
    shutil.copytree(base, here, symlinks=True, ignore=(lambda *all: all[1]) if page.name in ALONE else shutil.ignore_patterns("of"))
    if page.name in EXTRA:
        shutil.copytree(base / "of" / page.name, here, dirs_exist_ok=True)
    (here / "build" / "release").mkdir(parents=True)
    (here / "docs").mkdir()
    (here / "build" / "release" / "ravine").symlink_to(root / "bin" / "ravine")
    (here / "configs").symlink_to(ROOT / "configs")
    path = str(root / "bin") + os.pathsep + os.environ["PATH"]
    failed, assignments = [], []
    for number, block in enumerate(blocks_of(page, text)):
        key = (page.name if page.name != "README.zh-CN.md" else "README.md", block.bare())
        shell = None
        if block.is_commands():
            shell = script_of(block, assignments)
            assignments += re.findall(r"^\w+=[^\s(]+$", block.code(), re.M)
        elif block.language == "yaml":
            (here / f"block{number}.yaml").write_text(block.text)
            model = "" if re.search(r"^model:", block.text, re.M) else " model.path=llama"
            shell = f"ravine train --config block{number}.yaml{model} train.output=runs/block{number}"
        elif block.language == "json" and page.name == "instruction-data.md":
            (here / f"block{number}.json").write_text(block.text)
            shell = f"ravine data show --step 1 model.path=llama-chat data.sequence_length=1024 'data.train=[block{number}.json]'"
        if shell is None or key in done:
            continue
        done.add(key)
        ran = r.subprocess.run(["bash", "-e", "-o", "pipefail", "-c", shell], stdin=r.subprocess.DEVNULL, capture_output=True, text=True, cwd=here, timeout=r.LIMIT, env={**os.environ, "PATH": path})
        if ran.returncode != 0:
            said = [x for x in ran.stderr.splitlines() if x.startswith(("error:", "this failed:"))] or ran.stderr.splitlines()[-8:]
            failed.append(f"{block}: exit status {ran.returncode}\n  " + "\n  ".join(said))
    shutil.rmtree(here)
    return failed



@functools.cache
def prepared():
    """The folder of what `prepare` makes; nothing changes it."""
    base = Path(tempfile.mkdtemp(dir=os.path.dirname(os.environ["XDG_CACHE_HOME"])))
    prepare(base)
    return base


def run_pages(folder, pages):
    """pages: {path: text}. What failed."""
    base = prepared()
    put_wrappers(folder / "bin")
    english = {p: t for p, t in pages.items() if p.parent.name != "zh" and p.name != "README.zh-CN.md"}
    done, failed = set(), []
    for part in (english, {p: t for p, t in pages.items() if p not in english}):
        with ThreadPoolExecutor(2) as pool:
            for out in pool.map(lambda item: run_page(*item, base, folder, done), part.items()):
                failed += out
    return failed


# What c, and what its functions of these names, are: class and header.
CLASSES = {"": ("Ctx", "engine/ctx.h"), "store": ("WeightSource", "engine/param_store.h"), "grad_store": ("GradStore", "engine/param_store.h"), "grads": ("Grads", "engine/grads.h")}


def missing_functions(text):
    """Calls like c.call(..) and c.grads().take(..) of a page whose function the class does not have."""
    found = []
    for accessor, name in re.findall(r"\bc\.(?:(store|grad_store|grads)\(\)\.)?(\w+)\(", text):
        kind, header = CLASSES[accessor]
        body = re.search(rf"^class {kind}\b.*?^}};", (ROOT / "src" / header).read_text(), re.M | re.S)[0]
        if not re.search(rf"\b{name}\(", body):
            found.append(f"{kind}::{name}")
    return found


def test_functions_that_pages_name_are_there(folder):
    pages = [p for p in PAGES if p.name == "add-an-op.md"]
    r.check(len(pages) == 2 and all("c.grad_store()" in p.read_text() for p in pages), "the pages that show an op are read")
    for page in pages:
        r.check(not missing_functions(page.read_text()), f"{page}: {missing_functions(page.read_text())}")
    r.check(missing_functions("c.store().add_to_grad(p, a); c.saves(x)") == ["WeightSource::add_to_grad", "Ctx::saves"], "what is not there is found")


def test_every_block_runs(folder):
    if not shutil.which("mpirun"):
        raise r.Skipped("no mpirun, which pages call")
    subject = lambda p: p.name.replace(".zh-CN", "")
    drawn = r.rows(sorted({subject(p) for p in PAGES}), 2, "every page is read and run alike")
    texts = {p: p.read_text() for p in PAGES if subject(p) in drawn}
    failed = run_pages(folder, texts)
    r.check(not failed, "\n".join(failed))


def test_what_is_left_out_is_there(folder):
    """A reason for a line that no page has any more is removed."""
    lines = [x for p in PAGES for b in blocks_of(p, p.read_text()) if b.is_commands() for x in b.code().split("\n")]
    r.check(len(lines) > 60, f"{len(lines)} lines of commands: blocks are not found")
    for start in NOT_RUN:
        r.check(any(x.startswith(start) for x in lines), f"no page has '{start}'")
    for start in STATUS:
        r.check(any(x.startswith(start) for x in lines), f"no page has '{start}'")
    for page, words, _ in STAND_INS:
        r.check(any(words in b.code() for p in PAGES if p.name == page for b in blocks_of(p, p.read_text())), f"{page} has no '{words}'")


def test_mistakes_in_a_page_are_noticed(folder):
    page = ROOT / "docs" / "howto" / "data.md"
    text = page.read_text()
    blocks = blocks_of(page, text)
    first = "```sh\n" + blocks[0].text + "\n```\n"
    yaml = "```yaml\n" + next(b.text for b in blocks if b.language == "yaml") + "\n```\n"
    wrong = {"a flag": first.replace("--append-eod", "--append-end"), "an option": first.replace("data.sequence_length", "data.seq_length"), "a file": first.replace("data.train=[data/corpus_text_document]", "data.train=[data/corpus]"),
             "a key": yaml.replace("weight", "wieght"), "a command": first.replace("ravine preprocess", "ravine preproces"), "indented": "Text:\n\n    ravine info corpus/ --tokeniser llama\n"}
    base = prepared()
    put_wrappers(folder / "bin")
    for what, planted in r.rows(wrong.items(), 3, "whatever fails, its block is reported"):
        r.check(run_page(page, planted, base, folder, set()), f"{what}: a page with\n{planted}\nis taken")
    right = run_page(page, first, base, folder, set())
    r.check(not right, "\n".join(right))


def test_commands_in_prose(folder):
    """`ravine ..` within a sentence: its command, flags and options are there."""
    helps, sections, wrong = {}, set(re.findall(r"^\| `(\w+\.\w+)` \|", (ROOT / "docs" / "options.md").read_text(), re.M)), []
    r.check(len(sections) > 50, f"{len(sections)} options in docs/options.md")

    def help_of(words):
        key = " ".join(words)
        if key not in helps:
            try:
                helps[key] = r.run(*words, "--help-all").stdout
            except AssertionError:
                helps[key] = None
        return helps[key]

    for page in [*PAGES, ROOT / "docs" / "tour.md", ROOT / "docs" / "reliability.md", ROOT / "docs" / "performance.md"]:
        for span in re.findall(r"`(?:mpirun -n \w+ )?ravine ([^`]*)`", page.read_text()):
            words = span.split()
            name = [w for w in words[:2] if re.fullmatch(r"[a-z][a-z0-9-]*", w)]
            if not name:
                continue
            if len(name) == 2 and help_of(name) is None or len(name) == 2 and help_of(name[:1]) is not None and "ACTION" not in help_of(name[:1]):
                name = name[:1]
            page_of_help = help_of(name)
            if page_of_help is None:
                wrong.append(f"{page.name}: `ravine {span}`: no such command")
                continue
            for flag in re.findall(r"(?<!\S)\[?(--[a-z][a-z-]+)", span):
                if not re.search(rf"^\s+{flag}(\s|$)", page_of_help, re.M):
                    wrong.append(f"{page.name}: `ravine {span}`: no flag {flag}")
            for option in re.findall(r"(?<!\S)([a-z]+\.[a-z_]+)=", span):
                if option not in sections:
                    wrong.append(f"{page.name}: `ravine {span}`: no option {option}")
    r.check(not wrong, "\n".join(wrong))


if __name__ == "__main__":
    r.main(globals())
