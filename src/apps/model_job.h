// A model folder on the ranks of a job, for commands that run models.
#pragma once
#include <string>

#include "comm/world.h"
#include "config/config.h"
#include "infer/loaded_model.h"

namespace ravine {

// Opens it as config.parallel and config.precision say. world: the ranks, which must outlive the model; null: alone. Ranks
// that were started with another program, other options (`flags` too: those of the command, line by line) or another model are
// refused; so is a mesh that does not fit, with the nearest that do. All ranks call it.
LoadedModel open_model_job(World* world, const std::string& folder, const Config& config, Backend backend, OpenFor use,
                           const std::string& flags, const std::string& adapter = "");

// "data 2 x tensor 2, weights 1.0 MiB on each (2 threads)": what the ranks of a loaded model are. All ranks call it.
std::string describe_ranks(const LoadedModel& loaded);

}  // namespace ravine
