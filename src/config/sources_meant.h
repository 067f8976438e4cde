// Files of data as other programs take them: words with blanks between, perhaps with a weight before each.
#pragma once
#include <string>
#include <vector>

namespace ravine {

// "[{path: a, weight: 0.3}, {path: b, weight: 0.7}]" of 0.3 a 0.7 b, "[a, b]" of a b: a value of data.train. "" for fewer than
// two words, or numbers that are no weights.
std::string sources_meant(const std::vector<std::string>& words);

}  // namespace ravine
