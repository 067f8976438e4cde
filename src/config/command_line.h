// The words after `ravine COMMAND`: flags of the command, options of the config, words without a flag. A command
// declares its flags as a struct with `each`, like a section of the config:
//   v("max-new-tokens", max_new_tokens, "tokens to write at most", at_least(1));  // --max-new-tokens N
//   v("json", json, "one JSON line per prompt");                                   // bool: --json
//   v("input", inputs, "files to read", required());                               // list: --input A B C
//   v("model", model, "Hugging Face folder", same_as("model.path") & required());  // shorthand of a config option
//   v("output-dir", dir, "folder of the run", positional() & required());          // ravine stop runs/a
// Text flags take their word literally; other flags are parsed as YAML scalars.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "config/other_names.h"

namespace ravine {

// The description of a command, apart from its flags.
struct CommandSpec {
  std::string name;        // "trace", "tokenizer encode"
  std::string summary;     // one line
  std::string example;     // a complete command line to copy
  std::string about = {};  // paragraph of the help page: what the command reads, does and writes; may be empty
  // Config sections ("precision") or single options ("data.text_key") that the command takes. Empty: it takes neither
  // --config nor section.key=value.
  std::vector<std::string> sections;
  std::vector<std::string> shown = {};  // options on the page of --help; empty: those marked common()
  bool alone = false;                   // true: refused on several ranks, where each would do the same
  bool lasting = false;                 // true: the result is on the disk, so a closed stdout does not end the command
  // True: a signal asks the command to save and stop. Before its work begins, a signal ends it with status 130.
  bool stoppable = false;
};

// True if the command line of the command may set the option; a config file may set all options.
bool takes(const CommandSpec& spec, const Option& option);

// Reads `args` into the fields of `flags` and returns the config. Words are read in order; later ones win. A flag with
// same_as sets its config option; if the flag is not given, its field gets the config's value. Mistakes are UserErrors.
// `words` has the names that other programs use, for the advice in errors.
Config read_command_line(const CommandSpec& spec, const std::vector<Option>& flags, const std::vector<std::string>& args,
                         const ForeignWords& words = {});

}  // namespace ravine
