// 2^x and e^x for x <= 0 in vectors. Compiled once per instruction set, like lanes-inl.h.
#if defined(RAVINE_KERNELS_CPU_EXP2_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RAVINE_KERNELS_CPU_EXP2_INL_H
#undef RAVINE_KERNELS_CPU_EXP2_INL_H
#else
#define RAVINE_KERNELS_CPU_EXP2_INL_H
#endif

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Returns 2^(n + r) for |r| <= 1/2 and t = n + magic. 2^r is a minimax polynomial of degree 6 (relative error 2e-9); n
// is added to the exponent.
HWY_INLINE Lanes exp2_of_parts(Lanes t, Lanes r) {
  Lanes p = all(0.00015345810970757157f);
  p = hn::MulAdd(p, r, all(0.0013399930903688073f));
  p = hn::MulAdd(p, r, all(0.009618489071726799f));
  p = hn::MulAdd(p, r, all(0.05550328642129898f));
  p = hn::MulAdd(p, r, all(0.24022646248340607f));
  p = hn::MulAdd(p, r, all(0.6931471824645996f));
  p = hn::MulAdd(p, r, all(1.0f));
  return hn::BitCast(f32s, hn::Add(hn::BitCast(bits32, p), hn::ShiftLeft<23>(hn::BitCast(bits32, t))));
}
// The constant 1.5 * 2^23: adding it to a float rounds the float to an integer, which is then in the low bits.
inline constexpr float kMagic = 12582912.0f;

// Returns 2^x for x <= 0, with a relative error of at most 0.7 * 2^-23. Below 2^-80 the result is zero: an f32 sum with
// a term of 1 does not change by less. So products do not become subnormal numbers, which are a hundred times slower.
// NaN stays NaN.
HWY_INLINE Lanes exp2_negative(Lanes x) {
  const Lanes magic = all(kMagic), t = hn::Add(x, magic);
  return hn::IfThenZeroElse(hn::Lt(x, all(-80.0f)), exp2_of_parts(t, hn::Sub(x, hn::Sub(t, magic))));
}

// Returns e^x for x <= 0, with a relative error as exp2_negative; zero below e^-55. log2(e) has two parts, so a large
// |x| loses no precision.
HWY_INLINE Lanes exp_or_zero(Lanes x) {
  const Lanes magic = all(kMagic), high = all(0x1.715476p+0f), low = all(0x1.4ae0bep-26f), t = hn::MulAdd(x, high, magic);
  const Lanes r = hn::MulAdd(x, low, hn::MulSub(x, high, hn::Sub(t, magic)));
  return hn::IfThenZeroElse(hn::Lt(x, all(-55.0f)), exp2_of_parts(t, r));
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#endif
