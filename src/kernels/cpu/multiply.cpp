#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/multiply.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class T>
void multiply_rows(const Multiply& a) {
  const Lanes scale = all(static_cast<float>(a.scale));
  for_pieces(a.out, {&a.a, &a.b, &a.out}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> x(a.a, row, col), y(a.b, row, col), out(a.out, row, col);
    if (a.b.absent())
      return each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { out.store(hn::Mul(scale, x.load(i, part)), i, part); });
    each_vector(n, [&](int64_t i, auto part)
                       RAVINE_LANES { out.store(hn::Mul(scale, hn::Mul(x.load(i, part), y.load(i, part))), i, part); });
  });
}

void multiply(const Multiply& a) {
  if (all_are(DType::f32, {&a.a, &a.b, &a.out})) return multiply_rows<float>(a);
  if (all_are(DType::bf16, {&a.a, &a.b, &a.out})) return multiply_rows<bf16>(a);
  multiply_rows<Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(multiply);

template <>
Kernel<Multiply> cpu_kernel() {
  return {[](const Multiply& a, void*) {
            check_rows("multiply", a.out.rows(), a.out.cols(), {{"a", &a.a}, {"b", &a.b}, {"out", &a.out}});
            HWY_DYNAMIC_DISPATCH(multiply)(a);
          },
          no_workspace<Multiply>};
}

}  // namespace ravine
#endif
