// The step of a run whose validation was best, as Transformers' Trainer names it, and its weights at the end.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"

namespace ravine {

struct OpenedRun;

struct BestModel {
  bool loads = false;    // the run ends with the weights of that step
  bool greater = false;  // a larger validation loss is better
};

struct BestStep {
  int64_t step = 0;
  double loss = 0;  // of its validation
};

// By the rows of metrics.jsonl up to `step`, among steps that have a validation and a checkpoint: the first of the best. Nothing:
// there is none.
std::optional<BestStep> best_step(const std::string& metrics, const Config& config, int64_t step, const BestModel& best);

// Fills the engine from the checkpoint of the best step, and says so. False: the weights are as they were, those of the last step,
// since there is none, or since that is the best. All checkpoints are written; all ranks call it.
bool load_best(const OpenedRun& run, const BestModel& best, int64_t done);

}  // namespace ravine
