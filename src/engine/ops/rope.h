#pragma once
#include "engine/ctx.h"

namespace ravine {

// Rotates x [N, heads*D] in place by the batch's positions. `table` [P,R] must outlive the backward pass.
void rope(Ctx& c, const Tensor& x, const TensorView& table, int64_t heads);

}  // namespace ravine
