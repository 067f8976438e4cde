#include "io/convert/weights.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "files/convert.h"

namespace ravine {
namespace {

int64_t size_field(const Json& config, const std::string& where, const char* key, int64_t fallback = 0) {
  auto it = config.find(key);
  if (it == config.end() || it->is_null()) {
    if (fallback > 0) return fallback;
    throw UserError("missing field", fmt::format("{}: {}", where, key), "the layout of weights needs it", "add it");
  }
  if (!it->is_number_integer() || it->get<int64_t>() < 1 || it->get<int64_t>() > int64_t{1} << 32)
    throw UserError("bad field", fmt::format("{}: {}", where, key), "it must be a whole number from 1 to 2^32", "correct it");
  return it->get<int64_t>();
}

bool known_family(const std::string& type) {
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "internlm", "aquila", "baichuan"})
    if (type == name) return true;
  return false;
}

// "model.layers.7.mlp.up_proj.weight" -> "mlp.up_proj.weight"; "" if it is no name of a layer below `layers`.
std::string layer_suffix(const std::string& name, int64_t layers) {
  constexpr std::string_view prefix = "model.layers.";
  if (!name.starts_with(prefix)) return "";
  int64_t layer = -1;
  const char* end = name.data() + name.size();
  auto [stop, code] = std::from_chars(name.data() + prefix.size(), end, layer);
  if (code != std::errc{} || stop == end || *stop != '.' || layer < 0 || layer >= layers) return "";
  return {stop + 1, end};
}

bool is_bias(const std::string& suffix) { return suffix.ends_with(".bias"); }

}  // namespace

void Weights::add(const std::string& name, ElementsPtr tensor) {
  auto [it, fresh] = tensors.emplace(name, tensor);
  if (!fresh)
    throw UserError("tensor is stored twice", tensor->where(),
                    fmt::format("{} is also '{}'", it->second->where(), printable(name)), "remove one of them");
}

bool has_geometry(const Json& config) {
  return config.is_object() && config.contains("model_type") && config["model_type"].is_string() &&
         known_family(config["model_type"]);
}

