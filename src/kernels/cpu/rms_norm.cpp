#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// X: type of the residual stream (x, sum); B: type of branch and out.
template <class X, class B>
void forward_rows(const RmsNormForward& a, const float* weight) {
  const int64_t cols = a.x.cols();
  const bool branched = !a.branch.absent(), stored = !a.sum.absent();
  const Row<float> w(const_cast<float*>(weight));
  for_rows(a.x.rows(), cols, [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r), sum(a.sum, r);
    const Row<B> branch(a.branch, r), out(a.out, r);
    auto square = [](Lanes acc, Lanes v) RAVINE_LANES { return hn::MulAdd(v, v, acc); };
    // The stored sum is normalised, since the backward pass reads it.
    auto added = [&](int64_t i, auto part) RAVINE_LANES { return hn::Add(x.load(i, part), branch.load(i, part)); };
    float squares;
    if (branched && stored) {
      squares = sum_of(cols, [&](Lanes acc, int64_t i, auto part) RAVINE_LANES {
        sum.store(added(i, part), i, part);
        return square(acc, sum.load(i, part));
      });
    } else if (branched) {
      squares = sum_of(cols, [&](Lanes acc, int64_t i, auto part) RAVINE_LANES { return square(acc, added(i, part)); });
    } else {
      squares = sum_of(cols, [&](Lanes acc, int64_t i, auto part) RAVINE_LANES { return square(acc, x.load(i, part)); });
    }
    const float rstd = static_cast<float>(1.0 / std::sqrt(static_cast<double>(squares) / cols + a.eps));
    if (!a.rstd.absent()) a.rstd.as<float>()[r] = rstd;
    const Lanes by = all(rstd);
    auto scaled = [&](Lanes v, int64_t i, auto part)
                      RAVINE_LANES { out.store(hn::Mul(hn::Mul(v, by), w.load(i, part)), i, part); };
    if (branched && !stored) {
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES { scaled(added(i, part), i, part); });
    } else {
      const Row<X> from = branched ? sum : x;
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES { scaled(from.load(i, part), i, part); });
    }
  });
}

// X: type of x, dsum, dx; B: type of dout and dbranch.
template <class X, class B>
void backward_rows(const RmsNormBackward& a, const float* weight, int64_t tokens, float* partial) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  const bool summed = !a.dsum.absent(), branched = !a.dbranch.absent(), weighted = !a.dweight.absent();
  const Row<float> w(const_cast<float*>(weight));
  parallel_for(ceil_div(rows, tokens), [&](int64_t chunk) HWY_ATTR {
    const Row<float> acc(partial + (weighted ? chunk * cols : 0));
    if (weighted) std::memset(acc.p, 0, cols * sizeof(float));
    for (int64_t r = chunk * tokens, end = std::min(rows, r + tokens); r < end; ++r) {
      const Row<X> x(a.x, r), dsum(a.dsum, r), dx(a.dx, r);
      const Row<B> dout(a.dout, r), dbranch(a.dbranch, r);
      const Lanes rstd = all(a.rstd.as<float>()[r]);
      const float dot = sum_of(cols, [&](Lanes s, int64_t i, auto part) RAVINE_LANES {
        return hn::MulAdd(hn::Mul(dout.load(i, part), w.load(i, part)), hn::Mul(x.load(i, part), rstd), s);
      });
      const Lanes mean = all(static_cast<float>(static_cast<double>(dot) / cols));
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes xhat = hn::Mul(x.load(i, part), rstd), d = dout.load(i, part);
        const Lanes inner = hn::NegMulAdd(xhat, mean, hn::Mul(d, w.load(i, part)));
        const Lanes g = summed ? hn::MulAdd(rstd, inner, dsum.load(i, part)) : hn::Mul(rstd, inner);
        dx.store(g, i, part);
        if (branched) dbranch.store(g, i, part);
        if (weighted) acc.store(hn::MulAdd(d, xhat, acc.load(i, part)), i, part);
      });
    }
  });
  if (weighted) sum_partials(partial, ceil_div(rows, tokens), cols, a.dweight, a.accumulate);
}

