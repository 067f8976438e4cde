#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/directions.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Calls f(begin, n) for tiles of n numbers, in parallel.
template <class F>
void for_tiles(int64_t count, F&& f) {
  parallel_for(ceil_div(count, kTile), [&](int64_t t) { f(t * kTile, std::min(kTile, count - t * kTile)); });
}

template <class T>
Row<T> at(const TensorView& v, int64_t begin) {
  TensorView flat = v;
  if (!v.absent()) flat.shape = {v.count()}, flat.stride = v.count();
  return Row<T>(flat, 0, begin);
}

void weighted_sum(const WeightedSum& a) {
  const Lanes keep = all(static_cast<float>(a.keep)), take = all(static_cast<float>(a.take));
  for_tiles(a.y.count(), [&](int64_t begin, int64_t n) HWY_ATTR {
    const Row<float> y = at<float>(a.y, begin);
    const Row<Any> x = at<Any>(a.x, begin);
    each_vector(n, [&](int64_t i, auto part)
                       RAVINE_LANES { y.store(hn::MulAdd(keep, y.load(i, part), hn::Mul(take, x.load(i, part))), i, part); });
  });
}

void adam_direction(const AdamDirection& a) {
  const Lanes b1 = all(static_cast<float>(a.beta1)), c1 = all(static_cast<float>(1 - a.beta1));
  const Lanes b2 = all(static_cast<float>(a.beta2)), c2 = all(static_cast<float>(1 - a.beta2));
  const Lanes eps = all(static_cast<float>(a.eps)), decay = all(static_cast<float>(a.weight_decay));
  const Lanes clip = all(static_cast<float>(a.grad_scale));
  for_tiles(a.param.count(), [&](int64_t begin, int64_t n) HWY_ATTR {
    const Row<float> p = at<float>(a.param, begin), m = at<float>(a.m, begin), v = at<float>(a.v, begin),
                     out = at<float>(a.out, begin);
    const Row<Any> grad = at<Any>(a.grad, begin);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes g = hn::Mul(grad.load(i, part), clip);
      const Lanes mean = hn::MulAdd(b1, m.load(i, part), hn::Mul(c1, g));
      const Lanes square = hn::MulAdd(b2, v.load(i, part), hn::Mul(c2, hn::Mul(g, g)));
      m.store(mean, i, part), v.store(square, i, part);
      const Lanes direction = hn::Div(mean, hn::Add(hn::Sqrt(square), eps));
      out.store(hn::MulAdd(decay, p.load(i, part), direction), i, part);
    });
  });
}

// (scale x - minus)^2 + eps
struct Squares {
  Squares(const FactoredMoments& a, int64_t begin)
      : x(at<Any>(a.x, begin)),
        minus(at<float>(a.minus, begin)),
        scale(all(static_cast<float>(a.scale))),
        eps(all(static_cast<float>(a.eps))) {}
  template <class P>
  HWY_INLINE Lanes load(int64_t i, P part) const {
    Lanes d = hn::Mul(x.load(i, part), scale);
    if (minus.p) d = hn::Sub(d, minus.load(i, part));
    return hn::MulAdd(d, d, eps);
  }
  Row<Any> x;
  Row<float> minus;
  Lanes scale, eps;
};

void factored_moments(const FactoredMoments& a) {
  const int64_t columns = a.x.shape[-1], rows = a.x.shape[-2], matrices = a.x.count() / (rows * columns);
  const float decay = static_cast<float>(a.decay), row_share = static_cast<float>((1 - a.decay) / static_cast<double>(columns)),
              col_share = static_cast<float>((1 - a.decay) / static_cast<double>(rows));
  for_rows(matrices * rows, columns, [&](int64_t r) HWY_ATTR {
    const Squares squares(a, r * columns);
    // Lanes after the end are zero in the sum.
    const float sum = sum_of(columns, [&](Lanes s, int64_t i, auto part) RAVINE_LANES {
      if constexpr (std::is_same_v<decltype(part), Part>) {
        HWY_ALIGN float last[kLanes] = {};
        Row<float>(last).store(squares.load(i, part), 0, part);
        return hn::Add(s, hn::Load(f32s, last));
      } else {
        return hn::Add(s, squares.load(i, part));
      }
    });
    float& row = a.row.as<float>()[r];
    row = decay * row + row_share * sum;
  });
  constexpr int64_t kRun = 256;
  const int64_t wide =
      4 * kLanes >= 64 ? 4 * kLanes : 64;  // a multiple of the vector length, so results do not depend on the split
  const int64_t across = ceil_div(columns, wide);
  parallel_for(matrices * across, [&](int64_t block) HWY_ATTR {
    const int64_t matrix = block / across, from = block % across * wide, n = std::min(wide, columns - from);
    const Row<float> col(a.col.as<float>() + matrix * columns + from);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      Lanes sum = zero();
      for (int64_t first = 0; first < rows; first += kRun) {
        Lanes run = zero();
        for (int64_t r = first; r < std::min(rows, first + kRun); ++r)
          run = hn::Add(run, Squares(a, (matrix * rows + r) * columns + from).load(i, part));
        sum = hn::Add(sum, run);
      }
      col.store(hn::MulAdd(all(decay), col.load(i, part), hn::Mul(all(col_share), sum)), i, part);
    });
  });
}

