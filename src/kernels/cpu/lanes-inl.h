// Vectors of f32 over rows stored as f32, bf16 or f16. Compiled once per instruction set (Highway's guard below).
#if defined(RAVINE_KERNELS_CPU_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RAVINE_KERNELS_CPU_LANES_INL_H
#undef RAVINE_KERNELS_CPU_LANES_INL_H
#else
#define RAVINE_KERNELS_CPU_LANES_INL_H
#endif

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/half.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/rows.h"

// An attribute for every lambda with vectors, after its parameters.
#undef RAVINE_LANES
#define RAVINE_LANES HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Bits32 = hn::RebindToUnsigned<F32>;
using Lanes = hn::Vec<F32>;
inline constexpr F32 f32s;
inline constexpr Bits32 bits32;
inline constexpr int64_t kLanes = hn::MaxLanes(F32());

// Full and Part select the lanes of a vector that are used: all of them, or the first n at the end of a row.
struct Full {};
struct Part {
  int64_t n;
};

HWY_INLINE Lanes all(float x) { return hn::Set(f32s, x); }
HWY_INLINE Lanes zero() { return hn::Zero(f32s); }

// Converts f32 lanes to the bits of bf16, in the low halves. Rounds to nearest even and keeps NaN (as base/half.h).
HWY_INLINE hn::Vec<Bits32> bf16_bits(Lanes v) {
  const auto u = hn::BitCast(bits32, v);
  const auto high = hn::ShiftRight<16>(u);
  const auto rounded = hn::ShiftRight<16>(u + hn::Set(bits32, 0x7fff) + hn::And(high, hn::Set(bits32, 1)));
  const auto nan = hn::Or(high, hn::Set(bits32, 0x40));
  return hn::IfThenElse(hn::RebindMask(bits32, hn::IsNaN(v)), nan, rounded);
}

HWY_INLINE Lanes load_lanes(const float* p) { return hn::LoadU(f32s, p); }
HWY_INLINE void store_lanes(Lanes v, float* p) { hn::StoreU(v, f32s, p); }

HWY_INLINE Lanes load_lanes(const bf16* p) {
  const hn::Rebind<uint16_t, F32> d16;
  const auto u = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(f32s, hn::ShiftLeft<16>(hn::PromoteTo(bits32, u)));
}
HWY_INLINE void store_lanes(Lanes v, bf16* p) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::RebindToSigned<Bits32> signed32;  // at most 0xffff: the saturating narrowing is exact
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(signed32, bf16_bits(v))), d16, reinterpret_cast<uint16_t*>(p));
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Lanes load_lanes(const f16* p) { return all(static_cast<float>(*p)); }
HWY_INLINE void store_lanes(Lanes v, f16* p) { *p = f16(hn::GetLane(v)); }
#else
HWY_INLINE Lanes load_lanes(const f16* p) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  return hn::PromoteTo(f32s, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE void store_lanes(Lanes v, f16* p) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
}
#endif

// A row of elements of type T, read and written as f32. No element outside the row is read or written.
template <class T>
struct Row {
  T* p;
  Row() : p(nullptr) {}
  explicit Row(T* from) : p(from) {}
  Row(const TensorView& v, int64_t row, int64_t col = 0) : p(v.data ? v.row<T>(row) + col : nullptr) {}
  HWY_INLINE Lanes load(int64_t i, Full, float = 0) const { return load_lanes(p + i); }
  HWY_INLINE Lanes load(int64_t i, Part part, float fill = 0) const {
    HWY_ALIGN T t[kLanes];
    for (int64_t j = 0; j < kLanes; ++j) t[j] = j < part.n ? p[i + j] : T(fill);
    return load_lanes(t);
  }
  HWY_INLINE void store(Lanes v, int64_t i, Full) const { store_lanes(v, p + i); }
  HWY_INLINE void store(Lanes v, int64_t i, Part part) const {
    HWY_ALIGN T t[kLanes];
    store_lanes(v, t);
    for (int64_t j = 0; j < part.n; ++j) p[i + j] = t[j];
  }
};

// A row whose element type is known only at run time: f32, bf16 or f16. The branch is the same for all its vectors.
struct Any {};
template <>
struct Row<Any> {
  char* p;
  DType type;
  Row(const TensorView& v, int64_t row, int64_t col = 0)
      : p(v.data ? static_cast<char*>(v.data) + (row * v.stride + col) * size_of(v.dtype) : nullptr), type(v.dtype) {}
  template <class T>
  HWY_INLINE Row<T> as() const {
    return Row<T>(reinterpret_cast<T*>(p));
  }
  template <class P>
  HWY_INLINE Lanes load(int64_t i, P part, float fill = 0) const {
    if (type == DType::f32) return as<float>().load(i, part, fill);
    if (type == DType::bf16) return as<bf16>().load(i, part, fill);
    return as<f16>().load(i, part, fill);
  }
  template <class P>
  HWY_INLINE void store(Lanes v, int64_t i, P part) const {
    if (type == DType::f32) return as<float>().store(v, i, part);
    if (type == DType::bf16) return as<bf16>().store(v, i, part);
    as<f16>().store(v, i, part);
  }
};

// Calls f(i, part) for each vector of the elements [0, n). i: its first element. part: Full, or Part for the last
// elements.
template <class F>
HWY_INLINE void each_vector(int64_t n, F f) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) f(i, Full{}), f(i + kLanes, Full{});
  for (; i + kLanes <= n; i += kLanes) f(i, Full{});
  if (i < n) f(i, Part{n - i});
}

