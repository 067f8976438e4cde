#pragma once
#include "engine/ctx.h"

namespace ravine {

// Zeroes each value with the run's dropout probability and scales the others, in place. The mask depends on (seed,
// path, step, sequence, position, channel) and is never stored. Identity outside training.
Tensor dropout(Ctx& c, Tensor x);

}  // namespace ravine
