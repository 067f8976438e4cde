#include <cmath>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// probs = softmax(scale scores + slope (key - query)) under the mask
void forward(const SoftmaxForward& a, void*) {
  int64_t q = a.scores.rows(), k = a.scores.cols();
  check(a.name, "scores", a.scores, q, k);
  check(a.name, "probs", a.probs, q, k);
  Mask mask{q, k, a.causal, a.window};
  each_row(q, k, [&](int64_t i) {
    std::vector<double> row = load_row(a.scores, i), probs(k);
    int64_t first = mask.first(i), last = mask.last(i);
    if (first < last) {
      for (int64_t j = first; j < last; ++j) row[j] = a.scale * row[j] + a.slope * static_cast<double>(j - mask.position(i));
      double lse = log_sum_exp(row.data() + first, last - first);
      for (int64_t j = first; j < last; ++j) probs[j] = std::exp(row[j] - lse);
    }
    store_row(probs, a.probs, i);
  });
}

// dscores = scale probs (dprobs - sum_k probs dprobs)
void backward(const SoftmaxBackward& a, void*) {
  int64_t q = a.probs.rows(), k = a.probs.cols();
  check(a.name, "probs", a.probs, q, k);
  check(a.name, "dprobs", a.dprobs, q, k);
  check(a.name, "dscores", a.dscores, q, k);
  each_row(q, k, [&](int64_t i) {
    std::vector<double> probs = load_row(a.probs, i), d = load_row(a.dprobs, i);
    double dot = 0;
    for (int64_t j = 0; j < k; ++j) dot += probs[j] * d[j];
    for (int64_t j = 0; j < k; ++j) d[j] = a.scale * probs[j] * (d[j] - dot);
    store_row(d, a.dscores, i);
  });
}

}  // namespace

template <>
Kernel<SoftmaxForward> kernel_of() {
  return entry<SoftmaxForward>(forward);
}
template <>
Kernel<SoftmaxBackward> kernel_of() {
  return entry<SoftmaxBackward>(backward);
}

}  // namespace ravine::ref
