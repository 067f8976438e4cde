#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns silu(gate) * up, [N, F] in the compute type. gate_up [N, 2F] holds gate and up side by side.
Tensor swiglu(Ctx& c, const Tensor& gate_up);

}  // namespace ravine
