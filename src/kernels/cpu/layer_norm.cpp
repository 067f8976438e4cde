#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Returns v with the unused lanes of a partial vector set to 0.
template <class P>
HWY_INLINE Lanes within(Lanes v, P part) {
  if constexpr (std::is_same_v<P, Full>)
    return v;
  else
    return hn::IfThenElseZero(hn::FirstN(f32s, part.n), v);
}

// X: type of the residual stream (x, sum); B: type of branch and out. A row stays in cache for three passes: sum,
// deviations, result.
template <class X, class B>
void forward_rows(const LayerNormForward& a, const float* weight, const float* bias) {
  const int64_t cols = a.x.cols();
  const bool branched = !a.branch.absent(), stored = !a.sum.absent();
  const Row<float> w(const_cast<float*>(weight)), b(const_cast<float*>(bias));
  for_rows(a.x.rows(), cols, [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r), sum(a.sum, r);
    const Row<B> branch(a.branch, r), out(a.out, r);
    auto added = [&](int64_t i, auto part) RAVINE_LANES { return hn::Add(x.load(i, part), branch.load(i, part)); };
    auto normalise = [&](auto&& value) RAVINE_LANES {
      const float mean =
          static_cast<float>(static_cast<double>(sum_of(cols, [&](Lanes acc, int64_t i, auto part)
                                                                  RAVINE_LANES { return hn::Add(acc, value(i, part)); })) /
                             cols);
      const Lanes m = all(mean);
      const float squares = sum_of(cols, [&](Lanes acc, int64_t i, auto part) RAVINE_LANES {
        const Lanes d = within(hn::Sub(value(i, part), m), part);
        return hn::MulAdd(d, d, acc);
      });
      const float rstd = static_cast<float>(1.0 / std::sqrt(static_cast<double>(squares) / cols + a.eps));
      if (!a.mean.absent()) a.mean.as<float>()[r] = mean;
      if (!a.rstd.absent()) a.rstd.as<float>()[r] = rstd;
      const Lanes by = all(rstd);
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes xhat = hn::Mul(hn::Sub(value(i, part), m), by);
        out.store(hn::MulAdd(xhat, w.load(i, part), b.load(i, part)), i, part);
      });
    };
    if (branched && stored) {
      // The stored sum is normalised, since the backward pass reads it.
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES { sum.store(added(i, part), i, part); });
      normalise([&](int64_t i, auto part) RAVINE_LANES { return sum.load(i, part); });
    } else if (branched) {
      normalise(added);
    } else {
      normalise([&](int64_t i, auto part) RAVINE_LANES { return x.load(i, part); });
    }
  });
}

// X: type of x, dsum, dx; B: type of dout and dbranch. Each chunk of rows has its own partial sums of dweight and
// dbias.
template <class X, class B>
void backward_rows(const LayerNormBackward& a, const float* weight, int64_t tokens, float* dweight, float* dbias) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  const bool summed = !a.dsum.absent(), branched = !a.dbranch.absent(), weighted = !a.dweight.absent();
  const Row<float> w(const_cast<float*>(weight));
  parallel_for(ceil_div(rows, tokens), [&](int64_t chunk) HWY_ATTR {
    const Row<float> dw(dweight + (weighted ? chunk * cols : 0)), db(dbias + (weighted ? chunk * cols : 0));
    if (weighted) std::memset(dw.p, 0, cols * sizeof(float)), std::memset(db.p, 0, cols * sizeof(float));
    for (int64_t r = chunk * tokens, end = std::min(rows, r + tokens); r < end; ++r) {
      const Row<X> x(a.x, r), dsum(a.dsum, r), dx(a.dx, r);
      const Row<B> dout(a.dout, r), dbranch(a.dbranch, r);
      const Lanes mean = all(a.mean.as<float>()[r]), rstd = all(a.rstd.as<float>()[r]);
      auto normal = [&](int64_t i, auto part) RAVINE_LANES { return hn::Mul(hn::Sub(x.load(i, part), mean), rstd); };
      auto inner = [&](int64_t i, auto part) RAVINE_LANES { return hn::Mul(dout.load(i, part), w.load(i, part)); };
      const float first = sum_of(cols, [&](Lanes s, int64_t i, auto part) RAVINE_LANES { return hn::Add(s, inner(i, part)); });
      const float second = sum_of(
          cols, [&](Lanes s, int64_t i, auto part) RAVINE_LANES { return hn::MulAdd(inner(i, part), normal(i, part), s); });
      const Lanes m1 = all(static_cast<float>(static_cast<double>(first) / cols));
      const Lanes m2 = all(static_cast<float>(static_cast<double>(second) / cols));
      each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes xhat = normal(i, part), d = dout.load(i, part);
        const Lanes rest = hn::NegMulAdd(xhat, m2, hn::Sub(hn::Mul(d, w.load(i, part)), m1));
        const Lanes g = summed ? hn::MulAdd(rstd, rest, dsum.load(i, part)) : hn::Mul(rstd, rest);
        dx.store(g, i, part);
        if (branched) dbranch.store(g, i, part);
        if (!weighted) return;
        dw.store(hn::MulAdd(d, xhat, dw.load(i, part)), i, part);
        db.store(hn::Add(d, db.load(i, part)), i, part);
      });
    }
  });
  if (!weighted) return;
  sum_partials(dweight, ceil_div(rows, tokens), cols, a.dweight, a.accumulate);
  sum_partials(dbias, ceil_div(rows, tokens), cols, a.dbias, a.accumulate);
}

