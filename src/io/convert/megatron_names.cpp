#include "io/convert/megatron_names.h"

#include <charconv>

namespace ravine {
namespace {

void replace_prefix(std::string& s, std::string_view from, std::string_view to) {
  if (s.starts_with(from)) s.replace(0, from.size(), to);
}

// Every spelling to that of megatron-core; "" for what holds no weight. `apart`: the layer stores gate and up apart.
std::string core_name(std::string name, bool apart) {
  if (name.ends_with("_extra_state") || name.ends_with("inv_freq") || name.starts_with("word_embeddings_for_head.")) return "";
  replace_prefix(name, "module.", "");
  replace_prefix(name, "base_model.model.", "");  // PEFT's word around a model that it trains
  replace_prefix(name, "language_model.", "");
  if (name.starts_with("word_embeddings_for_head.")) return "";
  replace_prefix(name, "transformer.", "decoder.");
  replace_prefix(name, "encoder.", "decoder.");
  replace_prefix(name, "decoder.final_norm.", "decoder.final_layernorm.");
  replace_prefix(name, "embedding.word_embeddings.norm.", "embedding.norm.");  // Bloom's norm after the embedding
  if (!name.starts_with("decoder.layers.")) return name;
  const size_t dot = name.find('.', 15);
  if (dot == std::string::npos) return name;
  std::string suffix = name.substr(dot + 1);
  const std::pair<const char*, const char*> table[] = {
      {"input_norm.", "input_layernorm."},
      {"post_attention_norm.", "pre_mlp_layernorm."},
      {"post_attention_layernorm.", "pre_mlp_layernorm."},
      {"self_attention.query_key_value.", "self_attention.linear_qkv."},
      {"self_attention.dense.", "self_attention.linear_proj."},
      {"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
      {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."},
      {"mlp.gate_proj.", "mlp.gate."},
      {"mlp.dense_h_to_4h.", apart ? "mlp.up." : "mlp.linear_fc1."},
      {"mlp.proj.", "mlp.linear_fc1."},
      {"mlp.dense_4h_to_h.", "mlp.linear_fc2."},
  };
  for (const auto& [from, to] : table)
    if (suffix.starts_with(from)) {
      suffix.replace(0, std::string_view(from).size(), to);
      break;
    }
  return name.substr(0, dot + 1) + suffix;
}

}  // namespace

int64_t split_layer(const std::string& name, std::string* suffix) {
  if (!name.starts_with("decoder.layers.")) return -1;
  int64_t layer = -1;
  auto [end, code] = std::from_chars(name.data() + 15, name.data() + name.size(), layer);
  if (code != std::errc{} || end == name.data() + name.size() || *end != '.' || layer < 0 || layer > 100'000) return -1;
  *suffix = std::string(end + 1, name.data() + name.size());
  return layer;
}

std::map<std::string, Shards> gather_shards(const MegatronFolder& f, int64_t* layers) {
  std::map<std::string, Shards> out;
  *layers = 0;
  const size_t chunks = f.ranks[0].chunks.size();
  for (size_t c = 0; c < chunks; ++c)
    for (int64_t p = 0; p < f.pipeline; ++p) {
      int64_t here = 0;
      for (int64_t t = 0; t < f.tensor; ++t) {
        const auto& tensors = f.at(t, p).chunks[c];
        bool apart = false;
        for (const auto& tensor : tensors) apart = apart || tensor.name.find(".mlp.gate_proj.") != std::string::npos;
        for (const auto& tensor : tensors) {
          std::string name = core_name(tensor.name, apart), suffix;
          if (name.empty()) continue;
          if (const int64_t layer = split_layer(name, &suffix); layer >= 0) {
            here = std::max(here, layer + 1);
            name = fmt::format("decoder.layers.{}.{}", *layers + layer, suffix);
          }
          Shards& shards = out[name];
          if (static_cast<int64_t>(shards.size()) != t)
            throw UserError("ranks do not match",
                            fmt::format("{}: tensor '{}'", f.at(t, p).file->path(), printable(tensor.name)),
                            t < static_cast<int64_t>(shards.size()) ? "another rank or stage holds it too"
                                                                    : "tensor rank 0 does not hold it",
                            kComplete);
          shards.push_back(tensor.elements);
        }
      }
      *layers += here;
    }
  for (const auto& [name, shards] : out)
    if (static_cast<int64_t>(shards.size()) != f.tensor)
      throw UserError("missing tensor", f.path,
                      fmt::format("{} of {} tensor ranks hold '{}'", shards.size(), f.tensor, printable(name)), kComplete);
  return out;
}

}  // namespace ravine
