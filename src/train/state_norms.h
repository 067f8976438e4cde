// Squares of what a run holds: of each parameter's values and optimizer states, for log.monitor.
#pragma once
#include <map>
#include <string>

#include "step/step.h"

namespace ravine {

// Sums of squares by the names of checkpoints ("weights/NAME", "m/NAME", ..), over all ranks. All ranks call it; all get it.
std::map<std::string, double> state_squares(StepEngine& engine);

}  // namespace ravine
