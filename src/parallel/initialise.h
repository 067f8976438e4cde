// Writes initial values of parameters (engine/initial_values.h) to the stores that hold them.
#pragma once
#include <functional>

#include "parallel/flat_weights.h"

namespace ravine {

void initialise(const ParamSet& params, WeightSource& store, uint64_t seed);  // for a store that holds all values whole
// Writes initial values to the elements of `store` that this rank keeps resident. wanted: only parameters for which it
// is true; null: all.
void initialise(FlatWeights& store, uint64_t seed, const std::function<bool(const Param&)>& wanted = {});

}  // namespace ravine
