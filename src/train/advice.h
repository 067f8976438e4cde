// Warnings about a config that is valid, but is likely a mistake. `ravine config` and the start of `ravine train` print
// them.
#pragma once
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "config/config.h"
#include "data/dataset.h"
#include "text/tokenizer.h"

namespace ravine {

// Returns one warning per likely mistake in a valid config. Reads the model's config, the tokenizer and the first
// records of each data source, if they exist. A file that cannot be opened is a warning, too. `opened`: the run's
// tokenizer if it is open already, else null.
std::vector<std::string> likely_mistakes(const Config& config, const Tokenizer* opened = nullptr);

// Returns one warning per set option that has no effect in this run: because of the mesh, the compute type, or the
// value of another option (optimizer.type, schedule.type, ..).
std::vector<std::string> idle_options(const Config& config, const Mesh& mesh);

// Returns a warning if the data have fewer tokens than one sequence, or fewer sequences than the batch of a step; else
// nothing.
std::vector<std::string> scarce_data(const Config& config, const Dataset& data);

// Returns the number of epochs that a run trains: sequences of train.steps / sequences of an epoch. 0 for a data order
// of Megatron, whose samples are made for the run.
double passes_over(const Config& config, const Dataset& data);
std::string passes_text(double passes);  // "0.42 passes", "585 passes"
std::string roughly(double seconds);     // "about 3m 20s", "less than 1 s"

}  // namespace ravine
