// Guesses of data sources written as in other programs: words separated by blanks, with or without weights.
#pragma once
#include <string>
#include <vector>

namespace ravine {

// Returns the value of data.train that the words mean: "[{path: a, weight: 0.3}, {path: b, weight: 0.7}]" for 0.3 a 0.7
// b, "[a, b]" for a b. "" for fewer than two words, or for invalid weights.
std::string likely_sources(const std::vector<std::string>& words);

}  // namespace ravine
