// Steps as MindSpore's dump settings write them: "0|5-8|100-120".
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ravine {

class StepRanges {
 public:
  StepRanges() = default;  // every step
  // Nothing if the text is not of that form, or a range ends before it begins.
  static std::optional<StepRanges> parse(std::string_view text);  // empty: every step
  bool holds(int64_t step) const;

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // first, last; none: every step
};

}  // namespace ravine
