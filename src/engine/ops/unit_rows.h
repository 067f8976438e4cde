#pragma once
#include "engine/ctx.h"

namespace ravine {

// The weight's rows at length 1, from the masters, in the compute type. Nothing is recorded.
Tensor unit_rows(Ctx& c, const Param& weight);

}  // namespace ravine
