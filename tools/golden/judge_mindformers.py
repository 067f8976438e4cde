"""MindFormers itself trains, goes on from our checkpoints and reads our files; we go on from its checkpoints and read its data.

    python3 tools/golden/judge_mindformers.py BUILD/ravine FOLDER_OF_GOLDEN      the folder has train/base.yaml, init.safetensors, tiny.mindrecord, cases.json, f64.json

Judged: 1 the recorded case `base` again; 2 MindFormers goes on from our step 10; 3 we go on from its step 10; both in safetensors and ckpt, with names, shapes, types and
values of the tensors, and files of weights alone; 4 rows of MindRecord files: values, order of several files, shuffled order of two epochs, columns, number of samples.
Needs mindspore 2.7.0 (CPU) and mindformers 1.6.0 (pip install --no-deps) with numpy 1.26, pyyaml, safetensors, transformers 4.51.3, tokenizers 0.21.0, huggingface_hub below 1,
sentencepiece, tiktoken, regex, tqdm, requests, jinja2, ftfy, setproctitle, tensorboardX, deprecated. What else its modules import at their top has a stand-in (ABSENT), which
no run here calls.
One more stand-in, as in the record: overflow is isfinite of the gradients, since the operator that reads the device's flags is for Ascend only. Exit status 1: a row is beyond.
FileWriter deals rows to files by chance, so that some numbers of 4 are others every time.

Bounds, with u = 2^-24, the rounding unit of float32:
  loss, theirs against ours     16 u of the loss, 9.5e-7 of it. MindFormers' is within 6.5 u of float64 (f64.json) and ours within 0.4 u; twice their sum, and the spacing of float32.
  loss, one program twice       4 u of the loss. The states differ by roundings only, which move the loss by one or two spacings of float32.
  weights and moments           5 times MindFormers' own distance to float64 after 10 steps (f64.json, own): 4 of ours and 1 of its.
  all else                      0. It counts rows, names or steps that differ; the control must be beyond its bound: it shows that the bound sees lost moments."""
import copy, glob, importlib.abc, importlib.machinery, importlib.metadata, json, os, shutil, subprocess, sys, tempfile, types
from unittest.mock import MagicMock

