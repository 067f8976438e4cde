// Finds a word in the tables of all dialects, for a message on a word that is not an option of Ravine.
#pragma once
#include "config/other_names.h"

namespace ravine {

// Returns the table rows of a word: of the flag or the full dotted key, and of used keys whose last part it is. The
// first call reads the tables.
std::vector<ForeignWord> words_of_dialects(const std::string& word);

}  // namespace ravine
