#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/head_norm.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class X>
void forward_rows(const HeadNormForward& a, const float* weight) {
  const int64_t size = a.weight.cols(), heads = a.x.cols() / size;
  const Row<float> w(const_cast<float*>(weight));
  for_rows(a.x.rows(), a.x.cols(), [&](int64_t r) HWY_ATTR {
    for (int64_t h = 0; h < heads; ++h) {
      const Row<X> x(a.x, r, h * size), out(a.out, r, h * size);
      const float squares = sum_of(size, [&](Lanes acc, int64_t i, auto part) RAVINE_LANES {
        const Lanes v = x.load(i, part);
        return hn::MulAdd(v, v, acc);
      });
      const float rstd = static_cast<float>(1.0 / std::sqrt(static_cast<double>(squares) / size + a.eps));
      if (!a.rstd.absent()) a.rstd.row<float>(r)[h] = rstd;
      const Lanes by = all(rstd);
      each_vector(size, [&](int64_t i, auto part)
                            RAVINE_LANES { out.store(hn::Mul(hn::Mul(x.load(i, part), by), w.load(i, part)), i, part); });
    }
  });
}

template <class X>
void backward_rows(const HeadNormBackward& a, const float* weight, int64_t tokens, float* partial) {
  const int64_t rows = a.x.rows(), size = a.weight.cols(), heads = a.x.cols() / size;
  const bool weighted = !a.dweight.absent();
  const Row<float> w(const_cast<float*>(weight));
  parallel_for(ceil_div(rows, tokens), [&](int64_t chunk) HWY_ATTR {
    const Row<float> acc(partial + (weighted ? chunk * size : 0));
    if (weighted) std::memset(acc.p, 0, size * sizeof(float));
    for (int64_t r = chunk * tokens, end = std::min(rows, r + tokens); r < end; ++r)
      for (int64_t h = 0; h < heads; ++h) {
        const Row<X> x(a.x, r, h * size), dout(a.dout, r, h * size), dx(a.dx, r, h * size);
        const Lanes rstd = all(a.rstd.row<float>(r)[h]);
        const float dot = sum_of(size, [&](Lanes s, int64_t i, auto part) RAVINE_LANES {
          return hn::MulAdd(hn::Mul(dout.load(i, part), w.load(i, part)), hn::Mul(x.load(i, part), rstd), s);
        });
        const Lanes mean = all(static_cast<float>(static_cast<double>(dot) / size));
        each_vector(size, [&](int64_t i, auto part) RAVINE_LANES {
          const Lanes xhat = hn::Mul(x.load(i, part), rstd), d = dout.load(i, part);
          dx.store(hn::Mul(rstd, hn::NegMulAdd(xhat, mean, hn::Mul(d, w.load(i, part)))), i, part);
          if (weighted) acc.store(hn::MulAdd(d, xhat, acc.load(i, part)), i, part);
        });
      }
  });
  if (weighted) sum_partials(partial, ceil_div(rows, tokens), size, a.dweight, a.accumulate);
}

void forward(const HeadNormForward& a, const float* weight) {
  if (all_are(DType::f32, {&a.x, &a.out})) return forward_rows<float>(a, weight);
  if (all_are(DType::bf16, {&a.x, &a.out})) return forward_rows<bf16>(a, weight);
  forward_rows<Any>(a, weight);
}

void backward(const HeadNormBackward& a, const float* weight, int64_t tokens, float* partial) {
  if (all_are(DType::f32, {&a.x, &a.dout, &a.dx})) return backward_rows<float>(a, weight, tokens, partial);
  if (all_are(DType::bf16, {&a.x, &a.dout, &a.dx})) return backward_rows<bf16>(a, weight, tokens, partial);
  backward_rows<Any>(a, weight, tokens, partial);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

namespace {

constexpr int64_t kTokens = 32;  // rows per partial sum of dweight

void check(const char* op, const TensorView& x, const TensorView& weight, const TensorView& rstd) {
  require(!weight.absent() && weight.cols() > 0 && x.cols() % weight.cols() == 0,
          "{}: rows must be whole heads of the weight's size, got {} columns and {}", op, x.cols(), weight.cols());
  require(rstd.absent() || (rstd.rows() == x.rows() && rstd.cols() == x.cols() / weight.cols() && rstd.dtype == DType::f32),
          "{}: rstd is f32, one per row and head, got {}", op, rstd.shape.text());
}

void run_forward(const HeadNormForward& a, void* workspace) {
  check_rows("head_norm", a.x.rows(), a.x.cols(), {{"x", &a.x}, {"out", &a.out}});
  check("head_norm", a.x, a.weight, a.rstd);
  HWY_DYNAMIC_DISPATCH(forward)(a, widened(a.weight, workspace));
}

void run_backward(const HeadNormBackward& a, void* workspace) {
  const char* op = "head_norm_backward";
  check_rows(op, a.x.rows(), a.x.cols(), {{"x", &a.x}, {"dout", &a.dout}, {"dx", &a.dx}});
  check(op, a.x, a.weight, a.rstd);
  require(!a.rstd.absent(), "{}: rstd must be there", op);
  if (!a.dweight.absent()) check_vector(op, "dweight", a.dweight, a.dweight.dtype, a.weight.cols());
  auto* partial = reinterpret_cast<float*>(static_cast<char*>(workspace) + widened_bytes(a.weight));
  HWY_DYNAMIC_DISPATCH(backward)(a, widened(a.weight, workspace), kTokens, partial);
}

}  // namespace

template <>
Kernel<HeadNormForward> cpu_kernel() {
  return {run_forward, [](const HeadNormForward& a, int) { return widened_bytes(a.weight); }};
}

template <>
Kernel<HeadNormBackward> cpu_kernel() {
  return {run_backward, [](const HeadNormBackward& a, int) {
            int64_t partial = a.dweight.absent() ? 0 : 4 * a.weight.cols() * ceil_div(a.x.rows(), kTokens);
            return widened_bytes(a.weight) + partial;
          }};
}

}  // namespace ravine
#endif
