#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// losses[n] = logsumexp(logits[n]) - logits[n, label];  dlogits = grad_scale (softmax - onehot); both 0 where the label is
// negative.
void run(const CrossEntropy& a, void*) {
  int64_t n = a.logits.rows(), v = a.logits.cols();
  check(a.name, "logits", a.logits, n, v);
  check_integers(a.name, "labels", a.labels, DType::i32, n);
  check_vector(a.name, "losses", a.losses, n);
  check_optional(a.name, "dlogits", a.dlogits, n, v);
  each_row(n, v, [&](int64_t i) {
    int32_t label = a.labels.as<int32_t>()[i];
    require(label < v, "cross_entropy: labels must be below {}, got {} at {}", v, label, i);
    std::vector<double> row(v);
    double loss = 0;
    if (label >= 0) {
      load(a.logits, i, 0, v, row.data());
      double lse = log_sum_exp(row.data(), v);
      loss = lse - row[label];
      for (double& x : row) x = std::exp(x - lse);
      row[label] -= 1;
      for (double& x : row) x *= a.grad_scale;
    }
    store(&loss, a.losses, 0, i, 1);
    if (!a.dlogits.absent()) store_row(row, a.dlogits, i);
  });
}

}  // namespace

template <>
Kernel<CrossEntropy> kernel_of() {
  return entry<CrossEntropy>(run);
}

}  // namespace ravine::ref
