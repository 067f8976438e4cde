#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

Operand operand(const Doubles& x, bool transposed) {
  Operand o{x.row(0), x.stride(), 1};
  return transposed ? o.transposed() : o;
}

// out (+)= op(a) op(b) + bias
void run(const Matmul& a, void*) {
  int64_t m = a.m(), n = a.n(), k = a.k();
  check(a.name, "a", a.a, a.trans_a ? k : m, a.trans_a ? m : k);
  check(a.name, "b", a.b, a.trans_b ? n : k, a.trans_b ? k : n);
  check(a.name, "out", a.out, m, n);
  if (!a.bias.absent()) check_vector(a.name, "bias", a.bias, n);
  Doubles left(a.a), right(a.b);
  std::vector<double> bias = a.bias.absent() ? std::vector<double>(n) : load_row(a.bias);
  std::vector<double> out(m * n);
  multiply(m, n, k, operand(left, a.trans_a), operand(right, a.trans_b), out.data(), n);
  each_row(m, n, [&](int64_t i) {
    double* row = out.data() + i * n;
    std::vector<double> old = a.accumulate ? load_row(a.out, i) : std::vector<double>(n);
    for (int64_t j = 0; j < n; ++j) row[j] = old[j] + (row[j] + bias[j]);
    store(row, a.out, i, 0, n);
  });
}

}  // namespace

template <>
Kernel<Matmul> kernel_of() {
  return entry<Matmul>(run);
}

}  // namespace ravine::ref