// Reduces the elements [0, n) to one vector, with four running vectors: acc = f(acc, i, part), joined by `join`. The
// order depends on n only.
template <class F, class J>
HWY_INLINE Lanes fold(int64_t n, Lanes start, F f, J join) {
  Lanes a0 = start, a1 = start, a2 = start, a3 = start;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a0 = f(a0, i, Full{}), a1 = f(a1, i + kLanes, Full{});
    a2 = f(a2, i + 2 * kLanes, Full{}), a3 = f(a3, i + 3 * kLanes, Full{});
  }
  for (; i + kLanes <= n; i += kLanes) a0 = f(a0, i, Full{});
  if (i < n) a1 = f(a1, i, Part{n - i});
  return join(join(a0, a1), join(a2, a3));
}

template <class F>
HWY_INLINE float sum_of(int64_t n, F f) {
  Lanes s = fold(n, zero(), f, [](Lanes a, Lanes b) RAVINE_LANES { return hn::Add(a, b); });
  return hn::GetLane(hn::SumOfLanes(f32s, s));
}

// The parts of an exponential: e^x = power * (1 + rest) for -87 <= x <= 0, with power a power of two and |rest| < 0.42.
struct ExpParts {
  Lanes power, rest;
};
HWY_INLINE ExpParts exp_parts(Lanes x) {
  // x = k ln2 + r with an integer k: adding 1.5 2^23 rounds to an integer, which is then in the low bits.
  const Lanes magic = all(0x1.8p23f), sum = hn::MulAdd(x, all(1.44269504f), magic), k = hn::Sub(sum, magic);
  const Lanes r = hn::MulAdd(k, all(-1.42860677e-6f), hn::MulAdd(k, all(-0.693145752f), x));
  // The polynomial of SLEEF's expf, in Estrin's order.
  const Lanes r2 = hn::Mul(r, r);
  const Lanes p0 = hn::MulAdd(r, all(0.166666672f), all(0.5f)), p1 = hn::MulAdd(r, all(0.00833336078f), all(0.0416664854f));
  const Lanes p2 = hn::MulAdd(r, all(0.000198527618f), all(0.00139304355f));
  const Lanes p = hn::MulAdd(r2, hn::MulAdd(r2, p2, p1), p0);
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(bits32, sum), hn::Set(bits32, 127)));
  return {hn::BitCast(f32s, power), hn::MulAdd(r2, p, r)};
}

// Returns exp(x) for x <= 0, within 1 ulp, subnormals included. NaN stays NaN. Lanes are independent.
HWY_INLINE Lanes exp_negative(Lanes x) {
  const ExpParts e = exp_parts(x);
  const Lanes fast = hn::Mul(hn::Add(all(1.0f), e.rest), e.power);
  const auto small = hn::Lt(x, all(-87.0f));
  if (hn::AllFalse(f32s, small)) [[likely]]
    return fast;
  return hn::IfThenElse(small, hn::Exp(f32s, x), fast);
}

// Returns tanh(x) within 3 ulp, also for infinities; NaN stays NaN. With m = e^(-2|x|) - 1, which is precise for small
// x: tanh|x| = -m / (2 + m). For |x| >= 30 it is 1.
HWY_INLINE Lanes tanh_of(Lanes x) {
  const Lanes size = hn::Abs(x), most = all(30.0f);
  const ExpParts e = exp_parts(hn::Mul(all(-2.0f), hn::IfThenElse(hn::Gt(size, most), most, size)));
  const Lanes m = hn::MulAdd(e.power, e.rest, hn::Sub(e.power, all(1.0f)));
  return hn::CopySign(hn::Div(hn::Neg(m), hn::Add(all(2.0f), m)), x);
}

// Returns 1 / (1 + exp(-x)) without overflow.
HWY_INLINE Lanes sigmoid(Lanes x) {
  const Lanes e = exp_negative(hn::Neg(hn::Abs(x)));
  const Lanes top = hn::IfThenElse(hn::Lt(x, zero()), e, all(1.0f));
  return hn::Div(top, hn::Add(all(1.0f), e));
}

// Returns x / (1 + exp(-x)), with one rounding less than x * sigmoid(x).
HWY_INLINE Lanes silu(Lanes x) {
  const Lanes e = exp_negative(hn::Neg(hn::Abs(x)));
  const Lanes top = hn::IfThenElse(hn::Lt(x, zero()), hn::Mul(x, e), x);
  return hn::Div(top, hn::Add(all(1.0f), e));
}

// Adds `count` partial sums of each column: out[c] (+)= partial[0][c] + partial[1][c] + ..., in order, in parallel over
// columns.
inline void sum_partials(const float* partial, int64_t count, int64_t cols, const TensorView& out, bool accumulate) {
  const int64_t wide =
      4 * kLanes >= 64 ? 4 * kLanes : 64;  // a multiple of the vector length, so results do not depend on the split
  parallel_for(ceil_div(cols, wide), [&](int64_t b) HWY_ATTR {
    const int64_t col = b * wide, n = std::min(wide, cols - col);
    Row<Any> to(out, 0, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      Lanes sum = accumulate ? to.load(i, part) : zero();
      Lanes s = zero();
      for (int64_t k = 0; k < count; ++k)
        s = hn::Add(s, Row<float>(const_cast<float*>(partial) + k * cols + col).load(i, part));
      to.store(hn::Add(sum, s), i, part);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#endif
