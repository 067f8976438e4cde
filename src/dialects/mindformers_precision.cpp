// Translates the switches of fused ops and the compute types of model.model_config into precision.unfused and
// precision.recipes.
#include <algorithm>
#include <map>

#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

using enum KeyType;

std::string config_key(const char* key) { return "model.model_config." + std::string(key); }

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> all = {"float32", "float16", "bfloat16"};
  return all;
}

// A switch with its names, older first, and the op that is unfused if it is off.
struct FusedSwitch {
  std::vector<const char*> names;
  const char* op;
  bool core;  // on by default in the newer classes (use_legacy: False)
};
const std::vector<FusedSwitch>& fused_switches() {
  static const std::vector<FusedSwitch> all = {{{"use_flash_attention"}, "attention", true},
                                               {{"use_fused_rope", "apply_rope_fusion"}, "rope", false},
                                               {{"use_fused_swiglu", "bias_swiglu_fusion"}, "swiglu", false}};
  return all;
}

// Returns the first given key; the first name if none is given.
std::string named(const Translation& t, const std::vector<const char*>& names) {
  for (const char* name : names)
    if (gives(t, config_key(name)) && t.has(config_key(name))) return config_key(name);
  return config_key(names[0]);
}

// Returns Ravine's name of the type in a key; "" if the key has none.
std::string type_of(const Translation& t, const std::string& key) {
  static const std::map<std::string, std::string> kTypes = {{"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"}};
  const auto found = t.has(key) ? kTypes.find(t.text(key)) : kTypes.end();
  return found == kTypes.end() ? "" : found->second;
}

struct Rules {
  Json recipes = Json::array();
  std::string from;
  void add(const std::string& key, Json rule) { recipes.push_back(std::move(rule)), from = key; }
};

void add_embedding(Translation& t, Rules& rules, const std::string& compute) {
  const std::string all = named(t, {"param_init_type", "params_dtype"}), own = config_key("embedding_init_type");
  const std::string& key = type_of(t, own).empty() ? all : own;
  if (const std::string type = type_of(t, key); !type.empty() && type != "f32")
    rules.add(key, {{"path", "*embed_tokens*"}, {"op", "embedding*"}, {"compute", type}, {"round", type}});
  // gradients have the type of their weights, also when ranks send them
  const std::string type = type_of(t, all);
  if (type.empty() || type == "f32") return;
  if (type == compute)
    t.set("precision.gradients", "compute", all);
  else
    t.notice("gradients are f32 or of compute_dtype: " + all.substr(config_key("").size()) + " makes them the first here");
}

void add_softmax(Translation& t, Rules& rules, bool flash) {
  const std::string key = named(t, {"softmax_compute_type", "softmax_compute_dtype"}), type = type_of(t, key);
  if (type.empty()) return;
  if (flash)
    t.becomes(key, KeyStatus::inert, "it counts without use_flash_attention alone");
  else if (type != "f32")
    rules.add(key, {{"op", "softmax*"}, {"compute", type}, {"round", type}});
}

void add_rotation(Translation& t, Rules& rules, bool fused, const std::string& compute) {
  const std::string key = config_key("rotary_dtype");
  const std::string type = type_of(t, key).empty() ? "f32" : type_of(t, key);
  if (type == compute || (fused && type == "f32")) return;
  Json rule = {{"op", "rope"}, {"compute", type}};
  if (type != "f32") rule["round"] = type;
  rules.add(t.has(key) ? key : named(t, {"use_fused_rope", "apply_rope_fusion"}), rule);
}

void add_router(Translation& t, Rules& rules) {
  for (const std::string& key : {std::string("moe_config.router_dense_type"), config_key("router_dense_type")}) {
    const std::string type = type_of(t, key);
    if (type.empty() || type == "f32") continue;
    rules.add(key, {{"path", "*.mlp"}, {"op", "matmul"}, {"compute", type}});
    return rules.add(key, {{"path", "*.mlp"}, {"op", "matmul"}, {"role", "forward"}, {"compute", type}, {"round", type}});
  }
}

}  // namespace

void add_mindformers_precision_rows(MindFormersTable& table) {
  const char* rules = "precision.recipes";
  for (const char* key : {"layernorm_compute_type", "layernorm_compute_dtype", "softmax_compute_type", "softmax_compute_dtype",
                          "rotary_dtype", "embedding_init_type", "router_dense_type"})
    table.add({used(config_key(key), text, rules, nullptr, type_names())});
  for (const char* key : {"param_init_type", "params_dtype"})
    table.add({used(config_key(key), text, "precision.recipes, precision.gradients", nullptr, type_names())});
  table.add({used("moe_config.router_dense_type", text, rules, "float32", type_names()),
             inert(config_key("residual_dtype"), text,
                   "MindFormers adds in it and casts the sum back to compute_dtype; here sums are f32, and stay so", nullptr)});
  for (const FusedSwitch& s : fused_switches())
    for (const char* name : s.names) table.add({used(config_key(name), boolean, "precision.unfused")});
  const auto none = [&](const char* why, std::initializer_list<const char*> keys) {
    for (const char* key : keys) table.add({inert(config_key(key), boolean, why)});
  };
  none("a norm is one op in any case", {"fused_rms_norm", "rmsnorm_compute_2d"});
  none("weights that read one input lie side by side, and are one product, in any case",
       {"qkv_concat", "mlp_concat", "ffn_concat"});
  none("how positions are cut and masks are kept in memory decides no number",
       {"use_rope_slice", "use_attn_mask_compression", "is_dynamic", "enable_fa_var_len"});
  none("it counts with context_parallel alone", {"use_ring_attention"});
  none("there is no bias to add before dropout", {"bias_dropout_fusion"});
  none("softmax_compute_type says it", {"attention_softmax_in_fp32"});
  none("experts are products of groups in any case", {"moe_grouped_gemm"});
}

void set_mindformers_precision(Translation& t, bool experts) {
  const bool core = t.has("use_legacy") && !t.is_on("use_legacy");
  std::map<std::string, bool> fused;
  Json unfused = Json::array();
  std::string from;
  const auto unfuse = [&](const char* op, const std::string& key) {
    unfused.push_back(op);
    if (from.empty() || !t.has(from)) from = key;
  };
  for (const FusedSwitch& s : fused_switches()) {
    const std::string key = named(t, s.names);
    fused[s.op] = t.has(key) ? t.is_on(key) : core && s.core;
    if (!fused[s.op]) unfuse(s.op, key);
  }
  const std::string compute = type_of(t, config_key("compute_dtype")).empty() ? "f16" : type_of(t, config_key("compute_dtype"));
  Rules rules;
  add_embedding(t, rules, compute);
  const std::string norm = named(t, {"layernorm_compute_type", "layernorm_compute_dtype"});
  if (const std::string type = type_of(t, norm); !type.empty() && type != "f32") {
    unfuse("add_rms_norm", norm);  // keeps the type of the sum that a norm reads
    rules.add(norm, {{"op", "*_norm"}, {"role", "forward"}, {"compute", type}, {"round", type}});
  }
  add_softmax(t, rules, fused["attention"]);
  add_rotation(t, rules, fused["rope"], compute);
  if (experts) add_router(t, rules);
  if (!unfused.empty()) t.set("precision.unfused", unfused, from);
  if (!rules.recipes.empty()) t.set("precision.recipes", rules.recipes, rules.from);
}

}  // namespace ravine
