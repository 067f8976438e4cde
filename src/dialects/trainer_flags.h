// The flags of a training script of Transformers: TrainingArguments of 4.37 (training_args.py) with what 5.x renamed, and the
// arguments of examples/pytorch/language-modeling/run_clm.py.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.h"
#include "dialects/deepspeed_keys.h"
#include "dialects/dialect.h"

namespace ravine {

// Of `by_value` trainer.cpp decides. refused_if_on: refused where it is given another value than the default.
struct TrainerFlag {
  std::string_view name;  // without dashes, as Python spells it
  DeepSpeedValue type = DeepSpeedValue::text;
  std::string_view fallback = {};  // as the command line would write it; "": None
  DeepSpeedFate fate = DeepSpeedFate::inert;
  std::string_view says = {};  // by_value: options that it leads to; else the reason
  double min = -1e300, max = 1e300;
};

std::span<const TrainerFlag> trainer_flags();
const TrainerFlag* find_trainer_flag(std::string_view name);  // other spellings of the same (dashes, names of 5.x) too

// What was given, in the order of the table of flags.
struct TrainerArguments {
  // By name; flags that were not given have their default, or null where there is none.
  std::map<std::string, YamlNode::Ptr, std::less<>> values;
  std::map<std::string, std::string, std::less<>> given;  // name: the flag as it was written

  const YamlNode& value(std::string_view name) const;
  bool on(std::string_view name) const { return value(name).boolean; }
  double number(std::string_view name) const { return value(name).real; }
  int64_t whole(std::string_view name) const { return value(name).integer; }
  const std::string& text(std::string_view name) const { return value(name).text; }
  bool has(std::string_view name) const { return value(name).kind != YamlNode::Kind::null; }
  bool was_given(std::string_view name) const { return given.find(name) != given.end(); }
};

// Reads words as HfArgumentParser does: --flag VALUE, --flag=VALUE, a switch alone is true, --no_flag of one whose default is
// true; of a flag given twice the last counts. What is wrong is appended to `refusals`.
TrainerArguments read_trainer_flags(const std::vector<PlacedWord>& words, std::vector<KeyRefusal>& refusals);

}  // namespace ravine
