"""Checksums are compared wherever there are some: every command that reads tensors of a checkpoint refuses one with a flipped byte, by name."""
import shutil

import ravine_run as r
from full_disk import options


def test_flipped_bytes(folder):
    r.run("train", *options(folder, train__steps=2, checkpoint__every=2))
    step, state = "checkpoints/step_000002", "state-00000.safetensors"
    header, body = r.load_raw(folder / "out" / step / state)
    begin = (folder / "out" / step / state).stat().st_size - len(body)
    of = {}  # the first tensor of each kind, and padding
    for name, t in header.items():
        if name != "__metadata__" and t["data_offsets"][1] > t["data_offsets"][0]:
            of.setdefault(name.split("/")[0].split(".")[0], (name, t["data_offsets"][0]))
    r.check({"weights", "m", "v"} <= of.keys(), f"kinds of tensors: {sorted(of)}")
    for kind, (name, at) in of.items():
        run = folder / kind
        shutil.copytree(folder / "out", run)
        file = run / step / state
        data = bytearray(file.read_bytes())
        data[begin + at] ^= 1
        file.write_bytes(data)
        for command in (["convert", "--input", run / step, "--output", folder / "hf", "--to", "hf"],
                        ["convert", "--input", run, "--output", folder / "hf", "--to", "hf"],
                        ["convert", "--input", run / step, "--output", folder / "hf", "--to", "ravine", "--optimizer"],
                        ["convert", "--input", run / step, "--to", "hf", "--dry-run"],
                        ["info", run / step], ["info", file],
                        ["diff", folder / "out" / step, run / step], ["diff", run / step / state, folder / "out" / step / state],
                        ["train", *options(folder, train__steps=3, checkpoint__resume=str(run / step), train__output=folder / "again")]):
            done = r.run(*command, status=2)
            last = done.stderr.splitlines()[-1]
            r.check("damaged" in last and ("checksum" in last or "padding" in last or "all 1 are" in last), f"{kind}: {command}: {done.stderr}")
            if "all 1 are" not in last:
                r.check(name in last, f"{kind}: {command}: does not name '{name}': {last}")
            r.check(not (folder / "hf").exists(), f"{kind}: {command}: it wrote")
    r.run("convert", "--input", folder / "out" / step, "--output", folder / "hf", "--to", "hf")
    r.run("diff", folder / "out" / step, folder / "out" / step)


if __name__ == "__main__":
    r.main(globals())
