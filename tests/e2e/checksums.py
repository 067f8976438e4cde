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
            r.check("damaged" in last and ("checksum" in last or "padding" in last or "the only one is" in last), f"{kind}: {command}: {done.stderr}")
            if "the only one is" not in last:
                r.check(name in last, f"{kind}: {command}: does not name '{name}': {last}")
            r.check(not (folder / "hf").exists(), f"{kind}: {command}: it wrote")
    r.run("convert", "--input", folder / "out" / step, "--output", folder / "hf", "--to", "hf")
    r.run("diff", folder / "out" / step, folder / "out" / step)


def test_flipped_bytes_of_an_exported_model(folder):
    r.run("train", *options(folder, train__steps=2))
    model, ids = folder / "out" / "model", folder / "ids.json"
    ids.write_text("[[5, 6]]")
    shutil.copytree(model, folder / "copy")
    for copied in (False, True):  # in place, where its time of change tells; and in a copy, where all is read
        at = folder / "copy" if copied else model
        file = at / "model.safetensors"
        good = file.read_bytes()
        file.write_bytes(good[:-5] + bytes([good[-5] ^ 1]) + good[-4:])
        for command in (["convert", "--input", at, "--output", folder / "new", "--to", "hf"], ["convert", "--input", at, "--to", "hf", "--dry-run"],
                        ["generate", "--model", at, "--prompt-ids", ids, "--max-new-tokens", 2],
                        ["train", *options(folder, train__steps=3, model__path=str(at), model__config="", train__output=folder / "again")]):
            said = r.run(*command, status=2).stderr
            r.check("the exported model is damaged, or was changed" in said and str(file) in said and f"remove {at}/.ravine" in said, f"{command}: {said}")
            r.check(not (folder / "new").exists(), f"{command}: it wrote")
        (at / "config.json").write_text((at / "config.json").read_text() + "\n")  # what people edit is not compared
        file.write_bytes(good)
        r.run("convert", "--input", at, "--output", folder / f"hf-{copied}", "--to", "hf")
        file.write_bytes(good[:-5] + bytes([good[-5] ^ 1]) + good[-4:])
        (at / ".ravine").unlink()  # meant
        r.run("convert", "--input", at, "--output", folder / f"meant-{copied}", "--to", "hf")
        file.write_bytes(good)


if __name__ == "__main__":
    r.main(globals())
