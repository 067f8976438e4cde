// GELU and its derivative in vectors. Compiled once per instruction set, like lanes-inl.h.
#if defined(RAVINE_KERNELS_CPU_GELU_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RAVINE_KERNELS_CPU_GELU_INL_H
#undef RAVINE_KERNELS_CPU_GELU_INL_H
#else
#define RAVINE_KERNELS_CPU_GELU_INL_H
#endif

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Returns erf(z): a rational function of degrees 13 and 8 on [-4, 4] (Eigen's); outside it is 1 or -1 in f32.
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

// Returns 2u with u = sqrt(2/pi) (x + 0.044715 x^3): 0.5 (1 + tanh(u)) is the sigmoid of 2u. Clamped where the sigmoid
// is 0 or 1 in f32.
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
    const Lanes s_slope = hn::Div(e, hn::Mul(below, below));                          // s (1 - s)
    const Lanes du = hn::MulAdd(x2, all(1.5957691216f * 3 * 0.044715f), all(1.5957691216f));
    return hn::MulAdd(hn::Mul(x, s_slope), du, s);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#endif
