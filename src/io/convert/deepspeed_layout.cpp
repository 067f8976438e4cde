#include "io/convert/deepspeed_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "io/convert/weights.h"

namespace ravine {
namespace {

constexpr const char* kInLayer[] = {"self_attn.q_proj",
                                    "self_attn.k_proj",
                                    "self_attn.v_proj",
                                    "self_attn.o_proj",
                                    "self_attn.qkv_proj",
                                    "self_attn.q_norm",
                                    "self_attn.k_norm",
                                    "mlp.gate_proj",
                                    "mlp.up_proj",
                                    "mlp.gate_up_proj",
                                    "mlp.down_proj",
                                    "ln_1",
                                    "attn.c_attn",
                                    "attn.c_proj",
                                    "ln_2",
                                    "mlp.c_fc",
                                    "mlp.c_proj",
                                    "input_layernorm",
                                    "self_attention.query_key_value",
                                    "self_attention.dense",
                                    "post_attention_layernorm",
                                    "pre_feedforward_layernorm",
                                    "post_feedforward_layernorm",
                                    "attention.query_key_value",
                                    "attention.dense",
                                    "mlp.dense_h_to_4h",
                                    "mlp.dense_4h_to_h"};
constexpr const char* kBefore[] = {"embed_tokens", "wte", "wpe", "embed_in", "word_embeddings", "word_embeddings_layernorm"};
constexpr const char* kBehind[] = {"norm", "ln_f", "final_layer_norm", "lm_head", "embed_out"};

ElementsPtr to_f32(const ElementsPtr& e) { return as_type(e, DType::f32); }

}  // namespace

DeepSpeedOrder deepspeed_order(const std::string& name, const CheckpointNames& names, const std::string& where) {
  const bool bias = name.ends_with(".bias");
  std::string module = name.substr(0, name.rfind('.'));
  const auto in = [&](const auto& list) {
    const auto it = std::find(std::begin(list), std::end(list), module);
    return it == std::end(list) ? -1 : it - std::begin(list);
  };
  if (module.starts_with(names.layers)) {
    module = module.substr(std::string_view(names.layers).size());
    const size_t dot = module.find('.');
    const int64_t layer = std::stoll(module);
    module = module.substr(dot + 1);
    if (const auto i = in(kInLayer); i >= 0) return {1, layer, i, bias};
  } else {
    module = module.substr(module.rfind('.') + 1);
    if (const auto i = in(kBefore); i >= 0) return {0, 0, i, bias};
    if (const auto i = in(kBehind); i >= 0) return {2, 0, i, bias};
  }
  throw UserError(fmt::format("the position of '{}' in DeepSpeed's groups is not known", name), where,
                  "these groups are flat and have no names: parameters are in the order of Transformers' modules",
                  "write the weights alone: --to hf");
}

ElementsPtr flat_range(const std::vector<ElementsPtr>& parts, int64_t begin, int64_t count, const std::string& rule) {
  std::vector<Copy> copies;
  int64_t at = 0, filled = 0;
  for (const ElementsPtr& e : parts) {
    const int64_t low = std::max(at, begin), high = std::min(at + e->count(), begin + count);
    if (low < high) {
      copies.push_back({to_f32(e), low - at, 0, low - begin, 0, 1, high - low});
      filled = high - begin;
    }
    at += e->count();
  }
  if (filled < count) copies.push_back({zeros(DType::f32, {count - filled}), 0, 0, filled, 0, 1, count - filled});
  return assembled({count}, std::move(copies), rule);
}

ElementsPtr chunks(const std::vector<ElementsPtr>& parts, int64_t r, int64_t n, const std::string& rule) {
  std::vector<Copy> copies;
  int64_t to = 0;
  for (const ElementsPtr& e : parts) {
    const int64_t per = ceil_div(e->count(), n), from = std::min(r * per, e->count()), have = std::min(per, e->count() - from);
    if (have > 0) copies.push_back({to_f32(e), from, 0, to, 0, 1, have});
    if (have < per) copies.push_back({zeros(DType::f32, {per - have}), 0, 0, to + have, 0, 1, per - have});
    to += per;
  }
  return assembled({to}, std::move(copies), rule);
}

void check_deepspeed_order(const Json& model, const std::string& where) {
  const Geometry g = geometry_of(model, where);
  for (const FileTensor& t : g.model->files().tensors) deepspeed_order(t.name, g.spec().names, where);
}

}  // namespace ravine
