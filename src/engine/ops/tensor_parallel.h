#pragma once
#include "engine/ctx.h"

namespace ravine {

// Around products whose weights are cut over the tensor axis (Shoeybi et al. 2019, f and g): enter is the identity forward and
// sums the gradient backward; exit sums forward and is the identity backward. With one rank both are the identity.
//
// With sequence parallelism (Korthikanti et al. 2022) the tokens of the residual stream are cut over the same ranks: enter
// gathers them forward and reduces the gradient to its part backward, exit the other way round.
Tensor tp_enter(Ctx& c, Tensor x);
Tensor tp_exit(Ctx& c, Tensor x);

// All tokens of a tensor of which every tensor rank has its part, and the part of this rank of the sum over ranks of `x`.
// Without backward.
Tensor gather_tokens(Ctx& c, const TensorView& part);
Tensor scatter_tokens(Ctx& c, const TensorView& x);

}  // namespace ravine
