"""Writes the performance tables of README.md and README.zh-CN.md from the logs in this folder, between the lines <!-- performance --> and
<!-- /performance -->.    python3 bench/readme_table.py"""
import json
import pathlib
import re

here = pathlib.Path(__file__).resolve().parent


def log(name):
    return (here / f"{name}.log").read_text()


rows = []  # (English, Chinese, Ravine, ratio, log)
for name, en, zh in [("train_f32_b1", "training, f32, batch 1", "训练，f32，批大小 1"), ("train_f32_b4", "training, f32, batch 4", "训练，f32，批大小 4"),
                     ("train_bf16_b1", "training, bf16, batch 1", "训练，bf16，批大小 1"), ("train_bf16_b4", "training, bf16, batch 4", "训练，bf16，批大小 4")]:
    if not (here / f"{name}.log").exists():
        continue
    text = log(name)
    memory = re.findall(r"in speed, ([\d.]+) in memory", text)[-1]
    best, peer = (max(float(x) for x in re.findall(rf"{side} +([\d.]+) tokens/s", text)) for side in ("ravine", "torch"))
    speed = f"{best / peer:.2f}"  # of all rounds in the log, also of several runs
    sol = max(float(x) for x in re.findall(r"sol ([\d.]+)", text))
    rows.append((f"{en}: tokens/s", f"{zh}：tokens/s", f"{best:.0f} (sol {sol:.2f})", f"{speed} x", name))
    rows.append((f"{en}: peak memory", f"{zh}：峰值内存", re.findall(r"ravine .*peak +(\d+) MiB", text)[-1] + " MiB", f"{memory} x", name))
attention = [json.loads(line) for line in log("attention").splitlines() if line.startswith("{")]
for type_ in ("f32", "bf16"):
    of = [x for x in attention if x["type"] == type_ and x["head_size"] == 64]
    rows.append((f"causal attention, {type_}, T 1024 and 4096", f"因果注意力，{type_}，T 1024 与 4096", " / ".join(f"{x['of_peak']:.2f}" for x in of) + " of peak",
                 " / ".join(f"{x['ratio']:.1f}" for x in of) + " x", "attention"))
WHAT = {"prefill": "预填充", "decode batch 1": "解码，批大小 1", "decode batch 8": "解码，批大小 8"}
best = {}
for line in log("inference").splitlines():  # rounds of one model and type, then their ratios
    if found := re.match(r"round \d+ ravine (prefill|decode batch \d+) +([\d.]+) tokens/s  (.*?)  peak", line):
        speed = float(found[2])
        if speed > best.get(found[1], (0, ""))[0]:
            best[found[1]] = speed, found[3]
    elif found := re.match(r"(\S+) (\S+) (prefill|decode batch \d+): .*?ravine / torch = ([\d.]+)", line):
        model, type_, what, ratio = found.groups()
        rows.append((f"{what}, {model}, {type_}: tokens/s", f"{WHAT[what]}，{model}，{type_}：tokens/s", f"{best[what][0]:.4g} ({best[what][1]})", f"{ratio} x", "inference"))
    elif "a step of batch" in line:
        best = {}
saved = re.search(r"median: save ([\d.]+) of fio, step beside a save ([\d.]+) times", log("checkpoint"))
rows.append(("saving a checkpoint, of what fio writes", "保存检查点，与 fio 直写速度之比", saved[1], "", "checkpoint"))
rows.append(("a step beside a save, of one without", "保存期间的一步，与平时之比", saved[2], "", "checkpoint"))


def table(head, column):
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {r[column]} | {r[2]} | {r[3]} | [log](bench/{r[4]}.log) |" for r in rows])


for file, head, column in (("README.md", ("what", "Ravine", "against PyTorch 2.15", "log"), 0),
                           ("README.zh-CN.md", ("项目", "Ravine", "与 PyTorch 2.15 相比", "日志"), 1)):
    path = here.parent / file
    text = path.read_text()
    start, end = "<!-- performance -->\n", "<!-- /performance -->"
    before, rest = text.split(start)
    path.write_text(before + start + table(head, column) + "\n" + end + rest.split(end)[1])