void factored_scale(const FactoredScale& a) {
  const int64_t columns = a.x.shape[-1], rows = a.x.shape[-2], matrices = a.x.count() / (rows * columns);
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    const float* row = a.row.as<float>() + matrix * rows;
    double mean = 0;
    for (int64_t r = 0; r < rows; ++r) mean += static_cast<double>(row[r]);
    mean /= static_cast<double>(rows);
    for_rows(rows, columns, [&](int64_t r) HWY_ATTR {
      const int64_t begin = (matrix * rows + r) * columns;
      const Lanes factor = all(static_cast<float>(a.scale / std::sqrt(static_cast<double>(row[r]) / mean)));
      const Row<Any> x = at<Any>(a.x, begin);
      const Row<float> col(a.col.as<float>() + matrix * columns), out = at<float>(a.out, begin);
      each_vector(columns, [&](int64_t i, auto part) RAVINE_LANES {
        out.store(hn::Div(hn::Mul(x.load(i, part), factor), hn::Sqrt(col.load(i, part, 1))), i, part);
      });
    });
  }
}

void root_scale(const RootScale& a) {
  const Lanes decay = all(static_cast<float>(a.decay)), share = all(static_cast<float>(1 - a.decay)),
              eps = all(static_cast<float>(a.eps)), scale = all(static_cast<float>(a.scale));
  for_tiles(a.x.count(), [&](int64_t begin, int64_t n) HWY_ATTR {
    const Row<Any> x = at<Any>(a.x, begin);
    const Row<float> squares = at<float>(a.square, begin), out = at<float>(a.out, begin);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes g = hn::Mul(x.load(i, part), scale);
      const Lanes square = hn::MulAdd(decay, squares.load(i, part), hn::Mul(share, hn::MulAdd(g, g, eps)));
      squares.store(square, i, part);
      out.store(hn::Div(g, hn::Sqrt(square)), i, part);
    });
  });
}

void cadam(const Cadam& a) {
  const int64_t columns = a.param.shape[-1];
  const Lanes beta = all(static_cast<float>(a.beta)), take = all(static_cast<float>((1 - a.beta) * a.grad_scale)),
              lr = all(static_cast<float>(a.lr)), keep = all(static_cast<float>(1 - a.lr * a.weight_decay));
  constexpr float kLargest = 65503;
  for_rows(a.param.count() / columns, columns, [&](int64_t r) HWY_ATTR {
    const int64_t begin = r * columns;
    const Row<float> param = at<float>(a.param, begin);
    const Row<Any> grad = at<Any>(a.grad, begin);
    const Row<f16> q = at<f16>(a.q, begin);
    float& s = a.s.as<float>()[r];
    const Lanes old = all(s);
    auto moment = [&](int64_t i, auto part) RAVINE_LANES {
      return hn::MulAdd(beta, hn::Mul(q.load(i, part), old), hn::Mul(take, grad.load(i, part)));
    };
    const Lanes most = fold(
        columns, zero(), [&](Lanes top, int64_t i, auto part) RAVINE_LANES { return hn::Max(top, hn::Abs(moment(i, part))); },
        [](Lanes x, Lanes y) RAVINE_LANES { return hn::Max(x, y); });
    const float scale = hn::GetLane(hn::MaxOfLanes(f32s, most)) / kLargest + 1e-8f;
    const Lanes next = all(scale), largest = all(kLargest);
    each_vector(columns, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes m = moment(i, part);
      q.store(hn::Clamp(hn::Div(m, next), hn::Neg(largest), largest), i, part);
      const Lanes direction = hn::IfThenElse(hn::Eq(m, zero()), zero(), hn::CopySign(lr, m));
      param.store(hn::MulSub(keep, param.load(i, part), direction), i, part);
    });
    s = scale;
  });
}

