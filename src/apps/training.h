// A training run, as `ravine train` and the commands that take other programs' command lines begin it.
#pragma once
#include "config/config.h"
#include "kernels/backend.h"

namespace ravine {

int run_training(Config& config, Backend backend);  // the exit status; throws UserError, Error or Stopped

// Of the model that the run would begin with the loss and the perplexity on data.valid, a JSON line on stdout; nothing is
// written.
int run_evaluation(Config& config, Backend backend);

}  // namespace ravine
