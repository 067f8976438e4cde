#include <cmath>

#include "kernels/ref/optimizer.h"

namespace ravine::ref {
namespace {

void run(const Adagrad& a, void*) {
  const int64_t count = a.param.count();
  for (auto [what, v] : {std::pair{"param", &a.param}, {"grad", &a.grad}, {"sum", &a.sum}})
    check_vector(a.name, what, *v, count);
  if (!a.copy.absent()) check_vector(a.name, "copy", a.copy, count);
  const std::vector<double> scalars = step_scalars(a.name, a.scalars);
  const TensorView param = flat(a.param), grad = flat(a.grad), sums = flat(a.sum);
  each_piece(a.name, a.spans, count, [&](const UpdateSpan& s, int64_t from, int64_t n) {
    const double lr = scalars[kLr] * s.lr_mult;
    std::vector<double> p = load_piece(param, from, n), g = load_piece(grad, from, n), sum = load_piece(sums, from, n);
    for (int64_t i = 0; i < n; ++i) {
      g[i] = g[i] * scalars[kGradScale] + s.weight_decay * p[i];
      sum[i] = (a.first ? a.initial : sum[i]) + g[i] * g[i];
      p[i] -= lr * g[i] / (std::sqrt(sum[i]) + a.eps);
    }
    store(sum.data(), sums, 0, from, n);
    store_param(p, param, a.copy, from);
  });
}

}  // namespace

template <>
Kernel<Adagrad> kernel_of() {
  return entry<Adagrad>(run);
}

}  // namespace ravine::ref
