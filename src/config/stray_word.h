// What a word of the command line was meant to be that is neither flag nor option.
#pragma once
#include <string>
#include <vector>

#include "config/other_names.h"

namespace ravine {

// "write train.steps=3" for an option or flag in characters of another keyboard, in typographic quotes, in capitals, or with
// something else for the dot and the equals sign; "" if it is none. `is_name` says what is an option or a flag.
std::string spelled_otherwise(const std::string& word, const NameThere& is_name);

// Word `first`, section.key=[.. or {.., and those behind it up to where its brackets are closed, with blanks between: the
// value that a shell has cut. "" if word `first` closes what it opens.
std::string value_cut_at_blanks(const std::vector<std::string>& words, size_t first);

}  // namespace ravine
