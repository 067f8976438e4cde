#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/lion.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

void update(const Lion& a) {
  const double* scalars = a.scalars.as<double>();
  const bool copied = !a.copy.absent();
  const Lanes b1 = all(static_cast<float>(a.beta1)), c1 = all(static_cast<float>(1 - a.beta1));
  const Lanes b2 = all(static_cast<float>(a.beta2)), c2 = all(static_cast<float>(1 - a.beta2));
  const Lanes clip = all(static_cast<float>(scalars[kGradScale]));
  for_spans(a.spans, [&](const UpdateSpan& span, int64_t begin, int64_t n) HWY_ATTR {
    const double rate = scalars[kLr] * span.lr_mult;
    const Lanes lr = all(static_cast<float>(rate)), keep = all(static_cast<float>(1 - rate * span.weight_decay));
    const Row<float> param(a.param, 0, begin), moment(a.m, 0, begin);
    const Row<Any> grad(a.grad, 0, begin), copy(a.copy, 0, begin);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes g = hn::Mul(grad.load(i, part), clip), m = moment.load(i, part);
      const Lanes direction = hn::MulAdd(b1, m, hn::Mul(c1, g));
      moment.store(hn::MulAdd(b2, m, hn::Mul(c2, g)), i, part);
      const Lanes next = hn::MulSub(keep, param.load(i, part), hn::CopySign(lr, direction));
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
Kernel<Lion> cpu_kernel() {
  return {[](const Lion& a, void*) {
            check_update("lion", a.param, a.grad, a.copy, a.scalars, a.spans, {{"m", &a.m}});
            HWY_DYNAMIC_DISPATCH(update)(a);
          },
          no_workspace<Lion>};
}

}  // namespace ravine
#endif
