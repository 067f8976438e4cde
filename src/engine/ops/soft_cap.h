#pragma once
#include "engine/ctx.h"

namespace ravine {

// y = cap * tanh(y / cap), in place; cap = 0 does nothing. Nothing is recorded.
void soft_cap(Ctx& c, const TensorView& y, double cap);

}  // namespace ravine
