#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sum_squares.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include <mutex>

#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Returns the sum of squares of at most 1024 elements; squares of f32 are exact in double. Zeros at the end do not
// change the sum: the padding of a buffer depends on the number of data ranks.
double square_sum(const float* x, int64_t n) {
  using F64 = hn::ScalableTag<double>;
  const F64 f64s;
  const hn::Rebind<float, F64> half;
  constexpr int64_t kStep = hn::MaxLanes(F64());
  auto s0 = hn::Zero(f64s), s1 = s0, s2 = s0, s3 = s0;
  auto add = [&](auto& s, const float* p) RAVINE_LANES {
    const auto v = hn::PromoteTo(f64s, hn::LoadU(half, p));
    s = hn::MulAdd(v, v, s);
  };
  constexpr int64_t kAhead = 512;  // elements; the hardware prefetcher stops at the end of a page
  int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    __builtin_prefetch(x + i + kAhead), __builtin_prefetch(x + i + kAhead + 2 * kStep);
    add(s0, x + i), add(s1, x + i + kStep), add(s2, x + i + 2 * kStep), add(s3, x + i + 3 * kStep);
  }
  if (i < n) {
    float rest[4 * kStep] = {};
    std::memcpy(rest, x + i, (n - i) * sizeof(float));
    add(s0, rest), add(s1, rest + kStep), add(s2, rest + 2 * kStep), add(s3, rest + 3 * kStep);
  }
  return hn::GetLane(hn::SumOfLanes(f64s, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

void sum_squares(const TensorView& x, int64_t begin, int64_t end, ExactSum& result) {
  constexpr int64_t kRun = 1024;
  HWY_ALIGN float wide[kRun];
  for (int64_t i = begin; i < end; i += kRun) {
    const int64_t n = std::min(kRun, end - i);
    if (x.dtype == DType::f32) {
      result.add(square_sum(x.as<float>() + i, n));
    } else {
      const Row<Any> from(x, 0, i);
      const Row<float> to(wide);
      each_vector(n, [&](int64_t j, auto part) RAVINE_LANES { to.store(from.load(j, part), j, part); });
      result.add(square_sum(wide, n));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(sum_squares);

namespace {

void run(const SumSquares& a, void*) {
  check_rows("sum_squares", a.x.rows(), a.x.cols(), {{"x", &a.x}});
  require(a.x.contiguous() && a.result, "sum_squares: x must be without gaps and have a result");
  const int64_t count = a.x.count(), block = 8 * kTile;
  std::mutex mutex;  // the sum is exact, so the order of blocks does not matter
  parallel_for(ceil_div(count, block), [&](int64_t b) {
    ExactSum mine;
    HWY_DYNAMIC_DISPATCH(sum_squares)(a.x, b * block, std::min(count, (b + 1) * block), mine);
    std::lock_guard lock(mutex);
    a.result->add(mine);
  });
}

}  // namespace

template <>
Kernel<SumSquares> cpu_kernel() {
  return {run, no_workspace<SumSquares>};
}

}  // namespace ravine
#endif
