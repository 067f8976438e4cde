// Natural logarithm of softmax(logits)[id], in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

inline double log_probability(std::span<const float> logits, int32_t id) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float x : logits) sum += std::exp(x - top);
  return logits[static_cast<size_t>(id)] - top - std::log(sum);
}
