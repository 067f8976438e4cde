#include "io/convert/upcycle.h"

#include <charconv>

#include "base/log.h"
#include "engine/initial_values.h"
#include "model/same_model.h"

namespace ravine {
namespace {

constexpr const char* kUpcycle = "--upcycle";

// Fields with the same meaning in every family here. Fields that the base does not set are written explicitly, since
// defaults differ between families.
constexpr const char* kCommonFields[] = {"attention_dropout", "bos_token_id",         "dtype",        "eos_token_id",
                                         "initializer_range", "rope_parameters",      "rope_scaling", "rope_theta",
                                         "torch_dtype",       "transformers_version", "use_cache"};

Json common_config(const Model& base) {
  const DecoderSpec& s = *base.decoder();
  const ModelFacts& f = base.facts();
  Json c = Json::object();
  for (const char* key : kCommonFields)
    if (base.config().contains(key)) c[key] = base.config().at(key);
  if (!c.contains("rope_theta") && !c.contains("rope_parameters") && s.rope) c["rope_theta"] = s.rope->theta;
  c["pad_token_id"] = f.pad >= 0 ? Json(f.pad) : Json();
  c["vocab_size"] = f.vocabulary, c["max_position_embeddings"] = f.max_positions > 0 ? f.max_positions : s.trained_length;
  c["hidden_size"] = f.hidden, c["num_hidden_layers"] = f.layers, c["intermediate_size"] = s.mlp_of(0).width;
  c["num_attention_heads"] = s.attention.heads, c["num_key_value_heads"] = s.attention.kv_heads;
  c["head_dim"] = s.attention.head_size, c["hidden_act"] = "silu", c["rms_norm_eps"] = s.norm.eps;
  c["tie_word_embeddings"] = s.head.tied;
  return c;
}

int64_t widest_window(const Model& base) {
  int64_t widest = 0;
  for (int64_t i = 0; i < base.facts().layers; ++i) widest = std::max(widest, base.decoder()->window(i));
  return widest;
}

Json mixtral_config(const Model& base, const Upcycling& u) {
  Json c = common_config(base);
  c["model_type"] = "mixtral", c["num_local_experts"] = u.experts, c["num_experts_per_tok"] = u.top_k;
  const int64_t window = widest_window(base);
  c["sliding_window"] = window > 0 ? Json(window) : Json();
  return c;
}

// The common part of the configs of Qwen's two families with experts.
Json qwen_config(const Model& base, const Upcycling& u) {
  Json c = common_config(base);
  c["num_experts"] = u.experts, c["num_experts_per_tok"] = u.top_k, c["norm_topk_prob"] = true;
  c["moe_intermediate_size"] = c["intermediate_size"], c["decoder_sparse_step"] = 1, c["mlp_only_layers"] = Json::array();
  const int64_t window = widest_window(base);
  c["use_sliding_window"] = window > 0;
  if (window > 0) c["sliding_window"] = window;
  return c;
}

Json qwen2_moe_config(const Model& base, const Upcycling& u) {
  Json c = qwen_config(base, u);
  c["model_type"] = "qwen2_moe", c["shared_expert_intermediate_size"] = 1;
  for (int64_t i = 0; c["use_sliding_window"] && i < base.facts().layers; ++i)
    c["layer_types"].push_back(base.decoder()->window(i) > 0 ? "sliding_attention" : "full_attention");
  return c;
}

Json qwen3_moe_config(const Model& base, const Upcycling& u) {
  Json c = qwen_config(base, u);
  c["model_type"] = "qwen3_moe", c["attention_bias"] = base.decoder()->attention.out_bias;
  return c;
}

// Returns the new model, of the first family that represents all of the base except its MLPs.
std::unique_ptr<Model> carried(const Model& base, const std::string& where, const Upcycling& u) {
  if (base.decoder()->moe)
    throw UserError(fmt::format("{} of a model with experts", kUpcycle), where,
                    fmt::format("the {} family has experts already", base.facts().family), "use a dense model");
  if (u.top_k > u.experts)
    throw UserError(fmt::format("top_k is {}, experts {}", u.top_k, u.experts), kUpcycle,
                    "a token is sent to no more experts than there are", "raise experts or lower top_k");
  for (auto* config : {&mixtral_config, &qwen2_moe_config, &qwen3_moe_config}) try {
      std::unique_ptr<Model> model = make_model(config(base, u), where);
      if (same_except_mlps(base, *model)) return model;
    } catch (const UserError&) {  // the family rejects a field, so it cannot represent the base
    }
  const DecoderSpec& s = *base.decoder();
  throw UserError(fmt::format("{} of the {} family", kUpcycle, base.facts().family), where,
                  fmt::format("no family with experts (mixtral, qwen2_moe, qwen3_moe) has {}",
                              s.mlp_of(0).bias          ? "biases in MLPs"
                              : s.attention.out_bias    ? "biases on all of attention"
                              : !gated(s.mlp_of(0).act) ? "MLPs without a gate"
                                                        : fmt::format("the norms, positions and windows of this one")),
                  "use a model of the llama, mistral, qwen2 or qwen3 family without these");
}

ElementsPtr drawn(const Param& p, const Upcycling& u) {
  std::vector<std::byte> bytes(static_cast<size_t>(p.shape.count() * size_of(DType::f32)));
  draw_values(p, u.seed, 0, p.shape.count(), view_of(bytes.data(), DType::f32, p.shape), 0);
  return in_memory(DType::f32, p.shape, std::move(bytes));
}

}  // namespace

Upcycling read_upcycling(const std::string& text) {
  Upcycling u;
  auto refuse = [&](const std::string& what) {
    throw UserError(fmt::format("{} is '{}'", kUpcycle, printable(text)), "command line", what,
                    "write for example --upcycle experts=8,top_k=2");
  };
  std::map<std::string, int64_t> given;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = part.find('=');
    if (equals == std::string::npos) refuse("it is made of experts=N,top_k=K and, if wanted, seed=S");
    const std::string key = part.substr(0, equals), number = part.substr(equals + 1);
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool seed = key == "seed";
    if (error != std::errc() || stop != number.data() + number.size() || value < (seed ? 0 : 1) || (!seed && value > 4096))
      refuse(fmt::format("{} must be a whole number{}", printable(key), seed ? ", 0 or more" : " from 1 to 4096"));
    if ((key != "experts" && key != "top_k" && !seed) || !given.emplace(key, value).second)
      refuse("experts and top_k are named once, and seed at most once");
  }
  if (!given.contains("experts") || !given.contains("top_k")) refuse("it needs experts and top_k");
  u.experts = given["experts"], u.top_k = given["top_k"];
  if (given.contains("seed")) u.seed = static_cast<uint64_t>(given["seed"]);
  return u;
}

