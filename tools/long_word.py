"""One word and one line of many megabytes through `ravine tokenizer encode`, for each kind of tokenizer: seconds, peak memory, and that time grows in proportion.

  python tools/long_word.py build/release/ravine [--mb 50] TOKENIZER..

Each tokenizer encodes half the size and the whole; the whole must not take more than 3 times the half's time (twice, and what a machine that others use adds) nor more than 3 times its memory,
both beside what a short line takes.
"""
import argparse, os, sys, tempfile

a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
a.add_argument("ravine")
a.add_argument("--mb", type=float, default=50)
a.add_argument("tokenizers", nargs="+")
args = a.parse_args()


def run(tokenizer, text, out):
    """Seconds of CPU and peak memory in bytes of one process."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(text, os.O_RDONLY), 0)
        os.execv(args.ravine, [args.ravine, "tokenizer", "encode", "--tokenizer", tokenizer, "--npy", out])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{tokenizer}: exit status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


failed = 0
with tempfile.TemporaryDirectory() as d:
    out, size = os.path.join(d, "ids.npy"), int(args.mb * 1e6)
    patterns = {"one letter": b"a", "a word": b"ravineholdsariver", "Chinese": "山谷里有一条河".encode(), "a line of words": b"the ravine holds a river ", "spaces": b" ", "digits": b"0123456789", "punctuation": b"=-"}
    files = {}
    for name, unit in patterns.items():
        for part, n in (("half", size // 2), ("whole", size)):
            files[name, part] = os.path.join(d, f"{len(files)}.txt")
            with open(files[name, part], "wb") as f:
                f.write(unit * (n // len(unit)))
    small = os.path.join(d, "small.txt")
    with open(small, "wb") as f:
        f.write(b"a line\n")
    for tokenizer in args.tokenizers:
        base_time, base = run(tokenizer, small, out)
        for name in patterns:
            half, half_peak = run(tokenizer, files[name, "half"], out)
            whole, peak = run(tokenizer, files[name, "whole"], out)
            growth, per_byte = (whole - base_time) / max(half - base_time, 1e-9), (peak - base) / size
            bad = growth > 3 or peak - base > 3 * max(half_peak - base, 1 << 20)
            failed += bad
            print("%-4s %-40s %-16s %6.2f s  %5.1f MB/s  %.2f times the half  %5.1f bytes of memory per byte" % (
                "FAIL" if bad else "ok", tokenizer[-40:], name, whole - base_time, size / 1e6 / max(whole - base_time, 1e-9), growth, per_byte), flush=True)
sys.exit(1 if failed else 0)
