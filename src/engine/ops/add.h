#pragma once
#include "engine/ctx.h"

namespace ravine {

// a + b, of one shape and type, in the place of a if nobody else holds it. Consumes both.
Tensor add(Ctx& c, Tensor a, Tensor b);

}  // namespace ravine
