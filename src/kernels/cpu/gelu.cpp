#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gelu.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// erf(z), as a rational function of degrees 13 and 8 on [-4, 4] (Eigen's), beyond which it is 1 in f32.
HWY_INLINE Lanes erf_of(Lanes z) {
  const Lanes x = hn::Clamp(z, all(-4.0f), all(4.0f)), x2 = hn::Mul(x, x);
  Lanes p = all(-2.72614225801306e-10f);
  p = hn::MulAdd(x2, p, all(2.77068142495902e-08f));
  p = hn::MulAdd(x2, p, all(-2.10102402082508e-06f));
  p = hn::MulAdd(x2, p, all(-5.69250639462346e-05f));
  p = hn::MulAdd(x2, p, all(-7.34990630326855e-04f));
  p = hn::MulAdd(x2, p, all(-2.95459980854025e-03f));
  p = hn::MulAdd(x2, p, all(-1.60960333262415e-02f));
  Lanes q = all(-1.45660718464996e-05f);
  q = hn::MulAdd(x2, q, all(-2.13374055278905e-04f));
  q = hn::MulAdd(x2, q, all(-1.68282697438203e-03f));
  q = hn::MulAdd(x2, q, all(-7.37332916720468e-03f));
  q = hn::MulAdd(x2, q, all(-1.42647390514189e-02f));
  return hn::Div(hn::Mul(x, p), q);
}

HWY_INLINE Lanes phi(Lanes x) { return hn::MulAdd(all(0.5f), erf_of(hn::Mul(x, all(0.70710678f))), all(0.5f)); }

// 2 sqrt(2/pi) (x + 0.044715 x^3): 0.5 (1 + tanh(u)) is the sigmoid of 2u. Cut where the sigmoid is 0 or 1 in f32.
HWY_INLINE Lanes twice_inner(Lanes x) {
  const Lanes u = hn::Mul(hn::Mul(x, all(1.5957691216f)), hn::MulAdd(hn::Mul(x, x), all(0.044715f), all(1.0f)));
  return hn::Clamp(u, all(-120.0f), all(120.0f));
}

template <GeluForm kForm>
HWY_INLINE Lanes gelu(Lanes x) {
  return hn::Mul(x, kForm == GeluForm::exact ? phi(x) : sigmoid(twice_inner(x)));
}

template <GeluForm kForm>
HWY_INLINE Lanes slope(Lanes x) {
  const Lanes x2 = hn::Mul(x, x);
  if constexpr (kForm == GeluForm::exact) {
    const Lanes density = hn::Mul(all(0.3989422804f), exp_negative(hn::Max(hn::Mul(all(-0.5f), x2), all(-120.0f))));
    return hn::MulAdd(x, density, phi(x));
  } else {
    const Lanes u = twice_inner(x), e = exp_negative(hn::Neg(hn::Abs(u))), below = hn::Add(all(1.0f), e);
    const Lanes s = hn::Div(hn::IfThenElse(hn::Lt(u, zero()), e, all(1.0f)), below);  // sigmoid
    const Lanes s_slope = hn::Div(e, hn::Mul(below, below));                           // s (1 - s)
    const Lanes du = hn::MulAdd(x2, all(1.5957691216f * 3 * 0.044715f), all(1.5957691216f));
    return hn::MulAdd(hn::Mul(x, s_slope), du, s);
  }
}

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
