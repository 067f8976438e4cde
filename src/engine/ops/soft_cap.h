#pragma once
#include "engine/ctx.h"

namespace ravine {

// y = cap * tanh(y / cap), in place; without a cap (0) nothing is done. Nothing is recorded.
void soft_cap(Ctx& c, const TensorView& y, double cap);

}  // namespace ravine
