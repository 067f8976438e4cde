#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

double norm_of(const std::vector<double>& x) {
  double squares = 0;
  for (double v : x) squares += v * v;
  return std::sqrt(squares);
}

// out = x / max(|x|, least)
void forward(const UnitRowsForward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "x", a.x, n, c);
  check(a.name, "out", a.out, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    double r = 1 / std::max(norm_of(x), kLeastNorm);
    for (double& v : x) v *= r;
    store_row(x, a.out, i);
  });
}

// dx (+)= r (dout - y (y . dout)), y = x r
void backward(const UnitRowsBackward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "x", a.x, n, c);
  check(a.name, "dx", a.dx, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i), d = load_row(a.dout, i), old(c);
    if (a.accumulate) old = load_row(a.dx, i);
    double norm = norm_of(x), r = 1 / std::max(norm, kLeastNorm), dot = 0;
    for (int64_t j = 0; j < c; ++j) x[j] *= r, dot += x[j] * d[j];
    if (norm < kLeastNorm) dot = 0;
    for (int64_t j = 0; j < c; ++j) d[j] = old[j] + r * (d[j] - x[j] * dot);
    store_row(d, a.dx, i);
  });
}

}  // namespace

template <>
Kernel<UnitRowsForward> kernel_of() {
  return entry<UnitRowsForward>(forward);
}
template <>
Kernel<UnitRowsBackward> kernel_of() {
  return entry<UnitRowsBackward>(backward);
}

}  // namespace ravine::ref
