#pragma once
#include "engine/ctx.h"

namespace ravine {

// x Phi(x), or its tanh form, elementwise. [N, I], compute type.
Tensor gelu(Ctx& c, const Tensor& x, GeluForm form);

}  // namespace ravine
