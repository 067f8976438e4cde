// 2^x for x <= 0 in vectors. Compiled once per instruction set, like lanes-inl.h.
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

// Within 0.7 * 2^-23 relative; below 2^-80: zero, which no f32 sum beside a term of 1 can see and which keeps products with it
// out of the subnormal range, where the machine is a hundred times slower; NaN stays. x = n + r with |r| <= 1/2; 2^r by a
// minimax polynomial of degree 6 (least worst relative error, 2e-9); n is added to the exponent.
HWY_INLINE Lanes exp2_negative(Lanes x) {
  const Lanes magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer and leaves it in the low bits
  const Lanes t = hn::Add(x, magic);
  const Lanes r = hn::Sub(x, hn::Sub(t, magic));
  Lanes p = all(0.00015345810970757157f);
  p = hn::MulAdd(p, r, all(0.0013399930903688073f));
  p = hn::MulAdd(p, r, all(0.009618489071726799f));
  p = hn::MulAdd(p, r, all(0.05550328642129898f));
  p = hn::MulAdd(p, r, all(0.24022646248340607f));
  p = hn::MulAdd(p, r, all(0.6931471824645996f));
  p = hn::MulAdd(p, r, all(1.0f));
  const auto shifted = hn::Add(hn::BitCast(bits32, p), hn::ShiftLeft<23>(hn::BitCast(bits32, t)));
  return hn::IfThenZeroElse(hn::Lt(x, all(-80.0f)), hn::BitCast(f32s, shifted));
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#endif