void forward(const LayerNormForward& a, const float* weight, const float* bias) {
  auto mix = [&](DType x, DType b) { return all_are(x, {&a.x, &a.sum}) && all_are(b, {&a.branch, &a.out}); };
  if (mix(DType::f32, DType::f32)) return forward_rows<float, float>(a, weight, bias);
  if (mix(DType::f32, DType::bf16)) return forward_rows<float, bf16>(a, weight, bias);
  if (mix(DType::bf16, DType::bf16)) return forward_rows<bf16, bf16>(a, weight, bias);
  forward_rows<Any, Any>(a, weight, bias);
}

void backward(const LayerNormBackward& a, const float* weight, int64_t tokens, float* dweight, float* dbias) {
  auto mix = [&](DType x, DType b) { return all_are(x, {&a.x, &a.dsum, &a.dx}) && all_are(b, {&a.dout, &a.dbranch}); };
  if (mix(DType::f32, DType::f32)) return backward_rows<float, float>(a, weight, tokens, dweight, dbias);
  if (mix(DType::f32, DType::bf16)) return backward_rows<float, bf16>(a, weight, tokens, dweight, dbias);
  if (mix(DType::bf16, DType::bf16)) return backward_rows<bf16, bf16>(a, weight, tokens, dweight, dbias);
  backward_rows<Any, Any>(a, weight, tokens, dweight, dbias);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/pack.h"

namespace ravine {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

namespace {

constexpr int64_t kTokens = 32;  // rows per partial sum

// Returns the vector as f32: itself, or a converted copy in scratch.
const float* widened(const TensorView& v, Scratch& scratch) {
  if (v.dtype == DType::f32) return v.as<float>();
  float* to = scratch.floats(v.cols());
  if (v.data) convert_run(v.dtype, v.data, DType::f32, to, v.cols());
  return to;
}

void check_vectors(const char* op, const TensorView& weight, const TensorView& bias, int64_t cols) {
  for (const TensorView* v : {&weight, &bias})
    require(v->absent() || v->count() == cols, "{}: weight or bias has {} elements, rows of x have {}", op, v->count(), cols);
}

void run_forward(const LayerNormForward& a, void* workspace) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  check_rows("layer_norm", rows, cols, {{"x", &a.x}, {"branch", &a.branch}, {"sum", &a.sum}, {"out", &a.out}});
  check_vectors("layer_norm", a.weight, a.bias, cols);
  require(a.sum.absent() || !a.branch.absent(), "layer_norm: a sum needs a branch");
  if (!a.mean.absent()) check_vector("layer_norm", "mean", a.mean, DType::f32, rows);
  if (!a.rstd.absent()) check_vector("layer_norm", "rstd", a.rstd, DType::f32, rows);
  Scratch scratch(workspace);
  const float *weight = widened(a.weight, scratch), *bias = widened(a.bias, scratch);
  HWY_DYNAMIC_DISPATCH(forward)(a, weight, bias);
}

struct Partials {
  const float* weight;
  float *dweight, *dbias;
  int64_t bytes;
};

Partials lay_out(const LayerNormBackward& a, void* workspace) {
  Scratch scratch(workspace);
  const int64_t n = a.dweight.absent() ? 0 : a.x.cols() * ceil_div(a.x.rows(), kTokens);
  Partials p{};
  p.dweight = scratch.floats(n), p.dbias = scratch.floats(n);
  if (workspace)
    p.weight = widened(a.weight, scratch);
  else if (a.weight.dtype != DType::f32)
    scratch.floats(a.weight.cols());
  p.bytes = scratch.bytes();
  return p;
}

void run_backward(const LayerNormBackward& a, void* workspace) {
  const int64_t rows = a.x.rows(), cols = a.x.cols();
  const char* op = "layer_norm_backward";
  check_rows(op, rows, cols, {{"x", &a.x}, {"dout", &a.dout}, {"dsum", &a.dsum}, {"dx", &a.dx}, {"dbranch", &a.dbranch}});
  check_vectors(op, a.weight, {}, cols);
  check_vector(op, "mean", a.mean, DType::f32, rows);
  check_vector(op, "rstd", a.rstd, DType::f32, rows);
  require(a.dweight.absent() == a.dbias.absent(), "{}: dweight and dbias come together", op);
  if (!a.dweight.absent()) {
    check_vector(op, "dweight", a.dweight, a.dweight.dtype, cols);
    check_vector(op, "dbias", a.dbias, a.dbias.dtype, cols);
  }
  const Partials p = lay_out(a, workspace);
  HWY_DYNAMIC_DISPATCH(backward)(a, p.weight, kTokens, p.dweight, p.dbias);
}

}  // namespace

template <>
Kernel<LayerNormForward> cpu_kernel() {
  return {run_forward, [](const LayerNormForward& a, int) {
            Scratch scratch(nullptr);
            for (const TensorView* v : {&a.weight, &a.bias})
              if (v->dtype != DType::f32) scratch.floats(v->cols());
            return scratch.bytes();
          }};
}

template <>
Kernel<LayerNormBackward> cpu_kernel() {
  return {run_backward, [](const LayerNormBackward& a, int) { return lay_out(a, nullptr).bytes; }};
}

}  // namespace ravine
#endif
