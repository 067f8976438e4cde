#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/expert_rows.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class Y, class O>
void combine_rows(const CombineRows& a) {
  const int64_t cols = a.out.cols(), k = a.slots.cols();
  const auto* slots = a.slots.as<int32_t>();
  for_rows(a.out.rows(), cols * k, [&](int64_t n) HWY_ATTR {
    const Row<O> out(a.out, n);
    const int32_t* mine = slots + n * k;
    each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
      Lanes sum = zero();
      for (int64_t j = 0; j < k; ++j)
        if (mine[j] >= 0) sum = hn::Add(sum, Row<Y>(a.y, mine[j]).load(i, part));
      out.store(a.accumulate ? hn::Add(out.load(i, part), sum) : sum, i, part);
    });
  });
}

template <class X, class O>
void scale_rows(const ScaleRows& a) {
  const TensorView scale = view_of(a.scale.data, a.scale.dtype, {a.scale.count(), 1});
  for_rows(a.out.rows(), a.out.cols(), [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r);
    const Row<O> out(a.out, r);
    const Lanes s =
        all(a.scale.dtype == DType::f32 ? a.scale.as<float>()[r] : hn::GetLane(Row<Any>(scale, r).load(0, Part{1})));
    each_vector(a.out.cols(), [&](int64_t i, auto part) RAVINE_LANES { out.store(hn::Mul(s, x.load(i, part)), i, part); });
  });
}

void combine(const CombineRows& a) {
  if (all_are(DType::f32, {&a.y, &a.out})) return combine_rows<float, float>(a);
  if (all_are(DType::bf16, {&a.y, &a.out})) return combine_rows<bf16, bf16>(a);
  if (a.y.dtype == DType::f32 && a.out.dtype == DType::bf16) return combine_rows<float, bf16>(a);
  combine_rows<Any, Any>(a);
}

void scale(const ScaleRows& a) {
  if (all_are(DType::f32, {&a.x, &a.out})) return scale_rows<float, float>(a);
  if (all_are(DType::bf16, {&a.x, &a.out})) return scale_rows<bf16, bf16>(a);
  scale_rows<Any, Any>(a);
}

void sigmoid_forward(const SigmoidForward& a) {
  for_pieces(a.out, {&a.x, &a.out}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<Any> x(a.x, row, col), out(a.out, row, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { out.store(sigmoid(x.load(i, part)), i, part); });
  });
}

void sigmoid_backward(const SigmoidBackward& a) {
  for_pieces(a.dx, {&a.y, &a.dout, &a.dx}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<Any> y(a.y, row, col), dout(a.dout, row, col), dx(a.dx, row, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes v = y.load(i, part);
      dx.store(hn::Mul(dout.load(i, part), hn::Mul(v, hn::Sub(all(1.0f), v))), i, part);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(combine);
HWY_EXPORT(scale);
HWY_EXPORT(sigmoid_forward);
HWY_EXPORT(sigmoid_backward);

namespace {

void gather(const GatherRows& a, void*) {
  const int64_t cols = a.out.cols();
  check_rows(a.name, a.x.rows(), cols, {{"x", &a.x}});
  check_rows(a.name, a.out.rows(), cols, {{"out", &a.out}});
  check_vector(a.name, "tokens", a.tokens, DType::i32, a.out.rows());
  require(a.x.dtype == a.out.dtype, "{}: x is {}, out {}", a.name, name(a.x.dtype), name(a.out.dtype));
  const auto* tokens = a.tokens.as<int32_t>();
  const int64_t size = size_of(a.x.dtype);
  const auto bytes = static_cast<size_t>(cols * size);
  for_rows(a.out.rows(), cols, [&](int64_t r) {
    char* to = a.out.as<char>() + r * a.out.stride * size;
    if (tokens[r] < 0)
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, a.x.as<char>() + tokens[r] * a.x.stride * size, bytes);
  });
}

void run_combine(const CombineRows& a, void*) {
  check_rows(a.name, a.y.rows(), a.out.cols(), {{"y", &a.y}});
  check_rows(a.name, a.out.rows(), a.out.cols(), {{"out", &a.out}});
  check_vector(a.name, "slots", a.slots, DType::i32, a.out.rows() * a.slots.cols());
  HWY_DYNAMIC_DISPATCH(combine)(a);
}

void run_scale(const ScaleRows& a, void*) {
  check_rows(a.name, a.out.rows(), a.out.cols(), {{"x", &a.x}, {"out", &a.out}});
  check_rows(a.name, a.out.rows(), 1, {{"scale", &a.scale}});
  require(a.scale.contiguous(), "{}: scale is packed", a.name);
  HWY_DYNAMIC_DISPATCH(scale)(a);
}

}  // namespace

template <>
Kernel<GatherRows> cpu_kernel() {
  return {gather, no_workspace<GatherRows>};
}
template <>
Kernel<CombineRows> cpu_kernel() {
  return {run_combine, no_workspace<CombineRows>};
}
template <>
Kernel<ScaleRows> cpu_kernel() {
  return {run_scale, no_workspace<ScaleRows>};
}
template <>
Kernel<SigmoidForward> cpu_kernel() {
  return {[](const SigmoidForward& a, void*) {
            check_rows(a.name, a.out.rows(), a.out.cols(), {{"x", &a.x}, {"out", &a.out}});
            HWY_DYNAMIC_DISPATCH(sigmoid_forward)(a);
          },
          no_workspace<SigmoidForward>};
}
template <>
Kernel<SigmoidBackward> cpu_kernel() {
  return {[](const SigmoidBackward& a, void*) {
            check_rows(a.name, a.dx.rows(), a.dx.cols(), {{"y", &a.y}, {"dout", &a.dout}, {"dx", &a.dx}});
            HWY_DYNAMIC_DISPATCH(sigmoid_backward)(a);
          },
          no_workspace<SigmoidBackward>};
}

}  // namespace ravine
#endif
