#pragma once
#include <span>

#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// y += scale * dropout(x) A^T B^T for each adapter, in place; right after the product of x with the weights has made y. x is
// kept for the gradient of A; of dropout, whose mask follows from (seed, path and adapter, step, sequence, position, channel),
// each adapter has its own. Over tensor ranks: where outputs are cut (B is), x is whole, and each rank has a part of what A
// learns; where inputs are cut (A is), each rank has a part of x A^T: the small [N, r] is summed, or under sequence parallelism
// the store sums. Where nothing is cut, x are the rows of the residual stream that are here, and each rank learns all that they
// give.
void lora(Ctx& c, const Tensor& x, const Tensor& y, const LoraAdapters& adapters, std::span<Param* const> weights, Split split);

// The same, each row by the adapters that Batch::adapters names for it, beside the one product that has made y of all rows.
// For generation only: nothing drops or is recorded.
void lora_of_rows(Ctx& c, const TensorView& x, const TensorView& y, std::span<Param* const> weights, Split split);

// h B^T in the residual type, what an adapter adds to the output of an embedding: h [N, r] are rows of its A, already scaled; B
// is [C, r], whole on every tensor rank.
Tensor low_rank_up(Ctx& c, const Tensor& h, Param& b);

}  // namespace ravine
