// Sums tensors in a fixed order that does not depend on the distribution over ranks: a balanced tree, neighbours first.
// At most one tensor per level is kept (a binary counter). If the number of leaves is not a power of two, the remaining
// levels are added last, the smallest first.
#pragma once
#include <vector>

#include "engine/ctx.h"

namespace ravine {

class LeafSums {
 public:
  // Adds the tensor of the next leaf to the sum; all tensors have one shape. The sum of two tensors is written over the
  // earlier one.
  void add(Ctx& c, Tensor leaf);
  // Returns the sum of all tensors added since the last call, and starts a new sum; an absent tensor if none was added.
  Tensor total(Ctx& c);
  void clear() { levels_.clear(), count_ = 0; }

 private:
  void join_last(Ctx& c);
  std::vector<Tensor> levels_;  // sums of 2^k leaves, the largest first
  int64_t count_ = 0;
};

}  // namespace ravine
