#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns a + b, elementwise; a and b have one shape and type. Overwrites a if no other handle has its memory. Consumes
// both.
Tensor add(Ctx& c, Tensor a, Tensor b);

}  // namespace ravine
