// Megatron's split strings ("969,30,1") and their ranges of sequences.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/choice.h"

namespace ravine {

// The version of Megatron whose sample order is used. core: Megatron-core 0.16. of_2023: Megatron-LM of November 2023,
// as in ModelLink.
enum class MegatronOrder : uint8_t { core, of_2023 };
constexpr auto names_of(MegatronOrder) {  // the names in data.order
  using enum MegatronOrder;
  return std::to_array<ValueName<MegatronOrder>>({{core, "megatron"}, {of_2023, "megatron-2023"}});
}
enum class MegatronSplit { train, valid, test };
inline constexpr std::array<MegatronSplit, 3> kMegatronSplits{MegatronSplit::train, MegatronSplit::valid, MegatronSplit::test};
const char* name(MegatronSplit s);

// Returns the sum with the roundings of numpy.sum, which adds pairwise in blocks of eight.
double numpy_sum(const std::vector<double>& values);
// Returns the values divided by numpy_sum(values).
std::vector<double> normalized(const std::vector<double>& values);

struct SplitRange {
  int64_t begin = 0, end = 0;  // range of sequences
};

// A split string of Megatron: the weights of train, valid and test ("969,30,1").
class SplitString {
 public:
  // Parses a text. Each run of digits and points is a weight; other characters separate the weights. There must be one
  // to three weights, not all 0; else a UserError.
  explicit SplitString(const std::string& text);
  const std::string& text() const { return text_; }
  // Returns where a split begins and ends, as shares of the whole from 0 to about 1. Nothing if its weight is 0.
  std::optional<std::array<double, 2>> shares(MegatronSplit s) const;
  // Returns the range of a split in a file with this number of sequences; nothing if its weight is 0. The 2023 order
  // rounds each share separately, and then moves all borders except the first so that the last one is the number of
  // sequences; a border below 0 is a UserError.
  std::optional<SplitRange> range(MegatronSplit s, int64_t sequences, MegatronOrder order) const;

 private:
  std::string text_;
  std::vector<double> weights_;  // three, normalized
};

}  // namespace ravine
