#include "config/step_ranges.h"

#include <algorithm>
#include <charconv>

namespace ravine {
namespace {

std::optional<int64_t> step_number(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

}  // namespace

std::optional<StepRanges> StepRanges::parse(std::string_view text) {
  StepRanges out;
  if (text.empty()) return out;
  while (true) {
    const size_t bar = std::min(text.find('|'), text.size());
    const std::string_view part = text.substr(0, bar);
    const size_t dash = part.find('-');
    const auto first = step_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : step_number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    out.ranges_.emplace_back(*first, *last);
    if (bar == text.size()) return out;
    text.remove_prefix(bar + 1);
  }
}

bool StepRanges::holds(int64_t step) const {
  return ranges_.empty() ||
         std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& r) { return r.first <= step && step <= r.second; });
}

}  // namespace ravine
