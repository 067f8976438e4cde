#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/soft_cap.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class T>
void forward_rows(const SoftCapForward& a) {
  const Lanes cap = all(static_cast<float>(a.cap)), into = all(static_cast<float>(a.scale / a.cap));
  for_pieces(a.y, {&a.x, &a.y}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> x(a.x, row, col), y(a.y, row, col);
    each_vector(
        n, [&](int64_t i, auto part) RAVINE_LANES { y.store(hn::Mul(cap, tanh_of(hn::Mul(into, x.load(i, part)))), i, part); });
  });
}

template <class T>
void backward_rows(const SoftCapBackward& a) {
  const Lanes into = all(static_cast<float>(1 / a.cap)), scale = all(static_cast<float>(a.scale));
  for_pieces(a.dx, {&a.y, &a.dy, &a.dx}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> y(a.y, row, col), dy(a.dy, row, col), dx(a.dx, row, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes t = hn::Mul(into, y.load(i, part));
      dx.store(hn::Mul(hn::Mul(scale, dy.load(i, part)), hn::NegMulAdd(t, t, all(1.0f))), i, part);
    });
  });
}

void forward(const SoftCapForward& a) {
  if (all_are(DType::f32, {&a.x, &a.y})) return forward_rows<float>(a);
  forward_rows<Any>(a);
}

void backward(const SoftCapBackward& a) {
  if (all_are(DType::f32, {&a.y, &a.dy, &a.dx})) return backward_rows<float>(a);
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
Kernel<SoftCapForward> cpu_kernel() {
  return {[](const SoftCapForward& a, void*) {
            check_rows(a.name, a.y.rows(), a.y.cols(), {{"x", &a.x}, {"y", &a.y}});
            require(a.cap > 0, "{}: cap must be above 0, got {}", a.name, a.cap);
            HWY_DYNAMIC_DISPATCH(forward)(a);
          },
          no_workspace<SoftCapForward>};
}

template <>
Kernel<SoftCapBackward> cpu_kernel() {
  return {[](const SoftCapBackward& a, void*) {
            check_rows(a.name, a.dx.rows(), a.dx.cols(), {{"y", &a.y}, {"dy", &a.dy}, {"dx", &a.dx}});
            require(a.cap > 0, "{}: cap must be above 0, got {}", a.name, a.cap);
            HWY_DYNAMIC_DISPATCH(backward)(a);
          },
          no_workspace<SoftCapBackward>};
}

}  // namespace ravine
#endif
