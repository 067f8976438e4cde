#include "infer/processors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

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
  double sum = 0;  // PyTorch adds in f64 and stores f32
  float limit = static_cast<float>(1 - p);
  for (size_t i = 0; i + static_cast<size_t>(least_kept) < order.size(); ++i) {
    sum += sorted[i];
    if (static_cast<float>(sum) > limit) break;
    scores[static_cast<size_t>(order[i])] = kRemoved;
  }
}

void add_bias(std::span<float> scores, std::span<const TokenBias> biases) {
  for (const TokenBias& b : biases) {
    require(b.id >= 0 && static_cast<size_t>(b.id) < scores.size(), "logit bias: token {} of {}", b.id, scores.size());
    scores[static_cast<size_t>(b.id)] += static_cast<float>(b.bias);
  }
}

void penalize_frequency(std::span<float> scores, std::span<const int32_t> written, double frequency, double presence) {
  std::unordered_map<int32_t, int64_t> counts;
  for (const int32_t id : written) ++counts[id];
  for (const auto& [id, n] : counts)
    scores[static_cast<size_t>(id)] -= static_cast<float>(static_cast<double>(n) * frequency + presence);
}

void keep_min_p(std::span<float> scores, double min_p, int64_t least_kept) {
  std::vector<float> p(scores.begin(), scores.end());
  softmax(p);
  const float limit = static_cast<float>(min_p) * *std::max_element(p.begin(), p.end());
  std::vector<float> best = p;  // its entry `last` becomes the probability of the last of the `least_kept` best
  const auto last = std::min(best.size(), static_cast<size_t>(least_kept)) - 1;
  std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(last), best.end(), std::greater<>());
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] < limit && p[i] < best[last]) scores[i] = kRemoved;
}

void keep_typical(std::span<float> scores, double mass, int64_t least_kept) {
  std::vector<float> p(scores.begin(), scores.end());
  softmax(p);
  const float top = *std::max_element(scores.begin(), scores.end());
  double sum = 0, entropy = 0;
  for (const float s : scores) sum += std::exp(static_cast<double>(s - top));
  const double log_sum = std::log(sum);
  std::vector<float> distance(scores.size());  // infinite for removed tokens
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > kRemoved) entropy += static_cast<double>(p[i]) * (log_sum - static_cast<double>(scores[i] - top));
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    order[i] = i;
    distance[i] = static_cast<float>(std::abs(log_sum - static_cast<double>(scores[i] - top) - entropy));
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return distance[a] < distance[b]; });
  size_t last = 0;
  double reached = 0;  // PyTorch adds in f64 and stores f32
  for (; last + 1 < order.size(); ++last)
    if (reached += p[order[last]]; !(static_cast<float>(reached) < static_cast<float>(mass))) break;
  for (size_t i = static_cast<size_t>(least_kept); i < order.size(); ++i)
    if (distance[order[i]] > distance[order[last]]) scores[order[i]] = kRemoved;
}

bool changes_best(const Processing& s) {
  return s.repetition_penalty != 1 || s.no_repeat_ngram > 0 || s.frequency_penalty != 0 || s.presence_penalty != 0 ||
         !s.bias.empty();
}

void process(std::span<float> scores, std::span<const int32_t> context, const Processing& s, bool sample, size_t prompt) {
  add_bias(scores, s.bias);
  if (s.repetition_penalty != 1) penalize_repetition(scores, context, s.repetition_penalty);
  if (s.no_repeat_ngram > 0) forbid_repeated_ngrams(scores, context, s.no_repeat_ngram);
  if (s.frequency_penalty != 0 || s.presence_penalty != 0)
    penalize_frequency(scores, context.subspan(prompt), s.frequency_penalty, s.presence_penalty);
  if (!sample) return;
  if (s.temperature != 1) apply_temperature(scores, s.temperature);
  if (s.top_k > 0) keep_top_k(scores, s.top_k, s.least_kept);
  if (s.top_p < 1) keep_top_p(scores, s.top_p, s.least_kept);
  if (s.min_p > 0) keep_min_p(scores, s.min_p, s.least_kept);
  if (s.typical_p < 1) keep_typical(scores, s.typical_p, s.least_kept);
}

}  // namespace ravine
