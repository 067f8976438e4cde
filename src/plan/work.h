// Counts the work of a step while it is planned on meta, to compare ways to run it. The result is no prediction of
// time.
#pragma once
#include <vector>

#include "engine/observer.h"
#include "kernels/kernels.h"

namespace ravine {

// An observer that counts FLOPs and bytes of kernel calls.
class WorkCount : public Observer {
 public:
  void after(const CallInfo& call) override;
  // Returns the seconds of a step of `micro_batches` micro batches, if every kernel call ran at the peak of the
  // machine. The time of a call is the longer of FLOPs / flops_per_second and bytes / bytes_per_second.
  double seconds(double flops_per_second, double bytes_per_second, int64_t micro_batches) const;

 private:
  struct Call {
    double flops, bytes;
  };
  // The counted calls: [0] of the first micro batch, [1] of a later micro batch, [2] of the update.
  std::vector<Call> parts_[3];
};

}  // namespace ravine
