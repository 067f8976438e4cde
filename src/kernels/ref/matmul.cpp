#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

Operand operand(const Doubles& x, bool transposed) {
  Operand o{x.row(0), x.stride(), 1};
  return transposed ? o.transposed() : o;
}

// out (+)= left right + bias
template <class Args>
void product(const Args& a, Operand left, Operand right) {
  int64_t m = a.m(), n = a.n(), k = a.k();
  check(a.name, "out", a.out, m, n);
  if (!a.bias.absent()) check_vector(a.name, "bias", a.bias, n);
  std::vector<double> bias = a.bias.absent() ? std::vector<double>(n) : load_row(a.bias);
  std::vector<double> out(m * n);
  multiply(m, n, k, left, right, out.data(), n);
  each_row(m, n, [&](int64_t i) {
    double* row = out.data() + i * n;
    std::vector<double> old = a.accumulate ? load_row(a.out, i) : std::vector<double>(n);
    for (int64_t j = 0; j < n; ++j) row[j] = old[j] + (row[j] + bias[j]);
    store(row, a.out, i, 0, n);
  });
}

void run(const Matmul& a, void*) {
  int64_t m = a.m(), n = a.n(), k = a.k();
  check(a.name, "a", a.a, a.trans_a ? k : m, a.trans_a ? m : k);
  check(a.name, "b", a.b, a.trans_b ? n : k, a.trans_b ? k : n);
  Doubles left(a.a), right(a.b);
  product(a, operand(left, a.trans_a), operand(right, a.trans_b));
}

// Values are f32, rounded to the type of a if that is narrower.
void run_nf4(const Nf4Matmul& a, void*) {
  const int64_t rows = a.w.rows, cols = a.w.cols;
  check(a.name, "a", a.a, a.m(), a.trans_w ? cols : rows);
  require(a.n() == (a.trans_w ? rows : cols), "{}: w is [{}, {}], out has {} columns", a.name, rows, cols, a.n());
  Doubles left(a.a);
  std::vector<double> values(static_cast<size_t>(rows * cols));
  each_row(rows, cols, [&](int64_t i) {
    std::vector<float> row(static_cast<size_t>(cols));
    nf4_decode(a.w, i, 1, 0, cols, row.data(), cols);
    for (int64_t j = 0; j < cols; ++j)
      values[static_cast<size_t>(i * cols + j)] = round_factor(a.a.dtype, row[static_cast<size_t>(j)]);
  });
  Operand right{values.data(), cols, 1};
  product(a, operand(left, false), a.trans_w ? right.transposed() : right);
}

}  // namespace

template <>
Kernel<Matmul> kernel_of() {
  return entry<Matmul>(run);
}

template <>
Kernel<Nf4Matmul> kernel_of() {
  return entry<Nf4Matmul>(run_nf4);
}

}  // namespace ravine::ref
