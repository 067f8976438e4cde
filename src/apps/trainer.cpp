// `ravine trainer`: a training script's line with the Trainer's flags and a DeepSpeed config.
#include "dialects/trainer.h"

#include <algorithm>
#include <filesystem>

#include "apps/commands.h"
#include "apps/dialect_command.h"
#include "base/error.h"
#include "base/launcher.h"
#include "files/safetensors.h"
#include "io/convert/deepspeed_state.h"
#include "runs/open.h"

namespace ravine {
namespace {

// What the config.json of the model says; nothing where there is none, which whoever opens the model says.
void look_at_model(const TrainerArguments& args, TrainerFacts& facts) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = args.has("model_name_or_path") ? args.text("model_name_or_path")
                  : args.has("config_name")      ? args.text("config_name")
                                                 : "";
  if (fs::is_directory(path, error)) path /= "config.json";
  if (path.empty() || !fs::is_regular_file(path, error)) return;
  const Json config = read_json(path.string());
  const auto whole = [&](const char* key) -> std::optional<int64_t> {
    const auto it = config.find(key);
    if (it == config.end() || !it->is_number_integer() || it->get<int64_t>() <= 0 || it->get<int64_t>() > (1 << 24)) return {};
    return it->get<int64_t>();
  };
  if (!config.is_object()) return;
  try {
    check_deepspeed_order(config, path.string());
    facts.ordered = true;
  } catch (const UserError&) {  // whoever opens the model says what is wrong with it
    facts.ordered = false;
  }
  facts.hidden_size = whole("hidden_size");
  facts.positions = whole("max_position_embeddings");
  if (const auto sizes = config.find("hidden_sizes"); !facts.hidden_size && sizes != config.end() && sizes->is_array())
    for (const Json& size : *sizes)
      if (size.is_number_integer()) facts.hidden_size = std::max(facts.hidden_size.value_or(0), size.get<int64_t>());
}

// The length of the sequences of a file of fixed batches.
std::optional<int64_t> columns_of(const std::string& file) {
  std::error_code error;
  if (!file.ends_with(".safetensors") || !std::filesystem::is_regular_file(file, error)) return {};
  const SafetensorsReader reader(file);
  const TensorInfo* ids = reader.find("input_ids");
  if (!ids || ids->shape.rank() != 2) return {};
  return ids->shape[1];
}

Translation translate_words(const std::vector<PlacedWord>& words, const DialectFlags& flags) {
  const TrainerLine line = read_trainer_line(words);
  TrainerFacts facts;
  facts.ranks = flags.ranks > 0 ? flags.ranks : launched_ranks();
  facts.version = line.version;
  facts.runs = !flags.explain && !flags.print_config;
  look_at_model(line.args, facts);
  if (line.args.has("train_file")) facts.columns = columns_of(line.args.text("train_file"));
  const bool by_epochs = line.args.whole("max_steps") <= 0 && line.args.has("train_file");
  if (by_epochs && line.refusals.empty()) {
    TrainerFacts one = facts;  // any length does to open the data
    one.samples = 1;
    const Config config = config_of(translate_trainer(line, one));
    facts.samples = open_sources(config, open_run_model(config)->facts()).data.train->sample_count();
  }
  return translate_trainer(line, facts);
}

}  // namespace

Command trainer_command() {
  return dialect_command(
      {.name = "trainer",
       .summary = "training by the flags of Transformers' Trainer, with a DeepSpeed config or without",
       .example = "ravine trainer --deepspeed ds.json --model_name_or_path DIR --train_file book.txt --do_train "
                  "--output_dir runs/book",
       .lasting = true,
       .stoppable = true},
      "Other programs", translate_words, trainer_key_sections);
}

}  // namespace ravine
