#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gelu.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class T, GeluForm kForm>
void forward_rows(const GeluForward& a) {
  for_pieces(a.out, {&a.x, &a.out}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> x(a.x, row, col), out(a.out, row, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { out.store(gelu<kForm>(x.load(i, part)), i, part); });
  });
}

template <class T, GeluForm kForm>
void backward_rows(const GeluBackward& a) {
  for_pieces(a.dx, {&a.x, &a.dout, &a.dx}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> x(a.x, row, col), dout(a.dout, row, col), dx(a.dx, row, col);
    each_vector(n, [&](int64_t i, auto part)
                       RAVINE_LANES { dx.store(hn::Mul(dout.load(i, part), slope<kForm>(x.load(i, part))), i, part); });
  });
}

template <class T>
void forward_of(const GeluForward& a) {
  a.form == GeluForm::exact ? forward_rows<T, GeluForm::exact>(a) : forward_rows<T, GeluForm::tanh>(a);
}

template <class T>
void backward_of(const GeluBackward& a) {
  a.form == GeluForm::exact ? backward_rows<T, GeluForm::exact>(a) : backward_rows<T, GeluForm::tanh>(a);
}

void forward(const GeluForward& a) {
  if (all_are(DType::f32, {&a.x, &a.out})) return forward_of<float>(a);
  if (all_are(DType::bf16, {&a.x, &a.out})) return forward_of<bf16>(a);
  forward_of<Any>(a);
}

void backward(const GeluBackward& a) {
  if (all_are(DType::f32, {&a.x, &a.dout, &a.dx})) return backward_of<float>(a);
  if (all_are(DType::bf16, {&a.x, &a.dout, &a.dx})) return backward_of<bf16>(a);
  backward_of<Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

template <>
Kernel<GeluForward> cpu_kernel() {
  return {[](const GeluForward& a, void*) {
            check_rows("gelu", a.out.rows(), a.out.cols(), {{"x", &a.x}, {"out", &a.out}});
            HWY_DYNAMIC_DISPATCH(forward)(a);
          },
          no_workspace<GeluForward>};
}

template <>
Kernel<GeluBackward> cpu_kernel() {
  return {[](const GeluBackward& a, void*) {
            check_rows("gelu_backward", a.dx.rows(), a.dx.cols(), {{"x", &a.x}, {"dout", &a.dout}, {"dx", &a.dx}});
            HWY_DYNAMIC_DISPATCH(backward)(a);
          },
          no_workspace<GeluBackward>};
}

}  // namespace ravine
#endif
