"""The page on ZeRO of Transformers' DeepSpeed guide from top to bottom: its blocks, as examples/hf-deepspeed-zero has them, run by `ravine trainer` on tiny data; placeholders are filled in, and nothing else is changed.

The blocks are fragments of a job: what they leave open (model, data, batch, steps) are flags. Where the page tells its reader to change a value, `put` and `without` do."""
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

SERVED_COMMANDS = False  # ranks are started, and variables of the environment are left as they are
PAGE = Path(__file__).resolve().parents[2] / "examples" / "hf-deepspeed-zero"
HIDDEN, LENGTH = 64, 32
# What the two configs that are set by hand say, which the page has its reader keep equal on the command line.
BY_HAND = ["--fp16", "--learning_rate", "3e-5", "--adam_beta1", "0.8", "--adam_beta2", "0.999", "--weight_decay", "3e-7", "--warmup_steps", "500"]
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
NO_OFFLOAD = ("zero_optimization.offload_optimizer", "zero_optimization.offload_param")


def prepare(folder, **fields):
    """A model of several layers, rows of ids, and the folder that stands where the page has /local_nvme."""
    if not shutil.which("mpirun"):
        raise r.Skipped("no mpirun")
    shape = {"hidden_size": HIDDEN, "intermediate_size": 2 * HIDDEN, "num_hidden_layers": 8, **fields}
    r.run("train", *r.options(folder, folder / "first", train__steps=1, model__config=r.save_config(folder / "shape.json", **shape)))
    (folder / "first" / "model").rename(folder / "model")
    r.save_ids(folder / "rows.safetensors", 32, LENGTH)
    (folder / "local_nvme").mkdir()


def block(folder, name):
    """The text of a block with its placeholders filled in."""
    return (PAGE / f"{name}.json").read_text().replace("/local_nvme", str(folder / "local_nvme"))


def put(config, **values):
    """A copy with values at dotted keys, whose dots are two underscores."""
    out = json.loads(json.dumps(config))
    for key, value in values.items():
        *sections, last = key.split("__")
        at = out
        for section in sections:
            at = at.setdefault(section, {})
        at[last] = value
    return out


def without(config, *keys):
    out = json.loads(json.dumps(config))
    for key in keys:
        *sections, last = key.split(".")
        at = out
        for section in sections:
            at = at[section]
        at.pop(last, None)
    return out


def words(folder, name, config, *flags):
    """The line of a job; config: a block's text, an object, or None for a job without DeepSpeed."""
    out = ["trainer", "--model_name_or_path", folder / "model", "--train_file", folder / "rows.safetensors", "--do_train", "--max_steps", 4, "--logging_steps", 1, "--save_strategy", "no", "--report_to", "none",
           "--threads", 1, "--output_dir", folder / name, *flags]
    if "--per_device_train_batch_size" not in flags:
        out += ["--per_device_train_batch_size", 2]
    if config is not None:
        (folder / f"{name}.json").write_text(config if isinstance(config, str) else json.dumps(config, indent=4))
        out += ["--deepspeed", folder / f"{name}.json"]
    return out


def train(folder, name, config, *flags, ranks=2, status=0):
    """Runs on so many ranks; what was said, on stderr."""
    before = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*before, *r.command(*words(folder, name, config, *flags))], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=r.LIMIT)
    check(done.returncode == status, f"{name}: exit {done.returncode} instead of {status}\n{done.stderr[-1500:]}")
    return done.stderr


def taken(said):
    """Bytes of weights, states and the step's arena of a rank, and on the disk, as the log has them."""
    number = lambda text: float(text[1]) * UNITS[text[2]] if text else 0
    line = re.search(r"^memory   weights .*$", said, re.M)[0]
    out = {kind: number(re.search(rf"{word} ([\d.]+) (\w+)", line)) for kind, word in (("weights", "weights"), ("states", "optimizer"), ("arena", "arena"), ("activations", "activations"), ("batches", "batches"))}
    return {**out, "disk": number(re.search(r"^disk +([\d.]+) (\w+) of them in ", said, re.M))}


