#include "engine/param_store.h"

#include <algorithm>

namespace ravine {

std::vector<Range> counted_ranges(const Bucket& bucket) {
  std::vector<Range> out;
  auto add = [&](int64_t begin, int64_t end) {
    // A run that begins between two multiples ends at the next: so runs are the same however data ranks divide the bucket.
    int64_t next = std::min(end, round_up(begin, kPartElements));
    if (begin < next) out.push_back({begin, next - begin});
    if (next < end) out.push_back({next, end - next});
  };
  int64_t at = bucket.spoken.begin, end = at + bucket.spoken.count;
  for (const Bucket::Span& s : bucket.spans) {
    int64_t from = std::max(at, s.begin), to = std::min(end, s.begin + s.shape.count());
    if (!s.copy || from >= to) continue;
    add(at, from);
    at = to;
  }
  add(at, end);
  return out;
}

}  // namespace ravine
