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

// out[i * ld + j] = x[i] . w[j] for kA rows of x and kB rows of w: kA * kB chains of additions hide each other's latency.
template <int kA, int kB, class T>
HWY_INLINE void dots(const float* x, const T* w, int64_t stride, int64_t k, float* out, int64_t ld) {
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
      const Lanes a = Row<float>(const_cast<float*>(x) + i * k).load(p, part);
#pragma GCC unroll 8
      for (int j = 0; j < kB; ++j) sum[i][j] = hn::MulAdd(a, b[j], sum[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + kLanes <= k; p += kLanes) step(p, Full{});
  if (p < k) step(p, Part{k - p});
#pragma GCC unroll 8
  for (int i = 0; i < kA; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j) out[i * ld + j] = hn::GetLane(hn::SumOfLanes(f32s, sum[i][j]));
}

template <int kB, class T>
void dots_of_rows(const float* x, int64_t m, const T* w, int64_t stride, int64_t k, float* out, int64_t ld) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) dots<4, kB>(x + i * k, w, stride, k, out + i * ld, ld);
  if (i + 2 <= m) dots<2, kB>(x + i * k, w, stride, k, out + i * ld, ld), i += 2;
  if (i < m) dots<1, kB>(x + i * k, w, stride, k, out + i * ld, ld);
}

template <class T>
void product(const Matmul& a, const float* bias, const float* x) {
  const int64_t m = a.m(), n = a.n(), k = a.k();
  constexpr int64_t kCols = 64;
  const int64_t cols = std::clamp<int64_t>(65536 / std::max<int64_t>(k, 1) / 4 * 4, 4, kCols);
  parallel_for(ceil_div(n, cols), [&](int64_t task) HWY_ATTR {
    const int64_t from = task * cols, count = std::min(cols, n - from);
    float sums[kSkinnyRows * kCols];
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) dots_of_rows<4>(x, m, a.b.row<T>(from + j), a.b.stride, k, sums + j, kCols);
    for (; j < count; ++j) dots_of_rows<1>(x, m, a.b.row<T>(from + j), a.b.stride, k, sums + j, kCols);
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
  pack_copy(a.a, a.m(), a.k(), wide_a, a.k());
  HWY_DYNAMIC_DISPATCH(skinny)(a, bias, wide_a);
}

}  // namespace ravine
#endif
