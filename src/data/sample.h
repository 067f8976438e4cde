// A sample: one sequence of a training step.
#pragma once
#include <cstdint>
#include <vector>

namespace ravine {

inline constexpr int32_t kIgnored = -100;  // the label of a column without prediction

// An attention segment of a sample: adjacent columns whose tokens attend to each other and to no others.
struct TokenSpan {
  int32_t begin = 0, length = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

// One sequence of a training step, of T columns. Columns outside every segment are padding.
struct Sample {
  std::vector<int32_t> ids;         // [T]
  std::vector<int32_t> labels;      // [T]: labels[t] is the token that column t predicts (already shifted), or kIgnored
  std::vector<int32_t> positions;   // [T]
  std::vector<TokenSpan> segments;  // in order, not overlapping
  // The numbers of the preference pairs in this sample, as in PairSet. The k-th pair is segments 2k (chosen answer) and
  // 2k + 1 (rejected answer). Empty: the sample has no pairs.
  std::vector<int64_t> pairs;
};

// The preference pairs of a source or a dataset, numbered from 0.
struct PairSet {
  int64_t count = 0;         // 0: there are no pairs
  uint64_t fingerprint = 0;  // checksum of the ids of all pairs
};

}  // namespace ravine
