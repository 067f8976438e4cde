#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

const int32_t* integers(const char* op, const char* what, const TensorView& v, int64_t n) {
  check_integers(op, what, v, DType::i32, n);
  return v.as<int32_t>();
}

// out[r] = x[tokens[r]]
void gather(const GatherRows& a, void*) {
  const int64_t rows = a.out.rows(), cols = a.out.cols();
  check(a.name, "x", a.x, a.x.rows(), cols);
  check(a.name, "out", a.out, rows, cols);
  const int32_t* tokens = integers(a.name, "tokens", a.tokens, rows);
  each_row(rows, cols, [&](int64_t r) {
    store_row(tokens[r] < 0 ? std::vector<double>(static_cast<size_t>(cols)) : load_row(a.x, tokens[r]), a.out, r);
  });
}

// out[n] (+)= sum_j y[slots[n,j]]
void combine(const CombineRows& a, void*) {
  const int64_t rows = a.out.rows(), cols = a.out.cols(), k = a.slots.cols();
  check(a.name, "y", a.y, a.y.rows(), cols);
  check(a.name, "out", a.out, rows, cols);
  const int32_t* slots = integers(a.name, "slots", a.slots, rows * k);
  each_row(rows, k * cols, [&](int64_t n) {
    std::vector<double> sum(static_cast<size_t>(cols));
    for (int64_t j = 0; j < k; ++j) {
      if (slots[n * k + j] < 0) continue;
      const std::vector<double> y = load_row(a.y, slots[n * k + j]);
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += y[c];
    }
    if (a.accumulate) {
      const std::vector<double> old = load_row(a.out, n);
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += old[c];
    }
    store_row(sum, a.out, n);
  });
}

void scale(const ScaleRows& a, void*) {
  const int64_t rows = a.out.rows(), cols = a.out.cols();
  check(a.name, "x", a.x, rows, cols);
  check(a.name, "out", a.out, rows, cols);
  check_vector(a.name, "scale", a.scale, rows);
  each_row(rows, cols, [&](int64_t r) {
    std::vector<double> x = load_row(a.x, r);
    const double s = row_weight(view_of(a.scale.data, a.scale.dtype, {rows}), r);
    for (double& v : x) v *= s;
    store_row(x, a.out, r);
  });
}

Operand rows_from(const Doubles& x, int64_t row, bool transposed) {
  const Operand o{x.row(row), x.stride(), 1};
  return transposed ? o.transposed() : o;
}

// A product of m x n elements over k, added to out or stored, rounded once.
void product(int64_t m, int64_t n, int64_t k, Operand a, Operand b, const TensorView& out, int64_t row, bool accumulate) {
  std::vector<double> sums(static_cast<size_t>(m * n));
  multiply(m, n, k, a, b, sums.data(), n);
  each_row(m, n, [&](int64_t i) {
    double* mine = sums.data() + i * n;
    const std::vector<double> old = accumulate ? load_row(out, row + i) : std::vector<double>(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) mine[j] += old[static_cast<size_t>(j)];
    store(mine, out, row + i, 0, n);
  });
}

void grouped(const GroupedMatmul& a, void*) {
  const int64_t experts = a.experts(), n = a.out.cols();
  const int32_t* offsets = integers(a.name, "offsets", a.offsets, experts + 1);
  check(a.name, "a", a.a, a.a.rows(), a.a.cols());
  const Doubles left(a.a), right(a.b);
  if (a.trans_a) {
    const int64_t m = a.a.cols();
    check(a.name, "b", a.b, a.a.rows(), n);
    check(a.name, "out", a.out, experts * m, n);
    for (int64_t e = 0; e < experts; ++e)
      product(m, n, offsets[e + 1] - offsets[e], rows_from(left, offsets[e], true), rows_from(right, offsets[e], false), a.out,
              e * m, a.accumulate);
    return;
  }
  const int64_t k = a.a.cols(), height = a.trans_b ? n : k;
  check(a.name, "b", a.b, experts * height, a.trans_b ? k : n);
  check(a.name, "out", a.out, a.a.rows(), n);
  for (int64_t e = 0; e < experts; ++e)
    product(offsets[e + 1] - offsets[e], n, k, rows_from(left, offsets[e], false), rows_from(right, e * height, a.trans_b),
            a.out, offsets[e], a.accumulate);
  for (int64_t r = offsets[experts]; !a.accumulate && r < a.out.rows(); ++r)
    store_row(std::vector<double>(static_cast<size_t>(n)), a.out, r);
}

// Applies f(in) to each element; all views have the same shape.
template <class F>
void each_element(const TensorView& out, F&& f) {
  each_row(out.rows(), out.cols(), [&](int64_t r) { store_row(f(r), out, r); });
}

void sigmoid(const SigmoidForward& a, void*) {
  check(a.name, "x", a.x, a.out.rows(), a.out.cols());
  each_element(a.out, [&](int64_t r) {
    std::vector<double> x = load_row(a.x, r);
    for (double& v : x) v = 1 / (1 + std::exp(-v));
    return x;
  });
}

void sigmoid_backward(const SigmoidBackward& a, void*) {
  check(a.name, "y", a.y, a.dx.rows(), a.dx.cols());
  check(a.name, "dout", a.dout, a.dx.rows(), a.dx.cols());
  each_element(a.dx, [&](int64_t r) {
    std::vector<double> y = load_row(a.y, r), d = load_row(a.dout, r);
    for (size_t i = 0; i < y.size(); ++i) d[i] *= y[i] * (1 - y[i]);
    return d;
  });
}

}  // namespace

template <>
Kernel<GatherRows> kernel_of() {
  return entry<GatherRows>(gather);
}
template <>
Kernel<CombineRows> kernel_of() {
  return entry<CombineRows>(combine);
}
template <>
Kernel<ScaleRows> kernel_of() {
  return entry<ScaleRows>(scale);
}
template <>
Kernel<GroupedMatmul> kernel_of() {
  return entry<GroupedMatmul>(grouped);
}
template <>
Kernel<SigmoidForward> kernel_of() {
  return entry<SigmoidForward>(sigmoid);
}
template <>
Kernel<SigmoidBackward> kernel_of() {
  return entry<SigmoidBackward>(sigmoid_backward);
}

}  // namespace ravine::ref
