// What the kernels of the cpu backend that go row by row share. They are bound by memory: one pass, in vectors
// of the widest instruction set the machine has (Highway's run-time dispatch), in parallel over tiles that depend on shapes
// only.
//
// Mixes of types that a training step has are compiled for themselves; every other mix of f32, bf16 and f16 goes through the
// same code with a branch per vector (Any in lanes-inl.h). Contracts: kernels/kernels.h.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "base/parallel.h"
#include "kernels/cpu/cpu.h"

namespace ravine {

// n elements from one of f32, bf16, f16 to another (or the same), rounded to nearest even; on the calling thread (cast.cpp).
void convert_run(DType from, const void* in, DType to, void* out, int64_t n);

// Elements of a tile: small enough for the first two caches, large enough to hide the cost of handing it out.
inline constexpr int64_t kTile = 16384;

template <class Args>
int64_t no_workspace(const Args&, int) {
  return 0;
}

// All views have this type (absent ones do not count).
inline bool all_are(DType t, std::initializer_list<const TensorView*> views) {
  return std::all_of(views.begin(), views.end(), [&](const TensorView* v) { return v->absent() || v->dtype == t; });
}

// Each view that is there has rows x cols elements of a type that lanes know.
void check_rows(const char* op, int64_t rows, int64_t cols,
                std::initializer_list<std::pair<const char*, const TensorView*>> views);
// A vector of n elements.
void check_vector(const char* op, const char* what, const TensorView& v, DType t, int64_t n);

// A weight [cols] in f32: itself, or widened into the beginning of the workspace, which needs so many bytes for it. Absent:
// null.
int64_t widened_bytes(const TensorView& weight);
const float* widened(const TensorView& weight, void* workspace);

// f(row) for each row, in blocks of rows.
template <class F>
void for_rows(int64_t rows, int64_t cols, F&& f) {
  int64_t block = std::max<int64_t>(1, kTile / std::max<int64_t>(1, cols));
  parallel_for(ceil_div(rows, block), [&](int64_t b) {
    for (int64_t r = b * block, end = std::min(rows, r + block); r < end; ++r) f(r);
  });
}

// f(row, col, n) over pieces of rows that together cover the views once. Views without gaps are taken as one long row.
template <class F>
void for_pieces(const TensorView& shape, std::initializer_list<const TensorView*> views, F&& f) {
  int64_t rows = shape.rows(), cols = shape.cols();
  bool flat = std::all_of(views.begin(), views.end(), [](const TensorView* v) { return v->absent() || v->contiguous(); });
  if (flat) cols *= rows, rows = std::min<int64_t>(rows, 1);
  if (rows == 0 || cols == 0) return;
  int64_t wide = std::min(cols, kTile), across = ceil_div(cols, wide), high = std::max<int64_t>(1, kTile / wide);
  parallel_for(ceil_div(rows, high) * across, [&](int64_t i) {
    int64_t col = (i % across) * wide, n = std::min(wide, cols - col);
    for (int64_t r = i / across * high, end = std::min(rows, r + high); r < end; ++r) f(r, col, n);
  });
}

}  // namespace ravine
