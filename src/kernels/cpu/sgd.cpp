#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sgd.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

void update(const Sgd& a) {
  const double* scalars = a.scalars.as<double>();
  const bool moving = !a.buffer.absent(), copied = !a.copy.absent();
  const Lanes momentum = all(static_cast<float>(a.momentum)), taken = all(static_cast<float>(1 - a.dampening));
  const Lanes clip = all(static_cast<float>(scalars[kGradScale]));
  for_spans(a.spans, [&](const UpdateSpan& span, int64_t begin, int64_t n) HWY_ATTR {
    const Lanes lr = all(static_cast<float>(scalars[kLr] * span.lr_mult)), decay = all(static_cast<float>(span.weight_decay));
    const Row<float> param(a.param, 0, begin), buffer(a.buffer, 0, begin);
    const Row<Any> grad(a.grad, 0, begin), copy(a.copy, 0, begin);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes p = param.load(i, part);
      Lanes g = hn::MulAdd(decay, p, hn::Mul(grad.load(i, part), clip));
      if (moving) {
        const Lanes b = a.first ? g : hn::MulAdd(momentum, buffer.load(i, part), hn::Mul(taken, g));
        buffer.store(b, i, part);
        g = a.nesterov ? hn::MulAdd(momentum, b, g) : b;
      }
      const Lanes next = hn::NegMulAdd(lr, g, p);
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
Kernel<Sgd> cpu_kernel() {
  return {[](const Sgd& a, void*) {
            check_update("sgd", a.param, a.grad, a.copy, a.scalars, a.spans, {{"buffer", &a.buffer}});
            HWY_DYNAMIC_DISPATCH(update)(a);
          },
          no_workspace<Sgd>};
}

}  // namespace ravine
#endif
