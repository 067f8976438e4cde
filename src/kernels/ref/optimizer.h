// Shared code of the reference optimizers: flat buffers, span by span in runs.
#pragma once
#include "kernels/ref/ref.h"

namespace ravine::ref {

// Returns the scalars of an optimizer step, by StepScalar (updates.h).
inline std::vector<double> step_scalars(const char* op, const TensorView& scalars) {
  require(scalars.dtype == DType::f64, "{}: scalars must be f64, got {}", op, name(scalars.dtype));
  check_vector(op, "scalars", scalars, kStepScalars);
  return load_row(scalars);
}

// Divides all spans into parts of at most 4096 elements, and calls f(span, from, n) for each, in parallel. Spans must
// not overlap.
template <class F>
void each_piece(const char* op, std::span<const UpdateSpan> spans, int64_t count, F&& f) {
  constexpr int64_t kPiece = 4096;
  for (const UpdateSpan& s : spans) {
    require(s.begin >= 0 && s.count >= 0 && s.begin <= count - s.count,
            "{}: spans must lie in [0, {}), got {} elements from {}", op, count, s.count, s.begin);
    parallel_for(ceil_div(s.count, kPiece),
                 [&](int64_t i) { f(s, s.begin + i * kPiece, std::min(kPiece, s.count - i * kPiece)); });
  }
}

// Returns a view of a contiguous tensor as one row.
inline TensorView flat(const TensorView& v) { return view_of(v.data, v.dtype, {v.count()}); }

inline std::vector<double> load_piece(const TensorView& flat, int64_t from, int64_t n) {
  std::vector<double> out(n);
  load(flat, 0, from, n, out.data());
  return out;
}

// Stores the new values p in `param` from element `from` on, and the stored values in the 16-bit copy, if there is one.
inline void store_param(const std::vector<double>& p, const TensorView& param, const TensorView& copy, int64_t from) {
  int64_t n = static_cast<int64_t>(p.size());
  store(p.data(), param, 0, from, n);
  if (!copy.absent()) store(load_piece(param, from, n).data(), flat(copy), 0, from, n);
}

}  // namespace ravine::ref
