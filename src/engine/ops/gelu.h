#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns gelu(x), elementwise (Hendrycks, Gimpel 2016): [N, F] in the compute type. `form` selects x Phi(x) or its
// tanh form. An Error in the backward pass if another op reads x.
Tensor gelu(Ctx& c, const Tensor& x, GeluForm form);

}  // namespace ravine
