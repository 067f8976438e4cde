#include "kernels/kernels.h"

#include <algorithm>

#include "base/philox.h"

namespace ravine {

uint64_t AttentionDropout::head_key(int64_t h) const {
  auto words = philox(key, {static_cast<uint32_t>(first_head + h), 0, 0, 0});
  return words[0] | uint64_t{words[1]} << 32;
}

double attention_pairs(const AttentionShape& at) {
  double pairs = 0;
  for (const Segment& s : at.segments) {
    if (!at.causal && at.window == 0) {
      pairs += static_cast<double>(s.q_count) * s.k_count;
      continue;
    }
    for (int64_t i = 0; i < s.q_count; ++i) {
      int64_t p = s.k_count - s.q_count + i;
      int64_t end = at.causal ? std::min(s.k_count, p + 1) : s.k_count;
      int64_t begin = at.window > 0 ? std::max<int64_t>(0, p - at.window + 1) : 0;
      pairs += static_cast<double>(std::max<int64_t>(0, end - begin));
    }
  }
  return pairs;
}

double AttentionForward::flops() const { return 2.0 * (at.head_size + at.values()) * at.heads * attention_pairs(at); }
double AttentionBackward::flops() const { return 4.0 * (at.head_size + at.values()) * at.heads * attention_pairs(at); }

Kernels meta_kernels(const Kernels& like) {
  Kernels k = like;
  k.backend = "meta";
  k.each([](auto& entry) {
    using Entry = std::remove_reference_t<decltype(entry)>;
    if (!entry.run) return;
    [&]<class Args>(Kernel<Args>& e) { e.run = [](const Args&, void*) {}; }(static_cast<Entry&>(entry));
  });
  return k;
}

}  // namespace ravine
