// What other programs call what Ravine has: for messages that say where it is here. Translating whole command lines is another
// matter.
#pragma once
#include <functional>
#include <string>

namespace ravine {

using NameThere = std::function<bool(const std::string&)>;
using ValueFits = std::function<bool(const std::string& name, const std::string& value)>;

// "here it is optimizer.lr=3e-4", for a flag (with or without dashes), key or section.key of Transformers, Megatron, DeepSpeed
// or llama.cpp; "" if not known. `there` says which flags ("--model") and options ("optimizer.lr") are taken where the word
// stood; `value` is what was given to it, "" if that is not known. It is repeated only in the words that are used here ("adamw"
// for "adamw_torch"), and where `fits` takes it; what has no counterpart is said to have none.
std::string other_name_advice(std::string word, const NameThere& there, const std::string& value = "",
                              const ValueFits& fits = {});

// What to type instead of a command that other programs have; "" if not known.
std::string other_command_advice(const std::string& word);

// "here it is adamw" for a value that others give to such an option ("adamw_torch" for optimizer.type), or what to do instead;
// "" if not known.
std::string other_value_advice(const std::string& option, const std::string& value);

// "f16" for "fp16", "bf16" for "bfloat16", ..; "" if it is no such name.
std::string other_type_name(const std::string& word);

}  // namespace ravine
