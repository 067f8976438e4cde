// Megatron's split strings ("969,30,1") and the ranges of sequences that they mean.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/choice.h"

namespace ravine {

enum class MegatronOrder : uint8_t { core, of_2023 };  // Megatron-core 0.16; Megatron-LM of November 2023, as in ModelLink
constexpr auto names_of(MegatronOrder) {               // as data.order has them
  using enum MegatronOrder;
  return std::to_array<ValueName<MegatronOrder>>({{core, "megatron"}, {of_2023, "megatron-2023"}});
}
enum class MegatronSplit { train, valid, test };
inline constexpr std::array<MegatronSplit, 3> kMegatronSplits{MegatronSplit::train, MegatronSplit::valid, MegatronSplit::test};
const char* name(MegatronSplit s);

// numpy.sum of doubles (pairwise by eight) and weights divided by it.
double numpy_sum(const std::vector<double>& values);
std::vector<double> normalized(const std::vector<double>& values);

struct SplitRange {
  int64_t begin = 0, end = 0;  // sequences
};

class SplitString {
 public:
  // All runs of digits and points are numbers, at most three, not all zero; else a UserError.
  explicit SplitString(const std::string& text);
  const std::string& text() const { return text_; }
  // Borders as shares, from 0 to about 1, of the current kind: [0] is the first of train. A split of weight 0 has none.
  std::optional<std::array<double, 2>> shares(MegatronSplit s) const;
  // Nothing for a split of weight 0. In the 2023 kind each share is rounded on its own and all borders but the first are moved
  // so that the last fits; a border below 0 is a UserError.
  std::optional<SplitRange> range(MegatronSplit s, int64_t sequences, MegatronOrder order) const;

 private:
  std::string text_;
  std::vector<double> weights_;  // normalized, three
};

}  // namespace ravine
