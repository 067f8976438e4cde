// A training run, as `ravine train` and the commands that take other programs' command lines begin it.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "dialects/trainer_outputs.h"
#include "kernels/backend.h"

namespace ravine {

// The exit status; throws UserError, Error or Stopped. log.txt begins with the lines of `said`.
int run_training(Config& config, Backend backend, const TrainerOutputs& outputs = {},
                 const std::vector<std::string>& said = {});

// Of the model that the run would begin with the loss and the perplexity on data.valid, a JSON line on stdout. Nothing is
// written, but for the figures of `outputs.results`.
int run_evaluation(Config& config, Backend backend, const TrainerOutputs& outputs);

}  // namespace ravine
