// The parts that programs of ModelLink share which run a model: their flags of training, the model, its ranks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

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

void add_megatron_model(Translation& t) {
  if (!t.has("--load")) return t.refuse("--load", "--load is not given", "a model has to answer", "name a Hugging Face folder");
  t.command.insert(t.command.end(), {"--model", t.text("--load")});
  if (t.has("--lora-load")) t.command.insert(t.command.end(), {"--adapter", t.text("--lora-load")});
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
