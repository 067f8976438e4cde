#include "infer/processors.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"
#include "infer/sampler.h"

namespace ravine {
namespace {
constexpr float kRemoved = -std::numeric_limits<float>::infinity();
}

void penalize_repetition(std::span<float> scores, std::span<const int32_t> context, double penalty) {
  std::vector<int32_t> ids(context.begin(), context.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  float by = static_cast<float>(penalty);
  for (int32_t id : ids) {
    float& s = scores[static_cast<size_t>(id)];
    s = s < 0 ? s * by : s / by;
  }
}

void forbid_repeated_ngrams(std::span<float> scores, std::span<const int32_t> context, int64_t size) {
  size_t n = static_cast<size_t>(size);
  if (n == 0 || context.size() < n) return;
  auto begun = context.last(n - 1);
  for (size_t i = 0; i + n <= context.size(); ++i)
    if (std::equal(begun.begin(), begun.end(), context.begin() + static_cast<std::ptrdiff_t>(i)))
      scores[static_cast<size_t>(context[i + n - 1])] = kRemoved;
}

void apply_temperature(std::span<float> scores, double temperature) {
  float by = static_cast<float>(temperature);
  for (float& s : scores) s /= by;
}

void keep_top_k(std::span<float> scores, int64_t k, int64_t least_kept) {
  k = std::max(k, least_kept);
  if (k >= static_cast<int64_t>(scores.size())) return;
  require(k >= 1, "top_k: it must be at least 1, got {}", k);
  std::vector<float> best(scores.begin(), scores.end());
  std::nth_element(best.begin(), best.begin() + (k - 1), best.end(), std::greater<>());
  float least = best[static_cast<size_t>(k - 1)];
  for (float& s : scores)
    if (s < least) s = kRemoved;
}

void keep_top_p(std::span<float> scores, double p, int64_t least_kept) {
  std::vector<int32_t> order;  // removed tokens have probability 0 and change nothing
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > kRemoved) order.push_back(static_cast<int32_t>(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores[static_cast<size_t>(a)] < scores[static_cast<size_t>(b)]; });
  std::vector<float> sorted;
  for (int32_t id : order) sorted.push_back(scores[static_cast<size_t>(id)]);
  softmax(sorted);
  double sum = 0;  // PyTorch adds up in double and stores float
  float limit = static_cast<float>(1 - p);
  for (size_t i = 0; i + static_cast<size_t>(least_kept) < order.size(); ++i) {
    sum += sorted[i];
    if (static_cast<float>(sum) > limit) break;
    scores[static_cast<size_t>(order[i])] = kRemoved;
  }
}

void process(std::span<float> scores, std::span<const int32_t> context, const Processing& s, bool sample) {
  if (s.repetition_penalty != 1) penalize_repetition(scores, context, s.repetition_penalty);
  if (s.no_repeat_ngram > 0) forbid_repeated_ngrams(scores, context, s.no_repeat_ngram);
  if (!sample) return;
  if (s.temperature != 1) apply_temperature(scores, s.temperature);
  if (s.top_k > 0) keep_top_k(scores, s.top_k, s.least_kept);
  if (s.top_p < 1) keep_top_p(scores, s.top_p, s.least_kept);
}

}  // namespace ravine
