// The values that a parameter begins with. Each follows from the seed, the name of the parameter and its place in it, so that
// every layout begins with the same: element i of a normal or uniform one is drawn from Philox keyed by (seed, name) at counter
// i / 4.
#pragma once
#include "engine/param.h"
#include "kernels/kernels.h"

namespace ravine {

// Elements [begin, begin + n) of p, in order of memory of the whole parameter, into `out` from element `at` on.
void draw_values(const Param& p, uint64_t seed, int64_t begin, int64_t n, const TensorView& out, int64_t at);

}  // namespace ravine
