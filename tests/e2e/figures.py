"""Every figure that a user reads, computed once more from its definition: metrics.jsonl, the log, TensorBoard's events, `bench`, `plan`, `info`,
`data show` and the profile. The model of the first test is run and differentiated here, in plain Python."""
import array
import datetime
import functools
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import ravine_run as r

SHARED_PEAKS = False  # what is measured of this machine is looked at
from ravine_run import check

F32 = 2.0 ** -23
SHARED = {"tie_word_embeddings": False, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
SMALL = {"model_type": "llama", "hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 4, "vocab_size": 11, "max_position_embeddings": 16, **SHARED}
# Heads times head size is not the hidden size: 4 * 48 = 192 and 128.
MIDDLE = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 48, "vocab_size": 1000, "max_position_embeddings": 256, **SHARED}


def near(got, want, relative, what):
    check(abs(got - want) <= relative * max(abs(want), 1e-300), f"{what}: {got!r}, by its definition {want!r}")


def shapes(c):
    """Name -> shape of a Llama of these settings."""
    h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    out = {"model.embed_tokens.weight": (c["vocab_size"], h)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out.update({p + "input_layernorm.weight": (h,), p + "self_attn.q_proj.weight": (q, h), p + "self_attn.k_proj.weight": (kv, h),
                    p + "self_attn.v_proj.weight": (kv, h), p + "self_attn.o_proj.weight": (h, q), p + "post_attention_layernorm.weight": (h,),
                    p + "mlp.gate_proj.weight": (f, h), p + "mlp.up_proj.weight": (f, h), p + "mlp.down_proj.weight": (h, f)})
    return {**out, "model.norm.weight": (h,), "lm_head.weight": (c["vocab_size"], h)}


def count(c, which=lambda name, shape: True):
    return sum(math.prod(s) for n, s in shapes(c).items() if which(n, s))


def in_products(name, shape):
    return len(shape) == 2 and name != "model.embed_tokens.weight"


def training_flops(c, T):
    """Per token: 6 for each weight in a product, and attention 6 L T C, C being heads times head size."""
    return 6 * count(c, in_products) + 6 * c["num_hidden_layers"] * T * c["num_attention_heads"] * c["head_dim"]


def last_json(*arguments):
    return json.loads(r.run(*arguments).stdout.splitlines()[-1])


@functools.cache
def machine():
    """What `bench machine` says and leaves in the cache of these tests."""
    return last_json("bench", "machine", "--json")


@functools.cache
def measured():
    """Leaves the peaks in the cache of these tests: by `bench machine`, which takes its time, or in the short tier by a plan."""
    if r.FULL:
        machine()
    else:
        r.run("plan", f"model.config={Path(__file__).resolve().parents[2] / 'configs' / 'llama-demo.json'}", "data.sequence_length=64")


def peaks():
    """As they are in the cache of these tests."""
    measured()
    cache = json.loads((Path(os.environ["XDG_CACHE_HOME"]) / "ravine" / "machine.json").read_text())
    found = [v for v in cache.values() if isinstance(v, dict) and "f32_flops" in v]
    check(len(found) == 1, f"{cache}")
    return found[0]


def peak(compute="f32"):
    return peaks()[compute + "_flops"]


# ---- a Llama in plain Python

def product(w, x):
    return [sum(a * b for a, b in zip(row, x)) for row in w]


def norm(x, w, eps):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [v * scale * g for v, g in zip(x, w)]


def turned(x, position, theta):
    """RoPE of one head: halves turn together."""
    half = len(x) // 2
    angles = [position * theta ** (-2 * i / len(x)) for i in range(half)]
    return ([x[i] * math.cos(a) - x[i + half] * math.sin(a) for i, a in enumerate(angles)] +
            [x[i + half] * math.cos(a) + x[i] * math.sin(a) for i, a in enumerate(angles)])


def summed_loss(c, w, rows):
    """Sum of -log p over the tokens that count, and their number. rows: (ids, labels); the label of a column is predicted by the column before it."""
    d, heads, groups = c["head_dim"], c["num_attention_heads"], c["num_attention_heads"] // c["num_key_value_heads"]
    total, valid = 0.0, 0
    for ids, labels in rows:
        stream = [list(w["model.embed_tokens.weight"][t]) for t in ids]
        for i in range(c["num_hidden_layers"]):
            m = {n: w[f"model.layers.{i}.{n}.weight"] for n in ("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                                                "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")}
            normed = [norm(x, m["input_layernorm"], c["rms_norm_eps"]) for x in stream]
            cut = lambda v: [v[k:k + d] for k in range(0, len(v), d)]
            q = [[turned(h, t, c["rope_theta"]) for h in cut(product(m["self_attn.q_proj"], x))] for t, x in enumerate(normed)]
            k = [[turned(h, t, c["rope_theta"]) for h in cut(product(m["self_attn.k_proj"], x))] for t, x in enumerate(normed)]
            v = [cut(product(m["self_attn.v_proj"], x)) for x in normed]
            for t, x in enumerate(stream):
                seen = []
                for h in range(heads):
                    scores = [sum(a * b for a, b in zip(q[t][h], k[s][h // groups])) / math.sqrt(d) for s in range(t + 1)]
                    top = max(scores)
                    p = [math.exp(s - top) for s in scores]
                    seen += [sum(p[s] * v[s][h // groups][j] for s in range(t + 1)) / sum(p) for j in range(d)]
                stream[t] = [a + b for a, b in zip(x, product(m["self_attn.o_proj"], seen))]
                inner = norm(stream[t], m["post_attention_layernorm"], c["rms_norm_eps"])
                gate, up = product(m["mlp.gate_proj"], inner), product(m["mlp.up_proj"], inner)
                stream[t] = [a + b for a, b in zip(stream[t], product(m["mlp.down_proj"], [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]))]
        for t, x in enumerate(stream[:-1]):
            if labels[t + 1] < 0:
                continue
            logits = product(w["lm_head.weight"], norm(x, w["model.norm.weight"], c["rms_norm_eps"]))
            top = max(logits)
            total += top + math.log(sum(math.exp(z - top) for z in logits)) - logits[labels[t + 1]]
            valid += 1
    return total, valid


def mean_loss(c, w, rows):
    total, valid = summed_loss(c, w, rows)
    return total / valid


def gradient(c, w, rows):
    """By central differences: wrong by the square of their step, 1e-10, and by 2^-53 over it."""
    out = {}
    for name, value in w.items():
        lists = value if isinstance(value[0], list) else [value]
        grads = []
        for row in lists:
            for i, x in enumerate(row):
                step = 1e-5
                row[i] = x + step
                above = mean_loss(c, w, rows)
                row[i] = x - step
                below = mean_loss(c, w, rows)
                row[i] = x
                grads.append((above - below) / (2 * step))
        out[name] = grads
    return out


def cosine(lr, step, warmup, steps, least):
    """The rate of step 1, 2, ..: linear from 0, then half a cosine down to `least` of it."""
    at = step - 1
    if at < warmup:
        return lr * at / warmup
    return lr * (least + (1 - least) * 0.5 * (1 + math.cos(math.pi * (at - warmup) / (steps - warmup))))


def adamw(w, state, grads, step, lr, o):
    """torch.optim.AdamW; matrices decay."""
    size = math.sqrt(sum(g * g for gs in grads.values() for g in gs))
    scale = min(1.0, o["clip_norm"] / (size + 1e-6))
    for name, value in w.items():
        m, v = state.setdefault(name, ([0.0] * len(grads[name]), [0.0] * len(grads[name])))
        decay = isinstance(value[0], list)
        at = 0
        for row in value if decay else [value]:
            for i in range(len(row)):
                g = grads[name][at] * scale
                m[at] = o["betas"][0] * m[at] + (1 - o["betas"][0]) * g
                v[at] = o["betas"][1] * v[at] + (1 - o["betas"][1]) * g * g
                if decay:
                    row[i] *= 1 - lr * o["weight_decay"]
                row[i] -= lr * m[at] / (1 - o["betas"][0] ** step) / (math.sqrt(v[at] / (1 - o["betas"][1] ** step)) + o["eps"])
                at += 1
    return size


def save_model(folder, c, seed=3):
    """A model folder of drawn weights, and the weights as lists."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(c))
    draw, flat, w = random.Random(seed), {}, {}
    for name, shape in shapes(c).items():
        one = len(shape) == 1
        flat[name] = ("F32", shape, array.array("f", [(1 if one else 0) + draw.gauss(0, 0.4) for _ in range(math.prod(shape))]))
        values = list(flat[name][2])
        w[name] = values if one else [values[i:i + shape[1]] for i in range(0, len(values), shape[1])]
    r.save_tensors(folder / "model.safetensors", flat)
    return w


def save_rows(path, rows, columns, vocabulary, seed):
    """Rows of ids, and labels of which some count; as they are in the file."""
    draw = random.Random(seed)
    ids = [[draw.randrange(vocabulary) for _ in range(columns)] for _ in range(rows)]
    labels = [[t if draw.random() < 0.7 else -100 for t in row] for row in ids]
    r.save_tensors(path, {"input_ids": ("I32", (rows, columns), [t for row in ids for t in row]),
                          "labels": ("I64", (rows, columns), [t for row in labels for t in row])})
    return list(zip(ids, labels))


def rows_of(output):
    return [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]


def test_loss_norm_and_rate(folder):
    """loss, lr, grad_norm, tokens and valid_loss of whole training steps, and the weights that they lead to."""
    w = save_model(folder / "model", SMALL)
    data, valid = save_rows(folder / "data.safetensors", 8, 6, 11, 1), save_rows(folder / "valid.safetensors", 5, 6, 11, 2)
    o = {"lr": 0.02, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.3, "clip_norm": 0.5}
    steps, warmup, least = 3 if r.FULL else 2, 1, 0.25
    values = {"model.path": folder / "model", "data.train": [str(folder / "data.safetensors")], "data.valid": [str(folder / "valid.safetensors")],
              "data.sequence_length": 6, "train.steps": steps, "train.global_batch": 4, "train.micro_batch": 2, "train.valid_every": 2,
              "train.output": folder / "run", "schedule.type": "cosine", "schedule.warmup_steps": warmup, "schedule.min_lr_ratio": least,
              "checkpoint.every": 0, **{f"optimizer.{k}": v for k, v in o.items()}}
    r.run("train", *r.settings(values))
    r.run("train", "--backend", "ref", *r.settings({**values, "train.output": folder / "f64", "precision.compute": "f64"}))
    single, double = rows_of(folder / "run"), rows_of(folder / "f64")
    check([m["step"] for m in single] == list(range(1, steps + 1)), single)
    state, clipped = {}, 0
    for step in range(1, steps + 1):
        rows = [data[(4 * (step - 1) + i) % len(data)] for i in range(4)]
        want = {"loss": mean_loss(SMALL, w, rows), "lr": cosine(o["lr"], step, warmup, steps, least)}
        want["grad_norm"] = adamw(w, state, gradient(SMALL, w, rows), step, want["lr"], o)
        clipped += want["grad_norm"] > o["clip_norm"]
        if step % 2 == 0 or step == steps:
            want["valid_loss"] = mean_loss(SMALL, w, valid)
        for metrics, bound in ((double[step - 1], 1e-6), (single[step - 1], 256 * F32)):
            check(("valid_loss" in metrics) == ("valid_loss" in want), metrics)
            for key, value in want.items():
                near(metrics[key], value, 1e-15 if key == "lr" else bound, f"step {step}, {key}")
            check(metrics["tokens"] == step * 4 * 6, f"step {step}: {metrics['tokens']} tokens")
    check(clipped > 0, "nothing was clipped")
    for name, (_, shape, raw) in r.load_tensors(folder / "run" / "model").items():
        flat = [x for row in w[name] for x in row] if len(shape) == 2 else w[name]
        for got, value in zip(array.array("f", raw), flat):
            check(abs(got - value) <= 256 * F32, f"{name}: {got} and {value}")


# ---- TensorBoard's events, read without a library

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, value) of a protobuf message; the bytes of whatever is not a varint."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            if key & 7 == 2:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def events(folder):
    """(tag, step, value, wall time) of every scalar in event files."""
    out = []
    for path in sorted(Path(folder).glob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            length, crc = struct.unpack_from("<QI", data, at)
            payload = data[at + 12:at + 12 + length]
            check(crc == masked(data[at:at + 8]) and struct.unpack_from("<I", data, at + 12 + length)[0] == masked(payload), f"{path}: checksum at {at}")
            at += 16 + length
            step, time, summaries = 0, 0.0, []
            for number, value in fields(payload):
                if number == 1:
                    time = struct.unpack("<d", value)[0]
                elif number == 2:
                    step = value
                elif number == 5:
                    summaries += [dict(fields(v)) for n, v in fields(value) if n == 1]
            out += [(s[1].decode(), step, struct.unpack("<f", s[2])[0], time) for s in summaries if 2 in s]
    return out


TAGS = {"train/loss": "loss", "train/lr": "lr", "train/grad_norm": "grad_norm", "train/valid_loss": "valid_loss", "speed/tokens_per_second": "tokens_per_second",
        "speed/sol": "sol", "memory/resident_mb": "memory_mb"}


def human_time(s):
    return f"{s:.1f} s" if s < 9.95 else f"{round(s)} s"


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def test_a_run(folder):
    """tokens_per_second, sol, memory_mb, the log line and TensorBoard of one run."""
    measured()
    (folder / "config.json").write_text(json.dumps(MIDDLE))
    r.save_ids(folder / "ids.safetensors", 24, 64, vocabulary=1000)
    steps, batch, T = 24, 8, 64
    values = {"model.config": folder / "config.json", "data.train": [str(folder / "ids.safetensors")], "data.valid": [str(folder / "ids.safetensors")],
              "data.sequence_length": T, "train.steps": steps, "train.global_batch": batch, "train.micro_batch": 4, "train.valid_every": 10, "train.valid_batches": 2,
              "train.output": folder / "run", "checkpoint.every": 0, "optimizer.lr": 3e-4, "schedule.warmup_steps": 3}
    job, seen = r.start("train", *r.settings(values)), []
    while job.poll() is None:  # the memory of the process, from outside
        try:
            seen.append(resident(job.pid))
        except (OSError, IndexError):
            pass
        time.sleep(0.002)
    log = job.communicate()[0]
    check(job.returncode == 0, log)
    rows = rows_of(folder / "run")
    check([m["step"] for m in rows] == list(range(1, steps + 1)), rows)
    per_token, lines = training_flops(MIDDLE, T), {}
    for line in log.splitlines():
        if m := re.match(r"step +(\d+)/(\d+)  loss (\S+)  lr (\S+)  norm (\S+) +(\d+) tok/s  sol (\S+)  (\d+) ms  left (.+?)(?:  valid_loss (\S+))?$", line):
            lines[int(m[1])] = m.groups()[1:]
    average = 0
    for m in rows:
        near(m["tokens_per_second"], batch * T / m["step_time"], 1e-12, "tokens_per_second")
        near(m["sol"], m["tokens_per_second"] * per_token / peak(), 1e-9, "sol")
        check(m["tokens"] == m["step"] * batch * T, f"{m}")
        average = m["step_time"] if not average else 0.9 * average + 0.1 * m["step_time"]
        want = (str(steps), f"{m['loss']:.4f}", f"{m['lr']:.2e}", f"{m['grad_norm']:.3f}", f"{m['tokens_per_second']:.0f}", f"{m['sol']:.2f}",
                f"{1000 * m['step_time']:.0f}", human_time(average * (steps - m["step"])), f"{m['valid_loss']:.4f}" if "valid_loss" in m else None)
        check(lines.get(m["step"]) == want, f"the log says {lines.get(m['step'])}, metrics.jsonl {want}")
    check(max(m["memory_mb"] for m in rows) <= max(seen) + 1 and all(min(seen) <= m["memory_mb"] for m in rows), f"{rows[-1]['memory_mb']} MiB, seen from outside: {max(seen)}")
    middle = seen[len(seen) // 3:-(len(seen) // 3)]
    steady = sorted(middle)[len(middle) // 2]
    near(rows[steps // 2]["memory_mb"], steady, 0.04, "memory_mb against /proc")  # a MB is 4.9 % less than a MiB
    announced = re.search(r"peak (\d+) GFLOP/s", log)
    check(announced[1] == f"{peak() / 1e9:.0f}", announced[0])
    check(f"{steps} steps of {batch} sequences ({batch * T} tokens each), {steps * batch * T / 1000:.1f} k tokens in all" in log, log)
    check(f"{count(MIDDLE) / 1000:.1f} k parameters, 3 layers, hidden 128, 4 heads (2 key/value), vocabulary 1000" in log, log)
    # TensorBoard: every scalar is the number of metrics.jsonl, in single precision.
    found = events(folder / "run" / "tensorboard")
    given = {(TAGS.get(tag, tag), step): value for tag, step, value, _ in found}
    wanted = {(key, m["step"]): struct.unpack("<f", struct.pack("<f", m[key]))[0] for m in rows for key in TAGS.values() if key in m}
    check(given == wanted, f"TensorBoard differs: {[(k, given.get(k), wanted.get(k)) for k in given.keys() | wanted.keys() if given.get(k) != wanted.get(k)][:4]}")
    check(len(found) == len(given), "a scalar is there twice")
    # A step cannot take longer than what lies between two lines, and takes most of it.
    walls = [time for tag, _, _, time in found if tag == "train/loss"]
    shares = sorted(m["step_time"] / max(b - a, 1e-9) for m, a, b in zip(rows[1:], walls, walls[1:]))
    check(shares[-1] < 1.02 and shares[len(shares) // 2] > 0.6, f"step_time is {shares} of the time between two events")
    now = datetime.datetime.now().timestamp()
    check(all(now - 600 < t <= now + 1 for t in walls), "wall times of events")
    # `info` shows the last line.
    check(json.loads(r.run("info", folder / "run", "--json").stdout)["last_step"] == rows[-1], "info: last step")


@r.full("bench machine takes seconds; the peaks of the short tier are those that a plan leaves in the cache")
def test_bench_machine(folder):
    kept = peaks()
    for key, name in (("f32_flops", "f32_flops"), ("bf16_flops", "bf16_flops"), ("f32_product_flops", "f32_product"), ("bf16_product_flops", "bf16_product"),
                      ("bf16_dot_flops", "bf16_dot"), ("read_bytes_per_second", "read_bytes"), ("copy_bytes_per_second", "copy_bytes")):
        check(machine()[key] == kept[name], f"{key} is {machine()[key]}, the cache has {kept[name]}")
    check(machine()["f32_flops"] >= machine()["f32_product_flops"] and machine()["bf16_flops"] >= machine()["bf16_product_flops"], f"{machine()}")


def with_peaks(folder, **changed):
    """An environment whose cache has the peaks of these tests, with these changes; and a function that reads what it holds later."""
    measured()
    file = folder / "ravine" / "machine.json"
    file.parent.mkdir(parents=True)
    cache = json.loads((Path(os.environ["XDG_CACHE_HOME"]) / "ravine" / "machine.json").read_text())
    file.write_text(json.dumps({k: {**v, **changed} for k, v in cache.items() if isinstance(v, dict) and "f32_flops" in v}))
    return {**os.environ, "XDG_CACHE_HOME": str(folder)}, lambda: next(iter(json.loads(file.read_text()).values()))


def test_peaks_are_kept_with_how_sure_they_are(folder):
    kept = peaks()
    check(kept["sure"] == (kept["spread"] <= 0.03 and kept["ran"] >= 0.95) and 0 <= kept["spread"] < 1 and 0 < kept["ran"] <= 1, f"{kept}")
    # Peaks that are not sure are measured again once nothing else runs, and never become smaller but by a measurement that is sure.
    env, now = with_peaks(folder / "unsure", f32_flops=2 * kept["f32_flops"], sure=False, spread=0.5)
    r.run("plan", f"model.config={Path(__file__).resolve().parents[2] / 'configs' / 'llama-demo.json'}", "data.sequence_length=64", env=env)
    check(now()["sure"] or now()["f32_flops"] >= 2 * kept["f32_flops"], f"{now()}")


def test_figures_that_no_machine_has(folder):
    """A cache that was damaged is not believed, and is measured again; a pipe of its name is not waited for."""
    plan = ["plan", f"model.config={Path(__file__).resolve().parents[2] / 'configs' / 'llama-demo.json'}", "data.sequence_length=64"]
    names = ("f32_flops", "bf16_flops", "f32_product", "bf16_product", "read_bytes", "spread")
    wrong = [(name, value) for name in names for value in (-5, 1e300, "1") if not (name == "spread" and value == "1")] + [("f32_flops", 0)]
    for name, value in r.rows(wrong, 1, "one look at all figures"):
        env, now = with_peaks(folder / f"{name}-{value}", **{name: value})
        r.run(*plan, env=env)
        check(isinstance(now()[name], float) and 0 <= now()[name] < 1e16 and now()[name] != value, f"{name}: {value}, then {now()}")
    (folder / "pipe" / "ravine").mkdir(parents=True)
    os.mkfifo(folder / "pipe" / "ravine" / "machine.json")
    done = subprocess.run(r.command(*plan), env={**os.environ, "XDG_CACHE_HOME": str(folder / "pipe")}, capture_output=True, text=True, timeout=25)
    check(done.returncode == 0, done.stderr)


def test_a_peak_that_is_too_low(folder):
    """It is raised by the step that beats it, for runs to come too; sol is above 1 nowhere."""
    save_model(folder / "model", MIDDLE)
    save_rows(folder / "data.safetensors", 8, 32, 1000, 1)
    values = {"model.path": folder / "model", "data.train": [str(folder / "data.safetensors")], "data.sequence_length": 32, "train.steps": 6, "train.global_batch": 2, "log.every": 2,
              "log.tensorboard": True, "checkpoint.every": 0}
    for name, changed in (("sure", {"sure": True}), ("unsure", {"sure": False, "ran": 0.5})):
        env, now = with_peaks(folder / name, f32_flops=1e6, bf16_flops=1e6, **changed)
        said = r.run("train", *r.settings({**values, "train.output": folder / f"run-{name}"}), env=env).stderr
        rows = rows_of(folder / f"run-{name}")
        shown = [float(x) for x in re.findall(r"tok/s  sol ([0-9.]+) ", said)] + [m["sol"] for m in rows] + [x for tag, _, x, _ in events(folder / f"run-{name}" / "tensorboard") if tag == "speed/sol"]
        check(len(shown) >= 3 * len(rows) and all(0 < x <= 1 for x in shown), f"sol is {shown}")
        check(now()["f32_flops"] > 1e7 and now()["bf16_flops"] >= now()["f32_flops"], f"{name}: the peak stays at {now()}")
        if name == "sure":
            check(said.count("measured as this machine's peak") == 1 and not now()["sure"], said)
            fastest = max(training_flops(MIDDLE, 32) * m["tokens_per_second"] for m in rows)
            check(now()["f32_flops"] >= fastest * (1 - 1e-9), f"{now()}, and steps made {fastest:.4g} FLOP/s")
            # The next run is not told of it again by a peak of old.
            check(float(re.search(r"peak (\d+) GFLOP/s \(sol 1\)", r.run("train", *r.settings({**values, "train.output": folder / "again"}), env=env).stderr)[1]) >= math.floor(fastest * 1e-9), "the next run forgot it")
    for i, words in enumerate((["bench", "train", "--micro-batch", 2], ["bench", "prefill"])):
        env, now = with_peaks(folder / f"bench{i}", f32_flops=1e6, bf16_flops=1e6, sure=True)
        done = r.run(*words, "--model", folder / "model" / "config.json", "--sequence-length", 32, "--steps", 2, "--json", "precision.compute=f32", env=env)
        said = json.loads(done.stdout.splitlines()[-1])
        check(said["sol"] == 1 and said["peak_flops"] > 1e7 and now()["f32_flops"] == said["peak_flops"] and "measured as this machine's peak" in done.stderr, f"{said} {done.stderr}")
    # Frozen weights may have no backward pass: their FLOPs are counted, so such a step proves nothing of the machine.
    env, now = with_peaks(folder / "frozen-peaks", f32_flops=1e6, bf16_flops=1e6, sure=True)
    said = r.run("train", *r.settings({**values, "train.output": folder / "frozen", "train.freeze": ["model.embed_tokens*"]}), env=env).stderr
    check(now()["f32_flops"] == 1e6 and all(m["sol"] == 1 for m in rows_of(folder / "frozen")), f"{now()} {said}")


@r.full("the short tier has the same of what plan measures")
def test_peaks_that_cannot_be_kept_are_said(folder):
    (folder / "file").write_text("")
    done = r.run("bench", "machine", "--json", env={**os.environ, "XDG_CACHE_HOME": str(folder / "file" / "cache")})
    check("not kept" in done.stderr and str(folder / "file") in done.stderr and json.loads(done.stdout), done.stderr)


def test_bench(folder):
    config = folder / "config.json"
    config.write_text(json.dumps(MIDDLE))
    measured()
    T, B = 96, 2
    for compute, size in r.rows((("f32", 4), ("bf16", 2)), 1, "the types take turns"):
        with open(os.devnull) as nothing:
            run = subprocess.Popen(r.command("bench", "train", "--model", config, "--sequence-length", T, "--micro-batch", B, "--steps", 2, "--json", f"precision.compute={compute}"),
                                   stdin=nothing, stdout=subprocess.PIPE, text=True)
            said = json.loads(run.stdout.read().splitlines()[-1])
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        check(status == 0, "bench train")
        near(said["peak_memory_mb"], usage.ru_maxrss / 1024, 0.02, "bench train: peak_memory_mb")
        near(said["tokens_per_second"], B * T / said["step_time"], 1e-12, "bench train: tokens_per_second")
        check(said["peak_flops"] == peak(compute) and said["parameters"] == count(MIDDLE), f"{said}")
        near(said["sol"], said["tokens_per_second"] * training_flops(MIDDLE, T) / peak(compute), 1e-12, "bench train: sol")
        # A prompt: two FLOPs for each weight and token, the head for the last token only, attention over the keys of each token (2 C for scores, 2 C for values).
        matrices, head = count(MIDDLE, in_products), math.prod(shapes(MIDDLE)["lm_head.weight"])
        width = MIDDLE["num_hidden_layers"] * MIDDLE["num_attention_heads"] * MIDDLE["head_dim"]
        said = last_json("bench", "prefill", "--model", config, "--sequence-length", T, "--batch", B, "--steps", 2, "--json", f"precision.compute={compute}")
        flops = B * (2 * (matrices - head) * T + 2 * head + 4 * width * T * (T + 1) / 2)
        near(said["tokens_per_second"], B * T / said["step_time"], 1e-12, "bench prefill: tokens_per_second")
        near(said["flops"], flops, 1e-12, "bench prefill: flops")
        near(said["sol"], flops / said["step_time"] / peak(compute), 1e-12, "bench prefill: sol")
        # A step of decoding reads every weight once, and of the table the rows of its tokens.
        said = last_json("bench", "decode", "--model", config, "--sequence-length", 16, "--batch", 3, "--steps", 4, "--json", f"precision.compute={compute}")
        norms = count(MIDDLE, lambda n, s: len(s) == 1)
        read = (matrices + norms + 3 * MIDDLE["hidden_size"]) * size
        near(said["tokens_per_second"], 3 / said["step_time"], 1e-12, "bench decode: tokens_per_second")
        check(abs(said["weight_bytes"] - read) <= 4 * norms, f"bench decode: {said['weight_bytes']} bytes of weights are read, by their shapes {read}")  # norms may stay f32
        near(said["bandwidth_fraction"], said["weight_bytes"] / said["step_time"] / said["read_bytes_per_second"], 1e-12, "bench decode: bandwidth_fraction")
        keys = said["cache_bytes"] / (2 * 3 * MIDDLE["num_hidden_layers"] * MIDDLE["num_key_value_heads"] * MIDDLE["head_dim"] * size)
        check(keys == int(keys) and 16 + 4 <= keys <= 16 + 4 + 4, f"bench decode: a cache of {keys} tokens")
        if r.FULL:
            check(machine()["read_bytes_per_second"] / 5 < said["read_bytes_per_second"] < 5 * machine()["read_bytes_per_second"], f"{machine()} and {said}")


def test_bench_in_words(folder):
    """What is printed without --json, to the digits that are printed."""
    config, T, B = folder / "config.json", 96, 2
    config.write_text(json.dumps(MIDDLE))
    peak()  # measured before the benches read it
    for what, tokens, number in (("train", B * T, r"sol ([\d.]+) of (\d+) GFLOP/s, ([\d.]+) ms per step \(fastest of 2\), memory \d+ MiB measured, \d+ planned"),
                                 ("prefill", B * T, r"sol ([\d.]+) of (\d+) GFLOP/s, ([\d.]+) ms \(fastest of 2\), memory \d+ MiB"),
                                 ("decode", B, r"([\d.]+) of ([\d.]+) GB/s(?: \(more [^)]*\))?: ([\d.]+) MB of weights \(and ([\d.]+) MB of cache\) in ([\d.]+) ms per step \(median of 2\), memory \d+ MiB")):
        words = r.run("bench", what, "--model", config, "--sequence-length", T, "--micro-batch", B, "--steps", 2).stdout.splitlines()[-1]
        m = re.fullmatch(r"([\d.]+) tokens/s, " + number, words)
        check(m, words)
        speed, *rest = map(float, m.groups())
        ms = max(rest[-1], 1e-3)
        digit = 0.0051 if what == "decode" else 0.051
        near(speed * ms / 1000, tokens, 0.051 / speed + digit / max(ms - digit, 1e-3), f"bench {what}: tokens/s times ms, {words}")  # of what was rounded
        if what == "decode":
            fraction, bandwidth, weights, _, _ = rest
            near(fraction, weights * 1e6 / (ms / 1000) / (bandwidth * 1e9), 0.00051 / fraction + 0.051 / bandwidth + 0.051 / weights + 0.0051 / ms, f"bench decode: {words}")
        else:
            flops = training_flops(MIDDLE, T) * tokens if what == "train" else None
            check(rest[1] == round(peak() / 1e9), f"bench {what}: {words}")
            near(rest[0], flops / (ms / 1000) / peak(), 0.00051 / rest[0] + 0.051 / ms, f"bench train: {words}") if flops else None


def test_profile(folder):
    """FLOPs of the products, of the rows of the table: GFLOP/s times milliseconds."""
    config, T, B = {**MIDDLE, "hidden_size": 384, "intermediate_size": 1024}, 128, 4
    (folder / "config.json").write_text(json.dumps(config))
    table = r.run("bench", "train", "--model", folder / "config.json", "--sequence-length", T, "--micro-batch", B, "--steps", 1, "--profile", "train.recompute=none").stderr
    ops = {}
    for line in table.splitlines():
        if m := re.match(r"(\w+) \((\w+)\) +(\d+) +([\d.]+) +([\d.]+)% +([\d.]+) +([\d.]+) +([\d.]+)$", line):
            ops[m[1], m[2]] = (int(m[3]), float(m[4]), float(m[6]), float(m[5]))
    head = math.prod(shapes(config)["lm_head.weight"])
    inside = (count(config, in_products) - head) * B * T
    width = config["num_hidden_layers"] * config["num_attention_heads"] * config["head_dim"]
    # loss_head: logits forward, and two products backward, at once.
    for key, want in ((("matmul", "forward"), 2 * inside), (("matmul", "backward"), 4 * inside), (("loss_head", "backward"), 6 * head * B * T)):
        calls, ms, speed, _ = ops[key]
        slack = 0.005 / ms + 0.05 / speed + 1e-9  # of what is printed
        near(ms * speed * 1e6, want, slack, f"profile: FLOPs of {key}")
    calls, ms, speed, _ = ops["attention", "forward"]  # pairs of the causal half, its diagonal too
    near(ms * speed * 1e6, 4 * width * B * T * (T + 1) / 2, 0.005 / ms + 0.05 / speed + 0.05, "profile: FLOPs of attention")
    between = re.search(r"between kernels +([\d.]+) +([\d.]+)%", table)
    total = sum(v[1] for v in ops.values()) + float(between[1])
    near(sum(v[3] for v in ops.values()) + float(between[2]), 100, 0.02, "profile: shares")
    for name, (_, ms, _, share) in ops.items():
        check(abs(share - 100 * ms / total) < 0.2, f"profile: share of {name} is {share}, of {total} ms it takes {ms}")


def test_plan(folder):
    (folder / "config.json").write_text(json.dumps(MIDDLE))
    n, T, batch = count(MIDDLE), 64, 8
    measured()
    arguments = ("plan", f"model.config={folder / 'config.json'}", f"data.sequence_length={T}", f"train.global_batch={batch}", "train.micro_batch=4")
    for compute in ("f32", "bf16"):
        said = last_json(*arguments, "--json", f"precision.compute={compute}")
        copies = 0 if compute == "f32" else 2 * count(MIDDLE, in_products)
        check(said["parameters"] == n and said["optimizer"] == 2 * 4 * n, f"{said}")
        check(0 <= said["weights"] - 4 * n - copies <= 2 * count(MIDDLE, lambda name, s: len(s) == 1), f"weights {said['weights']}, f32 masters of {n} and {copies} bytes of copies")
        check(said["total"] == said["base"] + said["batches"] + said["weights"] + said["optimizer"] + said["arena"], f"{said}")
        check(said["gradients"] + said["activations"] + said["workspace"] <= said["arena"] and said["gradients"] <= 4 * n, f"{said}")
        flops = training_flops(MIDDLE, T) * batch * T
        near(said["flops_per_step"], flops, 1e-12, "plan: flops_per_step")
        near(said["seconds_per_step_at_peak"], flops / peak(compute), 1e-12, "plan: seconds_per_step_at_peak")
        check(said["variants"][0]["changes"] == [] and said["variants"][0]["time"] == 1, f"{said['variants'][0]}")
        near(said["variants"][0]["total"], said["total"], 0.02, "plan: the first way is the plan itself")
    two = last_json(*arguments, "--json", "--ranks", 2)
    near(two["seconds_per_step_at_peak"], training_flops(MIDDLE, T) * batch * T / peak() / 2, 1e-12, "plan: seconds of two ranks")
    # In words: the time at the peak, and at sol 0.7, of all ranks together.
    for ranks in (1, 2):
        words = r.run(*arguments, "--ranks", ranks).stdout
        m = re.search(r" per step: (\S+) (\S+) at (.*?)the machine's peak of .* \(sol 1\), (\S+) (\S+) at sol 0\.7", words)
        check(m and m[2] == m[5] and m[3] == ("" if ranks == 1 else f"{ranks} times "), words)
        near(float(m[4]), float(m[1]) / 0.7, 0.02, "plan: the time at sol 0.7, of three digits")
        unit = {"ms": 1e-3, "s": 1.0}[m[2]]
        near(float(m[1]) * unit, training_flops(MIDDLE, T) * batch * T / peak() / ranks, 0.02, f"plan: the time of {ranks} ranks at their peak")
    text = r.run(*arguments).stdout
    flops = training_flops(MIDDLE, T) * batch * T
    check((f"{flops * 1e-9:.2g} GFLOP per step" if flops < 1e11 else f"{flops * 1e-12:.2f} TFLOP per step") in text and f"peak of {peak() / 1e9:.0f} GFLOP/s" in text, text)
    # The largest activations of a layer are at least its input, for every layer: what a plan says cannot be less.
    none = last_json(*arguments, "--json", "train.recompute=none")
    check(none["activations"] >= 4 * 4 * T * MIDDLE["hidden_size"] * MIDDLE["num_hidden_layers"], f"{none}")


def test_activations_of_a_layer_by_formula(folder):
    """What a layer keeps for its backward pass, counted in the arena as layers are added. Per token, in f32: two inputs of norms and their rstd lie beside the
    sequence (Korthikanti et al. 2022: 1/t of them under sequence parallelism), q, k, v, what attention gives, its lse (f64), gate and up beside the heads and the width
    (1/t under tensor ranks). recompute=none also keeps outputs of norms, gathered as products read them, and that of SwiGLU; full keeps the input alone."""
    C, H, G, D, I, T = 256, 8, 4, 32, 768, 512
    model = {"model_type": "llama", "hidden_size": C, "intermediate_size": I, "num_attention_heads": H, "num_key_value_heads": G, "vocab_size": 512, "max_position_embeddings": T}

    def kept(recompute, tensor, sequence):
        sizes = []
        for layers in (6, 7):
            (folder / "config.json").write_text(json.dumps(dict(model, num_hidden_layers=layers)))
            sizes.append(last_json("plan", f"model.config={folder / 'config.json'}", f"data.sequence_length={T}", "train.micro_batch=1", f"train.recompute={recompute}", "precision.compute=f32",
                                   f"parallel.tensor={tensor}", f"parallel.sequence={str(sequence).lower()}", "--json")["activations"])
        return (sizes[1] - sizes[0]) / (4 * T)

    for tensor, sequence in r.rows(((1, False), (2, False), (2, True), (4, True)), 2, "one formula"):
        parts = tensor if sequence else 1
        cheap = (2 * C + 2) / parts + ((H + 2 * G) * D + H * D + 2 * H + 2 * I) / tensor
        for recompute, want in (("cheap", cheap), ("none", cheap + 2 * C + I / tensor), ("full", 2 * C / parts)):
            got = kept(recompute, tensor, sequence)
            check(got == want, f"recompute {recompute}, {tensor} tensor ranks, sequence {sequence}: {got} numbers per token and layer, by formula {want}")


def test_info_and_data_show(folder):
    w = save_model(folder / "model", SMALL)
    rows = save_rows(folder / "data.safetensors", 6, 6, 11, 1)
    n = sum(len(v) * (len(v[0]) if isinstance(v[0], list) else 1) for v in w.values())
    info = json.loads(r.run("info", folder / "model", "--json", "--tensors").stdout)
    check((info["parameters"], info["bytes"], info["tensors"], info["elements_by_dtype"]) == (n, 4 * n, len(w), {"f32": n}), f"{info}")
    check({t["name"]: tuple(t["shape"]) for t in info["tensor_list"]} == shapes(SMALL), "info: shapes")
    text = r.run("info", folder / "model").stdout
    check(re.search(rf"^parameters +{n}\b", text, re.M), text)
    info = json.loads(r.run("info", folder / "data.safetensors", "--json").stdout)
    learned = sum(label >= 0 for _, labels in rows for label in labels[1:])
    check((info["rows"], info["columns"], info["learned_tokens"]) == (6, 6, learned), f"{info}, {learned} labels")
    # What a step sees, as the file has it: sample i of step k is row (k - 1) * batch + i; the label of a column is the next one's.
    arguments = r.settings({"model.path": folder / "model", "data.train": [str(folder / "data.safetensors")], "data.sequence_length": 6, "train.global_batch": 4, "train.micro_batch": 2})
    for step in (1, 2):
        shown = [json.loads(line) for line in r.run("data", "show", "--step", step, "--json", *arguments).stdout.splitlines()]
        text = r.run("data", "show", "--step", step, "--color", "never", *arguments).stdout
        heads = re.findall(r"^--- step (\d+), sequence (\d+) \(micro batch (\d+), row (\d+)\): (.*)\n +(\d+) tokens, (\d+) labels", text, re.M)
        check(len(shown) == len(heads) == 4, text)
        for i, (sample, head) in enumerate(zip(shown, heads)):
            number = 4 * (step - 1) + i
            ids, labels = rows[number % 6]
            check(sample["step"] == step and sample["sequence"] == number and sample["ids"] == ids and sample["labels"] == labels[1:] + [-100], f"{sample}")
            check(sample["origin"].endswith(f"row {number % 6}") and sample["positions"] == list(range(6)) and sample["segments"] == [[0, 6]], f"{sample}")
            check([int(x) for x in head[:4] + head[5:]] == [step, number, i // 2, i % 2, 6, sum(x >= 0 for x in labels[1:])], f"{head}")


def negative_log(w, ids, labels):
    return summed_loss(SMALL, w, [(ids, labels)])[0]


def test_generate(folder):
    """Greedy tokens are the likeliest ones, and `logprob` is the sum of the logarithms of their probabilities; drawn ones are among
    the likeliest, and summed alike."""
    w = save_model(folder / "model", SMALL)
    prompts, new = [[3, 1, 4], [5], [9, 2, 6, 5, 3]], 5
    (folder / "prompts.json").write_text(json.dumps(prompts))
    for flags in ([], ["--sample", "--seed", "5", "--temperature", "0.7", "--top-k", "4"]):
        said = r.run("generate", "--model", folder / "model", "--prompt-ids", folder / "prompts.json", "--max-new-tokens", new, "--json", *flags).stdout
        rows = [json.loads(line) for line in said.splitlines()]
        check([x["prompt_ids"] for x in rows] == prompts, said)
        for row in rows:
            ids = list(row["prompt_ids"])
            check(len(row["ids"]) == new and row["finish"] == "length", f"{row}")
            for id in row["ids"]:
                likely = sorted(range(11), key=lambda t: negative_log(w, ids + [t], [-100] * len(ids) + [t]))
                check(id == likely[0] if not flags else id in likely[:4], f"{row}: {id} behind {ids}, the likeliest are {likely[:4]}")
                ids.append(id)
            want = -negative_log(w, ids, [-100] * len(row["prompt_ids"]) + row["ids"])  # the model's own, before temperature and cuts
            near(row["logprob"], want, 64 * F32, f"logprob of {row}")


def test_diff(folder):
    """max abs, max rel, ULP, cosine and counts of two files."""
    draw = random.Random(4)
    single = lambda v: array.array("f", v)
    a = single(draw.gauss(0, 1) for _ in range(1000))
    b = single(x * (1 + (draw.gauss(0, 1e-4) if i % 7 == 0 else 0)) for i, x in enumerate(a))
    a[5], b[5], a[6], b[6] = 0.001, 0.002, 0.002, 0.001  # a half of the larger one, whichever side it is on
    a[3], b[3] = 0.0, -0.0  # other bits, the same value
    for name, values in (("a", a), ("b", b)):
        r.save_tensors(folder / f"{name}.safetensors", {"x": ("F32", (10, 100), values), "same": ("F32", (2,), [1.0, 2.0])})
    done = r.run("diff", folder / "a.safetensors", folder / "b.safetensors", "--json", status=1)
    said = json.loads(done.stdout)
    check((said["equal"], said["tensors_equal"], said["tensors_compared"]) == (False, 1, 2), f"{said}")
    row = next(t for t in said["tensors"] if t["name"] == "x")
    bits = lambda x: struct.unpack("<i", struct.pack("<f", x))[0]
    place = lambda x: bits(x) if bits(x) >= 0 else -(bits(x) & 0x7FFFFFFF)
    apart = [abs(x - y) for x, y in zip(a, b)]
    want = {"status": "different", "elements": 1000, "differing": sum(bits(x) != bits(y) for x, y in zip(a, b)), "max_abs": max(apart), "nan_on_one_side": 0,
            "max_rel": max(d / max(abs(x), abs(y)) if d else 0 for d, x, y in zip(apart, a, b)), "max_ulp": max(abs(place(x) - place(y)) for x, y in zip(a, b)),
            "at": apart.index(max(apart))}
    check({k: row[k] for k in want} == want, f"{row}, by definition {want}")
    near(row["cosine"], sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)), 1e-12, "cosine")
    text = r.run("diff", folder / "a.safetensors", folder / "b.safetensors", status=1).stdout
    check(f"max abs {want['max_abs']:<10.4g} max rel {want['max_rel']:<10.4g} ulp {want['max_ulp']:<10}" in text and f"{want['differing']} of 1000 differ" in text, text)


def test_preprocess(folder):
    """Documents and tokens that `preprocess` and `info` report, counted in the files."""
    words = folder / "tok"
    r.run("tokenizer", "train", "--input", r.save_text(folder / "words.txt", 3000, 1), "--output", words, "--type", "byte-bpe", "--vocab-size", 300)
    texts = [Path(r.save_text(folder / "x.txt", n, n)).read_text() for n in (5, 40, 1, 200, 17)]
    (folder / "d.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    said = r.run("preprocess", "--input", folder / "d.jsonl", "--tokenizer", words, "--output-prefix", folder / "p", "--append-eod").stdout
    data = Path(f"{folder}/p_text_document.idx").read_bytes()
    sequences, documents = struct.unpack_from("<QQ", data, 18)
    lengths = struct.unpack_from(f"<{sequences}i", data, 34)
    ids = [len(json.loads(line)["ids"]) + 1 for line in subprocess.run(r.command("tokenizer", "encode", "--tokenizer", words, "--no-special", "--jsonl"), capture_output=True, text=True,
                                                                         input=(folder / "d.jsonl").read_text()).stdout.splitlines()]
    check(list(lengths) == ids and documents == len(texts) + 1, f"{lengths}, {ids}")
    check(f"{len(texts)} documents" in said and re.search(rf"\b{sum(ids)} tokens", said), said)
    info = json.loads(r.run("info", folder / "p_text_document", "--json").stdout)
    check((info["documents"], info["sequences"], info["tokens"]) == (5, 5, sum(ids)), f"{info}")
    check((info["lengths"]["least"], info["lengths"]["most"]) == (min(ids), max(ids)), f"{info['lengths']}")
    near(info["lengths"]["mean"], sum(ids) / 5, 1e-12, "info: mean length")
    for bin in info["lengths"]["histogram"]:
        check(bin["count"] == sum(bin["from"] <= n <= bin["to"] for n in ids), f"{bin} of {ids}")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
