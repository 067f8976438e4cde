"""Makes tests/golden/nf4: matrices in blocks of 4 bits as bitsandbytes makes them, and what a model with an adapter computes with such weights.

    python tools/golden/make_nf4.py tests/golden/nf4

Needs torch, transformers, peft and bitsandbytes 0.50. Quantisation is that of its default backend, by the same rules as its GPUs; its library for CPUs looks the codes of
scales up in a coarser table, so it is kept out. The mean of the scales, in f32 there in an order that depends on the machine, is taken in f64 and rounded; mean_there is theirs.

matrices.safetensors: values [16] and map [256], the tables; per case CASE.weight f32, CASE.codes u8, CASE.scales u8 (of blocks of 64), CASE.groups f32 (of 256 blocks), CASE.mean,
CASE.mean_there f32 [1], CASE.value f32 (dequantize_4bit). base/ and adapter/ as save_pretrained writes them; golden.safetensors: input_ids and labels [2,9]; in f64, with the
dequantised weights in all linear layers but the head: logits, loss, grad.NAME of each tensor of the adapter, losses [5] of steps of torch's AdamW on that one batch, from the adapter."""
import copy, ctypes, os, shutil, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
load = ctypes.cdll.LoadLibrary
def no_library(path, *more):
    if "bitsandbytes" in str(path):
        raise OSError("kept out")
    return load(path, *more)
ctypes.cdll.LoadLibrary = no_library
import bitsandbytes.functional as bnb
import peft, torch, transformers as tf
from safetensors.torch import save_file
from double import AllDouble

out = sys.argv[1]


def blocks(w):
    """The parts of a quantised matrix, by functions of bitsandbytes."""
    codes, scales = torch.ops.bitsandbytes.quantize_4bit.default(w, 64, "nf4", torch.uint8)
    mean = scales.double().mean().float()
    coded, state = bnb.quantize_blockwise(scales - mean, blocksize=256)
    whole = bnb.QuantState(absmax=coded, shape=w.shape, dtype=torch.float32, blocksize=64, code=bnb.get_4bit_type("nf4", device="cpu"), quant_type="nf4", offset=mean, state2=state)
    there, theirs = bnb.quantize_4bit(w, blocksize=64, compress_statistics=True, quant_type="nf4")
    assert torch.equal(there, codes)
    return {"codes": codes.reshape(-1), "scales": coded, "groups": state.absmax, "mean": mean.reshape(1), "mean_there": theirs.offset.reshape(1),
            "value": bnb.dequantize_4bit(codes, whole)}


torch.manual_seed(5)
table = bnb.get_4bit_type("nf4", device="cpu")
edges = torch.zeros(6, 64)  # zeros; both signs of the largest; numbers in the middle between two values, and their neighbours
edges[1] = torch.linspace(-1, 1, 64)
middles = (table[1:] + table[:-1]) / 2
edges[2, :15], edges[2, 15] = middles, 1
edges[3, :15], edges[3, 15] = torch.nextafter(middles, torch.tensor(2.0)), -1
edges[4, :15], edges[4, 15] = torch.nextafter(middles, torch.tensor(-2.0)), 1
edges[5, 7] = 1e-30
CASES = {"usual": 0.02 * torch.randn(48, 64), "groups": 0.02 * torch.randn(136, 128), "ragged": torch.randn(7, 33), "odd": 3 * torch.randn(5, 13), "edges": edges,
         "zeros": torch.zeros(2, 64), "equal": torch.full((4, 64), 0.5)}
tensors = {"values": table, "map": bnb.create_dynamic_map()}
for name, w in CASES.items():
    tensors[name + ".weight"] = w
    tensors |= {f"{name}.{part}": t for part, t in blocks(w).items()}
os.makedirs(out, exist_ok=True)
save_file({n: t.contiguous() for n, t in tensors.items()}, os.path.join(out, "matrices.safetensors"))

config = tf.LlamaConfig(vocab_size=37, bos_token_id=1, eos_token_id=2, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                        max_position_embeddings=32)
base = tf.AutoModelForCausalLM.from_config(copy.deepcopy(config))
with torch.no_grad():
    for p in base.parameters():
        p.copy_((p + 0.05 * torch.randn_like(p)).bfloat16().float())
shutil.rmtree(os.path.join(out, "base"), ignore_errors=True)
was = {n: p.detach().clone() for n, p in base.state_dict().items()}
copy.deepcopy(base).bfloat16().save_pretrained(os.path.join(out, "base"))
model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, r=3, lora_alpha=6, target_modules="all-linear"), autocast_adapter_dtype=False)
with torch.no_grad():
    for n, p in model.named_parameters():
        if p.requires_grad:
            p.add_(0.05 * torch.randn_like(p))
model.peft_config["default"].base_model_name_or_path = "base"
model.save_pretrained(os.path.join(out, "adapter"))
readme = os.path.join(out, "adapter", "README.md")
os.remove(readme) if os.path.exists(readme) else None

ids = torch.randint(3, 37, (2, 9))
labels = ids.clone()
labels[0, :3] = -100
kept = {n: (blocks(p)["value"] if ".layers." in n and p.dim() == 2 else p) for n, p in was.items()}
torch.set_default_dtype(torch.float64)
with AllDouble():
    exact = tf.AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation="eager", dtype=torch.float64).double()
    exact.load_state_dict({n: p.double() for n, p in kept.items()})
exact = peft.PeftModel.from_pretrained(exact, os.path.join(out, "adapter"), is_trainable=True, autocast_adapter_dtype=False).double().eval()
golden = {"input_ids": ids, "labels": labels}
trained = [p for p in exact.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
losses = []
with AllDouble():
    for step in range(5):
        optimizer.zero_grad()
        result = exact(input_ids=ids, labels=labels)
        result.loss.backward()
        losses.append(result.loss.detach())
        if step == 0:
            golden["logits"], golden["loss"] = result.logits.detach(), result.loss.detach()
            for n, p in exact.named_parameters():
                if p.requires_grad:
                    golden["grad." + (n + ".").replace(".default.", ".").removesuffix(".")] = p.grad.clone()
        optimizer.step()
golden["losses"] = torch.stack(losses)
save_file({n: t.contiguous() for n, t in golden.items()}, os.path.join(out, "golden.safetensors"))
print("bitsandbytes", __import__("bitsandbytes").__version__, "losses", [float(x) for x in losses], "means that differ:",
      [n for n in CASES if not torch.equal(tensors[n + ".mean"], tensors[n + ".mean_there"])])
