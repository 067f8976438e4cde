#pragma once
#include "engine/ops/rms_norm.h"

namespace ravine {

// LayerNorm (Ba, Kiros, Hinton 2016; the formula is in kernels/norms.h). Adds the pending branch of `in` (if any) to
// the residual stream and normalises the sum. Consumes `in`. Shapes and types are as in rms_norm: x and sum [N, C] in
// the residual type, out in the compute type. If the argument `out` is set, the normed result has this type (a norm
// whose result is the residual stream).
Normed layer_norm(Ctx& c, Flow in, const Param& weight, const Param& bias, double eps, std::optional<DType> out = {});

}  // namespace ravine
