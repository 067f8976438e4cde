#pragma once
#include <span>
#include <vector>

#include "engine/ctx.h"

namespace ravine {

// The adapters of one linear layer (Hu et al. 2021, as PEFT defines them). A is [r, in] each, side by side in memory; B is
// [out, r] for each run of outputs.
struct LoraAdapters {
  struct Up {
    size_t adapter;  // whose A it goes with
    Param* b;
    size_t weight;  // of the layer's joined weights: the outputs that it adds to
  };
  std::vector<Param*> a;
  std::vector<double> scale;  // of each A
  std::vector<Up> ups;        // in order of the adapters
  std::vector<double> dropout;
  bool empty() const { return a.empty(); }
};

// y += scale * dropout(x) A^T B^T for each adapter, in place; right after linear(c, x, weights, ..) has made y. x is kept for
// the gradient of A; of dropout, whose mask follows from (seed, path and adapter, step, sequence, position, channel), each
// adapter has its own. Over tensor ranks: where outputs are cut (B is), x is whole, and each rank has a part of what A learns;
// where inputs are cut (A is), each rank has a part of x A^T: the small [N, r] is summed, or under sequence parallelism the
// store sums. Where nothing is cut, x are the rows of the residual stream that are here, and each rank learns all that they
// give.
enum class Split : uint8_t { columns, rows, none };  // a weight [out, in] over tensor ranks: its outputs, its inputs, nothing
void lora(Ctx& c, const Tensor& x, const Tensor& y, const LoraAdapters& adapters, std::span<Param* const> weights, Split split);

// h B^T in the residual type, what an adapter adds to the output of an embedding: h [N, r] are rows of its A, already scaled; B
// is [C, r], whole on every tensor rank.
Tensor low_rank_up(Ctx& c, const Tensor& h, Param& b);

}  // namespace ravine
