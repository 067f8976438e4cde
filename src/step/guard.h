// What stands between the norm of a step and its update (Decide in step/step.h).
#pragma once
#include <cstdint>

#include "config/config.h"
#include "step/step.h"

namespace ravine {

// Data skip by global norm, as MindFormers' use_skip_data_by_global_norm promises it: a step whose norm is above
// health.skip_norm is not applied, and with health.skip_count of them in a row the run ends. Equal to the limit is no spike
// (there the code takes it for one), a loss or norm that is not finite is one (there it is skipped and not counted). With
// health.skip_norm 0 only a step that is not finite is not applied: it ends the run.
class SpikeGuard {
 public:
  explicit SpikeGuard(const HealthOptions& options) : options_(options) {}
  Verdict judge(double loss, double grad_norm);
  // Spikes since the last step that was none; a checkpoint keeps them.
  int64_t in_a_row() const { return in_a_row_; }
  void go_on_from(int64_t in_a_row) { in_a_row_ = in_a_row; }

 private:
  const HealthOptions& options_;
  int64_t in_a_row_ = 0;
};

}  // namespace ravine
