#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

void sum(const LogSumExp& a, void*) {
  int64_t n = a.logits.rows(), v = a.logits.cols();
  check(a.name, "logits", a.logits, n, v);
  check_vector(a.name, "out", a.out, n);
  each_row(n, v, [&](int64_t i) {
    std::vector<double> row = load_row(a.logits, i);
    double lse = log_sum_exp(row.data(), v);
    store(&lse, a.out, 0, i, 1);
  });
}

// losses[n] = lse[n] - logits[n, label];  dlogits = grad_scale row_weights[n] (exp(logits - lse) - onehot); both 0 if
// the label is negative.
void run(const CrossEntropy& a, void*) {
  int64_t n = a.logits.rows(), v = a.logits.cols(), whole = a.whole > 0 ? a.whole : v, parts = a.sums.rows();
  check(a.name, "logits", a.logits, n, v);
  check_optional(a.name, "sums", a.sums, parts, n);
  check_integers(a.name, "labels", a.labels, DType::i32, n);
  check_vector(a.name, "losses", a.losses, n);
  check_optional(a.name, "dlogits", a.dlogits, n, v);
  if (!a.row_weights.absent()) check_vector(a.name, "row_weights", a.row_weights, n);
  each_row(n, v, [&](int64_t i) {
    int32_t label = a.labels.as<int32_t>()[i];
    require(label < whole, "cross_entropy: labels must be below {}, got {} at {}", whole, label, i);
    std::vector<double> row(v);
    double loss = 0;
    if (label >= 0) {
      load(a.logits, i, 0, v, row.data());
      double lse;
      if (a.sums.absent()) {
        lse = log_sum_exp(row.data(), v);
      } else {
        std::vector<double> sums(parts);
        for (int64_t r = 0; r < parts; ++r) load(a.sums, r, i, 1, &sums[r]);
        lse = log_sum_exp(sums.data(), parts);
      }
      const int64_t here = label - a.first;
      const bool has = here >= 0 && here < v;
      if (has) loss = lse - row[here];
      for (double& x : row) x = std::exp(x - lse);
      if (has) row[here] -= 1;
      const double scale = a.grad_scale * row_weight(a.row_weights, i);
      for (double& x : row) x *= scale;
    }
    store(&loss, a.losses, 0, i, 1);
    if (!a.dlogits.absent()) store_row(row, a.dlogits, i);
  });
}

}  // namespace

template <>
Kernel<LogSumExp> kernel_of() {
  return entry<LogSumExp>(sum);
}

template <>
Kernel<CrossEntropy> kernel_of() {
  return entry<CrossEntropy>(run);
}

}  // namespace ravine::ref
