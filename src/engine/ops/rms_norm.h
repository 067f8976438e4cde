#pragma once
#include "engine/ctx.h"

namespace ravine {

struct Normed {
  Tensor sum;  // the residual stream from here on: x + branch
  Tensor out;  // its norm, in the compute type
};

// RMSNorm (Zhang, Sennrich 2019; the formula is in kernels/norms.h): adds the pending branch of `in` (if any) to the residual
// stream and normalises the sum. Consumes `in`. x and sum [N, C] in the residual type, branch and out in the compute type,
// weight [C] in the master's. The norm is multiplied by offset + weight. Without a branch x may be of the compute type too (a
// norm of what attention or the MLP gives).
Normed rms_norm(Ctx& c, Flow in, const Param& weight, double eps, double offset = 0);

}  // namespace ravine
