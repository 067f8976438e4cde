// Translates a YAML of MindSpore Transformers (MindFormers 1.6) and the flags of run_mindformer.py into options of a
// run (`ravine mindformers`). Source: mindformers/tools/register/{config,template}.py, run_mindformer.py, core/,
// models/llama/llama_config.py.
//
//   --config FILE.yaml [--run_mode train] [--load_checkpoint X] [--train_data Y] [--a.b.c VALUE] [--options a.b=V ..]
//
// Flags may be abbreviated. A value overrides earlier values in this order: the file, flags, --options, --a.b.c.
// Items of a list of maps have keys like callbacks[1].prefix.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/yaml.h"
#include "dialects/dialect.h"
#include "dialects/launch_script.h"
#include "dialects/mindformers_facts.h"

namespace ravine {

// The keys of the file with the flags over them, flat ("runner_config.epochs"), each once, with its place.
struct MindFormersLine {
  std::string config;           // path of --config
  std::vector<GivenKey> given;  // flags have the key that they set
};

// Reads the words and the file of --config. An unreadable file and wrong flags are UserErrors.
MindFormersLine read_mindformers_line(const std::vector<PlacedWord>& words);
// Returns the keys of one document, flat. `name`: its name in places.
std::vector<GivenKey> mindformers_keys(const YamlNode& document, const std::string& name);
Translation translate_mindformers(const MindFormersLine& line, const MindFormersFacts& facts);

// The command in a launch script: run_mindformer.py started by python, by msrun, or by msrun_launcher.sh with the
// command in quotes. ranks: the number that the launcher starts.
struct MindFormersLaunch {
  std::vector<PlacedWord> words;
  int64_t ranks = 0;
};
MindFormersLaunch read_mindformers_script(const LaunchScript& script);
// Returns the command in the words of msrun_launcher.sh, without `bash` and its own name: EXECUTE_ORDER [WORKER_NUM
// ..]. The default of WORKER_NUM is 8.
MindFormersLaunch read_msrun_words(const std::vector<PlacedWord>& words);

}  // namespace ravine
