#pragma once
#include "engine/ops/rms_norm.h"

namespace ravine {

// Adds the pending branch of `in` (if any) to the residual stream and normalises the sum. Consumes `in`. The result is in the
// compute type, or in `out` where that is given (a norm that makes the residual stream itself).
Normed layer_norm(Ctx& c, Flow in, const Param& weight, const Param& bias, double eps, std::optional<DType> out = {});

}  // namespace ravine
