"""The safetensors package and NumPy open what src/files writes.

python tools/golden/check_files.py build/release/tests         (needs numpy, torch, safetensors)
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors import safe_open

tests = pathlib.Path(sys.argv[1]).resolve()
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for program, test in (("unit_files_safetensors", "Safetensors.Streams*"), ("unit_files_npy", "Npy.RoundTrips")):
        subprocess.run([tests / program, f"--gtest_filter={test}"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "RAVINE_SAMPLE_FOLDER": name})
    read = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "np") as file:
            assert set(file.keys()) == {"a", "nothing", "b", "last"}
            assert file.metadata() == {"format": "pt", "note": 'a "b" \n \u00e9'}
            a, b = file.get_tensor("a"), file.get_tensor("b")
            assert a.shape == (1000, 2000) and a.dtype == np.uint8 and b.shape == (1000001,) and b.dtype == np.int8
            assert file.get_tensor("nothing").shape == (0,) and file.get_tensor("last").shape == (3, 0)
            read.append(a.tobytes() + b.tobytes())
    assert len(read) == 2 and read[0] == read[1] and len(set(read[0])) == 256
    names = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "u8": "u1", "bool": "?"}
    count = 0
    for path in sorted(folder.glob("*.npy")):
        _, dtype, sizes = path.stem.split("_")
        shape = tuple(int(s) for s in sizes.split("x") if s)
        array = np.load(path)
        assert array.dtype == np.dtype(names[dtype]) and array.shape == shape, path
        assert array.tobytes() == bytes(i % 2 for i in range(array.nbytes)), path
        count += 1
    assert count == 45, count
print(f"safetensors and NumPy read {len(read)} and {count} files")
