// The ops of experts. Rows go from tokens to experts, are multiplied with the matrices of each expert, and go back to
// their tokens.
#pragma once
#include <span>

#include "engine/ops/router.h"

namespace ravine {

// Copies the rows of tokens to the experts that the router chose. x [N,C]; result [R,C], sorted by expert; zero where a
// row has no token.
Tensor to_experts(Ctx& c, const Tensor& x, const Routes& routes);
// Adds the results of experts for each token: returns [N,C], the sum of the token's rows of y [R,C].
Tensor from_experts(Ctx& c, const Tensor& y, const Routes& routes);

// Multiplies the rows of each expert with its matrix in each of `weights` [E,out,in]. x [R,in]; result [R, sum of
// outs], the products side by side. With several weights the gradient of x is in the type of statistics.
Tensor experts_linear(Ctx& c, const Tensor& x, std::span<Param* const> weights, const Routes& routes);

// Returns x [R,C] with each row multiplied by the routing weight of its token.
Tensor weighted_rows(Ctx& c, const Tensor& x, const Routes& routes);

// Adds a gated tensor (shared expert): returns a + b sigmoid(gate); gate [N,1]; a, b [N,C]. Overwrites a if no other
// handle has its memory.
Tensor gated_sum(Ctx& c, Tensor a, const Tensor& b, const Tensor& gate);

}  // namespace ravine
