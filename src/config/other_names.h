// Names that other programs use for features of Ravine, for advice in errors. Whole command lines are translated
// elsewhere.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ravine {

using NameThere = std::function<bool(const std::string&)>;
using ValueFits = std::function<bool(const std::string& name, const std::string& value)>;

// A row of the table that translates a command line or a file of another program. The tables are in a higher room,
// which passes them down (apps/foreign_words.h).
struct ForeignWord {
  std::string line;       // the command that takes the name unchanged: "ravine megatron", "ravine trainer --deepspeed"
  std::string option;     // the option that the name sets; "": none
  bool same = false;      // true if the option takes the same values
  std::string condition;  // a condition: " (schedule.type OneCycle)"
  std::string advice;     // without an option: the advice
};
// A function that returns the table rows for a name of another program (without leading dashes, underscores for
// dashes), the most specific row first.
using ForeignWords = std::function<std::vector<ForeignWord>(const std::string& word)>;

// Returns advice such as "here it is optimizer.lr=3e-4" for a flag, key or section.key of another program; "" if
// unknown. Two sources: the tables of `words`, and other_names.cpp for other programs (llama.cpp, TRL, LLaMA-Factory,
// ..). `there` tells which flags ("--model") and options ("optimizer.lr") are allowed at this place. `value` is the
// given value, or "". The advice repeats it translated ("adamw" for "adamw_torch"), and only if `fits` accepts it. For
// a name without counterpart the advice says so.
std::string other_name_advice(std::string word, const NameThere& there, const std::string& value = "",
                              const ValueFits& fits = {}, const ForeignWords& words = {});

// Returns the command to type instead of a command of another program; "" if unknown.
std::string other_command_advice(const std::string& word);

// Returns "here it is adamw" for a value of another program ("adamw_torch" for optimizer.type), or other advice; "" if
// unknown.
std::string other_value_advice(const std::string& option, const std::string& value);

// Returns "f16" for "fp16", "bf16" for "bfloat16", ..; "" for other words.
std::string other_type_name(const std::string& word);

}  // namespace ravine
