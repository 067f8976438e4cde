// Sums of squares of weights and optimizer states, by parameter: for log.monitor and log.figures.
#pragma once
#include <map>
#include <string>

#include "step/step.h"

namespace ravine {

// Returns the sum of squares of each weight and optimizer state over all ranks, by its name in checkpoints
// ("weights/NAME", "m/NAME", ...). `kind`: only names with this prefix; "": all names. All ranks call it together and
// get the same.
std::map<std::string, double> state_squares(StepEngine& engine, const std::string& kind = "");

// Returns the Euclidean norm of all weights of the model together; a tied weight counts once. All ranks call it
// together and get the same.
double weight_norm(StepEngine& engine);

}  // namespace ravine
