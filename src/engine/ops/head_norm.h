#pragma once
#include "engine/ctx.h"

namespace ravine {

// RMSNorm of each head of x [N, H*D] by itself; weight [D]. x may be a slice of a product's output. Tensor ranks hold some
// heads each and all of the weight: its gradient is summed over them. An Error in backward if x is used elsewhere too.
Tensor head_norm(Ctx& c, const Tensor& x, const Param& weight, double eps);

}  // namespace ravine