void times_root(const TimesRoot& a) {
  const Lanes eps = all(static_cast<float>(a.eps));
  for_tiles(a.x.count(), [&](int64_t begin, int64_t n) HWY_ATTR {
    const Row<float> x = at<float>(a.x, begin), v = at<float>(a.v, begin);
    each_vector(n, [&](int64_t i, auto part)
                       RAVINE_LANES { x.store(hn::Mul(x.load(i, part), hn::Add(hn::Sqrt(v.load(i, part)), eps)), i, part); });
  });
}

void largest_ratio(const LargestRatio& a) {
  const Lanes eps = all(static_cast<float>(a.eps));
  const int64_t count = a.v.count();
  std::vector<float> tops(static_cast<size_t>(ceil_div(count, kTile)));
  for_tiles(count, [&](int64_t begin, int64_t n) HWY_ATTR {
    const Row<float> v = at<float>(a.v, begin), fresh = at<float>(a.fresh, begin);
    const Lanes top = fold(
        n, zero(),
        [&](Lanes most, int64_t i, auto part) RAVINE_LANES {
          // After the end: sqrt(0) + eps over sqrt(largest) + eps, which is the smallest ratio.
          const Lanes ratio = hn::Div(hn::Add(hn::Sqrt(v.load(i, part)), eps),
                                      hn::Add(hn::Sqrt(fresh.load(i, part, std::numeric_limits<float>::max())), eps));
          return hn::Max(most, ratio);
        },
        [](Lanes x, Lanes y) RAVINE_LANES { return hn::Max(x, y); });
    tops[static_cast<size_t>(begin / kTile)] = hn::GetLane(hn::MaxOfLanes(f32s, top));
  });
  float largest = 0;
  for (float t : tops) largest = std::max(largest, t);
  *a.largest.as<double>() = static_cast<double>(largest);
}

// Eight numbers per byte; compilers vectorise these loops.
void pack_signs(const PackSigns& a) {
  const float scale = static_cast<float>(a.scale);
  const int64_t count = a.x.count();
  for_tiles(count, [&](int64_t begin, int64_t n) {
    float* x = a.x.as<float>() + begin;
    uint8_t* bits = a.bits.as<uint8_t>() + begin / 8;
    for (int64_t i = 0; i < n; i += 8) {
      unsigned byte = 0;
      for (int64_t j = 0; j < std::min<int64_t>(8, n - i); ++j) {
        const bool positive = x[i + j] >= 0;
        byte |= (positive ? 0x80u : 0u) >> j;
        x[i + j] -= positive ? scale : -scale;
      }
      bits[i / 8] = static_cast<uint8_t>(byte);
    }
  });
}

