// The decision between the gradient norm of a step and its update (Decide in step/step.h).
#pragma once
#include <cstdint>

#include "config/config.h"
#include "step/step.h"

namespace ravine {

// Decides if a step is applied, skipped or ends the run, by its gradient norm, as MindFormers' guide describes
// use_skip_data_by_global_norm. A step with a norm above health.skip_norm (a spike) is not applied. health.skip_count
// spikes in a row end the run. Two differences from the code of MindFormers: a norm equal to the limit is no spike
// here, and is one there. A loss or norm that is not finite is a spike here; there the step is skipped and not counted.
// If health.skip_norm is 0, only a step that is not finite is not applied, and it ends the run.
class SpikeGuard {
 public:
  explicit SpikeGuard(const HealthOptions& options) : options_(options) {}
  Verdict judge(double loss, double grad_norm);
  // Returns the number of spikes (steps with a gradient norm above health.skip_norm) since the last applied step. A
  // checkpoint stores it.
  int64_t in_a_row() const { return in_a_row_; }
  void go_on_from(int64_t in_a_row) { in_a_row_ = in_a_row; }

 private:
  const HealthOptions& options_;
  int64_t in_a_row_ = 0;
};

}  // namespace ravine
