#include <cmath>

#include "kernels/ref/optimizer.h"

namespace ravine::ref {
namespace {

void run(const AdamW& a, void*) {
  int64_t count = a.param.count();
  check_vector(a.name, "param", a.param, count);
  check_vector(a.name, "grad", a.grad, count);
  check_vector(a.name, "m", a.m, count);
  check_vector(a.name, "v", a.v, count);
  if (!a.copy.absent()) check_vector(a.name, "copy", a.copy, count);
  std::vector<double> scalars = step_scalars(a.name, a.scalars);
  TensorView param = flat(a.param), grad = flat(a.grad), m_all = flat(a.m), v_all = flat(a.v);
  each_piece(a.name, a.spans, count, [&](const UpdateSpan& s, int64_t from, int64_t n) {
    double lr = scalars[kLr] * s.lr_mult, decay = s.weight_decay;
    std::vector<double> p = load_piece(param, from, n), g = load_piece(grad, from, n), m = load_piece(m_all, from, n),
                        v = load_piece(v_all, from, n);
    for (int64_t i = 0; i < n; ++i) {
      g[i] *= scalars[kGradScale];
      if (a.l2)
        g[i] += decay * p[i];
      else
        p[i] -= lr * decay * p[i];
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * g[i];
      v[i] = a.beta2 * v[i] + (1 - a.beta2) * g[i] * g[i];
      p[i] -= lr * (m[i] / scalars[kBias1]) / (std::sqrt(v[i] / scalars[kBias2]) + a.eps);
    }
    store(m.data(), m_all, 0, from, n);
    store(v.data(), v_all, 0, from, n);
    store_param(p, param, a.copy, from);
  });
}

}  // namespace

template <>
Kernel<AdamW> kernel_of() {
  return entry<AdamW>(run);
}

}  // namespace ravine::ref
