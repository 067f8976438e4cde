// The search for settings of `ravine replay optimizer --identify`.
#pragma once
#include <string>

#include "config/config.h"
#include "probe/replay_optimizer.h"

namespace ravine {

// Prints which settings turn the recorded gradients of `input` into the weights in the file `after`. Returns the exit
// status: 0 if settings explain them.
int run_identify(const ReplayInput& input, const std::string& after, const Config& config, bool json);

}  // namespace ravine
