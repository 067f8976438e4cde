#include "engine/param_store.h"

#include <algorithm>

namespace ravine {

bool Bucket::holds(const Param& p) const {
  return std::any_of(spans.begin(), spans.end(), [&](const Span& s) { return s.param == &p; });
}

std::vector<Range> counted_ranges(const Bucket& bucket) {
  std::vector<Range> out;
  auto add = [&](int64_t begin, int64_t end) {
    // A run that begins between two multiples ends at the next one, so runs do not depend on how ranks divide the
    // bucket.
    int64_t next = std::min(end, round_up(begin, kNormRun));
    if (begin < next) out.push_back({begin, next - begin});
    if (next < end) out.push_back({next, end - next});
  };
  int64_t at = bucket.primary.begin, end = at + bucket.primary.count;
  for (const Bucket::Span& s : bucket.spans) {
    int64_t from = std::max(at, s.begin), to = std::min(end, s.begin + s.shape.count());
    if (!s.replica || from >= to) continue;
    add(at, from);
    at = to;
  }
  add(at, end);
  return out;
}

}  // namespace ravine