def rows(folder, name, key):
    return [json.loads(line)[key] for line in (folder / name / "metrics.jsonl").read_text().splitlines()]


def leaves(value, at=""):
    """Dotted keys of an object's values."""
    if not isinstance(value, dict):
        return {at}
    return {key for name, inner in value.items() for key in leaves(inner, f"{at}.{name}" if at else name)}


def test_the_files_are_the_pages(folder):
    page = r.shared("mission", "hf-deepspeed-zero.zh.txt").read_text().splitlines()
    for file in sorted(PAGE.glob("*.json")):
        lines = file.read_text().splitlines()
        check(any(page[i:i + len(lines)] == lines for i in range(len(page))), f"{file.name} is not as the page prints it")


def test_every_key_of_every_block_is_answered(folder):
    """Each leads to an option, or has no effect for a reason that is said: none is passed over, none refused."""
    prepare(folder)
    flags = {"zero2_by_hand": BY_HAND, "zero3_by_hand": BY_HAND, "optimizer_by_hand": ["--learning_rate", "0.001", "--adam_beta1", "0.8", "--weight_decay", "3e-7"]}
    for file in sorted(PAGE.glob("*.json")):
        text = block(folder, file.stem)
        done = r.run(*words(folder, file.stem, text, *flags.get(file.stem, []), "--ranks", 2, "--explain"))
        answers = {x["key"]: x for x in map(json.loads, done.stdout.splitlines()) if not x["key"].startswith(("--", "derived"))}
        keys = leaves(json.loads(re.sub(r",(\s*\})", r"\1", text)))
        check(keys == set(answers), f"{file.name}: {sorted(keys ^ set(answers))}")
        wrong = [x for x in answers.values() if x["status"] not in ("used", "inert") or x["status"] == "inert" and not x["reason"]]
        check(not wrong, f"{file.name}: {wrong}")


def test_nvme(folder):
    """States and weights on a disk: both, either, neither or in memory of the host are one run, whose memory falls by what lies on the disk; nothing is left in its folder."""
    prepare(folder, num_hidden_layers=16)
    text, found = block(folder, "nvme"), {}
    cases = {"both": ("nvme", "nvme"), "states": ("nvme", "none"), "weights": ("none", "nvme"), "cpu": ("cpu", "cpu"), "neither": ("none", "none")}
    for name, devices in cases.items():
        first, second, rest = text.split('"device": "nvme"')
        said = train(folder, name, f'{first}"device": "{devices[0]}"{second}"device": "{devices[1]}"{rest}', "--learning_rate", "1e-3")
        check("trailing comma" in said and "aio inside zero_optimization" in said, said)
        check((str(folder / "local_nvme") in said) == ("nvme" in devices), said)
        found[name] = taken(said)
        different = r.same_run(folder / name, folder / "both")
        check(not different, f"{name}: {different}")
    check(len(set(rows(folder, "both", "loss"))) == 4, "the run stands still")
    none, both = found["neither"], found["both"]
    check(found["cpu"]["disk"] == none["disk"] == 0 and 0 < found["weights"]["disk"] < found["states"]["disk"] < both["disk"], f"{found}")
    check(both["weights"] < none["weights"] / 2 and both["states"] < none["states"] / 2, f"{found}")
    check(found["states"]["weights"] == none["weights"] and found["weights"]["states"] == none["states"], f"one of the two moves the other: {found}")
    check(not any((folder / "local_nvme").iterdir()), "files are left behind")


def warmup(step):
    """The rate that DeepSpeed's WarmupLR gives a step from 1 on; the first two have the first one."""
    return 3e-5 * math.log(max(1, step - 1)) / math.log(500)


