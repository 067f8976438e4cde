// Initial values of parameters (engine/initial_values.h) in the stores that hold them.
#pragma once
#include <functional>

#include "parallel/flat_weights.h"

namespace ravine {

void initialise(const ParamSet& params, WeightSource& store, uint64_t seed);  // of a store that holds everything whole
// What is resident, where `wanted` (null: all).
void initialise(FlatWeights& store, uint64_t seed, const std::function<bool(const Param&)>& wanted = {});

}  // namespace ravine
