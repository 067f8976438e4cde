// The sum of what comes one after another, in an order that does not depend on who holds what: a balanced tree, neighbours
// first, of which no more than one tensor per level is kept (a binary counter). A number of leaves that is no power of two ends
// with its last ones.
#pragma once
#include <vector>

#include "engine/ctx.h"

namespace ravine {

class LeafSums {
 public:
  // Takes the next leaf; all have one shape. Sums are written over the earlier of two.
  void add(Ctx& c, Tensor leaf);
  // The sum of all leaves since the last time; an absent tensor if there were none.
  Tensor total(Ctx& c);
  void clear() { levels_.clear(), count_ = 0; }

 private:
  void join_last(Ctx& c);
  std::vector<Tensor> levels_;  // sums of 2^k leaves, the largest first
  int64_t count_ = 0;
};

}  // namespace ravine