def test_the_whole_configs(folder):
    """ZeRO-2 and ZeRO-3, by "auto" and by hand: with the same numbers on the command line each pair is one run to the bit, and all four are the run without ZeRO; states of ranks are halves, weights of stage 3 too."""
    prepare(folder)
    plain = put(without(json.loads(block(folder, "zero2_by_hand")), *NO_OFFLOAD), zero_optimization__stage=0)
    memory = {"plain": taken(train(folder, "plain", plain, *BY_HAND))}
    for name in ("ds_config_zero2", "zero2_by_hand", "ds_config_zero3", "zero3_by_hand"):
        said = train(folder, name, block(folder, name), *BY_HAND)
        memory[name] = taken(said)
        check(r.metrics(folder / name) == r.metrics(folder / "plain"), f"{name}: {r.metrics(folder / name)} and {r.metrics(folder / 'plain')}")
        check(rows(folder, name, "loss_scale") == [65536] * 4 and rows(folder, name, "overflow") == [False] * 4, "the scale begins at 2 to the 16th")
        for step, rate in enumerate(rows(folder, name, "lr"), 1):
            check(math.isclose(rate, warmup(step), rel_tol=1e-12), f"{name}: step {step} has {rate}, WarmupLR {warmup(step)}")
        check(sorted((folder / name / "model").glob("*.safetensors")), "no model")
    for stage in ("2", "3"):
        a, b = f"ds_config_zero{stage}", f"zero{stage}_by_hand"
        check(r.weights(folder / a) == r.weights(folder / b), f"{a} and {b} come to other weights")
        check(memory[a]["states"] < 0.55 * memory["plain"]["states"], f"ZeRO {stage} divides no states: {memory}")
    check(memory["ds_config_zero3"]["weights"] < 0.8 * memory["ds_config_zero2"]["weights"] < memory["plain"]["weights"], f"masters are divided by stage 2, weights by stage 3: {memory}")
    kinds = {name: {kind for kind, _, _ in r.load_tensors(folder / name / "model").values()} for name in ("ds_config_zero2", "ds_config_zero3")}
    check(kinds["ds_config_zero3"] == {"F16"}, f"stage3_gather_16bit_weights_on_model_save writes 16 bits: {kinds}")


def test_auto_follows_the_flags(folder):
    """fp16 is on where a flag says so; without flags the defaults of the Trainer count."""
    prepare(folder)
    for name in ("ds_config_zero2", "ds_config_zero3"):
        text = block(folder, name)
        full = train(folder, f"{name}-f32", text)
        half = train(folder, f"{name}-f16", text, "--fp16")
        brain = train(folder, f"{name}-bf16", text, "--bf16")
        for said, kind in ((full, "f32"), (half, "f16"), (brain, "bf16")):
            check(re.search(rf"^compute  {kind} ", said, re.M), f"{name}: {said}")
        losses = {kind: rows(folder, f"{name}-{kind}", "loss") for kind in ("f32", "f16", "bf16")}
        check(len({tuple(x) for x in losses.values()}) == 3 and all(math.isclose(a, b, rel_tol=0.01) for x in losses.values() for a, b in zip(x, losses["f32"])), f"{name}: {losses}")
        check("loss_scale" in (folder / f"{name}-f16" / "metrics.jsonl").read_text() and "loss_scale" not in (folder / f"{name}-f32" / "metrics.jsonl").read_text(), "the scale is of fp16 alone")


