#pragma once
#include <span>
#include <vector>

#include "engine/ops/lora.h"

namespace ravine {

// What a linear layer multiplies by: weights and biases that are joined in memory (no biases: none), and what its adapters add.
struct LinearParams {
  std::vector<Param*> weights, biases;
  LoraAdapters adapters;
};

// y = x W^T + b, where W is the rows of `weights` one under the other (they are joined in memory) and b likewise (may be
// empty). x [N, in]; y [N, sum of outs] in the compute type. A frozen W does not keep x. partial: the result is summed over
// tensor ranks afterwards, so the first of them adds the bias.
Tensor linear(Ctx& c, const Tensor& x, std::span<Param* const> weights, std::span<Param* const> biases, bool partial = false);

// The joined view of params that lie side by side, from the view of the first.
TensorView joined(Ctx& c, TensorView first, std::span<Param* const> params);

// The joined gradient of params that lie side by side; each of them is marked as written.
TensorView joined_grad(Ctx& c, std::span<Param* const> params, bool& accumulate);

// logits [N,V] of all rows, in f32 (f64 where the run is f64): for trace and generation only, training never makes them.
// head, unit_rows, cap: as in loss_head.
Tensor logits(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows = false, double cap = 0);

// y = cap * tanh(y / cap), in place; without a cap (0) nothing is done. Nothing is recorded.
void soft_cap(Ctx& c, const TensorView& y, double cap);

// The weight's rows at length 1, from the masters, in the compute type. Nothing is recorded.
Tensor unit_rows(Ctx& c, const Param& weight);

}  // namespace ravine
