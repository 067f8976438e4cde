// `ravine trainer`: the command line of a training script with the flags of the Trainer and a DeepSpeed config.
#include "dialects/trainer.h"

#include <algorithm>
#include <filesystem>

#include "apps/commands.h"
#include "apps/dialect_command.h"
#include "base/error.h"
#include "base/launcher.h"
#include "checks/job_facts.h"
#include "dialects/deepspeed_config.h"
#include "dialects/launch_script.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/trainer_state.h"
#include "runs/open.h"

namespace ravine {
namespace {

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
  if (line.args.has(rows)) facts.columns = columns_of_batches(line.args.text(rows));
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
