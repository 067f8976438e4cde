#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// y = cap tanh(scale x / cap)
void forward(const SoftCapForward& a, void*) {
  int64_t n = a.y.rows(), c = a.y.cols();
  check(a.name, "x", a.x, n, c);
  check(a.name, "y", a.y, n, c);
  require(a.cap > 0, "{}: cap must be above 0, got {}", a.name, a.cap);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    for (double& v : x) v = soft_cap(a.scale * v, a.cap);
    store_row(x, a.y, i);
  });
}

// dx = scale (1 - (y / cap)^2) dy
void backward(const SoftCapBackward& a, void*) {
  int64_t n = a.dx.rows(), c = a.dx.cols();
  check(a.name, "y", a.y, n, c);
  check(a.name, "dy", a.dy, n, c);
  check(a.name, "dx", a.dx, n, c);
  require(a.cap > 0, "{}: cap must be above 0, got {}", a.name, a.cap);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> y = load_row(a.y, i), d = load_row(a.dy, i);
    for (int64_t j = 0; j < c; ++j) d[j] *= a.scale * soft_cap_slope(y[j], a.cap);
    store_row(d, a.dx, i);
  });
}

}  // namespace

template <>
Kernel<SoftCapForward> kernel_of() {
  return entry<SoftCapForward>(forward);
}
template <>
Kernel<SoftCapBackward> kernel_of() {
  return entry<SoftCapBackward>(backward);
}

}  // namespace ravine::ref
