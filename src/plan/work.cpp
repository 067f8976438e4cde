#include "plan/work.h"

#include <algorithm>

namespace ravine {

void WorkCount::after(const CallInfo& call) {
  if (call.micro > 1) return;
  parts_[call.phase == Phase::update ? 2 : call.micro].push_back({call.flops, call.bytes});
}

double WorkCount::seconds(double flops, double bytes, int64_t micro_batches) const {
  double part[3] = {};
  for (int i = 0; i < 3; ++i)
    for (const Call& c : parts_[i]) part[i] += std::max(c.flops / flops, c.bytes / bytes);
  return part[0] + part[1] * static_cast<double>(micro_batches - 1) + part[2];
}

}  // namespace ravine
