#include "infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/philox.h"

namespace ravine {

void softmax(std::span<float> scores) {
  if (scores.empty()) return;
  float top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (float& s : scores) {
    s = static_cast<float>(std::exp(static_cast<double>(s - top)));
    sum += s;
  }
  for (float& s : scores) s = static_cast<float>(s / sum);
}

int32_t index_of_largest(std::span<const float> scores) {
  constexpr size_t kChains = 8;  // chains of comparisons that do not depend on each other
  float top[kChains];
  std::fill(top, top + kChains, -INFINITY);
  size_t i = 0;
  for (; i + kChains <= scores.size(); i += kChains)
    for (size_t c = 0; c < kChains; ++c) top[c] = scores[i + c] > top[c] ? scores[i + c] : top[c];
  for (; i < scores.size(); ++i) top[0] = scores[i] > top[0] ? scores[i] : top[0];
  const auto best = std::find(scores.begin(), scores.end(), *std::max_element(top, top + kChains));
  return best == scores.end() ? 0 : static_cast<int32_t>(best - scores.begin());
}

int32_t choose_best(std::span<const float> scores) {
  require(!scores.empty(), "generate: no token is left to choose, there are none");
  const auto best = static_cast<size_t>(index_of_largest(scores));
  require(scores[best] > -INFINITY, "generate: no token is left to choose, all {} are removed", scores.size());
  return static_cast<int32_t>(best);
}

int32_t choose_at_random(std::span<const float> scores, uint64_t seed, uint64_t sequence, uint64_t position) {
  int32_t best = choose_best(scores);
  std::vector<float> p(scores.begin(), scores.end());
  softmax(p);
  auto words = philox(philox_key(seed, "generate"), {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                                                     static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)});
  double uniform = static_cast<double>(uint64_t{words[0]} << 21 | words[1] >> 11) * 0x1p-53;
  double sum = 0, total = 0;
  for (float x : p) total += x;
  for (size_t i = 0; i < p.size(); ++i)
    if (uniform * total < (sum += p[i])) return static_cast<int32_t>(i);
  return best;  // only when uniform * total is rounded up to total
}

}  // namespace ravine
