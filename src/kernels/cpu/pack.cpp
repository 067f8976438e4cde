#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pack.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/pack.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class T>
void copy_rows(const T* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld) {
  for (int64_t i = 0; i < rows; ++i) {
    const Row<T> x(const_cast<T*>(from) + i * stride);
    const Row<float> y(to + i * ld);
    each_vector(cols, [&](int64_t j, auto part) RAVINE_LANES { y.store(x.load(j, part), j, part); });
  }
}

#if HWY_TARGET != HWY_SCALAR
// Returns columns j..j+3 of kLanes rows, as four vectors. Four elements of one row make one 128-bit block. Rows r, r+4,
// r+8, ... share a register, so a 4 x 4 transpose inside the blocks keeps the order of rows.
template <class D>
HWY_INLINE hn::Vec<D> gather_blocks(D d, const float* p, int64_t stride) {
  constexpr int64_t lanes = hn::MaxLanes(D());
  if constexpr (lanes <= 4) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, gather_blocks(half, p + lanes / 2 * stride, stride), gather_blocks(half, p, stride));
  }
}

template <bool kScaled>
HWY_INLINE void transpose_block(const float* from, int64_t stride, float* to, int64_t ld, Lanes factor) {
  const hn::RepartitionToWide<F32> d64;
  const Lanes r0 = gather_blocks(f32s, from, stride), r1 = gather_blocks(f32s, from + stride, stride);
  const Lanes r2 = gather_blocks(f32s, from + 2 * stride, stride), r3 = gather_blocks(f32s, from + 3 * stride, stride);
  const auto a = hn::BitCast(d64, hn::InterleaveLower(f32s, r0, r1)), b = hn::BitCast(d64, hn::InterleaveLower(f32s, r2, r3));
  const auto c = hn::BitCast(d64, hn::InterleaveUpper(f32s, r0, r1)), e = hn::BitCast(d64, hn::InterleaveUpper(f32s, r2, r3));
  auto store = [&](Lanes v, float* at) RAVINE_LANES {
    if constexpr (kScaled) v = hn::Mul(factor, v);
    hn::StoreU(v, f32s, at);
  };
  store(hn::BitCast(f32s, hn::InterleaveLower(d64, a, b)), to);
  store(hn::BitCast(f32s, hn::InterleaveUpper(d64, a, b)), to + ld);
  store(hn::BitCast(f32s, hn::InterleaveLower(d64, c, e)), to + 2 * ld);
  store(hn::BitCast(f32s, hn::InterleaveUpper(d64, c, e)), to + 3 * ld);
}
#endif

// Without scaling, bits are copied unchanged.
template <bool kScaled>
void transpose_words(const float* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld, float factor) {
  int64_t whole_rows = 0, whole_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_rows = rows / kLanes * kLanes, whole_cols = cols / 4 * 4;
  const Lanes f = all(factor);
  // One cache line of every row at a time.
  for (int64_t j0 = 0; j0 < whole_cols; j0 += 16)
    for (int64_t i = 0; i < whole_rows; i += kLanes)
      for (int64_t j = j0; j < std::min(j0 + 16, whole_cols); j += 4)
        transpose_block<kScaled>(from + i * stride + j, stride, to + j * ld + i, ld, f);
#endif
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j)
      if constexpr (kScaled)
        to[j * ld + i] = factor * from[i * stride + j];
      else
        std::memcpy(to + j * ld + i, from + i * stride + j, 4);
}

void transpose_f32(const float* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld, float factor) {
  if (factor == 1) return transpose_words<false>(from, stride, rows, cols, to, ld, 1);
  transpose_words<true>(from, stride, rows, cols, to, ld, factor);
}

