#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss_tile.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/loss_tile.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

inline constexpr float kLog2eF = 1.44269504088896341f;

void do_sums(const float* logits, int64_t pitch, int64_t rows, int64_t lanes, float* top, float* sum) {
  const Lanes log2e = all(kLog2eF);
  for (int64_t c = 0; c < lanes; c += kLanes) {
    const float* column = logits + c;
    Lanes m[4], s[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) m[i] = hn::LoadU(f32s, column), s[i] = zero();
    int64_t j = 0;
    for (; j + 4 <= rows; j += 4)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) m[i] = hn::Max(m[i], hn::LoadU(f32s, column + (j + i) * pitch));
    for (; j < rows; ++j) m[0] = hn::Max(m[0], hn::LoadU(f32s, column + j * pitch));
    const Lanes base = hn::Mul(log2e, hn::Max(hn::Max(m[0], m[1]), hn::Max(m[2], m[3])));
    auto power = [&](int64_t row)
                     RAVINE_LANES { return exp2_negative(hn::MulSub(log2e, hn::LoadU(f32s, column + row * pitch), base)); };
    for (j = 0; j + 4 <= rows; j += 4)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) s[i] = hn::Add(s[i], power(j + i));
    for (; j < rows; ++j) s[0] = hn::Add(s[0], power(j));
    hn::StoreU(base, f32s, top + c);
    hn::StoreU(hn::Add(hn::Add(s[0], s[1]), hn::Add(s[2], s[3])), f32s, sum + c);
  }
}

void do_cap(float* logits, int64_t pitch, int64_t rows, int64_t lanes, float cap) {
  const Lanes by = all(cap), into = all(1 / cap);
  for (int64_t j = 0; j < rows; ++j) {
    float* row = logits + j * pitch;
    for (int64_t c = 0; c < lanes; c += kLanes)
      hn::StoreU(hn::Mul(by, tanh_of(hn::Mul(into, hn::LoadU(f32s, row + c)))), f32s, row + c);
  }
}

template <bool kCapped>
void gradient_rows(float* logits, int64_t pitch, int64_t rows, int64_t lanes, const float* top, const float* factor,
                   float cap) {
  const Lanes log2e = all(kLog2eF), into = all(kCapped ? 1 / cap : 0.0f);
  for (int64_t j = 0; j < rows; ++j) {
    float* row = logits + j * pitch;
    for (int64_t c = 0; c < lanes; c += kLanes) {
      const Lanes y = hn::LoadU(f32s, row + c), e = exp2_negative(hn::MulSub(log2e, y, hn::LoadU(f32s, top + c)));
      Lanes d = hn::Mul(e, hn::LoadU(f32s, factor + c));
      if constexpr (kCapped) {
        const Lanes t = hn::Mul(into, y);
        d = hn::Mul(d, hn::NegMulAdd(t, t, all(1.0f)));
      }
      hn::StoreU(d, f32s, row + c);
    }
  }
}

void do_gradient(float* logits, int64_t pitch, int64_t rows, int64_t lanes, const float* top, const float* factor, float cap) {
  if (cap != 0) return gradient_rows<true>(logits, pitch, rows, lanes, top, factor, cap);
  gradient_rows<false>(logits, pitch, rows, lanes, top, factor, cap);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(do_sums);
HWY_EXPORT(do_gradient);
HWY_EXPORT(do_cap);

void logit_sums(const float* logits, int64_t pitch, int64_t rows, int64_t lanes, float* top, float* sum) {
  HWY_DYNAMIC_DISPATCH(do_sums)(logits, pitch, rows, lanes, top, sum);
}
void cap_logits(float* logits, int64_t pitch, int64_t rows, int64_t lanes, float cap) {
  HWY_DYNAMIC_DISPATCH(do_cap)(logits, pitch, rows, lanes, cap);
}
void logit_gradient(float* logits, int64_t pitch, int64_t rows, int64_t lanes, const float* top, const float* factor,
                    float cap) {
  HWY_DYNAMIC_DISPATCH(do_gradient)(logits, pitch, rows, lanes, top, factor, cap);
}

}  // namespace ravine
#endif
