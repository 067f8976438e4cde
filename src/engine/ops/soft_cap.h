#pragma once
#include "engine/ctx.h"

namespace ravine {

// Caps values in place: y = cap * tanh(y / cap); cap = 0 does nothing. Nothing is recorded.
void soft_cap(Ctx& c, const TensorView& y, double cap);

}  // namespace ravine
