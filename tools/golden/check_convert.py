"""What `ravine convert` writes for Megatron, read by torch and compared with the same layout made by make_convert.py.

    python check_convert.py RAVINE [GOLDEN]

Needs torch. Loads with weights_only and memory-mapped, where argparse.Namespace is the one class that must be allowed.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile
import zipfile

import torch


def flat(d, prefix=""):
    for k, v in d.items():
        if isinstance(v, dict):
            yield from flat(v, prefix + k + "/")
        else:
            yield prefix + k, v


def main():
    ravine = sys.argv[1]
    golden = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "../../tests/golden/convert")
    torch.serialization.add_safe_globals([argparse.Namespace])
    compared = 0
    with tempfile.TemporaryDirectory() as d:
        for names, folder, dtype, ranks in (("legacy", "legacy/release", "f16", (2, 2, 1)), ("mcore", "mcore/iter_0000001", "bf16", (1, 2, 2))):
            out = os.path.join(d, names)
            subprocess.run([ravine, "convert", "--input", os.path.join(golden, "hf"), "--output", out, "--to", "megatron-" + names, "--dtype", dtype,
                            "--tensor", str(ranks[0]), "--pipeline", str(ranks[1]), "--virtual", str(ranks[2])], check=True)
            for file in sorted(glob.glob(out + "/release/*/model_optim_rng.pt")):
                assert zipfile.ZipFile(file).testzip() is None
                got = torch.load(file, weights_only=True, mmap=True)
                want = torch.load(file.replace(out + "/release", os.path.join(golden, folder)), weights_only=False)
                for key in (k for k in want if k.startswith("model")):
                    a, b = dict(flat(got[key])), dict(flat(want[key]))
                    assert a.keys() == b.keys(), set(a) ^ set(b)
                    for k in a:
                        assert a[k].dtype == b[k].dtype and torch.equal(a[k], b[k]), (file, k)
                        compared += 1
    print(f"{compared} tensors are equal")


if __name__ == "__main__":
    main()
