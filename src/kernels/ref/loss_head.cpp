#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

constexpr int64_t kTokens = 64;  // tokens per chunk

Operand operand(const Doubles& x, int64_t row = 0) { return {x.row(row), x.stride(), 1}; }

// logits = x W^T, capped;  losses = logsumexp(logits) - logits[label];  dlogits = grad_scale (softmax - onehot), times
// the weight of the row and the derivative of the cap;  dx = dlogits W;  dweight (+)= dlogits^T x. Tokens with a
// negative label are skipped.
void run(const LossHead& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols(), v = a.weight.rows();
  check(a.name, "x", a.x, n, c);
  check(a.name, "weight", a.weight, v, c);
  check_integers(a.name, "labels", a.labels, DType::i32, n);
  check_vector(a.name, "losses", a.losses, n);
  check_optional(a.name, "dx", a.dx, n, c);
  check_optional(a.name, "dweight", a.dweight, v, c);
  if (!a.row_weights.absent()) check_vector(a.name, "row_weights", a.row_weights, n);
  const int32_t* labels = a.labels.as<int32_t>();
  for (int64_t i = 0; i < n; ++i) require(labels[i] < v, "loss_head: labels must be below {}, got {} at {}", v, labels[i], i);
  Doubles x(a.x), weight(a.weight);
  bool train = !a.dx.absent() || !a.dweight.absent();
  std::vector<double> dweight(a.dweight.absent() ? 0 : v * c);
  for (int64_t from = 0; from < n; from += kTokens) {
    int64_t rows = std::min(kTokens, n - from);
    std::vector<double> logits(rows * v);
    multiply(rows, v, c, operand(x, from), operand(weight).transposed(), logits.data(), v);
    each_row(rows, v, [&](int64_t i) {
      double *row = logits.data() + i * v, loss = 0;
      int32_t label = labels[from + i];
      if (label < 0) {
        std::fill(row, row + v, 0.0);
      } else {
        for (int64_t j = 0; j < v; ++j) row[j] = soft_cap(row[j], a.cap);
        double lse = log_sum_exp(row, v), scale = a.grad_scale * row_weight(a.row_weights, from + i);
        loss = lse - row[label];
        for (int64_t j = 0; train && j < v; ++j)
          row[j] = round_factor(a.x.dtype, scale * (std::exp(row[j] - lse) - (j == label)) * soft_cap_slope(row[j], a.cap));
      }
      store(&loss, a.losses, 0, from + i, 1);
    });
    Operand dlogits{logits.data(), v, 1};
    if (!a.dweight.absent()) multiply(v, c, rows, dlogits.transposed(), operand(x, from), dweight.data(), c);
    if (!a.dx.absent()) {
      std::vector<double> dx(rows * c);
      multiply(rows, c, v, dlogits, operand(weight), dx.data(), c);
      each_row(rows, c, [&](int64_t i) { store(dx.data() + i * c, a.dx, from + i, 0, c); });
    }
  }
  if (a.dweight.absent()) return;
  each_row(v, c, [&](int64_t i) {
    double* row = dweight.data() + i * c;
    std::vector<double> old = a.accumulate ? load_row(a.dweight, i) : std::vector<double>(c);
    for (int64_t j = 0; j < c; ++j) row[j] += old[j];
    store(row, a.dweight, i, 0, c);
  });
}

}  // namespace

template <>
Kernel<LossHead> kernel_of() {
  return entry<LossHead>(run);
}

}  // namespace ravine::ref
