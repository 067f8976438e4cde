// Evaluates conditions of [ ] and [[ ]].
#pragma once
#include <optional>
#include <vector>

#include "dialects/shell_value.h"

namespace ravine {

// Returns the value of a condition in [ ] or [[ ]]; nothing if a word is not known, or the condition is not understood.
// -f, -d, -e and the like look at the file system. words: the words between the brackets. patterns: true for the syntax
// of [[ ]], with patterns after == and with && and ||.
std::optional<bool> shell_test(const std::vector<ExpandedWord>& words, bool patterns);

}  // namespace ravine
