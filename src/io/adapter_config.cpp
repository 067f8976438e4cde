#include "io/adapter_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "base/text.h"

namespace ravine {
namespace {

// Fields of adapter_config.json that Ravine does not implement, with their neutral values. Another value changes the
// arithmetic or the trained parameters.
struct Unused {
  const char* key;
  Json none;  // neutral, as null, [], {} and false are
  const char* what;
};
const std::vector<Unused>& unused_fields() {
  static const std::vector<Unused> fields = {
      {"use_dora", false, "DoRA"},
      {"bias", "none", "trained biases"},
      {"lora_bias", false, "a bias beside B"},
      {"use_qalora", false, "QA-LoRA"},
      {"use_bdlora", nullptr, "BD-LoRA"},
      {"layer_replication", nullptr, "replicated layers"},
      {"target_parameters", nullptr, "targets that are parameters, not modules"},
      {"trainable_token_indices", nullptr, "single trained rows of the embedding"},
      {"exclude_modules", nullptr, "excluded modules"},
      {"layers_pattern", nullptr, "another name of the list of layers"},
      {"arrow_config", nullptr, "Arrow"},
      {"alora_invocation_tokens", nullptr, "activated LoRA"},
      {"monteclora_config", nullptr, "MonteCLoRA"},
      {"kasa_config", nullptr, "KaSA"},
      {"velora_config", nullptr, "VeLoRA"},
  };
  return fields;
}

// The known fields: those that settings_of reads, and those without effect on the arithmetic. The latter describe the
// adapter's origin, the initialization of A and B (refuse_changed_base), or features that are off.
const std::vector<std::string>& known_fields() {
  static const std::vector<std::string> fields = {
      "peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "target_modules", "modules_to_save",
      "ensure_weight_tying", "rank_pattern", "alpha_pattern", "layers_to_transform", "init_lora_weights",
      // No effect.
      "auto_mapping", "base_model_name_or_path", "revision", "peft_version", "inference_mode", "fan_in_fan_out",
      "merge_weights", "megatron_config", "megatron_core", "qalora_group_size", "runtime_config", "loftq_config", "eva_config",
      "corda_config", "lora_ga_config"};
  return fields;
}

bool equals_none(const Json& value, const Json& none) {
  return value == none || value.is_null() || value == Json(false) || ((value.is_array() || value.is_object()) && value.empty());
}

[[noreturn]] void refuse(const std::string& file, const std::string& what, const std::string& rule) {
  throw UserError(what, file, rule, "save the adapter again with PEFT, or merge it into its base there");
}

// True if the JSON value has this type without conversion. The JSON library would convert 8.5 to 8.
bool is_whole(const Json& value, const int64_t&) { return value.is_number_integer(); }
template <class T>
bool is_whole(const Json&, const T&) {
  return true;
}
template <class T>
bool is_whole(const Json& value, const std::vector<T>&) {
  return std::all_of(value.begin(), value.end(), [](const Json& item) { return is_whole(item, T()); });
}
template <class T>
bool is_whole(const Json& value, const std::map<std::string, T>&) {
  return std::all_of(value.begin(), value.end(), [](const Json& item) { return is_whole(item, T()); });
}

template <class T>
T field(const Json& config, const std::string& file, const char* key, T otherwise) {
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return otherwise;
  try {
    T value = it->get<T>();
    if (is_whole(*it, value)) return value;
  } catch (const Json::exception&) {  // reported below
  }
  refuse(file, fmt::format("\"{}\" is {}", key, escaped(it->dump(-1, ' ', true, Json::error_handler_t::replace))),
         "it has another type in what PEFT writes");
}

// Throws unless the value is an integer. The JSON library would convert 8.5 and true to integers.
void refuse_other_than_whole(const Json& value, const std::string& file, const std::string& key) {
  if (!value.is_number_integer())
    refuse(file, fmt::format("\"{}\" is {}", key, escaped(value.dump(-1, ' ', true, Json::error_handler_t::replace))),
           "it is a whole number in what PEFT writes");
}

// Throws if A and B were initialized from a part of the base. PEFT subtracts that part from the base's weights when it
// loads the adapter; with the stored base it would be added twice. Source: peft 0.21, tuners/lora/layer.py,
// update_layer.
void refuse_changed_base(const Json& config, const std::string& file) {
  const auto it = config.find("init_lora_weights");
  if (it == config.end() || it->is_null() || it->is_boolean()) return;
  const std::string written = field<std::string>(config, file, "init_lora_weights", "");
  std::string kind = written;
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* plain : {"gaussian", "eva", "orthogonal", "mica"})
    if (kind == plain) return;
  const bool converts = kind.starts_with("pissa") || kind.starts_with("corda") || kind == "olora";
  const std::string what = fmt::format("\"init_lora_weights\" is \"{}\"", escaped(written));
  if (!converts && kind != "loftq" && kind != "lora_ga")
    refuse(file, what, "true, false, gaussian, eva, orthogonal and mica are known to leave the base as it is");
  throw UserError(
      what, file,
      "A and B were initialised with a part of the base, which PEFT subtracts from it; plain LoRA keeps the base unchanged",
      converts ? "save it as plain LoRA with PEFT, save_pretrained(.., path_initial_model_for_weight_conversion=..), "
                 "or merge it into its base there (merge_and_unload)"
               : "merge it into its base with PEFT (merge_and_unload)");
}

// Throws if an unknown field has a value. A field of a later PEFT or of another program may change the arithmetic.
void refuse_unknown(const Json& config, const std::string& file) {
  std::vector<std::string> known = known_fields();
  for (const Unused& u : unused_fields()) known.emplace_back(u.key);
  for (const auto& [key, value] : config.items()) {
    if (equals_none(value, nullptr) || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest(key, known);
    throw UserError(
        fmt::format("\"{}\" is {}", escaped(key),
                    escaped(value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60))),
        file, "no such field of LoRA is known, and an ignored field could change the numbers",
        near.empty() ? "remove it if it says nothing about the arithmetic" : fmt::format("did you mean \"{}\"?", near));
  }
}

std::vector<std::string> names(const Json& config, const std::string& file, const char* key) {
  const auto it = config.find(key);
  if (it != config.end() && it->is_string()) return {it->get<std::string>()};
  return field<std::vector<std::string>>(config, file, key, {});
}

}  // namespace

