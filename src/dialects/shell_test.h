// Conditions of [ ] and [[ ]].
#pragma once
#include <optional>
#include <vector>

#include "dialects/shell_value.h"

namespace ravine {

// The value of a condition; nothing where a word is not known or the condition is not understood. Asks the file system for -f, -d,
// -e and their like. `patterns`: [[ ]], where == takes a pattern and && || stand inside.
std::optional<bool> shell_test(const std::vector<ExpandedWord>& words, bool patterns);

}  // namespace ravine
