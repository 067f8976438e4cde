// Shared code of the optimizers: checks of their flat buffers, and the loop over spans.
#pragma once
#include <vector>

#include "kernels/cpu/rows.h"

namespace ravine {

// Checks the arguments of an optimizer kernel. An Error unless param and states (optional) are f32 and of one length.
// grad and copy may have any type that Lanes loads.
inline void check_update(const char* op, const TensorView& param, const TensorView& grad, const TensorView& copy,
                         const TensorView& scalars, std::span<const UpdateSpan> spans,
                         std::initializer_list<std::pair<const char*, const TensorView*>> states) {
  const int64_t n = param.count();
  check_vector(op, "param", param, DType::f32, n);
  for (auto [what, v] : states)
    if (!v->absent()) check_vector(op, what, *v, DType::f32, n);
  for (const TensorView* v : {&grad, &copy}) {
    require(v->absent() || (v->count() == n && v->contiguous()), "{}: grad or copy is {}, expected {} elements", op,
            v->shape.text(), n);
    check_rows(op, v->rows(), v->cols(), {{"grad or copy", v}});
  }
  require(scalars.dtype == DType::f64 && scalars.count() == kStepScalars, "{}: scalars are {}", op, scalars.shape.text());
  for (const UpdateSpan& s : spans)
    require(s.begin >= 0 && s.count >= 0 && s.begin <= n - s.count, "{}: span [{}, +{}) of {} elements", op, s.begin, s.count,
            n);
}

// Divides all spans into tiles of at most kTile elements, and calls f(span, begin, n) for each, in parallel.
template <class F>
void for_spans(std::span<const UpdateSpan> spans, F&& f) {
  std::vector<int64_t> first(spans.size() + 1, 0);  // number of the first tile of each span
  for (size_t i = 0; i < spans.size(); ++i) first[i + 1] = first[i] + ceil_div(spans[i].count, kTile);
  parallel_for(first.back(), [&](int64_t tile) {
    const size_t i = std::upper_bound(first.begin(), first.end(), tile) - first.begin() - 1;
    const int64_t from = (tile - first[i]) * kTile;
    f(spans[i], spans[i].begin + from, std::min(kTile, spans[i].count - from));
  });
}

}  // namespace ravine
