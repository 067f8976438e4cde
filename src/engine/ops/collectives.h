// Sums over the ranks of a group in a fixed order: a balanced tree, neighbours first, with any communication library.
// The messages are bytes: each rank receives one piece from every rank, sums the pieces in order, and sends the sum
// back.
#pragma once
#include "engine/ctx.h"

namespace ravine {

// Sums one piece over the ranks of a group: `mine` becomes the sum over ranks of piece rank() of their `all`. `all` has
// size() pieces of the size of `mine`. `mine` may be a part of `all`. All ranks call it together.
void reduce_scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine);
// Replaces x on every rank of the group by the sum of x over these ranks. x is contiguous. All ranks call it together.
void all_reduce(Ctx& c, const Group& group, const TensorView& x);

// A sum over the ranks of a group in steps (reduce_scatter or all_reduce), so that messages are sent while the caller
// computes. step() waits for the pending message and does the next part. It returns true if the sum is complete:
// scatter after one step, whole after two. All ranks create and step their reductions in the same order. `all` or `x`
// must stay valid until the sum is complete.
class Reduction {
 public:
  static Reduction scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine);
  static Reduction whole(Ctx& c, const Group& group, const TensorView& x);
  bool step(Ctx& c);

 private:
  const Group* group_ = nullptr;
  bool scatter_ = false, summed_ = false;
  TensorView from_, to_;  // what is sent, padded; where the result is written
  int64_t count_ = 0;     // elements of a piece
  Tensor padded_, received_;
  Pending pending_;
};

}  // namespace ravine
