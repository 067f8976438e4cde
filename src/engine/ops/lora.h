#pragma once
#include <span>

#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Adds the outputs of LoRA adapters to the output of a linear layer: y += scale * dropout(x) A^T B^T for each adapter,
// in place. Called right after the product of x with the weights has made y. x is kept for the gradient of A. Each
// adapter has its own dropout mask, which depends on (seed, path and adapter, step, sequence, position, channel).
//
// Over tensor ranks: if outputs are cut (so is B), x is whole, and each rank has a part of the gradient of A. If inputs
// are cut (so is A), each rank has a part of x A^T. In both cases the small [N, r] is summed over ranks; under sequence
// parallelism the store sums instead. If nothing is cut, x are the local rows of the residual stream, and each rank has
// the gradient of these rows.
void lora(Ctx& c, const Tensor& x, const Tensor& y, const LoraAdapters& adapters, std::span<Param* const> weights, Split split);

// Adds the outputs of LoRA adapters of other models to y, in generation: each row uses the adapters that
// Batch::adapters names for it. y of all rows is from one product with `weights`. There is no dropout, and nothing is
// recorded.
void lora_of_rows(Ctx& c, const TensorView& x, const TensorView& y, std::span<Param* const> weights, Split split);

// Returns h B^T in the residual type: the addend of a LoRA adapter to the output of an embedding. h [N, r] are rows of
// its A, already scaled. B is [C, r], whole on every tensor rank.
Tensor low_rank_up(Ctx& c, const Tensor& h, Param& b);

}  // namespace ravine
