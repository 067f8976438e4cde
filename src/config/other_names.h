// What other programs call what Ravine has: for messages that say where it is here. Translating whole command lines is another
// matter.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ravine {

using NameThere = std::function<bool(const std::string&)>;
using ValueFits = std::function<bool(const std::string& name, const std::string& value)>;

// A row of the table by which a line or a file of another program becomes a run here. The tables lie above this room: whoever
// reads command lines hands them down (apps/foreign_words.h).
struct ForeignWord {
  std::string line;  // that takes it as it is, with all that stands beside it: "ravine megatron", "ravine trainer --deepspeed"
  std::string option;  // that the word leads to; "": there is none
  bool same = false;   // the option takes the value as it was given there
  std::string beside;  // " (schedule.type OneCycle)", without which the option does not count
  std::string advice;  // without an option: what to do instead
};
// Those of a word, without dashes in front, underscores for dashes; those that say most first.
using ForeignWords = std::function<std::vector<ForeignWord>(const std::string& word)>;

// "here it is optimizer.lr=3e-4", for a flag (with or without dashes), key or section.key of other programs: of those that have a
// table, as `words` says, of others (llama.cpp, TRL, LLaMA-Factory, ..) and where there is more to say, as the rows of
// other_names.cpp do; "" if not known. `there` says which flags ("--model") and options ("optimizer.lr") are taken where the word
// stood; `value` is what was given to it, "" if that is not known. It is repeated only in the words that are used here ("adamw"
// for "adamw_torch"), and where `fits` takes it; what has no counterpart is said to have none.
std::string other_name_advice(std::string word, const NameThere& there, const std::string& value = "",
                              const ValueFits& fits = {}, const ForeignWords& words = {});

// What to type instead of a command that other programs have; "" if not known.
std::string other_command_advice(const std::string& word);

// "here it is adamw" for a value that others give to such an option ("adamw_torch" for optimizer.type), or what to do instead;
// "" if not known.
std::string other_value_advice(const std::string& option, const std::string& value);

// "f16" for "fp16", "bf16" for "bfloat16", ..; "" if it is no such name.
std::string other_type_name(const std::string& word);

}  // namespace ravine
