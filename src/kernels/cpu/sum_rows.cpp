#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sum_rows.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// X: type of x. Each chunk of rows has its own partial sum; four rows are added at a time.
template <class X>
void partial_rows(const SumRows& a, int64_t tokens, float* partial) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  parallel_for(ceil_div(rows, tokens), [&](int64_t chunk) HWY_ATTR {
    const Row<float> acc(partial + chunk * cols);
    std::memset(acc.p, 0, cols * sizeof(float));
    int64_t r = chunk * tokens;
    const int64_t end = std::min(rows, r + tokens);
    for (; r + 4 <= end; r += 4) {
      const Row<X> x0(a.x, r), x1(a.x, r + 1), x2(a.x, r + 2), x3(a.x, r + 3);
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes s = hn::Add(hn::Add(x0.load(i, part), x1.load(i, part)), hn::Add(x2.load(i, part), x3.load(i, part)));
        acc.store(hn::Add(acc.load(i, part), s), i, part);
      });
    }
    for (; r < end; ++r) {
      const Row<X> x(a.x, r);
      each_vector(cols,
                  [&](int64_t i, auto part) RAVINE_LANES { acc.store(hn::Add(acc.load(i, part), x.load(i, part)), i, part); });
    }
  });
  sum_partials(partial, ceil_div(rows, tokens), cols, a.out, a.accumulate);
}

void sum_rows(const SumRows& a, int64_t tokens, float* partial) {
  if (a.x.dtype == DType::f32) return partial_rows<float>(a, tokens, partial);
  if (a.x.dtype == DType::bf16) return partial_rows<bf16>(a, tokens, partial);
  partial_rows<Any>(a, tokens, partial);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(sum_rows);

namespace {

constexpr int64_t kTokens = 64;  // rows per partial sum

void run(const SumRows& a, void* workspace) {
  check_rows("sum_rows", a.x.rows(), a.x.cols(), {{"x", &a.x}});
  check_vector("sum_rows", "out", a.out, DType::f32, a.x.cols());
  HWY_DYNAMIC_DISPATCH(sum_rows)(a, kTokens, static_cast<float*>(workspace));
}

}  // namespace

template <>
Kernel<SumRows> cpu_kernel() {
  return {run, [](const SumRows& a, int) { return 4 * a.x.cols() * ceil_div(a.x.rows(), kTokens); }};
}

}  // namespace ravine
#endif
