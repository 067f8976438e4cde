#pragma once
#include "engine/ctx.h"

namespace ravine {

// gelu(gate) * up, gelu in its tanh form, where gate_up [N, 2F] holds both side by side. [N, F], compute type.
Tensor geglu(Ctx& c, const Tensor& gate_up);

}  // namespace ravine