void forward(const RmsNormForward& a, const float* weight) {
  auto mix = [&](DType x, DType b) { return all_are(x, {&a.x, &a.sum}) && all_are(b, {&a.branch, &a.out}); };
  if (mix(DType::f32, DType::f32)) return forward_rows<float, float>(a, weight);
  if (mix(DType::f32, DType::bf16)) return forward_rows<float, bf16>(a, weight);
  if (mix(DType::bf16, DType::bf16)) return forward_rows<bf16, bf16>(a, weight);
  forward_rows<Any, Any>(a, weight);
}

void backward(const RmsNormBackward& a, const float* weight, int64_t tokens, float* partial) {
  auto mix = [&](DType x, DType b) { return all_are(x, {&a.x, &a.dsum, &a.dx}) && all_are(b, {&a.dout, &a.dbranch}); };
  if (mix(DType::f32, DType::f32)) return backward_rows<float, float>(a, weight, tokens, partial);
  if (mix(DType::f32, DType::bf16)) return backward_rows<float, bf16>(a, weight, tokens, partial);
  if (mix(DType::bf16, DType::bf16)) return backward_rows<bf16, bf16>(a, weight, tokens, partial);
  backward_rows<Any, Any>(a, weight, tokens, partial);
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

// Bytes for offset + weight at the beginning of the workspace; 0 if the factor is the weight itself.
int64_t factor_bytes(const TensorView& weight, double offset) {
  return weight.dtype == DType::f32 && offset == 0 ? 0 : round_up(4 * weight.cols(), 64);
}

const float* factors(const TensorView& weight, double offset, void* workspace) {
  if (weight.dtype == DType::f32 && offset == 0) return weight.as<float>();
  convert_run(weight.dtype, weight.data, DType::f32, workspace, weight.cols());
  auto* f = static_cast<float*>(workspace);
  if (offset != 0)
    for (int64_t i = 0; i < weight.cols(); ++i) f[i] += static_cast<float>(offset);
  return f;
}

void check_weight(const char* op, const TensorView& weight, int64_t cols) {
  require(weight.count() == cols, "{}: weight has {} elements, rows of x have {}", op, weight.count(), cols);
}

void run_forward(const RmsNormForward& a, void* workspace) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  check_rows("rms_norm", rows, cols, {{"x", &a.x}, {"branch", &a.branch}, {"sum", &a.sum}, {"out", &a.out}});
  check_weight("rms_norm", a.weight, cols);
  require(a.sum.absent() || !a.branch.absent(), "rms_norm: a sum needs a branch");
  if (!a.rstd.absent()) check_vector("rms_norm", "rstd", a.rstd, DType::f32, rows);
  HWY_DYNAMIC_DISPATCH(forward)(a, factors(a.weight, a.offset, workspace));
}

void run_backward(const RmsNormBackward& a, void* workspace) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  check_rows("rms_norm_backward", rows, cols,
             {{"x", &a.x}, {"dout", &a.dout}, {"dsum", &a.dsum}, {"dx", &a.dx}, {"dbranch", &a.dbranch}});
  check_weight("rms_norm_backward", a.weight, cols);
  check_vector("rms_norm_backward", "rstd", a.rstd, DType::f32, rows);
  if (!a.dweight.absent()) check_vector("rms_norm_backward", "dweight", a.dweight, a.dweight.dtype, cols);
  auto* partial = reinterpret_cast<float*>(static_cast<char*>(workspace) + factor_bytes(a.weight, a.offset));
  HWY_DYNAMIC_DISPATCH(backward)(a, factors(a.weight, a.offset, workspace), kTokens, partial);
}

}  // namespace

template <>
Kernel<RmsNormForward> cpu_kernel() {
  return {run_forward, [](const RmsNormForward& a, int) { return factor_bytes(a.weight, a.offset); }};
}

template <>
Kernel<RmsNormBackward> cpu_kernel() {
  return {run_backward, [](const RmsNormBackward& a, int) {
            int64_t partial = a.dweight.absent() ? 0 : 4 * a.x.cols() * ceil_div(a.x.rows(), kTokens);
            return factor_bytes(a.weight, a.offset) + partial;
          }};
}

}  // namespace ravine
#endif
