#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// C: type of the 16-bit copy, or void.
template <class G, class C>
void update_spans(const AdamW& a) {
  const double* scalars = a.scalars.as<double>();
  const Lanes c1 = all(static_cast<float>(1 - a.beta1));
  const Lanes b2 = all(static_cast<float>(a.beta2)), c2 = all(static_cast<float>(1 - a.beta2));
  const Lanes eps = all(static_cast<float>(a.eps)), root = all(static_cast<float>(std::sqrt(scalars[kBias2])));
  const Lanes clip = all(static_cast<float>(scalars[kGradScale]));
  for_spans(a.spans, [&](const UpdateSpan& span, int64_t begin, int64_t n) HWY_ATTR {
    const double lr = scalars[kLr] * span.lr_mult;
    const Lanes step = all(static_cast<float>(-lr / scalars[kBias1]));
    const Lanes l2 = all(static_cast<float>(a.l2 ? span.weight_decay : 0));
    const Lanes keep = all(static_cast<float>(a.l2 ? 1 : 1 - lr * span.weight_decay));
    const Row<float> param(a.param, 0, begin), m(a.m, 0, begin), v(a.v, 0, begin);
    const Row<G> grad(a.grad, 0, begin);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes p = param.load(i, part);
      Lanes g = hn::Mul(grad.load(i, part), clip);
      if (a.l2) g = hn::MulAdd(l2, p, g);
      const Lanes old = m.load(i, part), mean = hn::MulAdd(c1, hn::Sub(g, old), old);
      const Lanes square = hn::MulAdd(hn::Mul(c2, g), g, hn::Mul(b2, v.load(i, part)));
      m.store(mean, i, part);
      v.store(square, i, part);
      const Lanes scale = hn::Add(hn::Div(hn::Sqrt(square), root), eps);
      // The factor of torch.optim.AdamW, in f32 too, but with one rounding of p instead of two. The rounding of weights
      // is the largest part of the difference between a run in f32 and a run in f64.
      const Lanes next = hn::MulAdd(keep, p, hn::Div(hn::Mul(step, mean), scale));
      param.store(next, i, part);
      if constexpr (!std::is_void_v<C>) Row<C>(a.copy, 0, begin).store(next, i, part);
    });
  });
}

void update(const AdamW& a) {
  if (a.grad.dtype == DType::f32) {
    if (a.copy.absent()) return update_spans<float, void>(a);
    if (a.copy.dtype == DType::bf16) return update_spans<float, bf16>(a);
    return update_spans<float, Any>(a);
  }
  if (a.grad.dtype == DType::bf16 && !a.copy.absent() && a.copy.dtype == DType::bf16) return update_spans<bf16, bf16>(a);
  if (a.copy.absent()) return update_spans<Any, void>(a);
  update_spans<Any, Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(update);

template <>
Kernel<AdamW> cpu_kernel() {
  return {[](const AdamW& a, void*) {
            check_update("adamw", a.param, a.grad, a.copy, a.scalars, a.spans, {{"m", &a.m}, {"v", &a.v}});
            HWY_DYNAMIC_DISPATCH(update)(a);
          },
          no_workspace<AdamW>};
}

}  // namespace ravine
#endif
