// The interface of observers above the trainer: they choose steps, and read the kernel calls and the state of a step.
#pragma once
#include "optim/schedule.h"
#include "runs/opened_run.h"

namespace ravine {

// An observer of the steps of a run.
class StepWatch {
 public:
  virtual ~StepWatch() = default;
  // Called before the first step: `done` steps are done, and memory holds their state. `run` outlives the later calls.
  virtual void begin(OpenedRun& run, int64_t done) = 0;
  virtual void begin_step(int64_t step) = 0;
  // Called when gradients are finished and not clipped, before the update.
  virtual void before_update() = 0;
  virtual void end_step(const StepResult& result, const UpdateRates& rates, double loss_scale) = 0;
};

}  // namespace ravine
