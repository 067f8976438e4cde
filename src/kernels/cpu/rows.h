// Shared code of the row-wise kernels of the cpu backend. Memory limits the speed of these kernels. So each makes one
// pass, in vectors of the widest instruction set (Highway's run-time dispatch), in parallel over tiles that depend on
// shapes only.
//
// Type combinations of a training step have their own compiled code. Every other combination of f32, bf16 and f16 uses
// the same code with a branch per vector (Any in lanes-inl.h). kernels/kernels.h has the contracts.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "base/parallel.h"
#include "kernels/cpu/cpu.h"

namespace ravine {

// Converts n elements from f32, bf16 or f16 to any of these types, rounded to nearest even; on the calling thread
// (cast.cpp).
void convert_run(DType from, const void* in, DType to, void* out, int64_t n);

// The number of elements of a tile: small enough for the first two caches, large enough to hide the cost of a task.
inline constexpr int64_t kTile = 16384;

template <class Args>
int64_t no_workspace(const Args&, int) {
  return 0;
}

// True if all views have this type; absent views are ignored.
inline bool all_are(DType t, std::initializer_list<const TensorView*> views) {
  return std::all_of(views.begin(), views.end(), [&](const TensorView* v) { return v->absent() || v->dtype == t; });
}

// Checks the shapes and types of views. An Error if a view is present and does not have rows x cols elements of a type
// that Lanes loads (f32, bf16, f16).
void check_rows(const char* op, int64_t rows, int64_t cols,
                std::initializer_list<std::pair<const char*, const TensorView*>> views);
// Checks that v is a vector of n elements of type t; else an Error. `op` and `what` name it in the message.
void check_vector(const char* op, const char* what, const TensorView& v, DType t, int64_t n);

// widened returns a weight [cols] in f32: the weight itself, or a converted copy at the beginning of the workspace,
// which takes widened_bytes. Null if the weight is absent.
int64_t widened_bytes(const TensorView& weight);
const float* widened(const TensorView& weight, void* workspace);

// Calls f(row) for each row, in parallel over blocks of rows.
template <class F>
void for_rows(int64_t rows, int64_t cols, F&& f) {
  int64_t block = std::max<int64_t>(1, kTile / std::max<int64_t>(1, cols));
  parallel_for(ceil_div(rows, block), [&](int64_t b) {
    for (int64_t r = b * block, end = std::min(rows, r + block); r < end; ++r) f(r);
  });
}

// Calls f(row, col, n) for parts of rows that together cover the views once, in parallel. Views without gaps are one
// long row.
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
