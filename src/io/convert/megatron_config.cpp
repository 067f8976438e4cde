#include "io/convert/megatron_config.h"

#include <algorithm>

namespace ravine {
namespace {

// Changes the config of a dense family to the family with experts: Qwen3-MoE (norms of q and k), Qwen2-MoE (a shared
// expert with a gate), else Mixtral. Arithmetic that these lack needs --model-config.
void make_sparse(Json& c, const MegatronFolder& f, const std::map<std::string, Shards>& tensors, int64_t layers) {
  const TorchFile& file = *f.ranks[0].file;
  auto refuse = [&](const std::string& what) {
    throw UserError("experts of no known family", file.path() + ": args", what, "give --model-config CONFIG.json");
  };
  auto number = [&](const char* key, int64_t absent) { return argument(file, key).value_or(absent); };
  std::vector<int64_t> dense;
  bool shared = false, gate = false;
  int64_t experts = 0;
  for (int64_t i = 0; i < layers; ++i) {
    const auto router = tensors.find(fmt::format("decoder.layers.{}.mlp.router.weight", i));
    if (router == tensors.end())
      dense.push_back(i);
    else
      experts = router->second[0]->shape()[0];
    shared = shared || tensors.contains(fmt::format("decoder.layers.{}.mlp.shared_experts.linear_fc1.weight", i));
    gate = gate || tensors.contains(fmt::format("decoder.layers.{}.mlp.shared_experts.gate_weight", i));
  }
  if (text_argument(file, "moe_router_score_function").value_or("softmax") != "softmax") refuse("scores are not by softmax");
  if (number("moe_router_topk", 0) < 1) refuse("args.moe_router_topk is missing");
  const bool normalise = number("moe_router_pre_softmax", 0) == 0;  // softmax over the chosen experts
  const std::string base = c["model_type"];
  if (base == "qwen3" && !shared) {
    c["model_type"] = "qwen3_moe", c["architectures"] = {"Qwen3MoeForCausalLM"};
  } else if (base == "qwen2" && shared && gate) {
    c["model_type"] = "qwen2_moe", c["architectures"] = {"Qwen2MoeForCausalLM"};
    c["shared_expert_intermediate_size"] = number("moe_shared_expert_intermediate_size", 0);
  } else if (base == "llama" && !shared && dense.empty() && normalise && c["attention_bias"] == false) {
    c["model_type"] = "mixtral", c["architectures"] = {"MixtralForCausalLM"};
    c.erase("attention_bias"), c.erase("mlp_bias");
    c["num_local_experts"] = experts, c["num_experts_per_tok"] = number("moe_router_topk", 2);
    c["intermediate_size"] = number("moe_ffn_hidden_size", c["intermediate_size"].get<int64_t>());
    return;
  } else {
    refuse("the arguments and tensors are those of neither Mixtral nor Qwen2-MoE nor Qwen3-MoE");
  }
  c["num_experts"] = experts, c["num_experts_per_tok"] = number("moe_router_topk", 2);
  c["moe_intermediate_size"] = number("moe_ffn_hidden_size", c["intermediate_size"].get<int64_t>());
  c["norm_topk_prob"] = normalise, c["decoder_sparse_step"] = 1, c["mlp_only_layers"] = dense;
}

}  // namespace

void refuse_other_arithmetic(const TorchFile& file, bool guess) {
  auto refuse = [&](const char* key, const char* what, const char* fix) {
    if (argument(file, key).value_or(0) != 0)
      throw UserError(fmt::format("args.{} is set", key), file.path() + ": args", what, fix);
  };
  refuse("apply_layernorm_1p", "norms have weights to which 1 is added",
         "convert it by the tools of the program that wrote it");
  if (!guess) return;
  const char* fix = "give --model-config CONFIG.json, which says it";
  refuse("use_rope_scaling", "frequencies of positions are scaled, and the arguments do not say by which numbers", fix);
  refuse("rotary_interleaved", "neighbouring dims of a head are rotated as pairs", fix);
  refuse("squared_relu", "the MLP has another activation", fix);
  refuse("multi_latent_attention", "keys and values have a latent form", fix);
}

Json megatron_config(const MegatronFolder& f, const std::map<std::string, Shards>& tensors, int64_t layers) {
  const TorchFile& file = *f.ranks[0].file;
  if (!file.pickle().find(file.pickle().root(), "args"))
    throw UserError("no arguments", file.path(), "these files do not contain the sizes of the model",
                    "give --model-config CONFIG.json, or put its config.json into the folder");
  auto need = [&](const char* key) {
    const auto v = argument(file, key);
    if (!v || *v < 1)
      throw UserError("missing argument", fmt::format("{}: args.{}", file.path(), key),
                      "the layout of the weights follows from it", "give --model-config CONFIG.json");
    return *v;
  };
  auto has = [&](const char* suffix) { return tensors.contains(fmt::format("decoder.layers.0.{}", suffix)); };
  const int64_t heads = need("num_attention_heads"), hidden = need("hidden_size"), ffn = need("ffn_hidden_size");
  if (const int64_t declared = need("num_layers"); declared != layers)
    throw UserError("missing layers", f.path, fmt::format("the arguments say {} layers, the files hold {}", declared, layers),
                    kComplete);
  const bool grouped = argument(file, "group_query_attention").value_or(0) != 0;
  const bool qkv_bias = has("self_attention.linear_qkv.bias"), o_bias = has("self_attention.linear_proj.bias");
  const bool tied = !tensors.contains("output_layer.weight") || argument(file, "untie_embeddings_and_output_weights") == 0;
  const bool alibi = text_argument(file, "position_embedding_type") == "alibi";
  const int64_t positions = argument(file, "max_position_embeddings").value_or(argument(file, "seq_length").value_or(2048));
  const double eps = real_argument(file, "norm_epsilon").value_or(real_argument(file, "layernorm_epsilon").value_or(1e-5));
  const double base = real_argument(file, "rotary_base").value_or(10000.0);
  const bool sparse =
      std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.first.ends_with(".mlp.router.weight"); });
  // Megatron's fused GELU is the tanh form, as is OpenAI's. Ravine writes openai_gelu alone.
  auto gelu = [&](bool unsaid) {
    const auto openai = argument(file, "openai_gelu"), fused = argument(file, "bias_gelu_fusion");
    const bool tanh = openai || fused ? openai.value_or(0) != 0 || fused.value_or(0) != 0 : unsaid;
    return tanh ? "gelu_new" : "gelu";
  };
  Json c;
  auto kind = [&](const char* type, const char* architecture) { c["model_type"] = type, c["architectures"] = {architecture}; };
  if (has("input_layernorm.bias")) {
    if (tensors.contains("embedding.norm.weight")) {
      kind("bloom", "BloomForCausalLM");
      c["hidden_size"] = hidden, c["n_layer"] = layers, c["n_head"] = heads, c["layer_norm_epsilon"] = eps;
    } else if (tensors.contains("embedding.position_embeddings.weight")) {
      kind("gpt2", "GPT2LMHeadModel");
      c["n_embd"] = hidden, c["n_layer"] = layers, c["n_head"] = heads, c["n_inner"] = ffn, c["n_positions"] = positions;
      c["layer_norm_epsilon"] = eps, c["activation_function"] = gelu(true);
    } else {
      kind("gpt_neox", "GPTNeoXForCausalLM");
      c["hidden_size"] = hidden, c["num_hidden_layers"] = layers, c["num_attention_heads"] = heads,
      c["intermediate_size"] = ffn;
      c["max_position_embeddings"] = positions, c["layer_norm_eps"] = eps, c["use_parallel_residual"] = false;
      c["hidden_act"] = gelu(false);
      c["rotary_pct"] = real_argument(file, "rotary_percent").value_or(1.0), c["rotary_emb_base"] = base;
    }
    c["tie_word_embeddings"] = tied;
    return c;
  }
  if (has("self_attention.q_layernorm.weight"))
    kind("qwen3", "Qwen3ForCausalLM");
  else if (qkv_bias && !o_bias)
    kind("qwen2", "Qwen2ForCausalLM");
  else if (alibi)
    kind("baichuan", "BaichuanForCausalLM");
  else
    kind("llama", "LlamaForCausalLM");
  c["hidden_size"] = hidden;
  c["intermediate_size"] = ffn;
  c["num_hidden_layers"] = layers;
  c["num_attention_heads"] = heads;
  c["num_key_value_heads"] = grouped ? need("num_query_groups") : heads;
  c["head_dim"] = argument(file, "kv_channels").value_or(hidden / heads);
  c[alibi ? "model_max_length" : "max_position_embeddings"] = positions;
  if (alibi && argument(file, "lm_norm_weight").value_or(0) != 0) c["z_loss_weight"] = 0;
  c["rms_norm_eps"] = eps;
  if (!alibi) c["rope_theta"] = base;
  if (const auto factor = real_argument(file, "rotary_seq_len_interpolation_factor"); factor && *factor > 1)
    c["rope_scaling"] = {{"type", "linear"}, {"factor", *factor}};
  c["hidden_act"] = "silu";
  c["tie_word_embeddings"] = tied;
  if (c["model_type"] == "llama") {
    c["attention_bias"] = qkv_bias;
    c["mlp_bias"] = has("mlp.linear_fc1.bias");
  } else if (c["model_type"] == "qwen3") {
    c["attention_bias"] = qkv_bias;
  }
  if (sparse) make_sparse(c, f, tensors, layers);
  return c;
}

}  // namespace ravine
