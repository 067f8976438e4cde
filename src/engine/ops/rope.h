#pragma once
#include <functional>

#include "engine/ctx.h"

namespace ravine {

// Tables [P,R] of angles. With `far` (LongRoPE), sequences of more than `limit` tokens take that one from their first token on,
// others `near`. With `of_length` (dynamic NTK) a sequence of more than `limit` tokens takes the table of its own length, which
// stays until the next call. interleaved: neighbours are a pair, not dims half a rotation apart.
struct RopeTables {
  TensorView near, far;
  std::function<TensorView(int64_t length)> of_length;
  int64_t limit = 0;
  bool interleaved = false;
};

// Rotates x [N, heads*D] in place by the batch's positions: dims [begin, begin + R) of each head. The tables must outlive the
// backward pass.
void rope(Ctx& c, const Tensor& x, const RopeTables& tables, int64_t heads, int64_t begin = 0);

}  // namespace ravine
