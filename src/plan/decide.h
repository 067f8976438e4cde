// Which recomputation, ZeRO stage and micro batch a run on a given mesh should take: ways to save memory in the order of what
// they cost in speed, each planned on the meta device, until one fits. After the procedure of Hugging Face's DeepSpeed guide:
// micro batches of one sequence first, then recomputation, ZeRO 2, ZeRO 3, 16-bit arithmetic; with what fits, the largest micro
// batch. ZeRO 1 comes before all of these, since here it sends no more than ZeRO 0.
#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "plan/ways.h"

namespace ravine {

struct DecisionStep {
  Way way;
  RunLayout layout;
  std::string setting, why;  // "parallel.zero=1", and what it costs and saves
  int64_t bytes = 0;         // of the rank that needs most
  bool fits = false;
};

// Every step that was tried, in order. The choice is the last that fits; none fits: no step does. Layouts are `ranks` ranks in
// the mesh of config.parallel; a mesh that does not fit the model is a UserError.
struct Decision {
  std::vector<DecisionStep> steps;
  const DecisionStep* choice() const;
  std::vector<std::string> settings() const;  // of the choice, all that were decided
};
Decision decide(Model& model, const Config& config, Backend backend, int ranks, int64_t columns, int64_t bytes_per_rank);

}  // namespace ravine
