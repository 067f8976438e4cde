// Writes a Config as flags or a file of another program, and lists the options that these cannot express. The written
// text is translated back and compared with the Config, so every lost option is found.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// An option of a Config that the format of another program cannot express: its value is lost in the written text.
struct UnsaidOption {
  std::string option, value, theirs;  // value: in the Config; theirs: after translating the text back; both as YAML
};

// A Config written in the format of another program.
struct ForeignForm {
  std::string text;                  // flags, one per line, or the contents of a file
  std::vector<std::string> flags;    // flags to use with the file; empty: none
  std::vector<UnsaidOption> unsaid;  // the options that are lost, in the order of Ravine's options
  std::vector<std::string> notices;  // notes on the text for the user
};

// A function that writes a Config in the format of one program. described: the contents of config.json of the config's
// model; null if there is none.
struct ForeignWriter {
  std::string name;  // the value of `config --to`
  std::function<ForeignForm(const Config& config, const Json& described)> write;
};
const std::vector<ForeignWriter>& foreign_writers();

ForeignForm megatron_form(const Config& config, const Json& described);
ForeignForm mindformers_form(const Config& config, const Json& described);
ForeignForm deepspeed_form(const Config& config, const Json& described);

// Returns the options whose values differ between the Config to write (`wanted`) and the Config that the written text
// is translated back to (`got`). but: names of options that are not compared.
std::vector<UnsaidOption> unsaid_options(const Config& wanted, const Config& got, const std::vector<std::string>& but);

// Returns the value of an option in a config as JSON. name: "train.steps"; an Error if there is no such option.
Json option_value(const Config& config, const std::string& name);

}  // namespace ravine