template <class T>
void transpose_rows(const T* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld, float factor) {
  if constexpr (std::is_same_v<T, float>) {
    transpose_f32(from, stride, rows, cols, to, ld, factor);
  } else {
    constexpr int64_t kRows = 64, kCols = 64;
    HWY_ALIGN float wide[kRows * kCols];
    for (int64_t i = 0; i < rows; i += kRows) {
      for (int64_t j = 0; j < cols; j += kCols) {
        const int64_t r = std::min(kRows, rows - i), c = std::min(kCols, cols - j);
        copy_rows(from + i * stride + j, stride, r, c, wide, kCols);
        transpose_f32(wide, kCols, r, c, to + j * ld + i, ld, factor);
      }
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
using Eight = hn::CappedTag<float, 8>;  // the shortest vector with at least six elements
HWY_INLINE hn::Vec<Eight> load_eight(const float* p) { return hn::LoadU(Eight(), p); }
HWY_INLINE hn::Vec<Eight> load_eight(const bf16* p) {
  const hn::RebindToUnsigned<Eight> bits;
  const auto u = hn::LoadU(hn::Rebind<uint16_t, Eight>(), reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(Eight(), hn::ShiftLeft<16>(hn::PromoteTo(bits, u)));
}
HWY_INLINE hn::Vec<Eight> load_eight(const f16* p) {
  const hn::Rebind<hwy::float16_t, Eight> d16;
  return hn::PromoteTo(Eight(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
#endif

// Copies eight elements if there are eight: the next row overwrites the surplus.
template <class T>
void copy_sixes(const T* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t ld) {
  // Rows that stay in the first-level cache, at any stride, until all their sixes are copied.
  constexpr int64_t kChunk = 8;
  for (int64_t i0 = 0; i0 < rows; i0 += kChunk) {
    const int64_t end = std::min(rows, i0 + kChunk);
    for (int64_t j = 0; j < cols; j += 6) {
      float* six = to + j / 6 * ld;
#if HWY_TARGET != HWY_SCALAR
      if (j + 8 <= cols) {
        for (int64_t i = i0; i < end; ++i) hn::StoreU(load_eight(from + i * stride + j), Eight(), six + i * 6);
        continue;
      }
#endif
      for (int64_t i = i0; i < end; ++i)
        for (int64_t r = 0; r < std::min<int64_t>(6, cols - j); ++r)
          six[i * 6 + r] = static_cast<float>(from[i * stride + j + r]);
    }
  }
}

template <class T>
void store_rows(const float* from, int64_t ld, int64_t rows, int64_t cols, const float* bias, bool accumulate, T* to,
                int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) {
    const Row<float> x(const_cast<float*>(from) + i * ld), b(const_cast<float*>(bias));
    const Row<T> y(to + i * stride);
    auto run = [&](auto with_bias, auto add) RAVINE_LANES {
      each_vector(cols, [&](int64_t j, auto part) RAVINE_LANES {
        Lanes v = x.load(j, part);
        if constexpr (with_bias.value) v = hn::Add(v, b.load(j, part));
        if constexpr (add.value) v = hn::Add(y.load(j, part), v);
        y.store(v, j, part);
      });
    };
    constexpr std::true_type yes{};
    constexpr std::false_type no{};
    if (bias && accumulate)
      run(yes, yes);
    else if (bias)
      run(yes, no);
    else if (accumulate)
      run(no, yes);
    else
      run(no, no);
  }
}

template <class T>
void round_all(float* x, int64_t n) {
  const Row<float> y(x);
  HWY_ALIGN T t[kLanes];
  each_vector(n, [&](int64_t j, auto part) RAVINE_LANES {
    store_lanes(y.load(j, part), t);
    y.store(load_lanes(t), j, part);
  });
}

template <class F>
void by_type(DType type, F&& f) {
  if (type == DType::f32) return f(float{});
  if (type == DType::bf16) return f(bf16{});
  f(f16{});
}

void do_copy(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  by_type(from.dtype, [&](auto zero) {
    using T = decltype(zero);
    copy_rows(static_cast<const T*>(from.data), from.stride, rows, cols, to, ld);
  });
}

void do_transposed(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld, float factor) {
  by_type(from.dtype, [&](auto zero) {
    using T = decltype(zero);
    transpose_rows(static_cast<const T*>(from.data), from.stride, rows, cols, to, ld, factor);
  });
}

void do_sixes(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  by_type(from.dtype, [&](auto zero) {
    using T = decltype(zero);
    copy_sixes(static_cast<const T*>(from.data), from.stride, rows, cols, to, ld);
  });
}

void do_unpack(const float* from, int64_t ld, int64_t rows, int64_t cols, const float* bias, bool accumulate,
               const Corner& to) {
  by_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    store_rows(from, ld, rows, cols, bias, accumulate, const_cast<T*>(static_cast<const T*>(to.data)), to.stride);
  });
}

void do_round(float* x, int64_t n, DType type) {
  if (type == DType::bf16) round_all<bf16>(x, n);
  if (type == DType::f16) round_all<f16>(x, n);
}

// Writes stay before the elements that are still to be read.
void do_narrow(float* x, int64_t n) {
  const Row<float> from(x);
  const Row<bf16> to(reinterpret_cast<bf16*>(x));
  each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { to.store(from.load(i, part), i, part); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(do_copy);
HWY_EXPORT(do_transposed);
HWY_EXPORT(do_sixes);
HWY_EXPORT(do_unpack);
HWY_EXPORT(do_round);
HWY_EXPORT(do_narrow);

void pack_copy(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(do_copy)(from, rows, cols, to, ld);
}
void pack_transposed(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld, float factor) {
  HWY_DYNAMIC_DISPATCH(do_transposed)(from, rows, cols, to, ld, factor);
}
void pack_sixes(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(do_sixes)(from, rows, cols, to, ld);
}
void unpack(const float* from, int64_t ld, int64_t rows, int64_t cols, const float* bias, bool accumulate, const Corner& to) {
  HWY_DYNAMIC_DISPATCH(do_unpack)(from, ld, rows, cols, bias, accumulate, to);
}
void narrow_run(float* x, int64_t n) { HWY_DYNAMIC_DISPATCH(do_narrow)(x, n); }
void round_run(float* x, int64_t n, DType type) { HWY_DYNAMIC_DISPATCH(do_round)(x, n, type); }

}  // namespace ravine
#endif
