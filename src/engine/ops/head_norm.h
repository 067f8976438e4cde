#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns the RMSNorm of each head of x [N, H*D]; weight [D]. x may be a slice of a product's output. Each tensor rank
// holds some heads and the whole weight, so the gradient of the weight is summed over ranks. An Error in the backward
// pass if another op reads x.
Tensor head_norm(Ctx& c, const Tensor& x, const Param& weight, double eps);

}  // namespace ravine
