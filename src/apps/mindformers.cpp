// `ravine mindformers`: the command line that starts a job of MindSpore Transformers.
#include "dialects/mindformers.h"

#include <algorithm>

#include "apps/commands.h"
#include "apps/dialect_command.h"
#include "base/launcher.h"
#include "data/mindrecord/mindrecord_files.h"
#include "dialects/foreign_environment.h"
#include "io/convert/mindformers_strategy.h"

namespace ravine {
namespace {

std::optional<MindFormersFacts::Data> size_of_data(const std::string& type, const std::vector<std::string>& paths) {
  if (type != "MindDataset" || !std::all_of(paths.begin(), paths.end(), is_mindrecord_path)) return {};
  const MindRecordFiles files(paths);
  const bool has = files.rows() > 0 && files.has("input_ids");
  return MindFormersFacts::Data{files.rows(), has ? static_cast<int64_t>(files.values(0, "input_ids").size()) : 0,
                                files.columns()};
}

std::string disagreement(const std::string& strategy, const std::string& weights, const Json& model) {
  return strategy_disagreement(read_mindformers_strategy(strategy), weights, model, "model.model_config");
}

Translation mindformers_words(const std::vector<PlacedWord>& words, const DialectFlags& flags) {
  MindFormersLaunch launch{.words = words, .ranks = flags.ranks};
  if (!flags.script.empty()) {
    launch = read_mindformers_script(script_of(flags));
    launch.words.insert(launch.words.end(), words.begin(), words.end());  // typed words override the script
    if (flags.ranks > 0) launch.ranks = flags.ranks;
  } else if (!words.empty() && words[0].text.ends_with("msrun_launcher.sh")) {
    launch = read_msrun_words({words.begin() + 1, words.end()});
    if (flags.ranks > 0) launch.ranks = flags.ranks;
  }
  MindFormersFacts facts{.ranks = launch.ranks, .data = size_of_data, .disagreement = disagreement};
  facts.runs = !flags.explain && !flags.print_config;
  if (facts.ranks == 0 && launched_ranks() > 1) facts.ranks = launched_ranks();
  Translation t = translate_mindformers(read_mindformers_line(launch.words), facts);
  set_mindspore_dump(t, environment_of(flags));
  return t;
}

}  // namespace

Command mindformers_command(const std::vector<Command>& others) {
  return dialect_command(
      {.name = "mindformers",
       .summary = "train by the YAML and the flags of MindSpore Transformers",
       .example = "ravine mindformers --config finetune.yaml --run_mode finetune --train_dataset_dir "
                  "data.mindrecord --load_checkpoint llama.safetensors",
       .about =
           "Translates each key of the YAML into options of Ravine and runs the result. A key that Ravine cannot follow is an error; --explain shows each key's fate.",
       .lasting = true,
       .stoppable = true},
      "Other programs", mindformers_words, mindformers_key_sections, others, "--options");
}

}  // namespace ravine