void upcycle(Weights& w, const Geometry& g, const Upcycling& u) {
  const std::unique_ptr<Model> model = carried(*g.model, w.config_where, u);
  Weights out = w;
  out.tensors.clear();
  for (const Param& p : model->params().params()) {
    if (p.tied) continue;
    if (const auto same = w.tensors.find(p.name); same != w.tensors.end()) {
      out.add(p.name, same->second);
      continue;
    }
    constexpr std::string_view kExperts = ".mlp.experts.";
    const size_t layer_end = p.name.find(".mlp.");
    require(layer_end != std::string::npos, "upcycle: '{}' is of no MLP", p.name);
    const std::string mlp = p.name.substr(0, layer_end) + ".mlp.";
    const ElementsPtr& dense = w.tensors.at(mlp + "up_proj.weight");
    if (const size_t at = p.name.find(kExperts); at != std::string::npos) {
      const ElementsPtr& one = w.tensors.at(mlp + p.name.substr(at + kExperts.size()));
      const std::vector<Rows> copies(static_cast<size_t>(u.experts), all_rows(one));
      out.add(p.name, reshaped(stack_rows(copies, fmt::format("{} copies", u.experts)), p.shape));
    } else if (p.name.ends_with(".shared_expert.down_proj.weight")) {
      out.add(p.name, zeros(dense->dtype(), p.shape));
    } else {
      out.add(p.name, as_type(drawn(p, u), dense->dtype()));
    }
  }
  out.config = model->config();
  out.config["architectures"] = Json::array({model->files().architecture});
  out.notes.push_back(
      fmt::format("{} experts in each of {} layers, copies of its MLP, {} per token: {}; train it with "
                  "moe.load_balance=aux, or experts may stay alike",
                  u.experts, model->facts().layers, u.top_k, model->facts().family));
  w = std::move(out);
}

}  // namespace ravine
