// A set of steps, written as in MindSpore's dump settings: "0|5-8|100-120".
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ravine {

class StepRanges {
 public:
  StepRanges() = default;  // all steps
  // Parses a text such as "0|5-8|100-120". Returns nothing if the text has another form, or a range ends before it
  // begins.
  static std::optional<StepRanges> parse(std::string_view text);  // an empty text means all steps
  bool holds(int64_t step) const;

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // first and last step; empty: all steps
};

}  // namespace ravine
