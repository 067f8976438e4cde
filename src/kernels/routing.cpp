#include "kernels/routing.h"

#include <algorithm>
#include <cmath>

namespace ravine {

int64_t expert_capacity(const Routing& r, int64_t tokens) {
  if (r.drop == Drop::none) return tokens;
  const double share = r.capacity_factor * static_cast<double>(r.top_k * tokens) / static_cast<double>(r.experts);
  return std::min(tokens, static_cast<int64_t>(std::ceil(share)));
}

int64_t routed_rows(const Routing& r, int64_t tokens) {
  const int64_t full = r.experts * expert_capacity(r, tokens);
  return r.pad_to_capacity ? full : std::min(full, tokens * r.top_k);
}

}  // namespace ravine
