// A strip of a matrix product: rows of a by one packed panel of b. On the calling thread; what matmul is built from.
//
// c[i, j] = sum over k < depth of a(i, k) b(k, j) for i < rows, j < cols: one chain per element in the order of k, from zero
// or, with accumulate, from what c holds; so no bit depends on how rows and columns are cut into strips. Columns are computed,
// and written, up to the next multiple of 16.
//
// strip_f32 multiplies f32, fused. strip_bf16 (machines with has_bf16_dot) takes pairs of bf16, two neighbours along k in 32
// bits, the first in the low half, and counts depth and strides in pairs: both products of a pair enter the chain.
//
// Not libxsmm's: the inner loop here is no faster, but it fetches the memory of the next strips while it computes.
#pragma once
#include <cstdint>

namespace ravine {

inline constexpr int64_t kStripCols = 64;  // of a panel: b(k, j) lies at b[k * kStripCols + j]
inline constexpr int64_t kStripRows = 96;  // what callers take at a time
inline constexpr int kStripStep = 6;       // rows computed together

// Rows of memory to bring near while computing: `rows` times `width` bytes, `pitch` bytes apart.
struct Fetch {
  const void* at = nullptr;
  int64_t rows = 0, width = 0, pitch = 0;
};

struct Strip {
  static constexpr int kFetches = 5;
  const float* a = nullptr;
  int64_t a_row = 0;     // a(i, k) lies at a[i * a_row + k]; or with
  bool a_sixes = false;  // at a[i / 6 * 6 * a_row + 6 * k + i % 6]: six rows side by side
  const float* b = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t rows = 0, cols = 0, depth = 0;  // cols <= kStripCols
  bool accumulate = false;
  Fetch fetch[kFetches];  // in this order, as far as the strip lasts: a line per two steps of six rows
};

void strip_f32(const Strip& strip);
void strip_bf16(const Strip& strip);  // bf16_dot.cpp

}  // namespace ravine
