#include <cmath>

#include "kernels/ref/optimizer.h"

namespace ravine::ref {
namespace {

void run(const Lion& a, void*) {
  const int64_t count = a.param.count();
  for (auto [what, v] : {std::pair{"param", &a.param}, {"grad", &a.grad}, {"m", &a.m}}) check_vector(a.name, what, *v, count);
  if (!a.copy.absent()) check_vector(a.name, "copy", a.copy, count);
  const std::vector<double> scalars = step_scalars(a.name, a.scalars);
  const TensorView param = flat(a.param), grad = flat(a.grad), moment = flat(a.m);
  each_piece(a.name, a.spans, count, [&](const UpdateSpan& s, int64_t from, int64_t n) {
    const double lr = scalars[kLr] * s.lr_mult;
    std::vector<double> p = load_piece(param, from, n), g = load_piece(grad, from, n), m = load_piece(moment, from, n);
    for (int64_t i = 0; i < n; ++i) {
      g[i] *= scalars[kGradScale];
      p[i] = p[i] * (1 - lr * s.weight_decay) - std::copysign(lr, a.beta1 * m[i] + (1 - a.beta1) * g[i]);
      m[i] = a.beta2 * m[i] + (1 - a.beta2) * g[i];
    }
    store(m.data(), moment, 0, from, n);
    store_param(p, param, a.copy, from);
  });
}

}  // namespace

template <>
Kernel<Lion> kernel_of() {
  return entry<Lion>(run);
}

}  // namespace ravine::ref