U, ABSENT = 2.0**-24, {"jieba", "rouge_chinese", "nltk", "mindpet", "cv2", "datasets", "pyarrow"}


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last in the search: a module of ABSENT that is not installed, whose names are all mocks."""
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in ABSENT else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda key: getattr(MagicMock(), key) if not key.startswith("__") else object.__getattribute__(module, key)
        return module

    def exec_module(self, module):
        pass


def finite(self, status, gradients):
    return self._get_distributed_overflow_status_on_infnan_mode(LS._ascend_grad_overflow, gradients)


if len(sys.argv) < 3:
    sys.exit(__doc__)
if sys.argv[1] == "--train":  # CONFIG LOSSES: a process of its own per run, since MindSpore keeps its settings
    sys.meta_path.append(Absent())
    from mindformers import build_context
    from mindformers.core.callback import MFLossMonitor
    from mindformers.tools.register import MindFormerConfig
    from mindformers.trainer import Trainer
    from mindspore.nn.wrap import loss_scale as LS
    LS.TrainOneStepWithLossScaleCell.get_overflow_status = finite
    losses, printed = {}, MFLossMonitor.on_train_step_end

    def step_end(self, context):
        p = context.original_args()
        losses[int((p.optimizer or p.network.optimizer).global_step.asnumpy().item())] = float(p.net_outputs[0].asnumpy())
        printed(self, context)

    MFLossMonitor.on_train_step_end = step_end
    config = MindFormerConfig(sys.argv[2])
    build_context(config)
    if config.run_mode == "eval":
        Trainer(config).evaluate(eval_checkpoint=config.load_checkpoint)  # its last line has the loss
        sys.exit()
    Trainer(config).train()
    json.dump(losses, open(sys.argv[3], "w"))
    sys.exit()

import mindspore
import mindspore.dataset
import numpy as np
import yaml
from mindspore.mindrecord import FileWriter

ravine, golden = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]) + "/train/"
room, beyond, ONE = tempfile.TemporaryDirectory(), 0, {**os.environ, "OMP_NUM_THREADS": "1"}
work = room.name
BASE, INIT, TINY = yaml.safe_load(open(golden + "base.yaml")), golden + "init.safetensors", golden + "tiny.mindrecord"
QUIET = {"callbacks": [{"type": "MFLossMonitor"}]}


def row(what, measured, bound, unit="", control=False):
    global beyond
    good = bound < measured < float("inf") if control else measured <= bound
    beyond += not good
    print(f"{'ok' if good else 'BEYOND':7}{what:106}{measured:>12.4g}{'  >' if control else ' <='}{bound:>10.4g} {unit}".rstrip(), flush=True)


def merged(a, b):
    return {**a, **{k: merged(a[k], v) if isinstance(v, dict) and isinstance(a.get(k), dict) else v for k, v in b.items()}}


def said(*command, **more):
    """What it prints. None, and a line here, where it ends with an error."""
    done = subprocess.run(command, env=ONE, capture_output=True, text=True, **more)
    if done.returncode:
        print(f"       exit {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-300:].replace(golden, '').replace(work + '/', '')}")
    return done.stdout if done.returncode == 0 else None


def run(who, name, change={}, load=INIT, resume=False, data=TINY):
    """Losses by step, and the folder. None: it ended with an error."""
    folder = f"{work}/{who}_{name}".replace(" ", "_")
    os.makedirs(folder)
    y = merged(copy.deepcopy(BASE), change)
    if who == "theirs":
        y.update(load_checkpoint=load, resume_training=resume, load_ckpt_format=load.rsplit(".", 1)[1])
        y["train_dataset"]["data_loader"]["dataset_dir"] = data
    y["train_dataset_task"]["dataset_config"] = copy.deepcopy(y["train_dataset"])
    open(folder + "/run.yaml", "w").write(yaml.safe_dump(y))
    flags = ["--load_checkpoint", load, "--train_data", data, "--threads", "1"] + ["--resume_training", "True"] * resume
    job = [ravine, "mindformers", "--config", "run.yaml", *flags] if who == "ours" else [sys.executable, os.path.abspath(__file__), "--train", "run.yaml", "losses.json"]
    if said(*job, cwd=folder) is None:
        return None, folder
    if who == "theirs":
        return {int(k): v for k, v in json.load(open(folder + "/losses.json")).items()}, folder
    return {x["step"]: x["loss"] for x in map(json.loads, open(folder + "/output/metrics.jsonl")) if "loss" in x}, folder


def losses(what, a, b, steps, bound=16, control=False):
    """Largest relative difference in units of u; a step that one lacks is infinitely far."""
    far = [abs(a[i] - b[i]) / abs(b[i]) / U if a and b and i in a and i in b else float("inf") for i in steps]
    row(f"{what}: loss, steps {steps[0]}-{steps[-1]}", max(far), bound, "u", control)


def kept(folder, kind, ending):
    """The file of step 10, beside the others: in a folder rank_0 MindFormers takes it for one of several ranks."""
    found = glob.glob(f"{folder}/output/{kind}/rank_0/*-1_10.{ending}")
    return shutil.copy(found[0], f"{folder}/{kind}.{ending}") if found else None


def tensors(path):
    return {k: np.asarray(v.asnumpy() if hasattr(v, "asnumpy") else v) for k, v in mindspore.load_checkpoint(path, format=path.rsplit(".", 1)[1]).items()}


def saving(ending, **more):
    return {"callbacks": [{"type": "MFLossMonitor"}, {**BASE["callbacks"][1], "checkpoint_format": ending, **more}]}


print(f"mindspore {mindspore.__version__}, mindformers {importlib.metadata.version('mindformers')}, CPU; {said(ravine, '--version').strip()}\n\n1 to 3: checkpoints")
recorded = {x["step"]: x["loss"] for x in json.load(open(golden + "cases.json"))["base"]["steps"]}
own = json.load(open(golden + "f64.json"))["own"]
for ending, copies in (("safetensors", "network"), ("ckpt", "trainable")):
    change = saving(ending, **{"save_network_params" if copies == "network" else "save_trainable_params": True})
    (theirs, at_theirs), (ours, at_ours) = run("theirs", ending, change), run("ours", ending, change)
    losses(f"{ending}: MindFormers here against the record", theirs, recorded, range(1, 4), 0)
    losses(f"{ending}: our whole run against MindFormers' whole run", ours, theirs, range(1, 21))
    a, b = kept(at_ours, "checkpoint", ending), kept(at_theirs, "checkpoint", ending)
    ta, tb = tensors(a), tensors(b)
    kind_of = lambda t, k: (t[k].shape, t[k].dtype) if k in t else None
    row(f"{ending}: tensors of step 10 whose name, shape or type differs", sum(kind_of(ta, k) != kind_of(tb, k) for k in {**ta, **tb}), 0, f"of {len(tb)}")
    for kind in ("weights", "adam_m", "adam_v"):
        names = [k for k in tb if tb[k].size > 1 and (k[:6] if k.startswith("adam_") else "weights") == kind]
        row(f"{ending}: {kind} of step 10", max(np.abs(ta[k].astype("f8") - tb[k]).max() for k in names), 5 * own[kind + "_10"], f"in {len(names)}")
    row(f"{ending}: counters of step 10 that differ", sum(not np.array_equal(ta[k], tb[k]) for k in tb if tb[k].size == 1), 0)
    on, _ = run("theirs", "from our " + ending, load=a, resume=True)
    losses(f"{ending}: MindFormers from our step 10 against our whole run", on, ours, range(11, 14))
    losses(f"{ending}: MindFormers from our step 10 against MindFormers' whole run", on, theirs, range(11, 21), 4)
    on, _ = run("ours", "from their " + ending, saving(ending), b, True)
    losses(f"{ending}: ours from MindFormers' step 10 against MindFormers' whole run", on, theirs, range(11, 14))
    losses(f"{ending}: ours from MindFormers' step 10 against our whole run", on, ours, range(11, 21), 4)
    for whose, folder in (("our", at_ours), ("MindFormers'", at_theirs)):
        file = kept(folder, "checkpoint_" + copies, ending)
        x, y = (run(who, f"weights {whose} {ending}", QUIET, file)[0] for who in ("ours", "theirs"))
        losses(f"{ending}: ours against MindFormers, both from {whose} checkpoint_{copies} of step 10", x, y, range(1, 21))
    if ending == "ckpt":
        lost = [{"name": k, "data": mindspore.Tensor(v * 0 if k.startswith("adam_m.") else v)} for k, v in ta.items()]
        mindspore.save_checkpoint(lost, work + "/lost.ckpt")
        on, _ = run("theirs", "control", load=work + "/lost.ckpt", resume=True)
        losses("control: MindFormers from our step 10 with first moments 0 against our whole run", on, ours, range(11, 14), control=True)

print("\n2 and 3 with other optimizers")  # eps of Adam is small: mindspore's adds it to the root of the moment as it is, ours to that of the corrected one
for kind, words in (("Adam", {"beta1": 0.9, "beta2": 0.95, "eps": 1e-15, "weight_decay": 0.0}), ("AdamWeightDecay", {"beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1}), ("SGD", {"momentum": 0.9, "weight_decay": 0.0})):
    change = {**saving("safetensors"), "optimizer": {"type": kind, **words}}
    base = copy.deepcopy(BASE)
    BASE.pop("optimizer")  # the sections are merged
    (theirs, at_theirs), (ours, at_ours) = run("theirs", kind, change), run("ours", kind, change)
    losses(f"{kind}: our whole run against MindFormers' whole run", ours, theirs, range(1, 21))
    a, b = kept(at_ours, "checkpoint", "safetensors"), kept(at_theirs, "checkpoint", "safetensors")
    ta, tb = tensors(a), tensors(b)
    row(f"{kind}: tensors of step 10 whose name, shape or type differs", sum(kind_of(ta, k) != kind_of(tb, k) for k in {**ta, **tb}), 0, f"of {len(tb)}")
    names = [k for k in tb if tb[k].size > 1]
    row(f"{kind}: weights and states of step 10", max(np.abs(ta[k].astype("f8") - tb[k]).max() for k in names), 5 * own["weights_10"], f"in {len(names)}")
    row(f"{kind}: counters of step 10 that differ", sum(not np.array_equal(ta[k], tb[k]) for k in tb if tb[k].size == 1), 0)
    on, _ = run("theirs", f"{kind} from our", change, a, True)
    losses(f"{kind}: MindFormers from our step 10 against MindFormers' whole run", on, theirs, range(11, 21), 4)
    on, _ = run("ours", f"{kind} from their", change, b, True)
    losses(f"{kind}: ours from MindFormers' step 10 against our whole run", on, ours, range(11, 21), 4)
    BASE.update(base)

print("\nrun_mode eval, of rows without padding: MindFormers takes the mean of the means of batches, and leaves out what predicts padding")
def evaluated(who, folder):
    os.makedirs(f"{work}/{folder}")
    data = f"{work}/{folder}/short.mindrecord"
    writer = FileWriter(data, 1)
    writer.add_schema({"input_ids": {"type": "int32", "shape": [-1]}}, "rows")
    writer.write_raw_data([{"input_ids": x.astype("i4")} for x in np.random.default_rng(2).integers(1, 256, (22, 32))])
    writer.commit()
    loader = {**BASE["train_dataset"], "data_loader": {"type": "MindDataset", "dataset_dir": data, "shuffle": False}}
    y = {**BASE, "run_mode": "eval", "load_checkpoint": INIT, "load_ckpt_format": "safetensors", "metric": {"type": "PerplexityMetric"},
         "eval_dataset": loader, "eval_dataset_task": {"type": "CausalLanguageModelDataset", "dataset_config": loader}}
    open(f"{work}/{folder}/run.yaml", "w").write(yaml.safe_dump(y))
    job = [ravine, "mindformers", "--config", "run.yaml"] if who == "ours" else [sys.executable, os.path.abspath(__file__), "--train", "run.yaml", "none"]
    text = said(*job, cwd=f"{work}/{folder}") or ""
    return float(text.rsplit('"loss":' if who == "ours" else "'loss': ", 1)[1].split(",")[0])


ours, theirs = evaluated("ours", "evaluated_here"), evaluated("theirs", "evaluated_there")
row("loss of 20 of 22 rows", abs(ours - theirs) / theirs / U, 16, "u")

print("\n4: MindRecord")
rng, rows = np.random.default_rng(1), []
for i in range(43):
    ids = rng.integers(1, 256, 33)
    rows.append({"input_ids": ids.astype("i4"), "labels": np.where(np.arange(33) < rng.integers(0, 20), -100, ids).astype("i8")})
for name, shards, part, count in (("two", 2, 7, 43), ("twelve", 12, 20, 43), ("sparse", 12, 5, 5)):
    os.makedirs(f"{work}/{name}")
    writer = FileWriter(f"{work}/{name}/t.mindrecord", shard_num=shards)
    writer.set_header_size(1 << 14), writer.set_page_size(1 << 15)  # files of 48 MiB else
    writer.add_schema({"input_ids": {"type": "int32", "shape": [-1]}, "labels": {"type": "int64", "shape": [-1]}}, "rows")
    for i in range(0, count, part):
        writer.write_raw_data(rows[i:min(i + part, count)])
    writer.commit()
TWO, TWELVE, SPARSE = (sorted(f for f in glob.glob(f"{work}/{name}/*") if not f.endswith(".db")) for name in ("two", "twelve", "sparse"))


def they_read(files, shuffle=False, epochs=1, **more):
    """Rows in the order in which MindDataset gives them, as our `data show` has them: ids, and labels one place on."""
    mindspore.set_seed(42)
    data = mindspore.dataset.MindDataset(files, columns_list=["input_ids", "labels"], shuffle=shuffle, **more)
    turn = data.create_tuple_iterator(num_epochs=epochs, output_numpy=True)
    return [(x[:-1].tolist(), y[1:].tolist()) for _ in range(epochs) for x, y in turn]


def we_read(path, shuffle=False, count=43):
    y = merged(BASE, {"train_dataset": {"input_columns": ["input_ids", "labels"], "data_loader": {"shuffle": shuffle}}, "runner_config": {"batch_size": 1}})
    open(work + "/read.yaml", "w").write(yaml.safe_dump(y))
    text = said(ravine, "mindformers", "--config", work + "/read.yaml", "--train_data", path, "--print-config")
    if text is None:
        return []
    open(work + "/show.yaml", "w").write(text)
    shown = [said(ravine, "data", "show", "--config", work + "/show.yaml", "--json", "--step", str(i + 1)) or "" for i in range(count)]
    return [(x["ids"], x["labels"]) for x in map(json.loads, "".join(shown).splitlines())]


def order(what, a, b):
    row(what, sum(x != y for x, y in zip(a, b)) + abs(len(a) - len(b)), 0, f"of {len(b)} rows")


order("two files, the first named", we_read(TWO[0]), they_read(TWO[0]))
order("two files, the second named: MindDataset reads both, the first one first", we_read(TWO[1]), they_read(TWO[1]))
order("two files, their folder named, and a row more: an epoch has 43", we_read(work + "/two", count=44), they_read(TWO, epochs=2)[:44])
order("twelve files, the first named", we_read(TWELVE[0]), they_read(TWELVE[0]))
order("twelve files for five rows, some of them empty, the first named", we_read(SPARSE[0], count=5), they_read(SPARSE[0]))
order("twelve files, shuffled", we_read(TWELVE[0], True), they_read(TWELVE[0], True))
order("two files, shuffled, first epoch", we_read(TWO[0], True), they_read(TWO[0], True))
whole = {"num_shards": 1, "shard_id": 0}  # as MindFormers asks, but under semi_auto_parallel with full_batch, where it gives neither
order("two files, shuffled, both epochs, as MindFormers asks (num_shards=1)", we_read(TWO[0], True, 86), they_read(TWO[0], True, 2, **whole))
shuffled = {"train_dataset": {"data_loader": {"shuffle": True}}}
for what, change, path, count in (
        ("columns input_ids and labels, two files", {"train_dataset": {"input_columns": ["input_ids", "labels"]}}, TWO[0], 10),
        ("column input_ids alone, of a file with labels", {}, TWO[0], 10),
        ("shuffle over two epochs", merged(shuffled, {"runner_config": {"epochs": 2}}), TINY, 40),
        ("shuffle with num_samples: 40", merged(shuffled, {"train_dataset": {"data_loader": {"num_samples": 40}}}), TINY, 10)):
    x, y = (run(who, what, {**QUIET, **change}, data=path)[0] for who in ("ours", "theirs"))
    losses(f"training, {what}", x, y, range(1, count + 1))
print(f"\n{beyond} beyond")
sys.exit(beyond > 0)