Geometry geometry_of(const Json& config, const std::string& where) {
  if (!config.is_object())
    throw UserError("bad config", where, "it must be a JSON object", "give the config.json of the model");
  const std::string type = config.value("model_type", Json("")).is_string() ? config.value("model_type", std::string()) : "";
  if (!known_family(type))
    throw UserError("family without this layout", fmt::format("{}: model_type", where),
                    fmt::format("Megatron and MindFormers layouts are known for llama, mistral, qwen2, qwen3, internlm, aquila "
                                "and baichuan, it is '{}'",
                                printable(type)),
                    "use --to hf, or a model of these families");
  Geometry g;
  g.family = type;
  g.layers = size_field(config, where, "num_hidden_layers");
  g.hidden = size_field(config, where, "hidden_size");
  g.ffn = size_field(config, where, "intermediate_size");
  g.heads = size_field(config, where, "num_attention_heads");
  g.kv_heads = size_field(config, where, "num_key_value_heads", g.heads);
  g.head_size = size_field(config, where, "head_dim", std::max<int64_t>(g.hidden / g.heads, 1));
  g.vocabulary = size_field(config, where, "vocab_size");
  if (auto it = config.find("tie_word_embeddings"); it != config.end() && it->is_boolean()) g.tied = it->get<bool>();
  if (g.layers > 100'000) throw UserError("bad field", where + ": num_hidden_layers", "at most 100000 layers", "correct it");
  if (g.heads % g.kv_heads != 0)
    throw UserError("bad field", where + ": num_key_value_heads",
                    fmt::format("it must divide the {} heads, it is {}", g.heads, g.kv_heads), "correct it");
  return g;
}

Shape expected_shape(const std::string& name, const Geometry& g) {
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight") return {g.vocabulary, g.hidden};
  if (name == "model.norm.weight" || name == "model.norm.bias") return {g.hidden};
  const std::string s = layer_suffix(name, g.layers);
  const size_t dot = s.rfind('.');
  if (dot == std::string::npos || (!s.ends_with(".weight") && !is_bias(s))) return {};
  const std::string module = s.substr(0, dot);
  auto linear = [&](int64_t out, int64_t in) { return is_bias(s) ? Shape{out} : Shape{out, in}; };
  if (module == "input_layernorm" || module == "post_attention_layernorm") return {g.hidden};
  if (module == "self_attn.q_proj") return linear(g.heads * g.head_size, g.hidden);
  if (module == "self_attn.k_proj" || module == "self_attn.v_proj") return linear(g.kv_heads * g.head_size, g.hidden);
  if (module == "self_attn.o_proj") return linear(g.hidden, g.heads * g.head_size);
  if (module == "self_attn.q_norm" || module == "self_attn.k_norm") return {g.head_size};
  if (module == "mlp.gate_proj" || module == "mlp.up_proj") return linear(g.ffn, g.hidden);
  if (module == "mlp.down_proj") return linear(g.hidden, g.ffn);
  return {};
}

void check_weights(Weights& w, const Geometry& g, bool allow_unknown) {
  for (auto it = w.tensors.begin(); it != w.tensors.end();) {
    const auto& [name, tensor] = *it;
    const Shape want = expected_shape(name, g);
    if (name.ends_with("rotary_emb.inv_freq") || (g.tied && name == "lm_head.weight")) {
      it = w.tensors.erase(it);  // a constant; a copy of the embedding
      continue;
    }
    if (want.rank() == 0) {
      if (!allow_unknown)
        throw UserError("unknown tensor", tensor->where(),
                        fmt::format("no model of the Llama family has '{}'", printable(name)),
                        "use --allow-unknown to leave it out");
      w.notes.push_back(fmt::format("left out: '{}'", printable(name)));
      it = w.tensors.erase(it);
      continue;
    }
    if (!(tensor->shape() == want))
      throw UserError("misshapen tensor", tensor->where(),
                      fmt::format("'{}' is {}, {} makes it {}", name, tensor->shape().text(), w.config_where, want.text()),
                      "use weights that belong to the config");
    ++it;
  }
  auto need = [&](const std::string& name) {
    if (w.tensors.contains(name)) return;
    throw UserError("missing tensor", w.config_where, fmt::format("the model needs '{}'", name),
                    "use a complete checkpoint of this model");
  };
  need("model.embed_tokens.weight"), need("model.norm.weight");
  if (!g.tied) need("lm_head.weight");
  for (int64_t i = 0; i < g.layers; ++i)
    for (const char* s : {"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                          "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      need(layer_name(i, s) + ".weight");
}

void split_joined(Weights& w, const Geometry& g) {
  if (g.family != "baichuan") return;
  for (int64_t i = 0; i < g.layers; ++i) {
    auto it = w.tensors.find(layer_name(i, "self_attn.W_pack.weight"));
    if (it == w.tensors.end()) continue;
    const ElementsPtr pack = it->second;
    w.tensors.erase(it);
    const int64_t q = g.heads * g.head_size, kv = g.kv_heads * g.head_size;
    if (pack->shape().rank() != 2 || pack->shape()[0] != q + 2 * kv)
      throw UserError("misshapen tensor", pack->where(),
                      fmt::format("it has {} rows of q, k and v, got {}", q + 2 * kv, pack->shape().text()),
                      "use weights that belong to the config");
    w.add(layer_name(i, "self_attn.q_proj.weight"), stack_rows({{pack, 0, q}}, "q of W_pack"));
    w.add(layer_name(i, "self_attn.k_proj.weight"), stack_rows({{pack, q, kv}}, "k of W_pack"));
    w.add(layer_name(i, "self_attn.v_proj.weight"), stack_rows({{pack, q + kv, kv}}, "v of W_pack"));
  }
}

void join_for_family(Weights& w, const Geometry& g) {
  if (g.family != "baichuan") return;
  for (int64_t i = 0; i < g.layers; ++i) {
    std::vector<Rows> parts;
    for (const char* s : {"q", "k", "v"}) {
      auto it = w.tensors.find(layer_name(i, fmt::format("self_attn.{}_proj.weight", s)));
      if (it == w.tensors.end()) continue;
      parts.push_back(all_rows(it->second));
      w.tensors.erase(it);
    }
    if (!parts.empty()) w.add(layer_name(i, "self_attn.W_pack.weight"), stack_rows(parts, "q, k, v joined"));
  }
}

ElementsPtr padded_rows(ElementsPtr table, int64_t rows) {
  const int64_t have = table->shape()[0];
  if (rows == have) return table;
  if (rows < have) return stack_rows({{table, 0, rows}}, fmt::format("first {} rows", rows));
  return stack_rows({all_rows(table), {table, have - 1, rows - have, 0}},
                    fmt::format("{} rows of padding, copies of the last", rows - have));
}

void resize_vocabulary(Weights& w, int64_t rows) {
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    auto it = w.tensors.find(name);
    if (it == w.tensors.end()) continue;
    const ElementsPtr table = it->second;
    const int64_t have = table->shape()[0], wide = table->count() / std::max<int64_t>(have, 1), size = size_of(table->dtype());
    if (rows <= have) {
      it->second = padded_rows(table, rows);
      continue;
    }
    std::vector<double> sum(static_cast<size_t>(wide)), row(sum.size());
    std::vector<std::byte> bytes(static_cast<size_t>(wide * size));
    for (int64_t r = 0; r < have; ++r) {
      table->read(r * wide, bytes);
      convert(table->dtype(), bytes.data(), DType::f64, row.data(), wide);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
    }
    for (double& x : sum) x /= static_cast<double>(have);
    convert(DType::f64, sum.data(), table->dtype(), bytes.data(), wide);
    const ElementsPtr mean = in_memory(table->dtype(), {1, wide}, std::move(bytes));
    it->second =
        stack_rows({all_rows(table), {mean, 0, rows - have, 0}}, fmt::format("{} new rows, the mean of the old", rows - have));
  }
  w.config["vocab_size"] = rows;
}

}  // namespace ravine
