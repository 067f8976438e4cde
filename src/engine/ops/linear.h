#pragma once
#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// y = x W^T + b + what adapters add (lora.h), where W is the rows of the weights one under the other and b likewise. x [N, in];
// y [N, sum of outs] in the compute type. A frozen W does not keep x. Where inputs are cut the result is summed over tensor
// ranks afterwards, so the first of them adds the bias. `p` must outlive the backward.
Tensor linear(Ctx& c, const Tensor& x, const LinearParams& p, Split split);

}  // namespace ravine
