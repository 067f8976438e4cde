// `ravine mindformers`: a YAML of MindSpore Transformers (MindFormers 1.6) with the flags of its run_mindformer.py, as options of
// a run. Facts: mindformers/tools/register/{config,template}.py, run_mindformer.py, core/, models/llama/llama_config.py.
//
//   --config FILE.yaml [--run_mode train] [--load_checkpoint X] [--train_data Y] [--a.b.c VALUE] [--options a.b=V ..]
//
// Flags may be abbreviated; later ones win over earlier ones and over the file, in this order: flags, --options, --a.b.c.
// What holds a list of maps has keys like callbacks[1].prefix.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/yaml.h"
#include "dialects/dialect.h"
#include "dialects/launch_script.h"
#include "dialects/mindformers_facts.h"

namespace ravine {

// The keys of the file and of the flags over it, flat: "runner_config.epochs", each once, with where it was given.
struct MindFormersLine {
  std::string config;           // path of --config
  std::vector<GivenKey> given;  // flags as "--epochs", too
};

// A file that cannot be read, and flags that are none, are UserErrors.
MindFormersLine read_mindformers_line(const std::vector<PlacedWord>& words);
// The keys of one document, flat; `name` for their places.
std::vector<GivenKey> mindformers_keys(const YamlNode& document, const std::string& name);
Translation translate_mindformers(const MindFormersLine& line, const MindFormersFacts& facts);

// The command inside a launch script: run_mindformer.py started by python, msrun, or msrun_launcher.sh with its words in quotes.
// ranks: those that the launcher starts; 0: it does not say.
struct MindFormersLaunch {
  std::vector<PlacedWord> words;
  int64_t ranks = 0;
};
MindFormersLaunch read_mindformers_script(const LaunchScript& script);
// Of a line of msrun_launcher.sh, without `bash` and its own name: EXECUTE_ORDER [WORKER_NUM ..].
MindFormersLaunch read_msrun_words(const std::vector<PlacedWord>& words);

}  // namespace ravine
