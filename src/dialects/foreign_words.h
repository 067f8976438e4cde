// Finds a word in the tables of all dialects, for a message on a word that is not an option of Ravine.
#pragma once
#include "config/other_names.h"

namespace ravine {

// Returns the flags and keys of other programs that a word names: a flag, a full dotted key, or the last part of a key
// that has an effect. The first call reads the tables of all dialects.
std::vector<ForeignWord> words_of_dialects(const std::string& word);

}  // namespace ravine
