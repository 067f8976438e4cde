#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns the rows of a weight scaled to length 1, computed from the master, in the compute type. Nothing is recorded.
Tensor unit_rows(Ctx& c, const Param& weight);

}  // namespace ravine
