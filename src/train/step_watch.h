// Who looks at a run from inside, from above the trainer: at the kernel calls of the steps that it chooses, and at what lies
// between them.
#pragma once
#include "optim/schedule.h"
#include "runs/opened_run.h"

namespace ravine {

class StepWatch {
 public:
  virtual ~StepWatch() = default;
  // `done` steps lie behind, memory holds what they left. What is opened outlives the calls that follow.
  virtual void begin(OpenedRun& run, int64_t done) = 0;
  virtual void begin_step(int64_t step) = 0;
  // Gradients are finished and not clipped; the update, if there is one, comes next.
  virtual void before_update() = 0;
  virtual void end_step(const StepResult& result, const UpdateRates& rates, double loss_scale) = 0;
};

}  // namespace ravine