def test_zero3_as_near_to_zero2_as_it_comes(folder):
    """A threshold of 6 h^2 is larger than the largest parameter: all weights stay on each rank, as in stage 2. Its numbers are those of any threshold."""
    prepare(folder)
    auto = json.loads(block(folder, "ds_config_zero3"))
    near = put(without(auto, "zero_optimization.offload_param"), zero_optimization__stage3_param_persistence_threshold=6 * HIDDEN * HIDDEN)
    memory = {"usual": taken(train(folder, "usual", auto, "--learning_rate", "1e-3")), "near": taken(train(folder, "near", near, "--learning_rate", "1e-3")),
              "zero2": taken(train(folder, "zero2", block(folder, "ds_config_zero2"), "--learning_rate", "1e-3"))}
    for name in ("near", "zero2"):
        check(r.metrics(folder / name) == r.metrics(folder / "usual"), f"{name}: {r.metrics(folder / name)} and {r.metrics(folder / 'usual')}")
    check(memory["usual"]["weights"] < memory["near"]["weights"] == memory["zero2"]["weights"], f"stage3_param_persistence_threshold moves no weights: {memory}")
    planned = {}
    for name, config in (("usual", auto), ("near", near)):
        (folder / f"{name}.yaml").write_text(r.run(*words(folder, f"{name}-printed", config, "--ranks", 2, "--print-config")).stdout)
        planned[name] = json.loads(r.run("plan", "--config", folder / f"{name}.yaml", "--ranks", 2, "--json").stdout)["weights"]
    check(planned["usual"] < planned["near"], f"the plan does not say it: {planned}")


# Of the nine steps of the guide: the config that its reader has then, and flags. The seventh lowers defaults, of which there is none here.
def nine_steps(folder):
    two, three = (json.loads(block(folder, f"ds_config_zero{stage}")) for stage in (2, 3))
    disk = put(three, **{f"zero_optimization__{section}": {"device": "nvme", "nvme_path": str(folder / "local_nvme")} for section in ("offload_optimizer", "offload_param")})
    return {1: (put(without(two, *NO_OFFLOAD), zero_optimization__stage=0), []), 2: (without(two, NO_OFFLOAD[0]), []), 3: (two, []), 4: (without(three, *NO_OFFLOAD), []), 5: (without(three, NO_OFFLOAD[0]), []), 6: (three, []),
            8: (three, ["--bf16"]), 9: (disk, ["--bf16"])}


def test_the_nine_steps(folder):
    """From batches of 1 with --gradient_checkpointing 1 on: each step runs as the guide has it, takes the bytes that `ravine plan --procedure` says, and the numbers of the steps before it."""
    prepare(folder, hidden_size=128, intermediate_size=256)
    one = ["--per_device_train_batch_size", 1, "--learning_rate", "1e-3"]
    many = ["--per_device_train_batch_size", 16, "--learning_rate", "1e-3"]
    less, whole = taken(train(folder, "again", None, *many, "--gradient_checkpointing", 1, ranks=1)), taken(train(folder, "kept", None, *many, ranks=1))
    check(not r.same_run(folder / "again", folder / "kept") and less["arena"] < whole["arena"] / 2, f"--gradient_checkpointing 1: {less} and {whole}")
    steps = nine_steps(folder)
    (folder / "start.json").write_text(block(folder, "ds_config_zero3"))
    plan = lambda *flags, status: json.loads(r.run("plan", "--procedure", "--config", folder / "start.json", "--ranks", 2, "--model", folder / "model", f"data.sequence_length={LENGTH}", "train.global_batch=2", "--json", *flags,
                                                     status=status).stdout)
    planned = {s["step"]: s for s in plan("--memory", 0.001, status=1)["steps"]}
    check(sorted(planned) == list(range(1, 10)), f"{sorted(planned)}")
    for number, word in {1: "gradient checkpointing", 2: "ZeRO 2", 3: "offload_optimizer cpu", 4: "ZeRO 3", 5: "offload_param cpu", 6: "offload_optimizer cpu", 7: "lower defaults", 8: "bf16", 9: "nvme"}.items():
        check(word in planned[number]["what"], f"step {number}: {planned[number]}")
    for number, (config, more) in steps.items():
        used = taken(train(folder, f"step{number}", config, *one, *more, "--gradient_checkpointing", 1))
        said, memory = planned[number], used["weights"] + used["states"] + used["arena"] + used["batches"]
        rounding = 0.05 * 2**20  # of each of three numbers in the log
        fits = abs(memory - said["device"] - said["host"]) < 3 * rounding and not used["disk"]
        if number == 9:  # some layers of what lies on the disk are in memory at once
            fits = said["device"] < memory < planned[8]["device"] + planned[8]["host"] / 2 and math.isclose(used["disk"], said["disk"], rel_tol=0.03)
        check(fits, f"step {number} takes {used}, planned were {said}")
        like = 8 if number > 6 else 1
        check(r.metrics(folder / f"step{number}") == r.metrics(folder / f"step{like}"), f"step {number} has other numbers than step {like}")
    check(all(math.isclose(a, b, rel_tol=0.01) and a != b for a, b in zip(rows(folder, "step8", "loss"), rows(folder, "step1", "loss"))), "bf16 is near f32, and not it")


