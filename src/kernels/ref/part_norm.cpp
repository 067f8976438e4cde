#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

std::vector<double> vector_of(const TensorView& v, int64_t n) {
  std::vector<double> out(static_cast<size_t>(n));
  load(v, 0, 0, n, out.data());
  return out;
}

void row_dot(const RowDot& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "x", a.x, n, c);
  check(a.name, "y", a.y, n, c);
  if (!a.weight.absent()) check_vector(a.name, "weight", a.weight, c);
  check_vector(a.name, "out", a.out, n);
  const std::vector<double> weight = a.weight.absent() ? std::vector<double>(static_cast<size_t>(c), 1.0) : load_row(a.weight);
  each_row(n, c, [&](int64_t i) {
    const std::vector<double> x = load_row(a.x, i), y = load_row(a.y, i);
    double sum = 0;
    for (int64_t j = 0; j < c; ++j) sum += x[j] * y[j] * weight[j];
    store(&sum, a.out, 0, i, 1);
  });
}

void forward(const PartNormForward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "x", a.x, n, c);
  check_vector(a.name, "weight", a.weight, c);
  check_vector(a.name, "squares", a.squares, n);
  check(a.name, "out", a.out, n, c);
  if (!a.rstd.absent()) check_vector(a.name, "rstd", a.rstd, n);
  const std::vector<double> weight = load_row(a.weight), squares = vector_of(a.squares, n);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    const double rstd = 1 / std::sqrt(squares[i] / static_cast<double>(a.width) + a.eps);
    for (int64_t j = 0; j < c; ++j) x[j] = (x[j] * rstd) * weight[j];
    store_row(x, a.out, i);
    if (!a.rstd.absent()) store(&rstd, a.rstd, 0, i, 1);
  });
}

void backward(const PartNormBackward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "x", a.x, n, c);
  check_vector(a.name, "weight", a.weight, c);
  check_vector(a.name, "rstd", a.rstd, n);
  check_vector(a.name, "dots", a.dots, n);
  check(a.name, "dx", a.dx, n, c);
  if (!a.dweight.absent()) check_vector(a.name, "dweight", a.dweight, c);
  const std::vector<double> weight = load_row(a.weight), rstd = vector_of(a.rstd, n), dots = vector_of(a.dots, n);
  if (!a.dweight.absent()) {
    std::vector<double> sum(static_cast<size_t>(c));
    for (int64_t i = 0; i < n; ++i) {
      const std::vector<double> x = load_row(a.x, i), dout = load_row(a.dout, i);
      for (int64_t j = 0; j < c; ++j) sum[j] += dout[j] * (x[j] * rstd[i]);
    }
    if (a.accumulate) {
      const std::vector<double> old = load_row(a.dweight);
      for (int64_t j = 0; j < c; ++j) sum[j] += old[j];
    }
    store_row(sum, a.dweight);
  }
  each_row(n, c, [&](int64_t i) {
    std::vector<double> g = load_row(a.dout, i), x = load_row(a.x, i);
    const double mean = dots[i] * rstd[i] / static_cast<double>(a.width);
    for (int64_t j = 0; j < c; ++j) g[j] = rstd[i] * (g[j] * weight[j] - x[j] * rstd[i] * mean);
    store_row(g, a.dx, i);
  });
}

}  // namespace

template <>
Kernel<RowDot> kernel_of() {
  return entry<RowDot>(row_dot);
}
template <>
Kernel<PartNormForward> kernel_of() {
  return entry<PartNormForward>(forward);
}
template <>
Kernel<PartNormBackward> kernel_of() {
  return entry<PartNormBackward>(backward);
}

}  // namespace ravine::ref
