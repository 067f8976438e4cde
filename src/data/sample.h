// What a step sees.
#pragma once
#include <cstdint>
#include <vector>

namespace ravine {

inline constexpr int32_t kIgnored = -100;  // a label that does not count

// A run of columns whose tokens attend to each other and to no others.
struct TokenSpan {
  int32_t begin = 0, length = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

// One sequence of T columns. Columns outside every segment are padding.
struct Sample {
  std::vector<int32_t> ids;         // T
  std::vector<int32_t> labels;      // T; labels[t] is what column t predicts, already shifted; or kIgnored
  std::vector<int32_t> positions;   // T
  std::vector<TokenSpan> segments;  // in order, apart
  // Numbers of its preference pairs (PairSet): each is two segments, of the chosen and of the rejected answer. Empty: no pairs.
  std::vector<int64_t> pairs;
};

// All preference pairs of a source or a dataset, numbered from 0.
struct PairSet {
  int64_t count = 0;         // 0: it holds no pairs
  uint64_t fingerprint = 0;  // of their ids
};

}  // namespace ravine
