#pragma once
#include "engine/ctx.h"

namespace ravine {

// silu(gate) * up, where gate_up [N, 2F] holds both side by side. [N, F], compute type.
Tensor swiglu(Ctx& c, const Tensor& gate_up);

}  // namespace ravine
