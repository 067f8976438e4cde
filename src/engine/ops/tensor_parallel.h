#pragma once
#include "engine/ctx.h"

namespace ravine {

// tp_enter and tp_exit run the collectives before and after products whose weights are cut over the tensor axis
// (Shoeybi et al. 2019, f and g). enter: identity forward, sums the gradient backward. exit: sums forward, identity
// backward. With one rank both are the identity.
//
// With sequence parallelism (Korthikanti et al. 2022) the tokens of the residual stream are cut over the same ranks.
// enter: gathers tokens forward, reduces the gradient to the local part backward. exit: the reverse.
Tensor tp_enter(Ctx& c, Tensor x);
Tensor tp_exit(Ctx& c, Tensor x);

// gather_tokens returns the rows of all tokens of a tensor that is divided over tensor ranks by tokens. scatter_tokens
// returns this rank's tokens of the sum over tensor ranks of `x`. Neither has a backward pass.
Tensor gather_tokens(Ctx& c, const TensorView& part);
Tensor scatter_tokens(Ctx& c, const TensorView& x);

}  // namespace ravine
