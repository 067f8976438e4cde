// `ravine mindformers`: the command line that starts a job of MindSpore Transformers.
#include "dialects/mindformers.h"

#include "apps/commands.h"
#include "apps/dialect_command.h"
#include "base/launcher.h"
#include "checks/job_facts.h"
#include "dialects/foreign_environment.h"

namespace ravine {
namespace {

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
  MindFormersFacts facts = mindformers_facts(launch.ranks, !flags.explain && !flags.print_config);
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
