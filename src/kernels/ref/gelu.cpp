#include <cmath>
#include <numbers>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

constexpr double kRoot = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;

double phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u))
double soft(double u) { return 1 / (1 + std::exp(-2 * u)); }
double inner(double x) { return kRoot * (x + kCubic * x * x * x); }

double gelu(double x, GeluForm form) { return form == GeluForm::exact ? x * phi(x) : gelu_tanh(x); }

double slope(double x, GeluForm form) {
  return form == GeluForm::exact ? phi(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi) : gelu_tanh_slope(x);
}

void forward(const GeluForward& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check(a.name, "x", a.x, n, c);
  check(a.name, "out", a.out, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    for (double& v : x) v = gelu(v, a.form);
    store_row(x, a.out, i);
  });
}

void backward(const GeluBackward& a, void*) {
  int64_t n = a.dx.rows(), c = a.dx.cols();
  check(a.name, "x", a.x, n, c);
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "dx", a.dx, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i), d = load_row(a.dout, i);
    for (int64_t j = 0; j < c; ++j) d[j] *= slope(x[j], a.form);
    store_row(d, a.dx, i);
  });
}

}  // namespace

double gelu_tanh(double x) { return x * soft(inner(x)); }

double gelu_tanh_slope(double x) {
  double u = inner(x), s = soft(u), rest = soft(-u);
  return s + x * 2 * s * rest * kRoot * (1 + 3 * kCubic * x * x);
}

template <>
Kernel<GeluForward> kernel_of() {
  return entry<GeluForward>(forward);
}
template <>
Kernel<GeluBackward> kernel_of() {
  return entry<GeluBackward>(backward);
}

}  // namespace ravine::ref
