#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/strip.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/strip.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {
#include "kernels/cpu/strip-inl.h"

struct FusedF32 {
  using V = Lanes;
  static constexpr int64_t kLanes = HWY_NAMESPACE::kLanes;
  static HWY_INLINE V zero() { return HWY_NAMESPACE::zero(); }
  static HWY_INLINE V load(const float* p) { return hn::LoadU(f32s, p); }
  static HWY_INLINE V all(const float* p) { return hn::Set(f32s, *p); }
  static HWY_INLINE V add_product(V sum, V a, V b) { return hn::MulAdd(a, b, sum); }
  static HWY_INLINE void store(V v, float* p) { hn::StoreU(v, f32s, p); }
};

void do_strip(const Strip& s) {
  strip_any<FusedF32, kLanes == 16 ? 4 : 2>(s);  // with 32 registers, or with 16
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(do_strip);
void strip_f32(const Strip& s) { HWY_DYNAMIC_DISPATCH(do_strip)(s); }
}  // namespace ravine
#endif
