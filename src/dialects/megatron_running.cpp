// The parts that programs of ModelLink share which run a model: their flags of training, the model, its ranks.
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
      row.reason = shape ? "the config.json of the model says it" : "only training has a use of it";
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

// The JSON of a file; null where it is not there or damaged: whoever opens it says so.
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
  // Folders of ranks, as Megatron leaves them, have no tokenizer: that of the flags is asked, as there.
  std::error_code error;
  const fs::path folder = t.text("--load");
  if (!fs::is_directory(folder, error)) return;
  for (const char* file : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "config.yaml"})
    if (fs::exists(folder / file, error)) return;  // a run has that of its model
  for (const char* key : {"--tokenizer-name-or-path", "--tokenizer-model"})
    if (t.has(key)) {
      t.command.push_back("model.tokenizer=" + t.text(key));
      return t.becomes(key, KeyStatus::used, "model.tokenizer");
    }
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
      inert("--tokenizer-kwargs", texts, "settings and ends are those of the folder: change its tokenizer_config.json"),
      inert("--add-eos-token", texts, "settings and ends are those of the folder: change its tokenizer_config.json"),
      inert("--use-rotary-position-embedding", on, "the config.json of the model says it"),
  };
}

}  // namespace ravine
