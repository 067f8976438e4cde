// Squares of what a run holds, parameter by parameter: of values and optimizer states, for log.monitor and log.figures.
#pragma once
#include <map>
#include <string>

#include "step/step.h"

namespace ravine {

// Sums of squares by the names of checkpoints ("weights/NAME", "m/NAME", ..) that begin so, over all ranks. All ranks call it;
// all get it.
std::map<std::string, double> state_squares(StepEngine& engine, const std::string& kind = "");

// The norm of all weights together, a tied one once. All ranks call it; all get it.
double weight_norm(StepEngine& engine);

}  // namespace ravine
