// Sums of squares of weights and optimizer states, by parameter: for log.monitor and log.figures.
#pragma once
#include <map>
#include <string>

#include "step/step.h"

namespace ravine {

// Returns sums of squares over all ranks, by the names of checkpoints ("weights/NAME", "m/NAME", ...). `kind`: prefix
// of the names; "" is all. All ranks call it together and get the same.
std::map<std::string, double> state_squares(StepEngine& engine, const std::string& kind = "");

// Returns the norm of all weights together; a tied weight counts once. All ranks call it together and get the same.
double weight_norm(StepEngine& engine);

}  // namespace ravine
