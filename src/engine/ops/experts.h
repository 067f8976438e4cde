// What experts do with the rows that a router gave them: rows go to experts, through products with the matrices of each, and
// back to their tokens.
#pragma once
#include <span>

#include "engine/ops/router.h"

namespace ravine {

// Rows of experts: [R,C] from x [N,C]; zero where no token is.
Tensor to_experts(Ctx& c, const Tensor& x, const Routes& routes);
// [N,C]: of each token the sum of its rows of y [R,C].
Tensor from_experts(Ctx& c, const Tensor& y, const Routes& routes);

// y [R, sum of outs]: the rows of an expert times its matrix of each of `weights` [E,out,in], side by side. With several the
// gradient of x is in the type of statistics.
Tensor experts_linear(Ctx& c, const Tensor& x, std::span<Param* const> weights, const Routes& routes);

// x [R,C], each row times the weight that its token gives it.
Tensor weighted_rows(Ctx& c, const Tensor& x, const Routes& routes);

// a + b sigmoid(gate), gate [N,1]; a, b [N,C]. Takes the memory of a where nobody else holds it.
Tensor gated_sum(Ctx& c, Tensor a, const Tensor& b, const Tensor& gate);

}  // namespace ravine
