// The parts that ModelLink's programs which run a model share: their flags of training, the model and its ranks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "dialects/megatron_held.h"
#include "dialects/megatron_programs.h"
#include "dialects/megatron_tables.h"

namespace ravine {

using enum KeyType;
namespace fs = std::filesystem;

DialectTable megatron_running_table(const DialectTable& own) {
  DialectTable table = own;
  for (DialectKey& row : megatron_training_table(MegatronAge::core)) {
    if (std::any_of(own.begin(), own.end(), [&](const DialectKey& r) { return r.key == row.key; })) continue;
    if (row.status == KeyStatus::used) {
      const bool shape = row.option == "model.config";
      row.status = KeyStatus::inert;
      row.option.clear(), row.copied = false;
      row.reason = shape ? kModelSaysIt : "only training has a use of it";
    }
    table.push_back(std::move(row));
  }
  return table;
}

void add_megatron_running(Translation& t, bool ranks) {
  std::vector<std::string>& c = t.command;
  for (const auto& [key, option] :
       {std::pair{"--tensor-model-parallel-size", "parallel.tensor"}, {"--pipeline-model-parallel-size", "parallel.pipeline"}})
    if (ranks && t.has(key)) c.push_back(fmt::format("{}={}", option, t.whole(key)));
  if (t.is_on("--fp16") || t.is_on("--bf16"))
    c.push_back(fmt::format("precision.compute={}", t.is_on("--fp16") ? "f16" : "bf16"));
}

namespace {

// Returns the JSON of a file; null if it is missing or damaged, which is reported when the file is opened.
Json json_beside(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return Json();
  try {
    return read_json(file.string());
  } catch (const std::exception&) {
    return Json();
  }
}

bool is_given(const Translation& t, const std::string& key) {
  const std::vector<std::string> given = t.given();
  return t.has(key) && std::find(given.begin(), given.end(), key) != given.end();
}

bool differ(const Json& own, const Json& said) {
  return own.is_number() && said.is_number() && own.get<double>() != said.get<double>();
}

}  // namespace

void hold_megatron_adapter(Translation& t) {
  if (!t.has("--lora-load")) return;
  fs::path file = fs::path(t.text("--lora-load")) / "adapter_config.json";
  Json config = json_beside(file);
  if (config.is_null()) config = json_beside(file = fs::path(t.text("--lora-load")) / "adapter" / "adapter_config.json");
  if (!config.is_object()) return;
  for (const auto& [key, name] : {std::pair{"--lora-r", "r"}, {"--lora-alpha", "lora_alpha"}})
    if (const auto own = config.find(name); own != config.end() && is_given(t, key) && differ(*own, t.value(key)))
      t.refuse(key, fmt::format("{} is {}, and {} of {} is {}", key, t.value(key).dump(), name, file.string(), own->dump()),
               "an adapter is merged as it was trained", fmt::format("write {} {}, or leave it out", key, own->dump()));
}

void add_megatron_model(Translation& t, const MegatronJob& job) {
  if (!t.has("--load")) return t.refuse("--load", "--load is not given", "a model has to answer", "name a Hugging Face folder");
  t.command.insert(t.command.end(), {"--model", t.text("--load")});
  if (t.has("--lora-load")) t.command.insert(t.command.end(), {"--adapter", t.text("--lora-load")});
  hold_megatron_adapter(t);
  hold_megatron_network(t, job, t.text("--load"), LoadedAs::model);
  // Megatron's folders of ranks have no tokenizer. The tokenizer of the flags is used, as in Megatron.
  std::error_code error;
  const fs::path folder = t.text("--load");
  if (!fs::is_directory(folder, error)) return;
  for (const char* file : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "config.yaml"})
    if (fs::exists(folder / file, error)) return;  // config.yaml: a run has the tokenizer of its model
  for (const char* key : {"--tokenizer-name-or-path", "--tokenizer-model"})
    if (t.has(key)) {
      t.command.push_back("model.tokenizer=" + t.text(key));
      return t.becomes(key, KeyStatus::used, "model.tokenizer");
    }
}

namespace {

// Returns the tokenizer_config.json that the command reads; null if there is none.
Json tokenizer_settings(const Translation& t) {
  for (const char* key : {"--load", "--tokenizer-name-or-path"})
    if (const Json j = json_beside(fs::path(t.text(key)) / "tokenizer_config.json"); j.is_object()) return j;
  return Json();
}

// Returns the token in a setting, which is a text or an object; "" if there is none.
std::string token_of(const Json& settings, const std::string& name) {
  const auto it = settings.is_object() ? settings.find(name) : settings.end();
  if (!settings.is_object() || it == settings.end()) return "";
  if (it->is_object() && it->contains("content") && (*it)["content"].is_string()) return (*it)["content"].get<std::string>();
  return it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

std::vector<std::string> hold_tokenizer_words(Translation& t, bool ends) {
  const std::string key = "--tokenizer-kwargs";
  std::vector<std::string> words;
  if (t.has(key))
    for (const Json& one : t.value(key)) words.push_back(one.get<std::string>());
  if (words.size() % 2 != 0)
    t.refuse(key, fmt::format("{} has {} words", key, words.size()), "names and values come in pairs", "correct it");
  const Json settings = tokenizer_settings(t);
  std::vector<std::string> more;
  bool acts = false;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string &name = words[i], &said = words[i + 1], own = token_of(settings, name);
    if (own == said || name == "pad_token" || name == "padding_side") continue;  // no token sees padding
    if (name == "eos_token" && own.empty() && ends)
      more.push_back(said), acts = true;
    else
      t.refuse(key, fmt::format("{} {} {}", key, name, said),
               own.empty() ? std::string("arguments of a Python class have no counterpart")
                           : fmt::format("tokenizer_config.json has '{}' there", own),
               fmt::format("write \"{}\": \"{}\" into tokenizer_config.json, or leave it out", name, said));
  }
  if (t.has(key))
    t.becomes(key, acts ? KeyStatus::used : KeyStatus::inert,
              acts ? "--stop-tokens" : "the folder of the tokenizer says the same");
  return more;
}

DialectTable megatron_running_rows() {
  return {
      renamed("--load", text, "--model"),
      renamed("--lora-load", text, "--adapter"),
      renamed("--max-new-tokens", whole, "--max-new-tokens"),
      renamed("--tensor-model-parallel-size", whole, "parallel.tensor"),
      renamed("--pipeline-model-parallel-size", whole, "parallel.pipeline"),
      used("--fp16", on, "precision.compute"),
      used("--bf16", on, "precision.compute"),
      inert("--row-col-parallel-linear-bias", on, "the config.json of the model says it"),
      inert("--tokenizer-type", text, "the model folder has its tokenizer"),
      inert("--tokenizer-name-or-path", text, "the model folder has its tokenizer"),
      inert("--deepspeed", on, "it says which engine holds the weights, not what they answer"),
      used("--tokenizer-kwargs", texts, "refused where the tokenizer_config.json of the folder says another token"),
      inert("--use-rotary-position-embedding", on, "the config.json of the model says it"),
  };
}

}  // namespace ravine
