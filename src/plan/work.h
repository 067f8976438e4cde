// Counts the work of a step while its memory is planned on meta: a time to compare ways to run it by, not a promise.
#pragma once
#include <vector>

#include "engine/observer.h"
#include "kernels/kernels.h"

namespace ravine {

class WorkCount : public Observer {
 public:
  void after(const CallInfo& call) override;
  // Seconds of a step of so many micro batches if every kernel call ran at the machine's peak of products, or of memory where
  // that takes longer.
  double seconds(double flops_per_second, double bytes_per_second, int64_t micro_batches) const;

 private:
  struct Call {
    double flops, bytes;
  };
  // The first micro batch, a later one, the update.
  std::vector<Call> parts_[3];
};

}  // namespace ravine
