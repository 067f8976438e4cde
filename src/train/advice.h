// What is likely a mistake in a config that is valid all the same: `config` and the start of `train` say it alike.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "data/tokenizer.h"

namespace ravine {

// A line each. `opened`: the run's tokenizer, if it is open already. Looks at the model's config, the tokenizer and the first records of each source, as far as they are there; what cannot be
// opened is a line too.
std::vector<std::string> likely_mistakes(const Config& config, const Tokenizer* opened = nullptr);

}  // namespace ravine
