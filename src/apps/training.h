// A training run, started by `ravine train` and by commands that take the command line of another program.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "dialects/trainer_outputs.h"
#include "kernels/backend.h"

namespace ravine {

// Runs the training and returns the exit status. Throws UserError, Error or Stopped. log.txt begins with the lines of
// `said`.
int run_training(Config& config, Backend backend, const TrainerOutputs& outputs = {},
                 const std::vector<std::string>& said = {});

// Prints loss and perplexity on data.valid of the model that the run would start with, as a JSON line on stdout. Writes
// no file, except for the results of `outputs.results`.
int run_evaluation(Config& config, Backend backend, const TrainerOutputs& outputs);

}  // namespace ravine
