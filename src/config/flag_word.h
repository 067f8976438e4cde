// The word for a flag on help pages and in messages.
#pragma once
#include <string>

#include "config/option.h"

namespace ravine {

// Returns a flag with the word for its value: "--threads N"; of a bool "--json"; of a positional flag the bare word.
std::string flag_word(const Option& flag);

}  // namespace ravine
