#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Interleaved pairs: each vector is multiplied by its cosines and, with the two dims of each pair swapped, by its
// sines.
template <class X>
HWY_ATTR void rotate_pairs(const Rope& a, int64_t r, const Row<float>& cosine, const Row<float>& sine) {
  const int64_t size = a.x.cols() / a.heads, half = a.table.cols() / 2;
  HWY_ALIGN float low[kLanes], high[kLanes], wide[2 * kLanes];
  for (int64_t h = 0; h < a.heads; ++h)
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t n = std::min(kLanes, half - i);
      const Row<X> x(a.x, r, h * size + a.begin + 2 * i);
      const Row<float> at(wide);
      each_vector(2 * n, [&](int64_t j, auto part) RAVINE_LANES { at.store(x.load(j, part), j, part); });
      for (int64_t j = 0; j < n; ++j) low[j] = wide[2 * j], high[j] = wide[2 * j + 1];
      const Part part{n};
      const Lanes c = cosine.load(i, part), s = a.inverse ? hn::Neg(sine.load(i, part)) : sine.load(i, part);
      const Lanes first = Row<float>(low).load(0, part), second = Row<float>(high).load(0, part);
      Row<float>(low).store(hn::NegMulAdd(second, s, hn::Mul(first, c)), 0, part);
      Row<float>(high).store(hn::MulAdd(first, s, hn::Mul(second, c)), 0, part);
      for (int64_t j = 0; j < n; ++j) wide[2 * j] = low[j], wide[2 * j + 1] = high[j];
      each_vector(2 * n, [&](int64_t j, auto part) RAVINE_LANES { x.store(at.load(j, part), j, part); });
    }
}

template <class X>
void rotate_rows(const Rope& a) {
  const int64_t size = a.x.cols() / a.heads, half = a.table.cols() / 2;
  for_rows(a.x.rows(), a.x.cols(), [&](int64_t r) HWY_ATTR {
    const int64_t position = a.positions.as<int32_t>()[r];
    require(position >= 0 && position < a.table.rows(), "rope: positions[{}] is {}, the table has {}", r, position,
            a.table.rows());
    const Row<float> cosine(a.table, position), sine(a.table, position, half);
    if (a.interleaved) return rotate_pairs<X>(a, r, cosine, sine);
    for (int64_t h = 0; h < a.heads; ++h) {
      const Row<X> low(a.x, r, h * size + a.begin), high(a.x, r, h * size + a.begin + half);
      each_vector(half, [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes c = cosine.load(i, part), s = a.inverse ? hn::Neg(sine.load(i, part)) : sine.load(i, part);
        const Lanes x = low.load(i, part), y = high.load(i, part);
        low.store(hn::NegMulAdd(y, s, hn::Mul(x, c)), i, part);
        high.store(hn::MulAdd(x, s, hn::Mul(y, c)), i, part);
      });
    }
  });
}

void rotate(const Rope& a) {
  if (a.x.dtype == DType::f32) return rotate_rows<float>(a);
  if (a.x.dtype == DType::bf16) return rotate_rows<bf16>(a);
  rotate_rows<Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(rotate);

template <>
Kernel<Rope> cpu_kernel() {
  return {[](const Rope& a, void*) {
            check_rows("rope", a.x.rows(), a.x.cols(), {{"x", &a.x}});
            check_vector("rope", "positions", a.positions, DType::i32, a.x.rows());
            require(a.heads > 0 && a.x.cols() % a.heads == 0, "rope: {} columns do not divide into {} heads", a.x.cols(),
                    a.heads);
            const int64_t r = a.table.cols(), d = a.x.cols() / a.heads;
            require(r % 2 == 0 && a.begin >= 0 && a.begin + r <= d && a.table.dtype == DType::f32,
                    "rope: the table is {} {}, expected f32 with an even number of columns, at most {} from {}",
                    name(a.table.dtype), a.table.shape.text(), d, a.begin);
            HWY_DYNAMIC_DISPATCH(rotate)(a);
          },
          no_workspace<Rope>};
}

}  // namespace ravine
#endif