def test_the_procedure_chooses(folder):
    """With less memory a later step; the config that comes out is one that the Trainer takes, and its run has the numbers of the first step."""
    prepare(folder, hidden_size=128, intermediate_size=256)
    (folder / "start.json").write_text(block(folder, "ds_config_zero3"))
    ask = lambda *flags, status=0: json.loads(r.run("plan", "--procedure", "--config", folder / "start.json", "--ranks", 2, "--model", folder / "model", f"data.sequence_length={LENGTH}", "train.global_batch=2", "--json", *flags,
                                                    status=status).stdout)
    planned = {s["step"]: s["device"] for s in ask("--memory", 0.001, status=1)["steps"]}
    for number, stage in ((1, 0), (2, 2), (3, 2), (6, 3)):
        chosen = ask("--memory", (planned[number] + 0.5) / 2**30)
        config = chosen["ds_config"]
        check([s["step"] for s in chosen["steps"] if s["fits"]][0] == number and config["zero_optimization"]["stage"] == stage, f"step {number}: {chosen}")
        train(folder, f"step{number}", config, "--per_device_train_batch_size", 1, "--gradient_checkpointing", 1, "--learning_rate", "1e-3")
        check(r.metrics(folder / f"step{number}") == r.metrics(folder / "step1"), f"step {number} has other numbers")


def test_flags_set_what_is_auto(folder):
    """Rate, betas, eps and decay of the command line are those of the update: the auto block under flags is the run of the explicit block under the same flags, and each flag by itself changes it."""
    prepare(folder)
    given = {"--learning_rate": "0.001", "--adam_beta1": "0.8", "--adam_beta2": "0.999", "--adam_epsilon": "1e-8", "--weight_decay": "3e-7"}
    flat = lambda flags: [word for pair in flags.items() for word in pair]
    for name in ("auto", "by_hand"):
        train(folder, name, block(folder, f"optimizer_{name}"), *flat(given), ranks=1)
    different = r.same_run(folder / "auto", folder / "by_hand")
    check(not different and rows(folder, "auto", "lr")[0] == 0.001, different)
    for flag, value in {"--learning_rate": "0.002", "--adam_beta1": "0.5", "--adam_beta2": "0.5", "--adam_epsilon": "1e-2", "--weight_decay": "0.5"}.items():
        train(folder, flag, block(folder, "optimizer_auto"), *flat({**given, flag: value}), ranks=1)
        check(r.weights(folder / flag) != r.weights(folder / "auto"), f"{flag} changes no weight")
        said = train(folder, f"{flag}-against", block(folder, "optimizer_by_hand"), *flat({**given, flag: value}), ranks=1, status=2)
        check(flag.lstrip("-") in said.replace("adam_beta1+adam_beta2", "adam_beta1 adam_beta2") and value.lstrip("0") in said and not (folder / f"{flag}-against").exists(), f"two values for one: {said}")
    # Without an optimizer entry the Trainer's AdamW takes the same flags.
    train(folder, "none", without(json.loads(block(folder, "ds_config_zero2")), "optimizer", "scheduler"), *flat(given), ranks=1)
    train(folder, "none-alone", None, *flat(given), ranks=1)
    check(r.metrics(folder / "none") == r.metrics(folder / "none-alone") and rows(folder, "none", "lr")[0] == 0.001, "AdamW of the flags")


