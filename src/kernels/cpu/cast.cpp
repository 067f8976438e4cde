#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cast.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class I, class O>
void convert_lanes(const void* in, void* out, int64_t n) {
  Row<I> x(static_cast<I*>(const_cast<void*>(in)));
  Row<O> y(static_cast<O*>(out));
  each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { y.store(x.load(i, part), i, part); });
}

void convert(DType from, const void* in, DType to, void* out, int64_t n) {
  auto pair = [](DType a, DType b) { return static_cast<int>(a) * 16 + static_cast<int>(b); };
  const int p = pair(from, to);
  if (p == pair(DType::f32, DType::bf16)) return convert_lanes<float, bf16>(in, out, n);
  if (p == pair(DType::f32, DType::f16)) return convert_lanes<float, f16>(in, out, n);
  if (p == pair(DType::bf16, DType::f32)) return convert_lanes<bf16, float>(in, out, n);
  if (p == pair(DType::f16, DType::f32)) return convert_lanes<f16, float>(in, out, n);
  if (p == pair(DType::bf16, DType::f16)) return convert_lanes<bf16, f16>(in, out, n);
  if (p == pair(DType::f16, DType::bf16)) return convert_lanes<f16, bf16>(in, out, n);
  fail("cast: no conversion from {} to {}", name(from), name(to));
}

// Rounds through a 16-bit type: simulated precision.
void round_run(const TensorView& x, const TensorView& out, int64_t row, int64_t col, int64_t n, DType round_to) {
  Row<Any> from(x, row, col), to(out, row, col);
  const bool brain = round_to == DType::bf16;
  each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
    HWY_ALIGN bf16 b[kLanes];
    HWY_ALIGN f16 h[kLanes];
    Lanes v = from.load(i, part);
    if (brain) {
      store_lanes(v, b);
      v = load_lanes(b);
    } else {
      store_lanes(v, h);
      v = load_lanes(h);
    }
    to.store(v, i, part);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(convert);
HWY_EXPORT(round_run);

void convert_run(DType from, const void* in, DType to, void* out, int64_t n) {
  if (from == to)
    std::memcpy(out, in, n * size_of(from));
  else
    HWY_DYNAMIC_DISPATCH(convert)(from, in, to, out, n);
}

namespace {

bool narrow_float(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

// Converts f64 to f32 so that a second rounding to 16 bits is correct: the last bit records lost digits (round to odd).
float sticky(double x) {
  float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || x != x || f - f != 0) return f;
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((static_cast<double>(f) > x) == (x > 0)) --u;  // towards zero
  return std::bit_cast<float>(u | 1u);
}

template <class T>
double rounded(double x) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>)
    return static_cast<T>(x);
  else
    return static_cast<float>(T(sticky(x)));
}

// If one side is f64: element by element.
void cast_wide(const Cast& a, int64_t row, int64_t col, int64_t n) {
  visit_float(a.x.dtype, [&](auto from) {
    visit_float(a.out.dtype, [&](auto to) {
      visit_float(a.round_to, [&](auto by) {
        const auto* x = a.x.row<decltype(from)>(row) + col;
        auto* out = a.out.row<decltype(to)>(row) + col;
        for (int64_t i = 0; i < n; ++i) {
          double v;
          if constexpr (std::is_same_v<decltype(from), double>)
            v = x[i];
          else
            v = static_cast<float>(x[i]);
          v = rounded<decltype(to)>(rounded<decltype(by)>(v));
          if constexpr (std::is_same_v<decltype(to), double>)
            out[i] = v;
          else
            out[i] = decltype(to)(static_cast<float>(v));
        }
      });
    });
  });
}

void cast(const Cast& a, void*) {
  require(a.x.rows() == a.out.rows() && a.x.cols() == a.out.cols(), "cast: x is {}, out is {}", a.x.shape.text(),
          a.out.shape.text());
  const bool rounds = a.round_to != DType::f64 && a.round_to != DType::f32;
  for_pieces(a.out, {&a.x, &a.out}, [&](int64_t row, int64_t col, int64_t n) {
    auto at = [&](const TensorView& v) { return static_cast<char*>(v.data) + (row * v.stride + col) * size_of(v.dtype); };
    if (a.x.dtype == a.out.dtype && (a.round_to == DType::f64 || a.round_to == a.out.dtype)) {
      if (a.x.data != a.out.data) std::memcpy(at(a.out), at(a.x), n * size_of(a.x.dtype));
    } else if (!narrow_float(a.x.dtype) || !narrow_float(a.out.dtype)) {
      cast_wide(a, row, col, n);
    } else if (rounds) {
      HWY_DYNAMIC_DISPATCH(round_run)(a.x, a.out, row, col, n, a.round_to);
    } else {
      convert_run(a.x.dtype, at(a.x), a.out.dtype, at(a.out), n);
    }
  });
}

}  // namespace

template <>
Kernel<Cast> cpu_kernel() {
  return {cast, no_workspace<Cast>};
}

}  // namespace ravine
#endif
