// Guesses of the meaning of a word on the command line that is neither flag nor option.
#pragma once
#include <string>
#include <vector>

#include "config/other_names.h"

namespace ravine {

// Returns "write train.steps=3" for an option or flag in full-width characters, typographic quotes or capitals, or with
// other characters for the dot and the equals sign; else "". `is_name` is true for options and flags.
std::string spelled_otherwise(const std::string& word, const NameThere& is_name);

// Returns the value that a shell has split at blanks: word `first` (section.key=[.. or {..) and the following words up
// to the closing bracket. "" if word `first` closes its brackets itself.
std::string value_cut_at_blanks(const std::vector<std::string>& words, size_t first);

}  // namespace ravine
