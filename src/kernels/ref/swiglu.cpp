#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// out = silu(gate) up, silu(g) = g / (1 + exp(-g))
void forward(const SwigluForward& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check(a.name, "gate", a.gate, n, c);
  check(a.name, "up", a.up, n, c);
  check(a.name, "out", a.out, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> gate = load_row(a.gate, i), up = load_row(a.up, i);
    for (int64_t j = 0; j < c; ++j) up[j] *= gate[j] / (1 + std::exp(-gate[j]));
    store_row(up, a.out, i);
  });
}

// dgate = dout up s (1 + g (1 - s)), dup = dout g s, s = sigmoid(gate)
void backward(const SwigluBackward& a, void*) {
  int64_t n = a.dout.rows(), c = a.dout.cols();
  check(a.name, "gate", a.gate, n, c);
  check(a.name, "up", a.up, n, c);
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "dgate", a.dgate, n, c);
  check(a.name, "dup", a.dup, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> gate = load_row(a.gate, i), up = load_row(a.up, i), dout = load_row(a.dout, i);
    for (int64_t j = 0; j < c; ++j) {
      double g = gate[j], s = 1 / (1 + std::exp(-g)), rest = 1 / (1 + std::exp(g));  // rest = 1 - s, without cancellation
      gate[j] = dout[j] * up[j] * s * (1 + g * rest);
      up[j] = dout[j] * g * s;
    }
    store_row(gate, a.dgate, i);
    store_row(up, a.dup, i);
  });
}

}  // namespace

template <>
Kernel<SwigluForward> kernel_of() { return entry<SwigluForward>(forward); }
template <>
Kernel<SwigluBackward> kernel_of() { return entry<SwigluBackward>(backward); }

}  // namespace ravine::ref
