#include "kernels/ref/optimizer.h"

namespace ravine::ref {
namespace {

void run(const Sgd& a, void*) {
  int64_t count = a.param.count();
  bool buffered = !a.buffer.absent();
  check_vector(a.name, "param", a.param, count);
  check_vector(a.name, "grad", a.grad, count);
  require(buffered || a.momentum == 0, "sgd: momentum {} needs a buffer, got none", a.momentum);
  if (buffered) check_vector(a.name, "buffer", a.buffer, count);
  if (!a.copy.absent()) check_vector(a.name, "copy", a.copy, count);
  std::vector<double> scalars = step_scalars(a.name, a.scalars);
  TensorView param = flat(a.param), grad = flat(a.grad), buffers = buffered ? flat(a.buffer) : TensorView{};
  each_piece(a.name, a.spans, count, [&](const UpdateSpan& s, int64_t from, int64_t n) {
    double lr = scalars[kLr] * s.lr_mult;
    std::vector<double> p = load_piece(param, from, n), g = load_piece(grad, from, n), buffer(n);
    for (int64_t i = 0; i < n; ++i) g[i] = g[i] * scalars[kGradScale] + s.weight_decay * p[i];
    if (buffered && !a.first) buffer = load_piece(buffers, from, n);
    for (int64_t i = 0; i < n; ++i) {
      double step = g[i];
      if (buffered) {
        buffer[i] = a.first ? g[i] : a.momentum * buffer[i] + (1 - a.dampening) * g[i];
        step = a.nesterov ? g[i] + a.momentum * buffer[i] : buffer[i];
      }
      p[i] -= lr * step;
    }
    if (buffered) store(buffer.data(), buffers, 0, from, n);
    store_param(p, param, a.copy, from);
  });
}

}  // namespace

template <>
Kernel<Sgd> kernel_of() {
  return entry<Sgd>(run);
}

}  // namespace ravine::ref
