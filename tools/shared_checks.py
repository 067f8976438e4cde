"""Runs those checks of a folder (scripts check_*.py that compare the program with recorded numbers) whose commands the program has.

    python3 tools/shared_checks.py RAVINE FOLDER [NAME...]

FOLDER: that of the checks, or RAVINE_SHARED: the folder checks/ in the one that this variable names. NAME: part of a script's name; default: all. Needs numpy, which the checks do. Each has its time limit; two run at a time. Of families that the
program does not know nothing is asked. Exit status 1: a check failed or ran out of time; 77: none ran.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

LIMIT = 300  # seconds for one script
# What a script needs, and what else it is given: `NAME` a command, `SECTION.NAME` an option.
NEEDS = {"check_models": "trace", "check_training": "train", "check_tokenizers": "tokenizer", "check_convert": "convert", "check_data": "data",
         "check_lora": "lora.rank", "check_optimizers": "replay", "check_loss_scale": "precision.loss_scale", "check_eval": "eval", "check_serve": "serve",
         "check_chat": "chat", "check_mindformers": "mindformers", "check_deepspeed": "trainer", "check_megatron": "megatron"}
# Arguments of one or more runs. check_loss_scale goes on from a checkpoint that checkpoint.keep=3, the default, no longer keeps. The bounds of check_lora are
# four times PyTorch's own error, recorded of models without adapters; with rslora PyTorch itself lies at 0.55 of them, and Ravine's f32 at 0.6 to 1.1, moved by
# any change of a rounding: six times there, so that the gate says something; f64 is held to 1e-11 by tests/e2e/lora.py.
EXTRA = {"check_models": [["--beams"]], "check_loss_scale": [["--extra", "checkpoint.keep=0"]],
         "check_lora": [["--only", "all,embed_head,qv"], ["--only", "rslora", "--factor", "6"]]}

# Lines that may fail, by the script, and why.
KNOWN = {}


def has(program, need):
    if "." in need:
        return subprocess.run([program, "config", "--explain", need], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    return re.search(rf"^  {need}\s", subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True).stdout, re.M) is not None


def known_models(program, folder):
    """`--only` for the recorded models: those of families that the program knows."""
    names = []
    for config in sorted(folder.glob("*/config.json")):
        said = subprocess.run([program, "plan", f"model.config={config}", "data.sequence_length=8"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        if re.search(r"error: model_type '.*' is not known", said):
            print(f"SKIPPED: check_models {config.parent.name}: no family '{json.loads(config.read_text())['model_type']}'", flush=True)
        else:
            names.append(config.parent.name + "$")
    return ["--only", ",".join(names)]


def run(python, program, script, more):
    began = time.monotonic()
    try:
        done = subprocess.run([python, "-B", str(script), "--ravine", program, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        status, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as e:
        status, said = -1, (e.stdout or b"").decode(errors="replace") + f"\nFAIL  no end after {LIMIT} s"
    lines = said.strip().splitlines() or ["nothing"]
    return status, lines, time.monotonic() - began


def main():
    program, folder = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    if sys.argv[2] == "RAVINE_SHARED":
        if not os.environ.get("RAVINE_SHARED"):
            print("SKIPPED: RAVINE_SHARED names no folder of recorded data")
            sys.exit(77)
        folder = pathlib.Path(os.environ["RAVINE_SHARED"], "checks")
    python = next((p for p in (sys.executable, "/usr/bin/python3") if subprocess.run([p, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0), None)
    if not python:
        sys.exit("shared_checks.py: the checks need numpy (package python3-numpy)")
    failed, jobs = 0, {}
    with tempfile.TemporaryDirectory() as cache, concurrent.futures.ThreadPoolExecutor(2) as pool:
        os.environ["XDG_CACHE_HOME"] = cache
        kept = pathlib.Path(program).with_name("peaks_for_tests.json")  # of tests/e2e/ravine_run.py: the machine is not measured again
        if kept.exists():
            os.makedirs(os.path.join(cache, "ravine"))
            shutil.copy(kept, os.path.join(cache, "ravine", "machine.json"))
        for script in sorted(folder.glob("check_*.py")):
            name = script.stem
            if sys.argv[3:] and not any(part in name for part in sys.argv[3:]):
                continue
            if name not in NEEDS:
                print(f"FAILED  {name}: tools/shared_checks.py does not say what it needs", flush=True)
                failed += 1
            elif not has(program, NEEDS[name]):
                print(f"SKIPPED: {name}: this program has no '{NEEDS[name]}'", flush=True)
            else:
                for more in EXTRA.get(name, [[]]):
                    more = more + (known_models(program, folder.parent / "golden" / "models") if name == "check_models" else [])
                    jobs[pool.submit(run, python, program, script, more)] = name
        for job in concurrent.futures.as_completed(jobs):
            status, lines, seconds = job.result()
            bad = [line for line in lines if line.startswith("FAIL ")]
            if status == 1 and bad and all(any(line[4:].strip().startswith(k) for k in KNOWN.get(jobs[job], [])) for line in bad):
                status = 0  # the count below still says how many
            failed += status != 0
            print(f"{'passed' if status == 0 else 'FAILED'}  {jobs[job]}  {lines[-1]}  ({seconds:.0f} s)", flush=True)
            for line in lines if status != 0 else []:
                if not line.startswith("ok "):
                    print("    " + line, flush=True)
    sys.exit(1 if failed else 0 if jobs else 77)


main()
