#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/skinny.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/skinny.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

constexpr int64_t kTaskBytes = 1 << 17;  // bytes of the weight that a task reads, approximately
// Elements of rows of x that all columns of a task read in turn: they stay in the first-level cache.
constexpr int64_t kDepth = 1024;

// Returns the number of columns computed together for this number of rows. Their sums fit into the registers, and are
// enough to hide latency.
constexpr int columns_at_once(int rows) {
  if (kLanes >= 16) return rows <= 4 ? 4 : 3;
  return rows <= 2 ? 4 : rows <= 4 ? 3 : 1;
}

// out[i * ld + j] (+)= x[i] . w[j] for kA rows of x and kB rows of w, which are read once. The next kB rows are
// prefetched: with many rows of x the hardware does not look that far ahead.
template <int kA, int kB, class T>
HWY_INLINE void dots(const float* x, int64_t ldx, const T* w, int64_t stride, int64_t k, bool add, float* out, int64_t ld) {
  Lanes sum[kA][kB];
#pragma GCC unroll 8
  for (auto& row : sum)
#pragma GCC unroll 8
    for (auto& s : row) s = zero();
  auto step = [&](int64_t p, auto part) RAVINE_LANES {
    Lanes b[kB];
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j) b[j] = Row<T>(const_cast<T*>(w) + j * stride).load(p, part);
#pragma GCC unroll 8
    for (int i = 0; i < kA; ++i) {
      const Lanes a = Row<float>(const_cast<float*>(x) + i * ldx).load(p, part);
#pragma GCC unroll 8
      for (int j = 0; j < kB; ++j) sum[i][j] = hn::MulAdd(a, b[j], sum[i][j]);
    }
  };
  constexpr int64_t kLine = 64 / sizeof(T);  // elements
  int64_t p = 0;
  for (; p + kLine <= k; p += kLine) {
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j) __builtin_prefetch(w + (kB + j) * stride + p);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kLine; i += kLanes) step(p + i, Full{});
  }
  for (; p + kLanes <= k; p += kLanes) step(p, Full{});
  if (p < k) step(p, Part{k - p});
#pragma GCC unroll 8
  for (int i = 0; i < kA; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j)
      out[i * ld + j] = (add ? out[i * ld + j] : 0.0f) + hn::GetLane(hn::SumOfLanes(f32s, sum[i][j]));
}

template <int kA, class T>
void rows_of(const float* x, int64_t ldx, const T* w, int64_t stride, int64_t count, int64_t k, bool add, float* out,
             int64_t ld) {
  constexpr int kB = columns_at_once(kA);
  int64_t j = 0;
  for (; j + kB <= count; j += kB) dots<kA, kB>(x, ldx, w + j * stride, stride, k, add, out + j, ld);
  for (; j < count; ++j) dots<kA, 1>(x, ldx, w + j * stride, stride, k, add, out + j, ld);
}

template <class T>
void product(const Matmul& a, const float* bias, const float* x) {
  constexpr decltype(&rows_of<1, T>) kByRows[] = {rows_of<1, T>, rows_of<2, T>, rows_of<3, T>, rows_of<4, T>,
                                                  rows_of<5, T>, rows_of<6, T>, rows_of<7, T>, rows_of<8, T>};
  static_assert(std::size(kByRows) == kSkinnyRows);
  const int64_t m = a.m(), n = a.n(), k = a.k();
  // Columns of a task at most: a multiple of every number of columns computed together.
  constexpr int64_t kCols = 48;
  const int64_t cols = std::clamp<int64_t>(kTaskBytes / sizeof(T) / std::max<int64_t>(k, 1) / 12 * 12, 12, kCols);
  const int64_t pitch = skinny_pitch(k);
  parallel_for(ceil_div(n, cols), [&](int64_t task) HWY_ATTR {
    const int64_t from = task * cols, count = std::min(cols, n - from);
    float sums[kSkinnyRows * kCols] = {};
    for (int64_t p = 0; p < k; p += kDepth)
      kByRows[m - 1](x + p, pitch, a.b.row<T>(from) + p, a.b.stride, count, std::min(kDepth, k - p), p > 0, sums, kCols);
    unpack(sums, kCols, m, count, bias ? bias + from : nullptr, a.accumulate, Corner(a.out, 0, from));
  });
}

void skinny(const Matmul& a, const float* bias, const float* x) {
  if (a.b.dtype == DType::f32) return product<float>(a, bias, x);
  if (a.b.dtype == DType::bf16) return product<bf16>(a, bias, x);
  product<f16>(a, bias, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(skinny);

void skinny_product(const Matmul& a, const float* bias, float* wide_a) {
  pack_copy(a.a, a.m(), a.k(), wide_a, skinny_pitch(a.k()));
  HWY_DYNAMIC_DISPATCH(skinny)(a, bias, wide_a);
}

}  // namespace ravine
#endif
