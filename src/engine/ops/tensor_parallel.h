#pragma once
#include "engine/ctx.h"

namespace ravine {

// Around products whose weights are cut over the tensor axis (Shoeybi et al. 2019, f and g): enter is the identity forward and sums
// the gradient backward; exit sums forward and is the identity backward. With one rank both are the identity.
Tensor tp_enter(Ctx& c, Tensor x);
Tensor tp_exit(Ctx& c, Tensor x);

}  // namespace ravine
