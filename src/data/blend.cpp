#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace ravine {

Blend::Blend(std::span<const double> weights) {
  require(!weights.empty() && weights.size() <= 4096, "blend: 1 to 4096 sources, got {}", weights.size());
  double sum = 0;
  for (double w : weights) {
    require(std::isfinite(w) && w > 0, "blend: weights are above 0, got {}", w);
    sum += w;
  }
  // Rounds the shares to whole numbers by largest remainder.
  std::vector<double> rest;
  int64_t given = 0;
  for (double w : weights) {
    double exact = w / sum * kPeriod;
    per_period_.push_back(static_cast<int64_t>(exact));
    rest.push_back(exact - std::floor(exact));
    given += per_period_.back();
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rest[a] > rest[b]; });
  for (size_t i = 0; given < kPeriod; ++i, ++given) ++per_period_[order[i % order.size()]];
  for (size_t k = 0; k < weights.size(); ++k)
    require(per_period_[k] > 0, "blend: the weight {} is less than 1/{} of all", weights[k], kPeriod);

  std::vector<int64_t> used(weights.size());
  for (int64_t position = 0; position < kPeriod; ++position) {
    size_t best = 0;
    int64_t most = INT64_MIN;
    for (size_t k = 0; k < weights.size(); ++k) {
      int64_t behind = per_period_[k] * (position + 1) - used[k] * kPeriod;
      if (behind > most) most = behind, best = k;
    }
    source_.push_back(static_cast<uint16_t>(best));
    rank_.push_back(static_cast<uint32_t>(used[best]++));
  }
}

Blend::SourceSample Blend::operator()(int64_t sample) const {
  int64_t period = sample / kPeriod, position = sample % kPeriod;
  int64_t k = source_[static_cast<size_t>(position)];
  return {k, period * per_period_[static_cast<size_t>(k)] + rank_[static_cast<size_t>(position)]};
}

int64_t Blend::taken(int64_t source, int64_t samples) const {
  int64_t position = samples % kPeriod,
          k = std::count(source_.begin(), source_.begin() + position, static_cast<uint16_t>(source));
  return samples / kPeriod * per_period_[static_cast<size_t>(source)] + k;
}

}  // namespace ravine
