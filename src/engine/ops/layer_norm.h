#pragma once
#include "engine/ops/rms_norm.h"

namespace ravine {

// LayerNorm (Ba, Kiros, Hinton 2016; the formula is in kernels/norms.h): adds the pending branch of `in` (if any) to the
// residual stream and normalises the sum. Consumes `in`. Shapes and types as of rms_norm, but that the result is in `out` where
// that is given (a norm that makes the residual stream itself).
Normed layer_norm(Ctx& c, Flow in, const Param& weight, const Param& bias, double eps, std::optional<DType> out = {});

}  // namespace ravine
