#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

int64_t heads_of(const char* op, const TensorView& x, const TensorView& weight) {
  require(!weight.absent() && weight.cols() > 0 && x.cols() % weight.cols() == 0,
          "{}: rows must be whole heads of the weight's size, got {} columns and {}", op, x.cols(), weight.cols());
  return x.cols() / weight.cols();
}

// out = x rstd weight per head
void forward(const HeadNormForward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols(), heads = heads_of(a.name, a.x, a.weight), d = c / heads;
  check(a.name, "x", a.x, n, c);
  check_vector(a.name, "weight", a.weight, d);
  check(a.name, "out", a.out, n, c);
  check_optional(a.name, "rstd", a.rstd, n, heads);
  std::vector<double> weight = load_row(a.weight);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i), rstd(heads);
    for (int64_t h = 0; h < heads; ++h) {
      double squares = 0;
      for (int64_t j = 0; j < d; ++j) squares += x[h * d + j] * x[h * d + j];
      rstd[h] = 1 / std::sqrt(squares / static_cast<double>(d) + a.eps);
      for (int64_t j = 0; j < d; ++j) x[h * d + j] = x[h * d + j] * rstd[h] * weight[j];
    }
    store_row(x, a.out, i);
    if (!a.rstd.absent()) store_row(rstd, a.rstd, i);
  });
}

// g = dout weight;  dx = rstd (g - xhat mean(g xhat));  dweight (+)= sum over rows and heads of dout xhat.
void backward(const HeadNormBackward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols(), heads = heads_of(a.name, a.x, a.weight), d = c / heads;
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "x", a.x, n, c);
  check_vector(a.name, "weight", a.weight, d);
  check(a.name, "rstd", a.rstd, n, heads);
  check(a.name, "dx", a.dx, n, c);
  if (!a.dweight.absent()) check_vector(a.name, "dweight", a.dweight, d);
  std::vector<double> weight = load_row(a.weight), sum(d);
  if (!a.dweight.absent()) {
    for (int64_t i = 0; i < n; ++i) {
      std::vector<double> x = load_row(a.x, i), dout = load_row(a.dout, i), rstd = load_row(a.rstd, i);
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t j = 0; j < d; ++j) sum[j] += dout[h * d + j] * (x[h * d + j] * rstd[h]);
    }
    std::vector<double> old(d);
    if (a.accumulate) old = load_row(a.dweight);
    for (int64_t j = 0; j < d; ++j) sum[j] += old[j];
    store_row(sum, a.dweight);
  }
  each_row(n, c, [&](int64_t i) {
    std::vector<double> g = load_row(a.dout, i), x = load_row(a.x, i), rstd = load_row(a.rstd, i);
    for (int64_t h = 0; h < heads; ++h) {
      double mean = 0;
      for (int64_t j = h * d; j < (h + 1) * d; ++j) g[j] *= weight[j - h * d], x[j] *= rstd[h], mean += g[j] * x[j];
      mean /= static_cast<double>(d);
      for (int64_t j = h * d; j < (h + 1) * d; ++j) g[j] = rstd[h] * (g[j] - x[j] * mean);
    }
    store_row(g, a.dx, i);
  });
}

}  // namespace

template <>
Kernel<HeadNormForward> kernel_of() {
  return entry<HeadNormForward>(forward);
}
template <>
Kernel<HeadNormBackward> kernel_of() {
  return entry<HeadNormBackward>(backward);
}

}  // namespace ravine::ref