void unpack_signs(const UnpackSigns& a) {
  const float scale = static_cast<float>(a.scale);
  for_tiles(a.out.count(), [&](int64_t begin, int64_t n) {
    float* out = a.out.as<float>() + begin;
    const uint8_t* bits = a.bits.as<uint8_t>() + begin / 8;
    for (int64_t i = 0; i < n; ++i) {
      const float x = bits[i / 8] & (0x80u >> (i % 8)) ? scale : -scale;
      out[i] = a.accumulate ? out[i] + x : x;
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(weighted_sum);
HWY_EXPORT(adam_direction);
HWY_EXPORT(factored_moments);
HWY_EXPORT(factored_scale);
HWY_EXPORT(root_scale);
HWY_EXPORT(cadam);
HWY_EXPORT(times_root);
HWY_EXPORT(largest_ratio);
HWY_EXPORT(pack_signs);
HWY_EXPORT(unpack_signs);

namespace {

// An Error unless all views are packed. `x` may have any type that Lanes loads; others are f32 or of the given type.
void check_packed(const char* op, const TensorView& x,
                  std::initializer_list<std::tuple<const char*, const TensorView*, DType, int64_t>> others) {
  check_rows(op, x.rows(), x.cols(), {{"x", &x}});
  require(x.contiguous(), "{}: it takes packed views", op);
  for (auto [what, v, type, count] : others)
    require(v->dtype == type && v->count() == count && v->contiguous(), "{}: {} is {} {}, expected {} {}", op, what,
            name(v->dtype), v->shape.text(), count, name(type));
}

// Returns the number of rows over all matrices, and the number of columns.
std::pair<int64_t, int64_t> sides(const char* op, const TensorView& x) {
  require(x.shape.rank() >= 2 && x.count() > 0, "{}: x is {}, no matrix", op, x.shape.text());
  return {x.count() / x.shape[-1], x.count() / x.shape[-2]};
}

}  // namespace

template <>
Kernel<WeightedSum> cpu_kernel() {
  return {[](const WeightedSum& a, void*) {
            check_packed(a.name, a.x, {{"y", &a.y, DType::f32, a.x.count()}});
            HWY_DYNAMIC_DISPATCH(weighted_sum)(a);
          },
          no_workspace<WeightedSum>};
}

template <>
Kernel<AdamDirection> cpu_kernel() {
  return {[](const AdamDirection& a, void*) {
            const int64_t n = a.grad.count();
            check_packed(a.name, a.grad,
                         {{"param", &a.param, DType::f32, n},
                          {"m", &a.m, DType::f32, n},
                          {"v", &a.v, DType::f32, n},
                          {"out", &a.out, DType::f32, n}});
            HWY_DYNAMIC_DISPATCH(adam_direction)(a);
          },
          no_workspace<AdamDirection>};
}

template <>
Kernel<FactoredMoments> cpu_kernel() {
  return {[](const FactoredMoments& a, void*) {
            const auto [rows, columns] = sides(a.name, a.x);
            check_packed(a.name, a.x, {{"row", &a.row, DType::f32, rows}, {"col", &a.col, DType::f32, columns}});
            if (!a.minus.absent()) check_packed(a.name, a.x, {{"minus", &a.minus, DType::f32, a.x.count()}});
            HWY_DYNAMIC_DISPATCH(factored_moments)(a);
          },
          no_workspace<FactoredMoments>};
}

template <>
Kernel<FactoredScale> cpu_kernel() {
  return {[](const FactoredScale& a, void*) {
            const auto [rows, columns] = sides(a.name, a.x);
            check_packed(a.name, a.x,
                         {{"row", &a.row, DType::f32, rows},
                          {"col", &a.col, DType::f32, columns},
                          {"out", &a.out, DType::f32, a.x.count()}});
            HWY_DYNAMIC_DISPATCH(factored_scale)(a);
          },
          no_workspace<FactoredScale>};
}

template <>
Kernel<RootScale> cpu_kernel() {
  return {[](const RootScale& a, void*) {
            const int64_t n = a.x.count();
            check_packed(a.name, a.x, {{"square", &a.square, DType::f32, n}, {"out", &a.out, DType::f32, n}});
            HWY_DYNAMIC_DISPATCH(root_scale)(a);
          },
          no_workspace<RootScale>};
}

template <>
Kernel<Cadam> cpu_kernel() {
  return {
      [](const Cadam& a, void*) {
        const int64_t n = a.grad.count();
        check_packed(
            a.name, a.grad,
            {{"param", &a.param, DType::f32, n}, {"q", &a.q, DType::f16, n}, {"s", &a.s, DType::f32, n / a.param.shape[-1]}});
        HWY_DYNAMIC_DISPATCH(cadam)(a);
      },
      no_workspace<Cadam>};
}

template <>
Kernel<TimesRoot> cpu_kernel() {
  return {[](const TimesRoot& a, void*) {
            check_packed(a.name, a.x, {{"x", &a.x, DType::f32, a.x.count()}, {"v", &a.v, DType::f32, a.x.count()}});
            HWY_DYNAMIC_DISPATCH(times_root)(a);
          },
          no_workspace<TimesRoot>};
}

template <>
Kernel<LargestRatio> cpu_kernel() {
  return {[](const LargestRatio& a, void*) {
            check_packed(a.name, a.v,
                         {{"v", &a.v, DType::f32, a.v.count()},
                          {"fresh", &a.fresh, DType::f32, a.v.count()},
                          {"largest", &a.largest, DType::f64, 1}});
            HWY_DYNAMIC_DISPATCH(largest_ratio)(a);
          },
          no_workspace<LargestRatio>};
}

template <>
Kernel<PackSigns> cpu_kernel() {
  return {[](const PackSigns& a, void*) {
            check_packed(
                a.name, a.x,
                {{"x", &a.x, DType::f32, a.x.count()}, {"bits", &a.bits, DType::u8, ceil_div(a.x.count(), int64_t{8})}});
            HWY_DYNAMIC_DISPATCH(pack_signs)(a);
          },
          no_workspace<PackSigns>};
}

template <>
Kernel<UnpackSigns> cpu_kernel() {
  return {[](const UnpackSigns& a, void*) {
            check_packed(a.name, a.out, {{"out", &a.out, DType::f32, a.out.count()}});
            require(a.bits.dtype == DType::u8 && 8 * a.bits.count() >= a.out.count(), "{}: {} bytes of bits for {} numbers",
                    a.name, a.bits.count(), a.out.count());
            HWY_DYNAMIC_DISPATCH(unpack_signs)(a);
          },
          no_workspace<UnpackSigns>};
}

}  // namespace ravine
#endif
