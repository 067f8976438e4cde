#pragma once
#include "engine/ops/rms_norm.h"

namespace ravine {

// Adds the pending branch of `in` (if any) to the residual stream, for ops that read the stream without a norm. Returns
// sum, the new residual stream, and out, its values in the compute type. out is a tensor with its own id, which may
// share the memory of sum. Consumes `in`.
Normed add_branch(Ctx& c, Flow in);

}  // namespace ravine
