#include "train/work.h"

#include <algorithm>
#include <string_view>

namespace ravine {

void WorkCount::after(const CallInfo& call) {
  if (call.micro > 1) return;
  double bytes = 0;
  for (const NamedView& t : call.tensors) {
    if (std::string_view(call.op) == "embedding" && std::string_view(t.name) == "weight") continue;  // a few rows of it
    bytes += static_cast<double>(t.view.bytes()) * (t.access == Access::update ? 2 : 1);
  }
  parts_[call.phase == Phase::update ? 2 : call.micro].push_back({call.flops, bytes});
}

double WorkCount::seconds(double flops, double bytes, int64_t micro_batches) const {
  double part[3] = {};
  for (int i = 0; i < 3; ++i)
    for (const Call& c : parts_[i]) part[i] += std::max(c.flops / flops, c.bytes / bytes);
  return part[0] + part[1] * static_cast<double>(micro_batches - 1) + part[2];
}

}  // namespace ravine
