// The initial values of parameters. Each value depends on the seed, the parameter's name and its index in the parameter
// alone, so it is the same in every layout. Element i of a normal or uniform parameter comes from Philox with key
// (seed, name) at counter i / 4.
#pragma once
#include "engine/param.h"
#include "kernels/kernels.h"

namespace ravine {

// Writes the initial values of elements [begin, begin + n) of p, in row-major order of the whole parameter, to `out`
// from element `at` on.
void draw_values(const Param& p, uint64_t seed, int64_t begin, int64_t n, const TensorView& out, int64_t at);

}  // namespace ravine
