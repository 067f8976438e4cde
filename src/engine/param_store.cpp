#include "engine/param_store.h"

#include <algorithm>

namespace ravine {

namespace {
[[noreturn]] void only_read() { fail("weights are only read here: there are no gradients and no moments"); }
}  // namespace

void WeightsOnly::open_grads(Ctx&, const Unit&) { only_read(); }
void WeightsOnly::close_grads(Ctx&, const Unit&) { only_read(); }
TensorView WeightsOnly::add_to_grad(const Param&, bool&) { only_read(); }
void WeightsOnly::finish_grads(Ctx&) { only_read(); }
TensorView WeightsOnly::flat_master(size_t) const { only_read(); }
TensorView WeightsOnly::flat_copy(size_t) const { only_read(); }

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
