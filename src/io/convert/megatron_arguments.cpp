#include "io/convert/megatron_arguments.h"

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/megatron_place.h"
#include "io/convert/torch_elements.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

Json as_written(double v) { return v == std::floor(v) ? Json(static_cast<int64_t>(v)) : Json(v); }

// The arguments that the files of ranks hold; they count over those that are there.
void take_stored(const std::string& folder, StoredNetwork& out) {
  const MegatronFolder ranks = open_megatron(folder, StateKind::weights);
  const TorchFile& f = *ranks.ranks[0].file;
  const auto args = f.pickle().find(f.pickle().root(), "args");
  if (!args) return;
  const auto take = [&](const char* key, const char* stored) {
    if (const auto v = f.pickle().find(*args, stored))
      if (const Json value = plain_values(f.pickle(), *v); value.is_number() || value.is_string()) out.arguments[key] = value;
  };
  for (const char* key : {"num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels", "rotary_base",
                          "rotary_percent", "layernorm_epsilon", "norm_epsilon", "num_experts", "moe_router_topk"})
    take(std::string_view(key) == "layernorm_epsilon" ? "norm_epsilon" : key, key);
  if (argument(f, "group_query_attention").value_or(0) != 0)
    take("num_query_groups", "num_query_groups");
  else if (argument(f, "group_query_attention"))
    take("num_query_groups", "num_attention_heads");
  // The name of the table of positions is there as the default in files of networks that have none.
  const std::string positions = text_argument(f, "position_embedding_type").value_or("");
  if (argument(f, "use_rotary_position_embeddings").value_or(0) != 0)
    out.arguments["position_embedding_type"] = "rope";
  else if (positions == "rope" || positions == "alibi")
    out.arguments["position_embedding_type"] = positions;
  if (!out.arguments.empty()) out.where = f.path() + ": args";
}

// The arguments that files of ranks hold in other words, or not at all.
void add_further(const Geometry& g, Json& out) {
  const DecoderSpec& s = g.spec();
  constexpr const char* kScalings[] = {"none", "linear", "dynamic", "yarn", "llama3", "longrope"};
  if (s.rope) out["rope_scaling_type"] = kScalings[s.rope->type], out["rope_scaling_factor"] = s.rope->factor;
  out["sliding_window"] = s.window(g.layers - 1);
  out["vocabulary"] = g.vocabulary;
  out["num_experts"] = s.moe ? s.moe->routing.experts : 0;
  if (s.moe) out["moe_router_topk"] = s.moe->routing.top_k, out["moe_ffn_hidden_size"] = s.moe->width;
}

StoredNetwork read_network(const std::string& folder) {
  StoredNetwork out;
  std::error_code error;
  const bool ranks = holds_megatron(folder);
  for (const std::string& at : {folder, ranks ? megatron_ranks(folder) : folder + "/model"}) {
    const std::string file = at + "/config.json";
    if (!out.arguments.empty() || !fs::exists(file, error)) continue;
    const Json config = read_json(file);
    if (!has_geometry(config)) continue;
    const Geometry g = geometry_of(config, file);
    out = {network_arguments(g), file};
    add_further(g, out.arguments);
  }
  if (ranks) take_stored(folder, out);
  return out;
}

}  // namespace

Json network_arguments(const Geometry& g) {
  Json out = Json::object();
  const DecoderSpec& s = g.spec();
  const bool table = s.position_table, alibi = s.attention.alibi, rope = s.rope.has_value();
  const int64_t bound = g.model->facts().max_positions, positions = bound > 0              ? bound
                                                                    : s.trained_length > 0 ? s.trained_length
                                                                                           : 2048;
  out["num_layers"] = g.layers, out["hidden_size"] = g.hidden, out["ffn_hidden_size"] = g.ffn;
  out["num_attention_heads"] = g.heads, out["kv_channels"] = g.head_size;
  out["group_query_attention"] = g.kv_heads != g.heads, out["num_query_groups"] = g.kv_heads;
  out["max_position_embeddings"] = positions, out["seq_length"] = positions;
  out["position_embedding_type"] = alibi ? "alibi" : table ? "learned_absolute" : "rope";
  out["add_position_embedding"] = table, out["use_rotary_position_embeddings"] = rope;
  out["rotary_percent"] = rope ? s.rope->share : 1.0, out["rotary_base"] = as_written(rope ? s.rope->theta : 10000);
  out["normalization"] = s.norm.kind == NormSpec::layer ? "LayerNorm" : "RMSNorm";
  out["norm_epsilon"] = s.norm.eps, out["layernorm_epsilon"] = s.norm.eps, out["apply_layernorm_1p"] = false;
  out["add_bias_linear"] = s.mlp.bias, out["add_qkv_bias"] = s.attention.qkv_bias;
  out["add_dense_bias"] = s.attention.out_bias;
  out["qk_layernorm"] = s.attention.norms == AttentionSpec::Norms::head || s.attention.latent;
  out["embed_layernorm"] = s.embedding_norm, out["lm_norm_weight"] = s.head.unit_rows;
  out["swiglu"] = g.gated, out["openai_gelu"] = s.mlp.act == Act::gelu_tanh;
  out["untie_embeddings_and_output_weights"] = !g.tied;
  out["multi_latent_attention"] = s.attention.latent.has_value();
  if (const auto& latent = s.attention.latent) {
    if (latent->q_rank > 0) out["q_lora_rank"] = latent->q_rank;
    out["kv_lora_rank"] = latent->kv_rank, out["qk_pos_emb_head_dim"] = latent->rotated;
    out["qk_head_dim"] = g.head_size - latent->rotated;
    out["v_head_dim"] = s.attention.value_size > 0 ? s.attention.value_size : g.head_size;
  }
  return out;
}

StoredNetwork stored_network(const std::string& folder) {
  try {
    return read_network(folder);
  } catch (const UserError&) {  // whoever opens the weights says what is wrong
    return {};
  }
}

void refuse_other_network(const std::string& folder, const Json& config, const std::string& config_where) {
  const StoredNetwork stored = stored_network(folder);
  if (stored.arguments.empty() || !has_geometry(config)) return;
  const Geometry g = geometry_of(config, config_where);
  const Json now = network_arguments(g);
  for (const char* key :
       {"num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "position_embedding_type"}) {
    const std::string_view of = key;
    if (g.spec().attention.latent && (of == "num_query_groups" || of == "kv_channels")) continue;
    const auto was = stored.arguments.find(key), is = now.find(key);
    if (was == stored.arguments.end() || is == now.end() || *was == *is) continue;
    throw UserError(fmt::format("{} is {}, and {} in the checkpoint", key, is->dump(), was->dump()), config_where,
                    fmt::format("{} says whose weights these are", stored.where), "use the config of this model");
  }
}

}  // namespace ravine
