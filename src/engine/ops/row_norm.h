#pragma once
#include "engine/ctx.h"

namespace ravine {

// RMSNorm of rows of x [N, W] of which tensor ranks hold some columns each, and those of the weight: squares (backward:
// gradients times values) are summed over the ranks, in a fixed order, in the type of statistics. Where ranks share a part
// (key/value heads fewer than ranks) each counts it, in the sum and in the width alike, and each finds its share of the
// gradient. x may be a slice of a product's output; an Error in backward if it is used elsewhere too.
Tensor row_norm(Ctx& c, const Tensor& x, const Param& weight, double eps);

}  // namespace ravine
