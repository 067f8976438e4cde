#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adagrad.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

void update(const Adagrad& a) {
  const double* scalars = a.scalars.as<double>();
  const bool copied = !a.copy.absent();
  const Lanes eps = all(static_cast<float>(a.eps)), initial = all(static_cast<float>(a.initial));
  const Lanes clip = all(static_cast<float>(scalars[kGradScale]));
  for_spans(a.spans, [&](const UpdateSpan& span, int64_t begin, int64_t n) HWY_ATTR {
    const Lanes lr = all(static_cast<float>(scalars[kLr] * span.lr_mult)), decay = all(static_cast<float>(span.weight_decay));
    const Row<float> param(a.param, 0, begin), sums(a.sum, 0, begin);
    const Row<Any> grad(a.grad, 0, begin), copy(a.copy, 0, begin);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes p = param.load(i, part), g = hn::MulAdd(decay, p, hn::Mul(grad.load(i, part), clip));
      const Lanes sum = hn::MulAdd(g, g, a.first ? initial : sums.load(i, part));
      sums.store(sum, i, part);
      const Lanes next = hn::Sub(p, hn::Div(hn::Mul(lr, g), hn::Add(hn::Sqrt(sum), eps)));
      param.store(next, i, part);
      if (copied) copy.store(next, i, part);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(update);

template <>
Kernel<Adagrad> cpu_kernel() {
  return {[](const Adagrad& a, void*) {
            check_update("adagrad", a.param, a.grad, a.copy, a.scalars, a.spans, {{"sum", &a.sum}});
            HWY_DYNAMIC_DISPATCH(update)(a);
          },
          no_workspace<Adagrad>};
}

}  // namespace ravine
#endif
