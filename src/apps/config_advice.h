// What is likely a mistake in a config that is valid all the same.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"

namespace ravine {

// A line each. Looks at the model's config, the tokenizer and the first records of each source, as far as they are there; what cannot be
// opened is a line too.
std::vector<std::string> likely_mistakes(const Config& config);

}  // namespace ravine
