// The interface of observers above the trainer: they choose steps, and read the kernel calls and the state of a step.
#pragma once
#include "optim/schedule.h"
#include "runs/opened_run.h"

namespace ravine {

// Base class of observers of the steps of a run (Trainer::watch).
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Called once before the first step. `done`: the number of steps already done (0, or the step of the checkpoint). The
  // engine of `run` holds the state after them. `run` outlives the later calls.
  virtual void begin(OpenedRun& run, int64_t done) = 0;
  virtual void begin_step(int64_t step) = 0;
  // Called in each step when the gradients are reduced and not yet clipped, before the update.
  virtual void before_update() = 0;
  virtual void end_step(const StepResult& result, const UpdateRates& rates, double loss_scale) = 0;
};

}  // namespace ravine
