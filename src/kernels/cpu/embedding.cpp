#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Writes zeros with stores that bypass the caches: most rows of a vocabulary get no gradient in a step.
HWY_INLINE void clear(const Row<float>& row, int64_t n) {
  int64_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(row.p + i) % (kLanes * 4) != 0; ++i) row.p[i] = 0;
  for (; i + kLanes <= n; i += kLanes) hn::Stream(zero(), f32s, row.p + i);
  for (; i < n; ++i) row.p[i] = 0;
}
HWY_INLINE void clear(const Row<Any>& row, int64_t n) { std::memset(row.p, 0, n * size_of(row.type)); }

// to[0, n) = scale * from[0, n).
void scale_row(const TensorView& from, int64_t row, const TensorView& to, int64_t to_row, int64_t n, float scale) {
  const Row<Any> x(from, row), y(to, to_row);
  each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { y.store(hn::Mul(all(scale), x.load(i, part)), i, part); });
}

// Sums rows [begin, end) of dweight, columns [col, col + n). The tokens of row v are order[first[v]] ..
// order[first[v+1]-1], ascending.
template <class G>
void gather_rows(const EmbeddingBackward& a, const int32_t* first, const int32_t* order, int64_t begin, int64_t end,
                 int64_t col, int64_t n) {
  const Lanes scale = all(static_cast<float>(a.scale));
  for (int64_t v = begin; v < end; ++v) {
    int64_t from = first[v], to = a.first + v == a.padding_id ? from : first[v + 1];
    if (from == to && a.accumulate) continue;
    const Row<G> row(a.dweight, v, col);
    if (from == to) {
      clear(row, n);
      continue;
    }
    auto grads = [&](int64_t t) RAVINE_LANES { return Row<Any>(a.dout, order[t], col); };
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      Lanes s = a.accumulate ? row.load(i, part) : zero();
      // Rounded before it is added. So a sum that continues in place equals the sum of its parts in any layout.
      for (int64_t t = from; t < to; ++t) s = hn::Add(s, hn::Mul(scale, grads(t).load(i, part)));
      row.store(s, i, part);
    });
  }
  hwy::FlushStream();
}

void gather(const EmbeddingBackward& a, const int32_t* first, const int32_t* order, int64_t begin, int64_t end, int64_t col,
            int64_t n) {
  if (a.dweight.dtype == DType::f32) return gather_rows<float>(a, first, order, begin, end, col, n);
  gather_rows<Any>(a, first, order, begin, end, col, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(gather);
HWY_EXPORT(scale_row);

namespace {

void check_ids(const char* op, const TensorView& ids, int64_t rows, int64_t vocabulary) {
  check_vector(op, "ids", ids, DType::i32, rows);
  for (int64_t n = 0; n < rows; ++n) {
    int32_t id = ids.as<int32_t>()[n];
    require(id >= 0 && id < vocabulary, "{}: ids[{}] is {}, the vocabulary has {}", op, n, id, vocabulary);
  }
}

void forward(const EmbeddingForward& a, void*) {
  const int64_t rows = a.out.rows(), cols = a.out.cols();
  check_rows("embedding", rows, cols, {{"out", &a.out}});
  check_rows("embedding", a.weight.rows(), cols, {{"weight", &a.weight}});
  check_ids("embedding", a.ids, rows, a.whole > 0 ? a.whole : a.weight.rows());
  auto row = [](const TensorView& v, int64_t r) { return static_cast<char*>(v.data) + r * v.stride * size_of(v.dtype); };
  for_rows(rows, cols, [&](int64_t r) {
    const int64_t at = a.ids.as<int32_t>()[r] - a.first;
    if (at < 0 || at >= a.weight.rows())
      std::memset(row(a.out, r), 0, cols * size_of(a.out.dtype));
    else if (a.scale != 1)
      HWY_DYNAMIC_DISPATCH(scale_row)(a.weight, at, a.out, r, cols, static_cast<float>(a.scale));
    else
      convert_run(a.weight.dtype, row(a.weight, at), a.out.dtype, row(a.out, r), cols);
  });
}

// Sorts tokens by id (a counting sort keeps their order), then sums each row of dweight. Tasks are parts of rows and
// columns, so that one frequent id does not delay the others.
void backward(const EmbeddingBackward& a, void* workspace) {
  const int64_t rows = a.dout.rows(), cols = a.dout.cols(), vocabulary = a.dweight.rows();
  check_rows("embedding_backward", rows, cols, {{"dout", &a.dout}});
  check_rows("embedding_backward", vocabulary, cols, {{"dweight", &a.dweight}});
  check_ids("embedding_backward", a.ids, rows, a.whole > 0 ? a.whole : vocabulary);
  auto* first = static_cast<int32_t*>(workspace);
  int32_t* order = first + vocabulary + 1;
  const int32_t* ids = a.ids.as<int32_t>();
  std::fill_n(first, vocabulary + 1, 0);
  auto at = [&](int64_t n) { return ids[n] - a.first; };
  auto here = [&](int64_t n) { return at(n) >= 0 && at(n) < vocabulary; };
  for (int64_t n = 0; n < rows; ++n)
    if (here(n)) ++first[at(n)];
  for (int64_t v = 0, sum = 0; v <= vocabulary; ++v) sum += std::exchange(first[v], static_cast<int32_t>(sum));
  // After this loop first[v] is the first index of v + 1; it is shifted back below.
  for (int64_t n = 0; n < rows; ++n)
    if (here(n)) order[first[at(n)]++] = static_cast<int32_t>(n);
  std::copy_backward(first, first + vocabulary, first + vocabulary + 1);
  first[0] = 0;
  const int64_t wide = std::min<int64_t>(cols, 512), across = ceil_div(cols, wide);
  const int64_t high = std::max<int64_t>(1, 4 * kTile / std::max<int64_t>(1, wide));
  parallel_for(ceil_div(vocabulary, high) * across, [&](int64_t i) {
    int64_t begin = i / across * high, col = i % across * wide;
    HWY_DYNAMIC_DISPATCH(gather)(a, first, order, begin, std::min(vocabulary, begin + high), col, std::min(wide, cols - col));
  });
}

}  // namespace

template <>
Kernel<EmbeddingForward> cpu_kernel() {
  return {forward, no_workspace<EmbeddingForward>};
}

template <>
Kernel<EmbeddingBackward> cpu_kernel() {
  return {backward, [](const EmbeddingBackward& a, int) { return 4 * (a.dweight.rows() + 1 + a.dout.rows()); }};
}

}  // namespace ravine
#endif
