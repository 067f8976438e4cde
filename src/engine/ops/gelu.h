#pragma once
#include "engine/ctx.h"

namespace ravine {

// x Phi(x), or its tanh form, elementwise (Hendrycks, Gimpel 2016). [N, F], compute type. An Error in backward if x is used
// elsewhere too.
Tensor gelu(Ctx& c, const Tensor& x, GeluForm form);

}  // namespace ravine
