// What is likely a mistake in a config that is valid all the same: `config` and the start of `train` say it alike.
#pragma once
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "config/config.h"
#include "data/dataset.h"
#include "text/tokenizer.h"

namespace ravine {

// A line each. `opened`: the run's tokenizer, if it is open already. Looks at the model's config, the tokenizer and the first
// records of each source, as far as they are there; what cannot be opened is a line too.
std::vector<std::string> likely_mistakes(const Config& config, const Tokenizer* opened = nullptr);

// Options that have no effect on this mesh, a line each.
std::vector<std::string> idle_options(const Config& config, const Mesh& mesh);

// What is said of data that are less than one sequence, or than the batch of a step; a line each.
std::vector<std::string> scarce_data(const Config& config, const Dataset& data);

// How often a run sees its data: sequences of train.steps by those of one pass. 0 under a Megatron order, whose samples are
// made for the run.
double passes_over(const Config& config, const Dataset& data);
std::string passes_text(double passes);  // "0.42 passes", "585 passes"
std::string roughly(double seconds);     // "about 3m 20s", "less than 1 s"

}  // namespace ravine
