#pragma once
#include "engine/ops/rms_norm.h"

namespace ravine {

// LayerNorm (Ba, Kiros, Hinton 2016; the formula is in kernels/norms.h). Adds the pending branch of `in` (if any) to
// the residual stream and normalises the sum. Consumes `in`. Shapes and types are as in rms_norm. If `out` is set, the
// result has that type (a norm whose result is the residual stream).
Normed layer_norm(Ctx& c, Flow in, const Param& weight, const Param& bias, double eps, std::optional<DType> out = {});

}  // namespace ravine
