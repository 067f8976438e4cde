#include "io/convert/megatron_names.h"

#include <charconv>

namespace ravine {
namespace {

void replace_prefix(std::string& s, std::string_view from, std::string_view to) {
  if (s.starts_with(from)) s.replace(0, from.size(), to);
}

// Returns megatron-core's name for any spelling; "" for entries that are not weights. `apart`: the layer stores gate
// and up separately.
std::string core_name(std::string name, bool apart) {
  if (name.ends_with("_extra_state") || name.ends_with("inv_freq") || name.ends_with("local_tokens_per_expert") ||
      name.starts_with("word_embeddings_for_head."))
    return "";
  replace_prefix(name, "module.", "");
  replace_prefix(name, "base_model.model.", "");  // PEFT's prefix of a model in training
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
      {"self_attention.linear_q_up_proj.layer_norm_", "self_attention.q_layernorm."},
      {"self_attention.linear_kv_up_proj.layer_norm_", "self_attention.kv_layernorm."},
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

constexpr std::string_view kExperts = "mlp.experts.";

// A matrix of one expert, with its number among the experts of its rank.
struct ExpertMatrix {
  int64_t local = 0;
  std::string module;  // "linear_fc1", "linear_fc2"
  ElementsPtr elements;
};

[[noreturn]] void unknown_expert(const Elements& e) {
  throw UserError("unknown tensor of experts", e.where(),
                  "experts are local_experts.E.linear_fc1.weight, linear_fc1.weightE, or weight1 and weight2, without biases",
                  "save the model in one of these forms");
}

int64_t expert_number(std::string_view text, const Elements& e) {
  int64_t n = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (code != std::errc{} || end != text.data() + text.size() || n < 0 || n > 100'000) unknown_expert(e);
  return n;
}

// Returns the matrices in a tensor named after "mlp.experts.", on a rank with `count` experts: one matrix, or the
// matrices of all experts.
std::vector<ExpertMatrix> expert_matrices(const std::string& name, const ElementsPtr& e, int64_t count) {
  for (const char* module : {"linear_fc1", "linear_fc2"})
    if (const std::string grouped = fmt::format("{}.weight", module); name.starts_with(grouped) && name.size() > grouped.size())
      return {{expert_number(std::string_view(name).substr(grouped.size()), *e), module, e}};
  if (constexpr std::string_view kLocal = "local_experts."; name.starts_with(kLocal)) {
    const size_t dot = name.find('.', kLocal.size());
    for (const char* module : {"linear_fc1", "linear_fc2"})
      if (dot != std::string::npos && name.substr(dot) == fmt::format(".{}.weight", module))
        return {{expert_number(std::string_view(name).substr(kLocal.size(), dot - kLocal.size()), *e), module, e}};
  }
  // Stacked: memory is [count, in, out], independent of the stored shape (GroupedMLP views it so).
  const bool first = name == "weight1";
  if ((!first && name != "weight2") || e->shape().rank() != 2) unknown_expert(*e);
  const int64_t in = first ? e->shape()[0] : e->shape()[0] / count, out = e->count() / std::max<int64_t>(1, count * in);
  if (count * in * out != e->count())
    throw UserError("misshapen tensor", e->where(), fmt::format("{} experts do not divide {}", count, e->shape().text()),
                    kComplete);
  std::vector<ExpertMatrix> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(
        {i, first ? "linear_fc1" : "linear_fc2",
         transposed(stack_rows({{reshaped(e, {count * in, out}), i * in, in}}, fmt::format("expert {} of the rank", i)))});
  return all;
}

// Collects the tensors of one stage of one expert rank.
class Gatherer {
 public:
  Gatherer(const MegatronFolder& f, std::map<std::string, Shards>& out) : f_(f), out_(out) {}
  void add(const std::string& name, const ElementsPtr& e, int64_t t) {
    Shards& shards = out_[name];
    if (static_cast<int64_t>(shards.size()) != t)
      throw UserError(
          "ranks do not match", e->where(),
          t < static_cast<int64_t>(shards.size()) ? "another rank or stage holds it too" : "tensor rank 0 does not hold it",
          kComplete);
    shards.push_back(e);
  }
  // Adds matrices of experts. prefix: of the layer; all: number of experts in the layer, over all ranks.
  void add_expert(const std::string& prefix, const std::string& name, const ElementsPtr& e, int64_t t, int64_t rank,
                  int64_t all) {
    if (all < 1 || all % f_.expert != 0)
      throw UserError("ranks do not match", e->where(),
                      all < 1 ? std::string("its layer has no router.weight")
                              : fmt::format("{} experts are not divided evenly over {} expert ranks", all, f_.expert),
                      kComplete);
    const int64_t count = all / f_.expert;
    for (const ExpertMatrix& m : expert_matrices(name, e, count)) {
      if (m.local >= count)
        throw UserError("ranks do not match", e->where(), fmt::format("the rank has {} of {} experts", count, all), kComplete);
      add(fmt::format("{}{}{}.{}.weight", prefix, kExperts, rank * count + m.local, m.module), m.elements, t);
    }
  }

 private:
  const MegatronFolder& f_;
  std::map<std::string, Shards>& out_;
};

// Returns the number of experts of each layer of a stage, by its number there: the rows of its router.
std::map<int64_t, int64_t> routers_of(const std::vector<MegatronRank::Tensor>& tensors) {
  std::map<int64_t, int64_t> out;
  std::string suffix;
  for (const auto& tensor : tensors)
    if (const int64_t layer = split_layer(core_name(tensor.name, false), &suffix); layer >= 0 && suffix == "mlp.router.weight")
      out[layer] = tensor.elements->shape().rank() == 2 ? tensor.elements->shape()[0] : 0;
  return out;
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
  Gatherer gatherer(f, out);
  *layers = 0;
  const size_t chunks = f.ranks[0].chunks.size();
  for (size_t c = 0; c < chunks; ++c)
    for (int64_t p = 0; p < f.pipeline; ++p) {
      int64_t here = 0;
      for (int64_t i = 0; i < f.expert * f.tensor; ++i) {
        const int64_t t = i % f.tensor, e = i / f.tensor;
        const auto& tensors = f.at(t, p, e).chunks[c];
        bool apart = false;
        for (const auto& tensor : tensors) apart = apart || tensor.name.find(".mlp.gate_proj.") != std::string::npos;
        const std::map<int64_t, int64_t> routers = routers_of(tensors);
        for (const auto& tensor : tensors) {
          const std::string name = core_name(tensor.name, apart);
          std::string suffix;
          const int64_t layer = name.empty() ? -1 : split_layer(name, &suffix);
          here = std::max(here, layer + 1);
          const std::string prefix = layer >= 0 ? fmt::format("decoder.layers.{}.", *layers + layer) : "";
          if (layer >= 0 && suffix.starts_with(kExperts)) {
            const auto found = routers.find(layer);
            gatherer.add_expert(prefix, suffix.substr(kExperts.size()), tensor.elements, t, e,
                                found == routers.end() ? 0 : found->second);
          } else if (!name.empty() && e == 0) {  // other expert ranks hold copies
            gatherer.add(layer >= 0 ? prefix + suffix : name, tensor.elements, t);
          }
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
