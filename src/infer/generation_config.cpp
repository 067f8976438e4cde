#include "infer/generation_config.h"

#include <cmath>
#include <filesystem>

#include "base/json.h"

namespace ravine {
namespace {

class Fields {
 public:
  Fields(Json json, std::string file) : json_(std::move(json)), file_(std::move(file)) {}

  [[noreturn]] void refuse(const std::string& key, const std::string& rule) const {
    throw UserError(fmt::format("field '{}' is {}", key, json_.at(key).dump().substr(0, 80)), file_, rule, "correct the field");
  }
  bool has(const std::string& key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  std::optional<double> number(const std::string& key, double low, double high, const std::string& rule) const {
    if (!has(key)) return {};
    const Json& v = json_.at(key);
    if (!v.is_number() || !(v.get<double>() >= low && v.get<double>() <= high)) refuse(key, rule);
    return v.get<double>();
  }
  EarlyStop early_stopping(const std::string& key) const {
    if (!has(key) || json_.at(key) == Json(false)) return EarlyStop::no;
    if (json_.at(key) == Json(true)) return EarlyStop::yes;
    if (json_.at(key) != Json("never")) refuse(key, "it must be true, false or \"never\"");
    return EarlyStop::never;
  }
  bool flag(const std::string& key) const {
    if (has(key) && !json_.at(key).is_boolean()) refuse(key, "it must be true or false");
    return has(key) && json_.at(key).get<bool>();
  }
  std::optional<int64_t> integer(const std::string& key, int64_t low) const {
    if (!has(key)) return {};
    const Json& v = json_.at(key);
    std::string rule = fmt::format("it must be a whole number, at least {}", low);
    if (!v.is_number_integer() || v.get<double>() > 1e15 || v.get<int64_t>() < low) refuse(key, rule);
    return v.get<int64_t>();
  }
  std::vector<int32_t> ids(const std::string& key, int64_t vocabulary) const {
    std::vector<int32_t> out;
    if (!has(key)) return out;
    const Json& v = json_.at(key);
    for (const Json& id : v.is_array() ? v : Json::array({v})) {
      if (!id.is_number_integer() || !(id.get<double>() >= -1 && id.get<double>() < static_cast<double>(vocabulary)))
        refuse(key, fmt::format("it must be an id, or a list of ids, below vocab_size = {}; -1 is none", vocabulary));
      if (id.get<int32_t>() >= 0) out.push_back(id.get<int32_t>());
    }
    return out;
  }
  std::vector<std::string> texts(const std::string& key) const {
    std::vector<std::string> out;
    if (!has(key)) return out;
    const Json& v = json_.at(key);
    for (const Json& text : v.is_array() ? v : Json::array({v})) {
      if (!text.is_string() || text.get_ref<const std::string&>().empty()) refuse(key, "it must be a text, or a list of texts");
      out.push_back(text.get<std::string>());
    }
    return out;
  }
  // True if the field is set to a value that has an effect.
  bool acts(const std::string& key, const Json& neutral) const {
    if (!has(key) || json_.at(key) == neutral || json_.at(key) == Json(false)) return false;
    return !(json_.at(key).is_array() && json_.at(key).empty());
  }

 private:
  Json json_;
  std::string file_;
};

}  // namespace

GenerationDefaults read_generation_config(const std::string& folder, const ModelFacts& facts) {
  namespace fs = std::filesystem;
  std::string file = (fs::path(folder) / "generation_config.json").string();
  return parse_generation_config(fs::exists(file) ? read_json(file) : Json::object(), file, facts);
}

GenerationDefaults parse_generation_config(Json json, const std::string& file, const ModelFacts& facts) {
  if (!json.is_object())
    throw UserError("not a generation config", file, "it must be a JSON object", "correct or remove the file");
  const Fields f(std::move(json), file);

  GenerationDefaults d;
  Processing& p = d.processing;
  p.repetition_penalty = f.number("repetition_penalty", 1e-6, 1e6, "it must be a number above 0").value_or(1);
  p.no_repeat_ngram = f.integer("no_repeat_ngram_size", 0).value_or(0);
  p.temperature = f.number("temperature", 0, 1e6, "it must be a number, at least 0").value_or(1);
  if (p.temperature == 0) p.temperature = 1;  // models for greedy decoding have a temperature of 0 in the file
  p.top_k = f.integer("top_k", 0).value_or(50);
  p.top_p = f.number("top_p", 0, 1, "it must be a number from 0 to 1").value_or(1);
  p.min_p = f.number("min_p", 0, 1, "it must be a number from 0 to 1").value_or(0);
  p.typical_p = f.number("typical_p", 0, 1, "it must be a number from 0 to 1").value_or(1);
  d.sample = f.flag("do_sample");
  d.names_top_k = f.has("top_k");
  d.names_end = f.has("eos_token_id");
  d.stop_texts = f.texts("stop_strings");
  d.length_penalty = f.number("length_penalty", -100, 100, "it must be a number from -100 to 100").value_or(1);
  d.early_stopping = f.early_stopping("early_stopping");
  d.max_new_tokens = f.integer("max_new_tokens", 1);
  d.max_length = f.integer("max_length", 1);
  d.end_ids = f.ids("eos_token_id", facts.vocabulary);
  if (!d.names_end)
    for (int64_t id : facts.eos)
      if (id >= 0 && id < facts.vocabulary) d.end_ids.push_back(static_cast<int32_t>(id));

  const std::pair<const char*, Json> others[] = {{"min_length", 0},
                                                 {"min_new_tokens", 0},
                                                 {"top_h", nullptr},
                                                 {"epsilon_cutoff", 0},
                                                 {"eta_cutoff", 0},
                                                 {"encoder_repetition_penalty", 1},
                                                 {"encoder_no_repeat_ngram_size", 0},
                                                 {"bad_words_ids", nullptr},
                                                 {"force_words_ids", nullptr},
                                                 {"suppress_tokens", nullptr},
                                                 {"begin_suppress_tokens", nullptr},
                                                 {"forced_bos_token_id", nullptr},
                                                 {"forced_eos_token_id", nullptr},
                                                 {"sequence_bias", nullptr},
                                                 {"guidance_scale", 1},
                                                 {"exponential_decay_length_penalty", nullptr},
                                                 {"watermarking_config", nullptr},
                                                 {"renormalize_logits", false},
                                                 {"max_time", nullptr},
                                                 {"penalty_alpha", 0}};
  for (const auto& [key, neutral] : others)
    if (f.acts(key, neutral)) d.not_offered.push_back(key);
  return d;
}

}  // namespace ravine
