// The tables of all dialects as one list of words, for a message about a word that stands where an option of ours is expected.
#pragma once
#include "config/other_names.h"

namespace ravine {

// Of a flag or a key, dots and all; else of the last part of a key that is used. The tables are read as the first word is asked for.
std::vector<ForeignWord> words_of_dialects(const std::string& word);

}  // namespace ravine