LoraSettings settings_of(const Json& config, const std::string& file) {
  if (const auto type = field<std::string>(config, file, "peft_type", ""); type != "LORA")
    refuse(file, fmt::format("peft_type '{}'", escaped(type)), "LoRA is the kind of adapter that is applied");
  for (const Unused& u : unused_fields())
    if (const auto it = config.find(u.key); it != config.end() && !equals_none(*it, u.none))
      refuse(file, fmt::format("\"{}\" asks for {}", u.key, u.what), "the arithmetic of plain LoRA is applied");
  refuse_changed_base(config, file);
  refuse_unknown(config, file);
  if (const auto task = field<std::string>(config, file, "task_type", "CAUSAL_LM"); task != "CAUSAL_LM")
    refuse(file, fmt::format("task_type '{}'", escaped(task)), "adapters of models that write text (CAUSAL_LM) are applied");
  LoraSettings s;
  s.where = file;
  if (const auto it = config.find("r"); it != config.end() && !it->is_null()) refuse_other_than_whole(*it, file, "r");
  if (const auto it = config.find("rank_pattern"); it != config.end() && it->is_object())
    for (const auto& [pattern, rank] : it->items()) refuse_other_than_whole(rank, file, "rank_pattern");
  s.rank = field<int64_t>(config, file, "r", 8);
  s.alpha = field<double>(config, file, "lora_alpha", 8);
  s.dropout = field<double>(config, file, "lora_dropout", 0);
  s.rslora = field<bool>(config, file, "use_rslora", false);
  s.targets = names(config, file, "target_modules");
  const auto given = config.find("target_modules");
  s.targets_whole = given != config.end() && given->is_string() && s.targets[0] != "all-linear";
  s.save = names(config, file, "modules_to_save");
  s.ties_weights = field<bool>(config, file, "ensure_weight_tying", false);
  s.rank_pattern = field<std::map<std::string, int64_t>>(config, file, "rank_pattern", {});
  s.alpha_pattern = field<std::map<std::string, double>>(config, file, "alpha_pattern", {});
  if (const auto it = config.find("layers_to_transform"); it != config.end() && it->is_number_integer())
    s.layers = {it->get<int64_t>()};
  else
    s.layers = field<std::vector<int64_t>>(config, file, "layers_to_transform", {});
  if (s.targets.empty()) refuse(file, "\"target_modules\" is empty", "an adapter names the modules that it stands beside");
  if (s.rank < 1 || !(s.dropout >= 0 && s.dropout < 1) || !std::isfinite(s.alpha))
    refuse(file, fmt::format("r {}, lora_alpha {}, lora_dropout {}", s.rank, s.alpha, s.dropout),
           "a rank is at least 1, a dropout in [0, 1)");
  return s;
}

Json adapter_config_of(const LoraSettings& lora, const Model& model, const std::string& base) {
  auto or_null = [](const auto& list) { return list.empty() ? Json() : Json(list); };
  // All-linear is written as the list of modules it selects, as in PEFT.
  std::set<std::string> modules;
  for (const auto& [declared, spec] : adapter_specs(model, lora)) modules.insert(spec.module);
  const bool all = lora.targets == std::vector<std::string>{"all-linear"};
  const Json targets = lora.targets_whole ? Json(lora.targets.at(0)) : all ? Json(modules) : Json(lora.targets);
  Json config = {
      {"alpha_pattern", lora.alpha_pattern},
      {"base_model_name_or_path", base},
      {"bias", "none"},
      {"fan_in_fan_out",
       !model.files().tensors.empty() && std::any_of(model.files().tensors.begin(), model.files().tensors.end(),
                                                     [](const FileTensor& t) { return t.transposed; })},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_to_transform", or_null(lora.layers)},
      {"lora_alpha", lora.alpha == std::floor(lora.alpha) ? Json(static_cast<int64_t>(lora.alpha)) : Json(lora.alpha)},
      {"lora_dropout", lora.dropout},
      {"modules_to_save", or_null(lora.save)},
      {"peft_type", "LORA"},
      {"r", lora.rank},
      {"rank_pattern", lora.rank_pattern},
      {"target_modules", targets},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", lora.rslora}};
  if (lora.ties_weights) config["ensure_weight_tying"] = true;  // unknown to PEFT before 0.18
  return config;
}

}  // namespace ravine
