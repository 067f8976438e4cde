// The weights of a checkpoint that `ravine train` wrote, by however many ranks.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// `path`: a run, its folder checkpoints, or one step_N of it. Without `config` the run's config.yaml says which model it is.
Weights read_ravine_checkpoint(const std::string& path, const Json& config, const std::string& config_where);

}  // namespace ravine
