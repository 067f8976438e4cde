#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns the weight's rows scaled to length 1, from the master, in the compute type. Nothing is recorded.
Tensor unit_rows(Ctx& c, const Param& weight);

}  // namespace ravine
