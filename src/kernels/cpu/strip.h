// A strip of a matrix product: rows of a by one packed panel of b, on the calling thread. matmul is built from strips.
//
// c[i, j] = sum over k < depth of a(i, k) b(k, j) for i < rows, j < cols. Each element is one chain in the order of k,
// from zero or, with accumulate, from c. So no bit depends on how rows and columns are cut into strips. Columns are
// computed and written up to the next multiple of 16.
//
// strip_f32 multiplies f32, fused. strip_bf16 (machines with has_bf16_dot) takes pairs of bf16: two neighbours along k
// in 32 bits, the first in the low half. Depth and strides are in pairs; both products of a pair enter the chain.
//
// libxsmm's inner loop is as fast, but this loop also prefetches the memory of the next strips.
#pragma once
#include <cstdint>

namespace ravine {

inline constexpr int64_t kStripCols = 64;  // of a panel: b(k, j) is at b[k * kStripCols + j]
inline constexpr int64_t kStripRows = 96;  // rows that callers pass at a time
inline constexpr int kStripStep = 6;       // rows computed together

// A region of memory to prefetch during the computation: `rows` rows of `width` bytes, `pitch` bytes apart.
struct Fetch {
  const void* at = nullptr;
  int64_t rows = 0, width = 0, pitch = 0;
};

struct Strip {
  static constexpr int kFetches = 5;
  const float* a = nullptr;
  int64_t a_row = 0;     // a(i, k) is at a[i * a_row + k]
  bool a_sixes = false;  // a(i, k) is at a[i / 6 * 6 * a_row + 6 * k + i % 6]: six rows side by side
  const float* b = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t rows = 0, cols = 0, depth = 0;  // cols <= kStripCols
  bool accumulate = false;
  // The regions to prefetch, in this order, as long as the strip runs: one cache line per two steps of six rows.
  Fetch fetch[kFetches];
};

void strip_f32(const Strip& strip);
void strip_bf16(const Strip& strip);  // bf16_dot.cpp

}  // namespace ravine
