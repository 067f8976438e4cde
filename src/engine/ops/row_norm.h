#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns the RMSNorm of the rows of x [N, W]. Each tensor rank holds some columns of x and of the weight. Squares
// (backward: gradients times values) are summed over ranks in a fixed order, in the type of statistics. If ranks share
// columns (fewer key/value heads than ranks), each rank adds them to the sum and to the width. Each rank gets its part
// of the gradient. x may be a slice of a product's output. An Error in the backward pass if another op reads x.
Tensor row_norm(Ctx& c, const Tensor& x, const Param& weight, double eps);

}  // namespace ravine
