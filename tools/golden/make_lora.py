"""Makes tests/golden/lora: tiny models with LoRA adapters of PEFT, and what PEFT computes with them.

    python tools/golden/make_lora.py tests/golden/lora [CASE ..]

Needs torch, transformers and peft. Per case a folder: base/ and adapter/ as save_pretrained writes them (random weights, B not zero), and
golden.safetensors: input_ids and labels [2,7]; logits [2,7,V] and loss in f64; grad.NAME in f64 of every trained tensor, by its name in
adapter_model.safetensors; merged.NAME: weights of merge_and_unload() in f32 that differ from the base's."""
import copy, os, shutil, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peft, torch, transformers as tf
from safetensors.torch import save_file
from double import AllDouble

out, only = sys.argv[1], sys.argv[2:]
COMMON = dict(vocab_size=37, torch_dtype="float32", bos_token_id=1, eos_token_id=2)
LLAMA = dict(COMMON, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=6, qk_nope_head_dim=4, qk_rope_head_dim=6, v_head_dim=5, first_k_dense_replace=2, pad_token_id=None)
CASES = {
    "qwen2": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True), dict(r=3, lora_alpha=6, target_modules="all-linear")),
    "gpt2": (tf.GPT2Config(**COMMON, n_embd=16, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0),
             dict(r=2, lora_alpha=5, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)),
    "bloom": (tf.BloomConfig(**COMMON, hidden_size=16, n_layer=2, n_head=4), dict(r=2, lora_alpha=4, target_modules=["query_key_value", "dense_4h_to_h"])),
    "llama": (tf.LlamaConfig(**LLAMA, num_key_value_heads=2),
              dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj"], use_rslora=True, rank_pattern={"layers.1.self_attn.q_proj": 2},
                   alpha_pattern={"v_proj": 3}, modules_to_save=["embed_tokens", "lm_head", "norm"])),
    "phi3": (tf.Phi3Config(**LLAMA, num_key_value_heads=2, pad_token_id=0),
             dict(r=2, lora_alpha=2, target_modules=r".*layers\.[01]\.(self_attn\.qkv_proj|mlp\.gate_up_proj)", layers_to_transform=None)),
    # Every product of latent attention, and with queries straight from the stream.
    "latent": (tf.DeepseekV3Config(**LLAMA, **LATENT, q_lora_rank=6, attention_bias=True),
               dict(r=2, lora_alpha=5, target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"])),
    "latent-direct": (tf.DeepseekV2Config(**LLAMA, **LATENT, q_lora_rank=None), dict(r=3, lora_alpha=4, target_modules=["q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"])),
    # Vocabularies that were resized before: tables as whole modules, and as PEFT stores them unasked.
    "resized": (tf.LlamaConfig(**LLAMA), dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"]), dict(rows=41)),
    "resized-unasked": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True), dict(r=2, lora_alpha=4, target_modules=["q_proj"]), dict(rows=41, save_embedding_layers=True)),
    # The embedding as a target: scaled, tied; beside its base layer, as PEFT stores it unasked; with a padding id.
    "embedding": (tf.LlamaConfig(**LLAMA, pad_token_id=0), dict(r=3, lora_alpha=6, target_modules=["embed_tokens", "v_proj"]), dict(save_embedding_layers="auto")),
    "embedding-scaled": (tf.Gemma2Config(**LLAMA, num_key_value_heads=2, head_dim=4, pad_token_id=0, query_pre_attn_scalar=4, sliding_window=8),
                         dict(r=2, lora_alpha=4, target_modules=["embed_tokens", "o_proj"])),
    # The head: alone, and beside the embedding whose table it shares, with capped logits.
    "head": (tf.LlamaConfig(**LLAMA), dict(r=3, lora_alpha=6, target_modules=["lm_head", "q_proj"])),
    "head-tied": (tf.Gemma2Config(**LLAMA, num_key_value_heads=2, head_dim=4, query_pre_attn_scalar=4, sliding_window=8, final_logit_softcapping=3.0),
                  dict(r=2, lora_alpha=4, target_modules=["embed_tokens", "lm_head"])),
    # A tied embedding trained whole: the head keeps the base's table, or is tied to what is trained.
    "saved-tied": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True), dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"])),
    "saved-ensured": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True),
                      dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
    # What PEFT stores beside these unasked: the table that a tied head stands for, and of a table that is trained whole what it was and what it is.
    "head-unasked": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True), dict(r=2, lora_alpha=4, target_modules=["q_proj", "lm_head"]),
                     dict(save_embedding_layers=True)),
    "resized-head": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True), dict(r=2, lora_alpha=4, target_modules=["q_proj", "lm_head"]),
                     dict(rows=41, save_embedding_layers=True)),
    "resized-saved": (tf.LlamaConfig(**LLAMA), dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"]), dict(rows=41, save_embedding_layers=True)),
    "resized-saved-tied": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True), dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"]),
                           dict(rows=41, save_embedding_layers=True)),
    "resized-ensured": (tf.Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True),
                        dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True), dict(rows=41, save_embedding_layers=True)),
    "layers": (tf.LlamaConfig(**LLAMA), dict(r=2, lora_alpha=4, target_modules=["o_proj", "down_proj"], layers_to_transform=[1])),
}
for name, (config, lora, *more) in CASES.items():
    if only and name not in only:
        continue
    rows, embedding_layers = (more or [{}])[0].get("rows"), (more or [{}])[0].get("save_embedding_layers", False)
    torch.manual_seed(len(name))
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    base = tf.AutoModelForCausalLM.from_config(copy.deepcopy(config))
    with torch.no_grad():
        for p in base.parameters():
            p.add_(0.05 * torch.randn_like(p))
    base.save_pretrained(os.path.join(folder, "base"))
    was = {n: p.detach().clone() for n, p in base.state_dict().items()}
    if rows:
        base.resize_token_embeddings(rows, mean_resizing=False)
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **lora), autocast_adapter_dtype=False)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if p.requires_grad:
                p.add_(0.1 * torch.randn_like(p))
    model.peft_config["default"].base_model_name_or_path = "base"
    model.save_pretrained(os.path.join(folder, "adapter"), save_embedding_layers=embedding_layers)
    os.remove(os.path.join(folder, "adapter", "README.md")) if os.path.exists(os.path.join(folder, "adapter", "README.md")) else None
    ids = torch.randint(3, rows or 37, (2, 7))
    if config.pad_token_id is not None and name.startswith("embedding"):
        ids[1, 2] = config.pad_token_id
    labels = ids.clone()
    labels[0, :3] = -100
    golden = {"input_ids": ids, "labels": labels}
    torch.set_default_dtype(torch.float64)
    with AllDouble():
        exact = tf.AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation="eager", dtype=torch.float64).double()
        exact.load_state_dict({n: p.double() for n, p in was.items()})
        if rows:
            exact.resize_token_embeddings(rows, mean_resizing=False)
    exact = peft.PeftModel.from_pretrained(exact, os.path.join(folder, "adapter"), is_trainable=True, autocast_adapter_dtype=False).double().eval()
    with AllDouble():
        result = exact(input_ids=ids, labels=labels)
        result.loss.backward()
    torch.set_default_dtype(torch.float32)
    golden["logits"], golden["loss"] = result.logits.detach(), result.loss.detach()
    for n, p in exact.named_parameters():
        if p.requires_grad:
            golden["grad." + (n + ".").replace(".modules_to_save.default.", ".").replace(".default.", ".").removesuffix(".")] = p.grad.clone()
    merged = model.merge_and_unload()
    for n, p in merged.state_dict().items():
        if n in was and not torch.equal(p, was[n]):
            golden["merged." + n] = p.detach().clone()
    save_file({n: t.contiguous() for n, t in golden.items()}, os.path.join(folder, "golden.safetensors"))
    print(name, sum(p.numel() for p in model.parameters()), sorted(n for n in golden if n.startswith("merged."))[:3])
