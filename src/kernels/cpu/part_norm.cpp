#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/part_norm.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class X>
void dot_rows(const RowDot& a, const float* weight) {
  const Row<float> w(const_cast<float*>(weight));
  for_rows(a.x.rows(), a.x.cols(), [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r), y(a.y, r);
    a.out.as<float>()[r] = sum_of(a.x.cols(), [&](Lanes acc, int64_t i, auto part) RAVINE_LANES {
      const Lanes v = x.load(i, part);
      return hn::MulAdd(weight ? hn::Mul(y.load(i, part), w.load(i, part)) : y.load(i, part), v, acc);
    });
  });
}

template <class X>
void forward_rows(const PartNormForward& a, const float* weight) {
  const Row<float> w(const_cast<float*>(weight));
  for_rows(a.x.rows(), a.x.cols(), [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r), out(a.out, r);
    const float rstd = static_cast<float>(
        1.0 / std::sqrt(static_cast<double>(a.squares.as<float>()[r]) / static_cast<double>(a.width) + a.eps));
    if (!a.rstd.absent()) a.rstd.as<float>()[r] = rstd;
    const Lanes by = all(rstd);
    each_vector(a.x.cols(), [&](int64_t i, auto part)
                                RAVINE_LANES { out.store(hn::Mul(hn::Mul(x.load(i, part), by), w.load(i, part)), i, part); });
  });
}

template <class X>
void backward_rows(const PartNormBackward& a, const float* weight, int64_t tokens, float* partial) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  const bool weighted = !a.dweight.absent();
  const Row<float> w(const_cast<float*>(weight));
  parallel_for(ceil_div(rows, tokens), [&](int64_t chunk) HWY_ATTR {
    const Row<float> acc(partial + (weighted ? chunk * cols : 0));
    if (weighted) std::memset(acc.p, 0, cols * sizeof(float));
    for (int64_t r = chunk * tokens, end = std::min(rows, r + tokens); r < end; ++r) {
      const Row<X> x(a.x, r), dout(a.dout, r), dx(a.dx, r);
      const float scale = a.rstd.as<float>()[r];
      const Lanes rstd = all(scale), mean = all(static_cast<float>(static_cast<double>(a.dots.as<float>()[r]) * scale /
                                                                   static_cast<double>(a.width)));
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes xhat = hn::Mul(x.load(i, part), rstd), d = dout.load(i, part);
        dx.store(hn::Mul(rstd, hn::NegMulAdd(xhat, mean, hn::Mul(d, w.load(i, part)))), i, part);
        if (weighted) acc.store(hn::MulAdd(d, xhat, acc.load(i, part)), i, part);
      });
    }
  });
  if (weighted) sum_partials(partial, ceil_div(rows, tokens), cols, a.dweight, a.accumulate);
}

void dot(const RowDot& a, const float* weight) {
  if (all_are(DType::f32, {&a.x, &a.y})) return dot_rows<float>(a, weight);
  if (all_are(DType::bf16, {&a.x, &a.y})) return dot_rows<bf16>(a, weight);
  dot_rows<Any>(a, weight);
}

void forward(const PartNormForward& a, const float* weight) {
  if (all_are(DType::f32, {&a.x, &a.out})) return forward_rows<float>(a, weight);
  if (all_are(DType::bf16, {&a.x, &a.out})) return forward_rows<bf16>(a, weight);
  forward_rows<Any>(a, weight);
}

void backward(const PartNormBackward& a, const float* weight, int64_t tokens, float* partial) {
  if (all_are(DType::f32, {&a.x, &a.dout, &a.dx})) return backward_rows<float>(a, weight, tokens, partial);
  if (all_are(DType::bf16, {&a.x, &a.dout, &a.dx})) return backward_rows<bf16>(a, weight, tokens, partial);
  backward_rows<Any>(a, weight, tokens, partial);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(dot);
HWY_EXPORT(forward);
HWY_EXPORT(backward);

namespace {

constexpr int64_t kTokens = 32;  // rows per partial sum of dweight

void check_weight(const char* op, const TensorView& weight, int64_t cols) {
  require(weight.count() == cols, "{}: weight has {} elements, rows of x have {}", op, weight.count(), cols);
}

void run_dot(const RowDot& a, void* workspace) {
  check_rows("row_dot", a.x.rows(), a.x.cols(), {{"x", &a.x}, {"y", &a.y}});
  if (!a.weight.absent()) check_weight("row_dot", a.weight, a.x.cols());
  check_vector("row_dot", "out", a.out, DType::f32, a.x.rows());
  HWY_DYNAMIC_DISPATCH(dot)(a, widened(a.weight, workspace));
}

void run_forward(const PartNormForward& a, void* workspace) {
  check_rows("part_norm", a.x.rows(), a.x.cols(), {{"x", &a.x}, {"out", &a.out}});
  check_weight("part_norm", a.weight, a.x.cols());
  check_vector("part_norm", "squares", a.squares, DType::f32, a.x.rows());
  if (!a.rstd.absent()) check_vector("part_norm", "rstd", a.rstd, DType::f32, a.x.rows());
  HWY_DYNAMIC_DISPATCH(forward)(a, widened(a.weight, workspace));
}

void run_backward(const PartNormBackward& a, void* workspace) {
  const char* op = "part_norm_backward";
  check_rows(op, a.x.rows(), a.x.cols(), {{"x", &a.x}, {"dout", &a.dout}, {"dx", &a.dx}});
  check_weight(op, a.weight, a.x.cols());
  check_vector(op, "rstd", a.rstd, DType::f32, a.x.rows());
  check_vector(op, "dots", a.dots, DType::f32, a.x.rows());
  if (!a.dweight.absent()) check_vector(op, "dweight", a.dweight, a.dweight.dtype, a.x.cols());
  auto* partial = reinterpret_cast<float*>(static_cast<char*>(workspace) + widened_bytes(a.weight));
  HWY_DYNAMIC_DISPATCH(backward)(a, widened(a.weight, workspace), kTokens, partial);
}

}  // namespace

template <>
Kernel<RowDot> cpu_kernel() {
  return {run_dot, [](const RowDot& a, int) { return widened_bytes(a.weight); }};
}

template <>
Kernel<PartNormForward> cpu_kernel() {
  return {run_forward, [](const PartNormForward& a, int) { return widened_bytes(a.weight); }};
}

template <>
Kernel<PartNormBackward> cpu_kernel() {
  return {run_backward, [](const PartNormBackward& a, int) {
            int64_t partial = a.dweight.absent() ? 0 : 4 * a.x.cols() * ceil_div(a.x.rows(), kTokens);
            return widened_bytes(a.weight) + partial;
          }};
}

}  // namespace ravine
#endif
