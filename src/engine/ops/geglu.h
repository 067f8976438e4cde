#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns gelu(gate) * up, [N, F] in the compute type. gelu has its tanh form. gate_up [N, 2F] holds gate and up side
// by side.
Tensor geglu(Ctx& c, const Tensor& gate_up);

}  // namespace ravine
