#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// silu(g) = g / (1 + exp(-g)); its derivative is s (1 + g (1 - s)), s = sigmoid(g).
struct Silu {
  static double value(double g) { return g / (1 + std::exp(-g)); }
  static double times_value(double d, double g) { return d * g * (1 / (1 + std::exp(-g))); }
  static double times_slope(double d, double g) {
    double s = 1 / (1 + std::exp(-g)), rest = 1 / (1 + std::exp(g));  // rest = 1 - s, without cancellation
    return d * s * (1 + g * rest);
  }
};

struct GeluTanh {
  static double value(double g) { return gelu_tanh(g); }
  static double times_value(double d, double g) { return d * gelu_tanh(g); }
  static double times_slope(double d, double g) { return d * gelu_tanh_slope(g); }
};

template <class Args>
std::vector<double> up_row(const Args& a, int64_t i) {
  return a.up.absent() ? std::vector<double>(a.gate.cols(), 1.0) : load_row(a.up, i);
}

// out = act(gate) up; an absent up is 1
template <class Act, class Args>
void forward(const Args& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check(a.name, "gate", a.gate, n, c);
  check_optional(a.name, "up", a.up, n, c);
  check(a.name, "out", a.out, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> gate = load_row(a.gate, i), up = up_row(a, i);
    for (int64_t j = 0; j < c; ++j) up[j] *= Act::value(gate[j]);
    store_row(up, a.out, i);
  });
}

// dgate = dout up act'(gate), dup = dout act(gate)
template <class Act, class Args>
void backward(const Args& a, void*) {
  int64_t n = a.dout.rows(), c = a.dout.cols();
  check(a.name, "gate", a.gate, n, c);
  check_optional(a.name, "up", a.up, n, c);
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "dgate", a.dgate, n, c);
  check_optional(a.name, "dup", a.dup, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> gate = load_row(a.gate, i), up = up_row(a, i), dout = load_row(a.dout, i);
    for (int64_t j = 0; j < c; ++j) {
      double g = gate[j];
      gate[j] = Act::times_slope(dout[j] * up[j], g);
      up[j] = Act::times_value(dout[j], g);
    }
    store_row(gate, a.dgate, i);
    if (!a.dup.absent()) store_row(up, a.dup, i);
  });
}

}  // namespace

template <>
Kernel<SwigluForward> kernel_of() {
  return entry<SwigluForward>(forward<Silu>);
}
template <>
Kernel<SwigluBackward> kernel_of() {
  return entry<SwigluBackward>(backward<Silu>);
}
template <>
Kernel<GegluForward> kernel_of() {
  return entry<GegluForward>(forward<GeluTanh>);
}
template <>
Kernel<GegluBackward> kernel_of() {
  return entry<GegluBackward>(backward<GeluTanh>);
}

}  // namespace ravine::ref
