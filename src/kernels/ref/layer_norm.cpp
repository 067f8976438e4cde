#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// sum = x + branch;  out = (sum - mean) rstd weight + bias. The stored `sum` is normalised.
void forward(const LayerNormForward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "x", a.x, n, c);
  check_optional(a.name, "branch", a.branch, n, c);
  check_vector(a.name, "weight", a.weight, c);
  check_vector(a.name, "bias", a.bias, c);
  check_optional(a.name, "sum", a.sum, n, c);
  check(a.name, "out", a.out, n, c);
  if (!a.mean.absent()) check_vector(a.name, "mean", a.mean, n);
  if (!a.rstd.absent()) check_vector(a.name, "rstd", a.rstd, n);
  std::vector<double> weight = load_row(a.weight), bias = load_row(a.bias);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    if (!a.branch.absent()) {
      std::vector<double> branch = load_row(a.branch, i);
      for (int64_t j = 0; j < c; ++j) x[j] += branch[j];
    }
    if (!a.sum.absent()) store_row(x, a.sum, i), x = load_row(a.sum, i);
    double mean = 0, squares = 0;
    for (double v : x) mean += v;
    mean /= static_cast<double>(c);
    for (double v : x) squares += (v - mean) * (v - mean);
    double rstd = 1 / std::sqrt(squares / static_cast<double>(c) + a.eps);
    for (int64_t j = 0; j < c; ++j) x[j] = (x[j] - mean) * rstd * weight[j] + bias[j];
    store_row(x, a.out, i);
    if (!a.mean.absent()) store(&mean, a.mean, 0, i, 1);
    if (!a.rstd.absent()) store(&rstd, a.rstd, 0, i, 1);
  });
}

// h = dout weight;  dx = dsum + rstd (h - mean(h) - xhat mean(h xhat));
//   dweight (+)= sum_n dout xhat;  dbias (+)= sum_n dout.
void backward(const LayerNormBackward& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "x", a.x, n, c);
  check_vector(a.name, "weight", a.weight, c);
  check_vector(a.name, "mean", a.mean, n);
  check_vector(a.name, "rstd", a.rstd, n);
  check_optional(a.name, "dsum", a.dsum, n, c);
  check(a.name, "dx", a.dx, n, c);
  check_optional(a.name, "dbranch", a.dbranch, n, c);
  require(a.dweight.absent() == a.dbias.absent(), "{}: dweight and dbias come together", a.name);
  std::vector<double> weight = load_row(a.weight), mean(n), rstd(n);
  load(a.mean, 0, 0, n, mean.data());
  load(a.rstd, 0, 0, n, rstd.data());
  constexpr int64_t kColumns = 64;
  if (!a.dweight.absent()) {
    check_vector(a.name, "dweight", a.dweight, c);
    check_vector(a.name, "dbias", a.dbias, c);
    parallel_for(ceil_div(c, kColumns), [&](int64_t b) {
      int64_t from = b * kColumns, wide = std::min(kColumns, c - from);
      std::vector<double> dw(wide), db(wide), dout(wide), x(wide), old(wide);
      for (int64_t i = 0; i < n; ++i) {
        load(a.dout, i, from, wide, dout.data());
        load(a.x, i, from, wide, x.data());
        for (int64_t j = 0; j < wide; ++j) dw[j] += dout[j] * ((x[j] - mean[i]) * rstd[i]), db[j] += dout[j];
      }
      for (auto [sum, to] : {std::pair{&dw, &a.dweight}, std::pair{&db, &a.dbias}}) {
        if (a.accumulate) load(*to, 0, from, wide, old.data());
        for (int64_t j = 0; j < wide; ++j) (*sum)[j] += a.accumulate ? old[j] : 0;
        store(sum->data(), *to, 0, from, wide);
      }
    });
  }
  each_row(n, c, [&](int64_t i) {
    std::vector<double> h = load_row(a.dout, i), xhat = load_row(a.x, i), dx(c);
    if (!a.dsum.absent()) dx = load_row(a.dsum, i);
    double first = 0, second = 0;
    for (int64_t j = 0; j < c; ++j) {
      h[j] *= weight[j];
      xhat[j] = (xhat[j] - mean[i]) * rstd[i];
      first += h[j];
      second += h[j] * xhat[j];
    }
    first /= static_cast<double>(c), second /= static_cast<double>(c);
    for (int64_t j = 0; j < c; ++j) dx[j] += rstd[i] * (h[j] - first - xhat[j] * second);
    store_row(dx, a.dx, i);
    if (!a.dbranch.absent()) store_row(dx, a.dbranch, i);
  });
}

}  // namespace

template <>
Kernel<LayerNormForward> kernel_of() {
  return entry<LayerNormForward>(forward);
}
template <>
Kernel<LayerNormBackward> kernel_of() {
  return entry<LayerNormBackward>(backward);
}

}  // namespace ravine::ref
