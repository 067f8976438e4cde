"""Folders and files that are not read are named as what they are, with the way to something that is read: wherever a model, weights or a checkpoint is asked for, and by `ravine info`."""
import json
import struct

import ravine_run as r
from ravine_run import check


def kind(folder, name, files, config=None):
    at = folder / name
    at.mkdir(parents=True)
    if config is not None:
        r.save_config(at / "config.json", **config)
    for file, data in files.items():
        (at / file).parent.mkdir(parents=True, exist_ok=True)
        (at / file).write_bytes(data)
    return at


# name: files, config.json (None: none), words of what it is, words of the way on.
KINDS = {
    "gguf": ({"tiny.Q4_K_M.gguf": b"GGUF"}, None, "a GGUF model", "gguf_file='tiny.Q4_K_M.gguf'"),
    "onnx": ({"onnx/model.onnx": b"\x08"}, {}, "an ONNX model", "exported from"),
    "mlx": ({"weights.npz": b"PK"}, {}, "an MLX model", "mlx_lm"),
    "tensorflow": ({"tf_model.h5": b"\x89HDF"}, {}, "a TensorFlow model", "from_tf=True"),
    "flax": ({"flax_model.msgpack": b"\x81"}, {}, "a Flax model", "from_flax=True"),
    "original": ({"consolidated.00.pth": b"PK", "params.json": b"{}"}, None, "original Llama", "convert_llama_weights_to_hf"),
    "fsdp": ({"pytorch_model_fsdp_0/.metadata": b"", "pytorch_model_fsdp_0/__0_0.distcp": b"", "optimizer_0/__0_0.distcp": b"", "trainer_state.json": b'{"global_step": 3}'}, None, "a checkpoint of FSDP", "pytorch_model_fsdp_0 --model-config"),
}
QUANTISED = {
    "gptq": ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}, "weights in 4 bits by GPTQ", "base_model"),
    "awq": ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "weights in 4 bits by AWQ", "base_model"),
    "bnb": ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True}}, "weights in 8 bits by bitsandbytes", ".dequantize().save_pretrained"),
    "bnb-old": ({"quantization_config": {"load_in_4bit": True}}, "weights in 4 bits by bitsandbytes", ".dequantize()"),
    "fp8": ({"quantization_config": {"quant_method": "fp8"}}, "(fp8)", "FineGrainedFP8Config(dequantize=True)"),
    "mlx-4": ({"quantization": {"group_size": 64, "bits": 4}, "quantization_config": {"group_size": 64, "bits": 4}}, "weights in 4 bits by MLX", "mlx_lm.convert"),
    "other": ({"quantization_config": {"quant_method": "soon\nnew"}}, "soon", "base_model"),
}


def test_kinds_that_are_not_read(folder):
    for name, (files, config, what, way) in KINDS.items():
        at = kind(folder, name, files, config)
        ids = folder / "ids.json"
        ids.write_text("[[1, 2]]")
        for words in (["convert", "--input", at, "--output", folder / "out", "--to", "hf"], ["generate", "--model", at, "--prompt-ids", ids],
                      ["train", f"model.path={at}", f"data.train={ids}", f"train.output={folder / 'run'}", "train.steps=1"],
                      ["train", f"model.config={r.save_config(folder / 'new.json')}", f"data.train={ids}", f"train.output={folder / 'run'}", "train.steps=1", f"checkpoint.resume={at}"]):
            said = r.run(*words, status=2).stderr
            check(what in said and way in said and not (folder / "out").exists(), f"{name}, {words[:2]}: {said}")
        told = json.loads(r.run("info", at, "--json").stdout)
        check(what in told["kind"] and way in told["to_use_it"], f"{name}: {told}")
    said = r.run("convert", "--input", folder / "gguf" / "tiny.Q4_K_M.gguf", "--output", folder / "out", "--to", "hf", status=2).stderr
    check("a GGUF model" in said and "unknown layout" not in said, said)
    # Readable weights beside them count.
    r.save_tensors(folder / "gguf" / "model.safetensors", {"a": ("F32", [1], struct.pack("f", 1))})
    check(json.loads(r.run("info", folder / "gguf", "--json").stdout)["kind"] == "model", "safetensors beside it")


def test_weights_in_fewer_bits(folder):
    for name, (fields, what, way) in QUANTISED.items():
        at = kind(folder, name, {}, fields)
        r.save_tensors(at / "model.safetensors", {"model.layers.0.self_attn.q_proj.qweight": ("I32", [2], bytes(8))})
        for words in (["convert", "--input", at, "--output", folder / "out", "--to", "megatron-mcore"], ["train", f"model.path={at}", "data.train=x.txt", f"train.output={folder / 'run'}"]):
            said = r.run(*words, status=2).stderr
            check(what in said and way in said and "\n" not in said.strip(), f"{name}, {words[0]}: {said}")
        told = json.loads(r.run("info", at, "--json").stdout)
        check(what in told["kind"] and way in told["to_use_it"], f"{name}: {told}")


def test_an_adapter_is_no_checkpoint(folder):
    at = kind(folder, "adapter", {"adapter_config.json": b'{"peft_type": "LORA"}', "adapter_model.safetensors": b""})
    said = r.run("train", f"model.config={r.save_config(folder / 'new.json')}", "data.train=x.txt", f"train.output={folder / 'run'}", f"checkpoint.resume={at}", status=2).stderr
    check("an adapter, not a checkpoint" in said and "lora.path=" in said, said)


if __name__ == "__main__":
    r.main(globals())
