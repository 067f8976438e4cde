// The flags of a Transformers training script: TrainingArguments of 4.37 (training_args.py) with the new names
// of 5.x, and the arguments of examples/pytorch/language-modeling/run_clm.py.
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

// A row of the table of flags of a Transformers training script. For flags, the effect by_value means that trainer.cpp
// decides, and refused_if_on that any other value than the default is refused.
struct TrainerFlag {
  std::string_view name;  // without dashes, in Python's spelling
  DeepSpeedValue type = DeepSpeedValue::text;
  std::string_view fallback = {};  // the default, as on the command line; "": None
  DeepSpeedFate fate = DeepSpeedFate::inert;
  std::string_view effect = {};  // for flags with an effect: the options; for others: the reason
  double min = -1e300, max = 1e300;
};

std::span<const TrainerFlag> trainer_flags();
const TrainerFlag* find_trainer_flag(std::string_view name);  // accepts dashes and names of 5.x; null if unknown

// The values of all flags of a Transformers training script: the result of read_trainer_flags().
struct TrainerArguments {
  // The value of each flag by its name. A flag that the user has not set has its default, or null if there is none.
  std::map<std::string, YamlNode::Ptr, std::less<>> values;
  std::map<std::string, std::string, std::less<>> given;  // for each flag that the user has set: the user's spelling

  const YamlNode& value(std::string_view name) const;
  bool on(std::string_view name) const { return value(name).boolean; }
  double number(std::string_view name) const { return value(name).real; }
  int64_t whole(std::string_view name) const { return value(name).integer; }
  const std::string& text(std::string_view name) const { return value(name).text; }
  bool has(std::string_view name) const { return value(name).kind != YamlNode::Kind::null; }
  bool was_given(std::string_view name) const { return given.find(name) != given.end(); }
};

// Parses words like HfArgumentParser: --flag VALUE or --flag=VALUE; a switch without a value is true; --no_flag turns
// off a switch that is on by default. The last of several values is used. Mistakes are appended to `refusals`.
TrainerArguments read_trainer_flags(const std::vector<PlacedWord>& words, std::vector<KeyRefusal>& refusals);

}  // namespace ravine
