// Which recomputation, ZeRO stage and micro batch a run on a given mesh should take: ways to save memory in the order of what
// they cost in speed, each planned on the meta device, until one fits. After the procedure of Hugging Face's DeepSpeed guide:
// micro batches of one sequence first, then recomputation, ZeRO 2, ZeRO 3, 16-bit arithmetic; with what fits, the largest micro
// batch. ZeRO 1 comes before all of these, since here it sends no more than ZeRO 0.
#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "step/layout.h"
#include "step/step.h"

namespace ravine {

struct DecisionStep {
  Config config;
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
  std::vector<std::string> settings() const;  // of the choice, where they differ from what was asked for at the beginning
};
Decision decide(Model& model, const Config& config, Backend backend, int ranks, int64_t columns, int64_t bytes_per_rank);

// A step of the ranks of the first, second and last stage, planned: bytes that the one that needs most needs, and what the one
// that sends most sends. The program itself counts as it was at the first call.
struct PlannedRanks {
  int64_t bytes = 0;
  Communication sent;
};
PlannedRanks plan_ranks(Model& model, const Config& config, const RunLayout& layout, const Types& types, const Kernels& kernels,
                        int64_t columns);

}  // namespace ravine
