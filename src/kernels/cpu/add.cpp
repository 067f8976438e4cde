#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/add.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class A, class B, class O>
void add_rows(const Add& a) {
  for_pieces(a.out, {&a.a, &a.b, &a.out}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    Row<A> x(a.a, row, col);
    Row<B> y(a.b, row, col);
    Row<O> out(a.out, row, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { out.store(hn::Add(x.load(i, part), y.load(i, part)), i, part); });
  });
}

void add(const Add& a) {
  if (all_are(DType::f32, {&a.a, &a.out})) {
    if (a.b.dtype == DType::f32) return add_rows<float, float, float>(a);
    if (a.b.dtype == DType::bf16) return add_rows<float, bf16, float>(a);
  }
  if (all_are(DType::bf16, {&a.a, &a.b, &a.out})) return add_rows<bf16, bf16, bf16>(a);
  add_rows<Any, Any, Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(add);

template <>
Kernel<Add> cpu_kernel() {
  return {[](const Add& a, void*) {
            check_rows("add", a.out.rows(), a.out.cols(), {{"a", &a.a}, {"b", &a.b}, {"out", &a.out}});
            HWY_DYNAMIC_DISPATCH(add)(a);
          },
          no_workspace<Add>};
}

}  // namespace ravine
#endif
