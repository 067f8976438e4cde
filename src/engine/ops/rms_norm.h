#pragma once
#include "engine/ctx.h"

namespace ravine {

struct Normed {
  Tensor sum;  // the new residual stream: x + branch
  Tensor out;  // the normalised sum, in the compute type
};

// Runs an RMSNorm (Zhang, Sennrich 2019; the formula is in kernels/norms.h). Adds the pending branch of `in` (if any)
// to the residual stream and normalises the sum. Consumes `in`. The norm is multiplied by offset + weight. x and sum
// [N, C] are in the residual type, branch and out in the compute type, weight [C] in the master's type. Without a
// branch, x may also have the compute type (a norm of the output of attention or of the MLP).
Normed rms_norm(Ctx& c, Flow in, const Param& weight, double eps, double offset = 0);

}  // namespace ravine
