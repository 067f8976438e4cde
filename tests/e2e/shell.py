"""Completion in the shells themselves, and manual pages as man shows them. What is not installed is skipped."""
import shutil
import subprocess

import ravine_run as r


def test_fish(folder):
    if not shutil.which("fish"):
        raise r.Skipped("fish is not installed")
    script = folder / "ravine.fish"
    script.write_text(r.run("completion", "fish").stdout)
    for line, words in (("ravine tr", ["train", "trace"]), ("ravine tokenizer ", ["encode", "train"]), ("ravine train optimizer.ty", ["optimizer.type=", "optimizer.type=adamw"]),
                        ("ravine train --ba", ["--backend"]), ("ravine train --backend ", ["cpu", "ref"]), ("ravine completion ", ["bash", "zsh", "fish"]), ("ravine ma", ["man"])):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], capture_output=True, text=True, timeout=60, env={**r.os.environ, "HOME": str(folder)})
        found = [c.split("\t")[0] for c in done.stdout.splitlines()]
        r.check(not done.stderr and all(w in found for w in words), f"{line}: {found[:20]} {done.stderr[:400]}")


def test_zsh(folder):
    if not shutil.which("zsh"):
        raise r.Skipped("zsh is not installed")
    script = folder / "_ravine"
    script.write_text(r.run("completion", "zsh").stdout)
    done = subprocess.run(["zsh", "-n", script], capture_output=True, text=True, timeout=60)
    r.check(done.returncode == 0 and not done.stderr, done.stderr)
    # The functions of the completion system, as far as the script asks them: what they are given is what would be shown.
    stub = ("compdef() { :; }; _files() { :; }; compset() { :; }; compadd() { [[ $1 == -- ]] && shift; print -l -- $@; }; "
            "_describe() { local name=$2; print -l -- ${${(P)name}%%:*}; }; ")
    for words, wanted in (("ravine ''", ["train", "plot", "man"]), ("ravine tokenizer ''", ["encode", "train"]), ("ravine train ''", ["--config", "--backend", "optimizer.type"]),
                          ("ravine train --backend ''", ["cpu", "ref"]), ("ravine train optimizer.type=", ["adamw", "sgd"]), ("ravine completion ''", ["bash", "zsh", "fish"])):
        count = len(words.split(" "))
        done = subprocess.run(["zsh", "-f", "-c", f"{stub} source {script}; words=({words}); CURRENT={count}; _ravine"], capture_output=True, text=True, timeout=60)
        found = done.stdout.split()
        r.check(not done.stderr and all(w in found for w in wanted), f"{words}: {found[:20]} {done.stderr[:400]}")


def test_manual_pages(folder):
    r.run("man", "--output", folder / "man")
    pages = sorted(p.name for p in (folder / "man").iterdir())
    for page in ("ravine.1", "ravine-train.1", "ravine-tokenizer-encode.1", "ravine-man.1", "ravine-completion.1"):
        r.check(page in pages, pages)
    r.check("ravine\\-completion (1)" in (folder / "man" / "ravine.1").read_text(), "completion is not in the overview's list")
    r.check(r.run("man", "completion").stdout == (folder / "man" / "ravine-completion.1").read_text(), "another page")
    if not shutil.which("man"):
        raise r.Skipped("man is not installed")
    shown = subprocess.run(["man", "-l", folder / "man" / "ravine-train.1"], capture_output=True, text=True, timeout=60, env={**r.os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8"})
    r.check(shown.returncode == 0 and "train.global_batch=" in shown.stdout and "--backend cpu|ref" in shown.stdout, shown.stdout[:500] + shown.stderr)


if __name__ == "__main__":
    r.main(globals())
