// Sums over the ranks of a group in a fixed order: a balanced tree, neighbours first, whatever the library underneath does. As
// bytes: a piece of everything to each rank, ordered sums there, and back.
#pragma once
#include "engine/ctx.h"

namespace ravine {

// `all` has size() pieces of the size of `mine`; mine = the sum over ranks of piece rank(). `mine` may lie inside `all`.
void reduce_scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine);
// x = the sum over ranks of x, on every rank. x lies in one run of memory.
void all_reduce(Ctx& c, const Group& group, const TensorView& x);

// The same in steps, so that messages travel while the caller computes. step() waits for what is under way and does what comes
// next; the sum is there when it returns true (reduce_scatter: the first time, all_reduce: the second). All ranks make and step
// theirs in the same order. `all` or `x` must stay where it is until then.
class Reduction {
 public:
  static Reduction scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine);
  static Reduction whole(Ctx& c, const Group& group, const TensorView& x);
  bool step(Ctx& c);

 private:
  const Group* group_ = nullptr;
  bool scatter_ = false, summed_ = false;
  TensorView from_, to_;  // what is handed over, padded; where the result goes
  int64_t count_ = 0;     // elements of a piece
  Tensor padded_, received_;
  Pending pending_;
};

}  // namespace ravine
