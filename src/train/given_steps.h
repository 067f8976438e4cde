// Replaces the gradients of a run's first steps by another program's gradients (train.given_gradients).
#pragma once
#include <memory>

#include "io/given_gradients.h"
#include "runs/opened_run.h"

namespace ravine {

// The given gradients of a run. Each rank writes the elements that it owns, so data ranks, ZeRO, tensor ranks and
// pipeline stages need nothing of their own.
class GivenSteps {
 public:
  // Reads names and shapes of the gradients in train.given_gradients. A UserError if they do not fit the model, or if
  // the update sends other data than gradients. `run` must outlive this, and its engine calls it.
  explicit GivenSteps(OpenedRun& run);
  void begin_step(int64_t step) { step_ = step; }

 private:
  StepEngine::Given write(double loss_scale);
  void print_stderr();

  OpenedRun& run_;
  const GivenGradientsOption option_;
  std::vector<const Param*> params_;
  std::unique_ptr<GivenGradients> given_;
  int64_t step_ = 0;
  bool said_ = false, said_end_ = false;
};

}  // namespace ravine
