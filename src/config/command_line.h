// The words after `ravine COMMAND`: flags of the command, options of the config, names without a flag. A command declares its
// flags as a struct with `each`, like a section of the config:
//   v("max-new-tokens", max_new_tokens, "tokens to write at most", at_least(1));   // --max-new-tokens N or --max-new-tokens=N
//   v("json", json, "one JSON line per prompt");                                   // bool: --json
//   v("input", inputs, "files to read", required());                               // list: --input A B C
//   v("model", model, "Hugging Face folder", same_as("model.path") & required());  // shorthand of a config option
//   v("output-dir", dir, "folder of the run", positional() & required());          // ravine stop runs/a
// Text flags take their word literally; the others are read as YAML scalars.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "config/other_names.h"

namespace ravine {

// What the frame knows of a command besides its flags.
struct CommandSpec {
  std::string name;                   // "trace", "tokenizer encode"
  std::string summary;                // one line
  std::string example;                // a complete line to copy
  std::string about = {};             // a paragraph of the help page: what the command reads, does and leaves; may be empty
  std::vector<std::string> sections;  // of the config that it takes: "precision", or one option of a section, "data.text_key";
                                      // empty: neither --config nor section.key=value
  bool alone = false;                 // would do the same on every rank of a job: refused there
  bool lasting = false;               // its work is what it writes to disk: it goes on when nobody reads its output any more
  bool stoppable = false;             // a signal asks it to save and stop; before it has begun, it ends with status 130
};

bool takes(const CommandSpec& spec, const Option& option);  // on its command line; a file may hold all options

// Reads `args` into the fields behind `flags` and returns the config they lead to. Words are read in order, the later wins. A
// flag with same_as sets that config option; if not given, its field takes the config's value. Mistakes are UserErrors.
// `words`: what other programs call things, for the mistakes.
Config read_command_line(const CommandSpec& spec, const std::vector<Option>& flags, const std::vector<std::string>& args,
                         const ForeignWords& words = {});

}  // namespace ravine
