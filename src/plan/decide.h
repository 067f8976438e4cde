// Chooses recomputation, ZeRO stage and micro batch for a run on a given mesh. The ways to save memory are planned on
// the meta device in the order of their cost in time, until one fits. The order follows the procedure of Hugging Face's
// DeepSpeed guide: micro batches of one sequence, then recomputation, ZeRO 2, ZeRO 3, 16-bit arithmetic; then the
// largest micro batch that fits. ZeRO 1 is first here, because it sends no more than ZeRO 0.
#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "plan/knobs.h"

namespace ravine {

// One way to run the training that decide() has planned: its settings, its memory, and if it fits.
struct DecisionStep {
  Trial trial;
  RunLayout layout;
  std::string setting, why;  // setting: "parallel.zero=1"; why: its cost and effect
  int64_t bytes = 0;         // of the rank that needs most
  bool fits = false;
};

// The result of decide(): all ways that were planned, in order. The chosen way is the last one that fits. If none fits,
// there is no choice.
// Arguments of decide(): `ranks`: the number of ranks, in the mesh of config.parallel; a mesh that does not fit the
// model is a UserError. `columns`: tokens of a sequence. `bytes_per_rank`: the memory limit.
struct Decision {
  std::vector<DecisionStep> steps;
  const DecisionStep* choice() const;         // null: no step fits
  std::vector<std::string> settings() const;  // all settings of the choice
};
Decision decide(Model& model, const Config& config, Backend backend, int ranks, int64_t columns, int64_t bytes_per_rank);

}  // namespace ravine
