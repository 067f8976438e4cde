// A model folder opened on the ranks of a job, for commands that run models.
#pragma once
#include <string>

#include "comm/world.h"
#include "config/config.h"
#include "infer/loaded_model.h"

namespace ravine {

// Opens the model by config.parallel and config.precision. world: the ranks, which must outlive the model; null for one
// process. All ranks call it together. `flags` are the command's flags, line by line. A UserError if the ranks differ
// in program, options, `flags` or model; also if the mesh does not fit (the message names the nearest ones).
LoadedModel open_model_job(World* world, const std::string& folder, const Config& config, Backend backend, OpenFor use,
                           const std::string& flags, const std::string& adapter = "");

// Returns a line on the ranks of a model, e.g. "data 2 x tensor 2, weights 1.0 MiB on each (2 threads)". All ranks call
// it together.
std::string describe_ranks(const LoadedModel& loaded);

}  // namespace ravine