def test_the_four_main_optimizers(folder):
    """Adam, AdamW, OneBitAdam and Lamb, which the page calls thoroughly tested with ZeRO, without any further key: each trains under stages 2 and 3 as without ZeRO, and by a rule of its own."""
    prepare(folder)
    wrong, ends = [], {}
    for kind in ("Adam", "AdamW", "OneBitAdam", "Lamb"):
        params = {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": 0.01 if kind == "Adam" else "auto"}  # the page: about 0.01 for Adam
        flags = ["--learning_rate", "1e-3", *(["--weight_decay", "0.01"] if kind == "Adam" else [])]
        for stage in (0, 2, 3):
            base = without(json.loads(block(folder, "ds_config_zero3" if stage == 3 else "ds_config_zero2")), *NO_OFFLOAD)
            config = put(base, optimizer__type=kind, optimizer__params=params, zero_optimization__stage=stage)
            try:
                said = train(folder, f"{kind}-{stage}", config, *flags)
                notices = [line for line in said.splitlines() if line.startswith("notice: ") and kind in line and "ZeRO" in line]
                check(stage == 0 or kind in ("Adam", "AdamW") or notices, f"{kind} under ZeRO {stage}: no notice that DeepSpeed's code refuses it\n{said}")
                check(r.metrics(folder / f"{kind}-{stage}") == r.metrics(folder / f"{kind}-0"), f"{kind}: other numbers under stage {stage}")
                check(stage == 3 or r.weights(folder / f"{kind}-{stage}") == r.weights(folder / f"{kind}-0"), f"{kind}: other weights under stage {stage}")
            except AssertionError as error:
                wrong.append(f"{kind}, stage {stage}: {error}")
        ends[kind] = r.weights(folder / f"{kind}-0") if (folder / f"{kind}-0" / "model").exists() else kind
    check(not wrong, "\n".join(wrong))
    check(len(set(ends.values())) == 4, "two of the four have one rule")


def test_other_optimizers(folder):
    """One that is not of the four is refused until `zero_allow_untested_optimizer` stands at the top; with states of the host and `zero_force_ds_cpu_optimizer` false it is that optimizer which updates."""
    prepare(folder)
    other = put(json.loads(block(folder, "ds_config_zero2")), optimizer__type="SGD", optimizer__params={"lr": "auto", "weight_decay": "auto"})
    said = train(folder, "refused", other, "--learning_rate", "1e-2", ranks=1, status=2)
    check("zero_allow_untested_optimizer" in said and "SGD" in said and not (folder / "refused").exists(), said)
    train(folder, "allowed", {**other, **json.loads(block(folder, "untested_optimizer"))}, "--learning_rate", "1e-2")
    train(folder, "alone", {**put(without(other, *NO_OFFLOAD), zero_optimization__stage=0)}, "--learning_rate", "1e-2")
    different = r.same_run(folder / "allowed", folder / "alone")
    check(not different, different)
    for name in ("sgd", "adafactor"):
        offloaded = {**without(json.loads(block(folder, "ds_config_zero2")), "optimizer", "scheduler"), **json.loads(block(folder, "other_optimizer_offloaded"))}
        train(folder, f"{name}-offloaded", offloaded, "--optim", name, "--learning_rate", "1e-2", ranks=1)
        train(folder, f"{name}-alone", None, "--optim", name, "--learning_rate", "1e-2", ranks=1)
        check(r.metrics(folder / f"{name}-offloaded") == r.metrics(folder / f"{name}-alone"), f"--optim {name} is not what updates")
    train(folder, "adamw-alone", None, "--learning_rate", "1e-2", ranks=1)
    check(len({(folder / f"{name}-alone" / "model" / "model.safetensors").read_bytes() for name in ("sgd", "adafactor", "adamw")}) == 3, "three rules")


if __name__ == "__main__":
    r.main(globals())
