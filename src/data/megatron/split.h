// Megatron's split strings ("969,30,1") and their ranges of sequences.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/choice.h"

namespace ravine {

// Megatron-core 0.16; Megatron-LM of November 2023, as in ModelLink.
enum class MegatronOrder : uint8_t { core, of_2023 };
constexpr auto names_of(MegatronOrder) {  // the names in data.order
  using enum MegatronOrder;
  return std::to_array<ValueName<MegatronOrder>>({{core, "megatron"}, {of_2023, "megatron-2023"}});
}
enum class MegatronSplit { train, valid, test };
inline constexpr std::array<MegatronSplit, 3> kMegatronSplits{MegatronSplit::train, MegatronSplit::valid, MegatronSplit::test};
const char* name(MegatronSplit s);

// Returns numpy.sum of doubles (pairwise by eight); normalized() divides the values by it.
double numpy_sum(const std::vector<double>& values);
std::vector<double> normalized(const std::vector<double>& values);

struct SplitRange {
  int64_t begin = 0, end = 0;  // range of sequences
};

class SplitString {
 public:
  // Parses all runs of digits and points as numbers: one to three, not all zero; else a UserError.
  explicit SplitString(const std::string& text);
  const std::string& text() const { return text_; }
  // Returns the borders of a split as shares from 0 to about 1. Nothing for a split of weight 0.
  std::optional<std::array<double, 2>> shares(MegatronSplit s) const;
  // Returns the sequences of a split; nothing for a split of weight 0. The 2023 order rounds each share separately, and
  // moves all borders but the first so that the last one fits; a border below 0 is a UserError.
  std::optional<SplitRange> range(MegatronSplit s, int64_t sequences, MegatronOrder order) const;

 private:
  std::string text_;
  std::vector<double> weights_;  // three, normalized
};

}  // namespace ravine
