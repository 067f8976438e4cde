// The other way round: a Config in the words of another program, as far as that has words for it. What the words come to is
// found out by translating them back, so that nothing is lost without being named.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// An option of ours that the words lead to another value of, or to none.
struct UnsaidOption {
  std::string option, value, theirs;  // values as YAML; theirs: what the words come to
};

struct ForeignForm {
  std::string text;                  // flags, one a line, or a file
  std::vector<std::string> flags;    // that belong beside the file; empty: none
  std::vector<UnsaidOption> unsaid;  // in the order of our options
  std::vector<std::string> notices;  // what else is to be known of the text
};

// What writes a config for one program. `described`: the map that config.json holds, of the model that the config names; null
// where there is none.
struct ForeignWriter {
  std::string name;  // as `config --to` takes it
  std::function<ForeignForm(const Config& config, const Json& described)> write;
};
const std::vector<ForeignWriter>& foreign_writers();

ForeignForm megatron_form(const Config& config, const Json& described);
ForeignForm mindformers_form(const Config& config, const Json& described);
ForeignForm deepspeed_form(const Config& config, const Json& described);

// Options whose values differ, but for those that `but` names.
std::vector<UnsaidOption> unsaid_options(const Config& wanted, const Config& got, const std::vector<std::string>& but);

Json option_value(const Config& config, const std::string& name);  // "train.steps"; an Error if there is no such option

}  // namespace ravine
