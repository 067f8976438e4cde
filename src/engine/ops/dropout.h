#pragma once
#include "engine/ctx.h"

namespace ravine {

// Applies dropout in place: zeroes each value with the run's probability p and multiplies the others by 1 / (1 - p).
// The mask depends on (seed, path, step, sequence, position, channel) and is never stored. Outside training x is
// returned unchanged.
Tensor dropout(Ctx& c, Tensor x);

}  // namespace ravine
