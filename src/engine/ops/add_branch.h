#pragma once
#include "engine/ops/rms_norm.h"

namespace ravine {

// Adds the pending branch of `in` (if any) to the residual stream, for what reads the stream without a norm. sum: the stream
// from here on; out: its values in the compute type, a tensor of its own (which may share the memory). Consumes `in`.
Normed add_branch(Ctx& c, Flow in);

}  // namespace ravine
