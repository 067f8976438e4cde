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

// A parsed command line of run_mindformer.py, with the YAML file of --config: the result of read_mindformers_line().
// given: all keys of the file and the flags, flat ("runner_config.epochs"), each once with its last value and place.
struct MindFormersLine {
  std::string config;           // path of --config
  std::vector<GivenKey> given;  // flags have the key that they set
};

// Parses the words of a command line of run_mindformer.py, and reads the file of --config. An unreadable file and wrong
// flags are UserErrors.
MindFormersLine read_mindformers_line(const std::vector<PlacedWord>& words);
// Returns the keys of one YAML document of MindFormers, flat ("runner_config.epochs"), with their values and places.
// name: the document's name in places.
std::vector<GivenKey> mindformers_keys(const YamlNode& document, const std::string& name);
Translation translate_mindformers(const MindFormersLine& line, const MindFormersFacts& facts);

// A command that starts run_mindformer.py by python, by msrun, or by msrun_launcher.sh with the command in quotes.
// words: the flags of run_mindformer.py. ranks: the number of processes that the launcher starts.
struct MindFormersLaunch {
  std::vector<PlacedWord> words;
  int64_t ranks = 0;
};
MindFormersLaunch read_mindformers_script(const LaunchScript& script);
// Returns the command that msrun_launcher.sh starts. words: the arguments of msrun_launcher.sh: EXECUTE_ORDER
// [WORKER_NUM ..]. The default of WORKER_NUM is 8.
MindFormersLaunch read_msrun_words(const std::vector<PlacedWord>& words);

}  // namespace ravine
