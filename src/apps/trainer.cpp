// `ravine trainer`: the command line of a training script with the flags of the Trainer and a DeepSpeed config.
#include "dialects/trainer.h"

#include <algorithm>
#include <filesystem>

#include "apps/commands.h"
#include "apps/dialect_command.h"
#include "base/error.h"
#include "base/launcher.h"
#include "dialects/deepspeed_config.h"
#include "dialects/launch_script.h"
#include "files/safetensors.h"
#include "io/convert/deepspeed_layout.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/trainer_state.h"
#include "runs/open.h"

namespace ravine {
namespace {

// Reads facts from the config.json of the model; none if it is missing, which is reported when the model is opened.
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
  } catch (const UserError&) {  // reported when the model is opened
    facts.ordered = false;
  }
  for (const char* key : {"torch_dtype", "dtype"})
    if (const auto it = config.find(key); it != config.end() && it->is_string()) facts.dtype = it->get<std::string>();
  facts.hidden_size = whole("hidden_size");
  facts.positions = whole("max_position_embeddings");
  if (const auto sizes = config.find("hidden_sizes"); !facts.hidden_size && sizes != config.end() && sizes->is_array())
    for (const Json& size : *sizes)
      if (size.is_number_integer()) facts.hidden_size = std::max(facts.hidden_size.value_or(0), size.get<int64_t>());
}

// Returns the sequence length of a fixed batch file.
std::optional<int64_t> columns_of(const std::string& file) {
  std::error_code error;
  if (!file.ends_with(".safetensors") || !std::filesystem::is_regular_file(file, error)) return {};
  const SafetensorsReader reader(file);
  const TensorInfo* ids = reader.find("input_ids");
  if (!ids || ids->shape.rank() != 2) return {};
  return ids->shape[1];
}

// Returns the steps of a Trainer checkpoint; nothing if its file does not have them, which is reported when it is
// opened.
std::optional<int64_t> steps_behind(const std::string& checkpoint) try {
  const Json state = trainer_state_of(checkpoint);
  const auto it = state.find("global_step");
  return it != state.end() && it->is_number_integer() ? std::optional(it->get<int64_t>()) : std::nullopt;
} catch (const UserError&) {
  return {};
}

// Finds the checkpoint to resume from, and statements of the command line about it that are false.
void look_at_output(TrainerLine& line, TrainerFacts& facts) {
  if (!line.args.has("output_dir")) return;
  const std::string output = line.args.text("output_dir");
  const std::string from = line.args.has("resume_from_checkpoint") ? line.args.text("resume_from_checkpoint") : "";
  const bool newest = from == "True" || from == "true", anew = line.args.on("overwrite_output_dir"),
             deepspeed = line.config.has_value();
  const bool named = !from.empty() && !newest && from != "False" && from != "false";
  std::error_code error;
  const bool ours = std::filesystem::exists(output + "/checkpoints/latest", error);
  facts.own_form = ours;
  const auto plain = trainer_checkpoints(output), zero = deepspeed_checkpoints(output);
  const auto refuse = [&](const char* flag, const std::string& why) {
    line.refusals.push_back(key_refusal(flag, "command line", why));
  };
  if (const auto& own = deepspeed ? zero : plain; !ours && own.empty() && !named && !anew) {
    const auto& other = deepspeed ? plain : zero;
    if (!other.empty())
      refuse("--output_dir", fmt::format("{} is a checkpoint of the Trainer {} DeepSpeed; {}", other.rbegin()->second,
                                         deepspeed ? "without" : "with",
                                         deepspeed ? "leave --deepspeed out to go on from it, or choose another folder"
                                                   : "give --deepspeed to go on from it, or choose another folder"));
    else if (newest)
      refuse("--resume_from_checkpoint", "no valid checkpoint is in " + output + "; correct --output_dir, or leave it out");
  }
  if (named)
    facts.resumed = steps_behind(from);
  else if (const auto& own = deepspeed ? zero : plain; !anew && !own.empty())
    facts.resumed = steps_behind(own.rbegin()->second);
}

// True if the run depends on the number of samples in an epoch.
bool counts_epochs(const TrainerArguments& args) {
  if (args.whole("max_steps") <= 0) return true;
  for (const char* strategy : {"save_strategy", "evaluation_strategy", "logging_strategy"})
    if (args.text(strategy) == "epoch") return true;
  return false;
}

Translation translate_words(const std::vector<PlacedWord>& given, const DialectFlags& flags) {
  std::vector<PlacedWord> words = given;
  int64_t ranks = flags.ranks;
  if (!flags.script.empty()) {
    const LaunchScript script = script_of(flags);
    LaunchedProgram launched = launched_program(script);
    if (ranks == 0) ranks = launched.ranks;
    words = std::move(launched.flags);
    words.insert(words.end(), given.begin(), given.end());  // typed words override the script
  }
  TrainerLine line = read_trainer_line(words);
  TrainerFacts facts;
  facts.ranks = ranks > 0 ? ranks : launched_ranks();
  facts.version = line.version;
  facts.runs = !flags.explain && !flags.print_config;
  look_at_model(line.args, facts);
  const bool trains = !only_evaluates(line.args);
  if (facts.runs && trains) look_at_output(line, facts);
  const char* rows = !trains && line.args.has("validation_file") ? "validation_file" : "train_file";
  if (line.args.has(rows)) facts.columns = columns_of(line.args.text(rows));
  const bool by_epochs = trains && (line.args.has("train_file") || line.args.has("dataset_name")) &&
                         (counts_epochs(line.args) || (facts.resumed && line.args.on("ignore_data_skip")));
  if (by_epochs && !line.refusals.empty()) facts.samples = 1;  // a refused run needs no length
  if (by_epochs && line.refusals.empty()) {
    TrainerFacts one = facts;  // the data can be opened with any length
    one.samples = 1;
    const Config config = config_of(translate_trainer(line, one));
    facts.samples = open_sources(config, open_run_model(config)->facts()).data.train->row_count();
  }
  return translate_trainer(line, facts);
}

}  // namespace

Command trainer_command() {
  return dialect_command(
      {.name = "trainer",
       .summary = "train and evaluate by the flags of Transformers' Trainer, with a DeepSpeed config or without",
       .example = "ravine trainer --deepspeed ds.json --model_name_or_path DIR --train_file book.txt --do_train "
                  "--output_dir runs/book",
       .about =
           "Translates TrainingArguments and the DeepSpeed config into options of Ravine and runs the result. --explain shows each flag's fate.",
       .lasting = true,
       .stoppable = true},
      "Other programs", translate_words, trainer_key_sections);
}

}  // namespace ravine
