#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/unit_rows.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class X>
HWY_INLINE double norm_of(const Row<X>& x, int64_t cols) {
  return std::sqrt(static_cast<double>(sum_of(cols, [&](Lanes acc, int64_t i, auto part) RAVINE_LANES {
    const Lanes v = x.load(i, part);
    return hn::MulAdd(v, v, acc);
  })));
}

template <class X, class O>
void forward_rows(const UnitRowsForward& a) {
  const int64_t cols = a.x.cols();
  for_rows(a.x.rows(), cols, [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r);
    const Row<O> out(a.out, r);
    const Lanes by = all(static_cast<float>(1 / std::max(norm_of(x, cols), kLeastNorm)));
    each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES { out.store(hn::Mul(x.load(i, part), by), i, part); });
  });
}

template <class X>
void backward_rows(const UnitRowsBackward& a) {
  const int64_t cols = a.x.cols();
  for_rows(a.x.rows(), cols, [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r), dout(a.dout, r), dx(a.dx, r);
    const double norm = norm_of(x, cols);
    const Lanes by = all(static_cast<float>(1 / std::max(norm, kLeastNorm)));
    const float product = sum_of(cols, [&](Lanes s, int64_t i, auto part) RAVINE_LANES {
      return hn::MulAdd(hn::Mul(x.load(i, part), by), dout.load(i, part), s);
    });
    const Lanes dot = norm < kLeastNorm ? zero() : all(product);
    each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes rest = hn::NegMulAdd(hn::Mul(x.load(i, part), by), dot, dout.load(i, part));
      const Lanes mine = hn::Mul(
          // Rounded before it is added, so a gradient does not depend on where its parts are added.
          by, rest);
      dx.store(a.accumulate ? hn::Add(dx.load(i, part), mine) : mine, i, part);
    });
  });
}

void forward(const UnitRowsForward& a) {
  if (all_are(DType::f32, {&a.x, &a.out})) return forward_rows<float, float>(a);
  if (all_are(DType::f32, {&a.x}) && all_are(DType::bf16, {&a.out})) return forward_rows<float, bf16>(a);
  forward_rows<Any, Any>(a);
}

void backward(const UnitRowsBackward& a) {
  if (all_are(DType::f32, {&a.x, &a.dout, &a.dx})) return backward_rows<float>(a);
  backward_rows<Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

template <>
Kernel<UnitRowsForward> cpu_kernel() {
  return {[](const UnitRowsForward& a, void*) {
            check_rows("unit_rows", a.x.rows(), a.x.cols(), {{"x", &a.x}, {"out", &a.out}});
            HWY_DYNAMIC_DISPATCH(forward)(a);
          },
          no_workspace<UnitRowsForward>};
}

template <>
Kernel<UnitRowsBackward> cpu_kernel() {
  return {[](const UnitRowsBackward& a, void*) {
            check_rows("unit_rows_backward", a.x.rows(), a.x.cols(), {{"x", &a.x}, {"dout", &a.dout}, {"dx", &a.dx}});
            HWY_DYNAMIC_DISPATCH(backward)(a);
          },
          no_workspace<UnitRowsBackward>};
}

}  // namespace ravine
#endif
