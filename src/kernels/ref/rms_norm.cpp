#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// sum = x + branch;  rstd = 1/sqrt(mean(sum^2) + eps);  out = sum rstd (offset + weight). The stored `sum` is
// normalised.
void forward(const RmsNormForward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "x", a.x, n, c);
  check_optional(a.name, "branch", a.branch, n, c);
  check_vector(a.name, "weight", a.weight, c);
  check_optional(a.name, "sum", a.sum, n, c);
  check(a.name, "out", a.out, n, c);
  if (!a.rstd.absent()) check_vector(a.name, "rstd", a.rstd, n);
  std::vector<double> weight = load_row(a.weight);
  for (double& w : weight) w = a.offset != 0 ? a.offset + w : w;
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    if (!a.branch.absent()) {
      std::vector<double> branch = load_row(a.branch, i);
      for (int64_t j = 0; j < c; ++j) x[j] += branch[j];
    }
    if (!a.sum.absent()) store_row(x, a.sum, i), x = load_row(a.sum, i);
    double squares = 0;
    for (double v : x) squares += v * v;
    double rstd = 1 / std::sqrt(squares / static_cast<double>(c) + a.eps);
    for (int64_t j = 0; j < c; ++j) x[j] = (x[j] * rstd) * weight[j];
    store_row(x, a.out, i);
    if (!a.rstd.absent()) store(&rstd, a.rstd, 0, i, 1);
  });
}

// h = dout (offset + weight);  dx = dsum + rstd (h - xhat mean(h xhat)),  xhat = x rstd;  dweight (+)= sum_n dout xhat.
void backward(const RmsNormBackward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "x", a.x, n, c);
  check_vector(a.name, "weight", a.weight, c);
  check_vector(a.name, "rstd", a.rstd, n);
  check_optional(a.name, "dsum", a.dsum, n, c);
  check(a.name, "dx", a.dx, n, c);
  check_optional(a.name, "dbranch", a.dbranch, n, c);
  if (!a.dweight.absent()) check_vector(a.name, "dweight", a.dweight, c);
  std::vector<double> weight = load_row(a.weight), rstd(n);
  for (double& w : weight) w = a.offset != 0 ? a.offset + w : w;
  load(a.rstd, 0, 0, n, rstd.data());
  constexpr int64_t kColumns = 64;
  if (!a.dweight.absent())
    parallel_for(ceil_div(c, kColumns), [&](int64_t b) {
      int64_t from = b * kColumns, wide = std::min(kColumns, c - from);
      std::vector<double> sum(wide), dout(wide), x(wide), old(wide);
      for (int64_t i = 0; i < n; ++i) {
        load(a.dout, i, from, wide, dout.data());
        load(a.x, i, from, wide, x.data());
        for (int64_t j = 0; j < wide; ++j) sum[j] += dout[j] * (x[j] * rstd[i]);
      }
      if (a.accumulate) load(a.dweight, 0, from, wide, old.data());
      for (int64_t j = 0; j < wide; ++j) sum[j] += old[j];
      store(sum.data(), a.dweight, 0, from, wide);
    });
  each_row(n, c, [&](int64_t i) {
    std::vector<double> h = load_row(a.dout, i), xhat = load_row(a.x, i), dx(c);
    if (!a.dsum.absent()) dx = load_row(a.dsum, i);
    double mean = 0;
    for (int64_t j = 0; j < c; ++j) {
      h[j] *= weight[j];
      xhat[j] *= rstd[i];
      mean += h[j] * xhat[j];
    }
    mean /= static_cast<double>(c);
    for (int64_t j = 0; j < c; ++j) dx[j] += rstd[i] * (h[j] - xhat[j] * mean);
    store_row(dx, a.dx, i);
    if (!a.dbranch.absent()) store_row(dx, a.dbranch, i);
  });
}

}  // namespace

template <>
Kernel<RmsNormForward> kernel_of() {
  return entry<RmsNormForward>(forward);
}
template <>
Kernel<RmsNormBackward> kernel_of() {
  return entry<RmsNormBackward>(backward);
}

}  // namespace ravine::ref
