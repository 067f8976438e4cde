#pragma once
#include <functional>

#include "engine/ctx.h"

namespace ravine {

// The tables of RoPE: cosines and sines of positions, [P,R]. A sequence of at most `limit` tokens uses `near`. A longer
// one uses `far` if it is set (LongRoPE), from its first token on; or the result of of_length (dynamic NTK): the table
// of its length, valid until the next call. interleaved: the two dims of a rotated pair are neighbours; else they are
// R/2 dims apart.
struct RopeTables {
  TensorView near, far;
  std::function<TensorView(int64_t length)> of_length;
  int64_t limit = 0;
  bool interleaved = false;
};

// Applies RoPE: rotates dims [begin, begin + R) of each head of x [N, heads*D] in place, by the batch's positions. The
// tables must outlive the backward pass. An Error if a position is beyond the table.
void rope(Ctx& c, const Tensor& x, const RopeTables& tables, int64_t heads, int64_t begin = 0);

}  // namespace ravine
