#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Runs a linear layer: y = x W^T + b + the outputs of its adapters (lora.h). x [N, in]; y [N, sum of outs] in the
// compute type. W is the weights' rows stacked, b likewise. A frozen W does not keep x. If inputs are cut, the result
// is summed over tensor ranks later, so only the first rank adds the bias. `p` must outlive the backward pass.
Tensor linear(Ctx& c, const Tensor& x, const LinearParams& p, Split split);

}  // namespace ravine
