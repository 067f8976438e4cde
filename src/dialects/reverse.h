// Writes a Config as flags or a file of another program, and lists the options that these cannot express. The written
// text is translated back and compared with the Config, so every lost option is found.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// An option whose value the written text does not reproduce.
struct UnsaidOption {
  std::string option, value, theirs;  // values as YAML; theirs: the value of the text, translated back
};

// A Config in the format of another program.
struct ForeignForm {
  std::string text;                  // flags, one per line, or the contents of a file
  std::vector<std::string> flags;    // flags to use with the file; empty: none
  std::vector<UnsaidOption> unsaid;  // in the order of Ravine's options
  std::vector<std::string> notices;  // notes on the text for the user
};

// The writer for one program. `described`: the map in config.json of the config's model; null if there is none.
struct ForeignWriter {
  std::string name;  // the value of `config --to`
  std::function<ForeignForm(const Config& config, const Json& described)> write;
};
const std::vector<ForeignWriter>& foreign_writers();

ForeignForm megatron_form(const Config& config, const Json& described);
ForeignForm mindformers_form(const Config& config, const Json& described);
ForeignForm deepspeed_form(const Config& config, const Json& described);

// Returns the options whose values differ, except the names in `but`.
std::vector<UnsaidOption> unsaid_options(const Config& wanted, const Config& got, const std::vector<std::string>& but);

// Returns the value of an option as JSON. `name`: "train.steps"; an Error if there is no such option.
Json option_value(const Config& config, const std::string& name);

}  // namespace ravine
