// A training run, started by `ravine train` and by commands that take the command line of another program.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "dialects/trainer_outputs.h"
#include "kernels/backend.h"

namespace ravine {

// Trains by `config` and returns the exit status. Throws UserError, Error or Stopped. log.txt begins with the lines of
// `notices`, which were printed before.
int run_training(Config& config, Backend backend, const TrainerOutputs& outputs = {},
                 const std::vector<std::string>& notices = {});

// Prints loss and perplexity on data.valid, as a JSON line on stdout, of the model that the run would start with. With
// `outputs.results` the results are also written to train.output, as Transformers' Trainer does; else no file is
// written. Returns the exit status.
int run_evaluation(Config& config, Backend backend, const TrainerOutputs& outputs);

}  // namespace ravine
