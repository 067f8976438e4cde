// Initial values: each follows from the seed, the name of its parameter and its place in it, so that every layout begins with
// the same. Element i of a normal one is drawn from Philox keyed by (seed, name) at counter i.
#pragma once
#include <functional>

#include "parallel/flat_weights.h"

namespace ravine {

void initialise(const ParamSet& params, WeightSource& store, uint64_t seed);  // of a store that holds everything whole
// What is resident, where `wanted` (null: all).
void initialise(FlatWeights& store, uint64_t seed, const std::function<bool(const Param&)>& wanted = {});

}  // namespace ravine
