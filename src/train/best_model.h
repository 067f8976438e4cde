// The step of a run with the best validation, as in Transformers' Trainer, and its weights at the end of the run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"

namespace ravine {

struct OpenedRun;

// The settings for the model with the best validation: if the run ends with it, and if a larger or a smaller loss is
// better.
struct BestModel {
  bool loads = false;    // the run ends with the weights of the best step
  bool greater = false;  // a larger validation loss is better
};

// The step with the best validation among the steps that have a checkpoint. The result of best_step.
struct BestStep {
  int64_t step = 0;
  double loss = 0;  // of the validation
};

// Returns the step with the best validation loss up to `step`. `metrics`: the rows of metrics.jsonl. Only steps with a
// validation and a checkpoint are considered; of equal losses the first step is best. Empty if there is no such step.
std::optional<BestStep> best_step(const std::string& metrics, const Config& config, int64_t step, const BestModel& best);

// Loads the weights of the step with the best validation from its checkpoint into the engine, and logs it. Returns
// false, and keeps the weights, if there is no best step (a warning is logged) or if the last step is the best. `done`:
// the last step of the run. All checkpoints must be complete. All ranks call it together.
bool load_best(const OpenedRun& run, const BestModel& best, int64_t done);

}  // namespace ravine
