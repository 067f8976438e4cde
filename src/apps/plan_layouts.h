// `ravine plan` for several ranks: the possible layouts, the steps of a decision, and the communication and step time
// of a layout.
#pragma once
#include <string>

#include "plan/decide.h"
#include "plan/estimate.h"

namespace ravine {

// The input of a plan.
struct PlanFor {
  Model& model;
  const Config& config;
  Backend backend;
  Types types;
  Kernels kernels;
  int ranks = 1;
  int64_t columns = 1;
  int64_t memory = 0;  // bytes per rank
  Rates rates;
  bool json = false;
};

int print_layouts(const PlanFor& plan);
int print_decision(const PlanFor& plan);

// Returns the predicted step of the config's layout. Resolves parallel.split=cost in `config`.
StepEstimate estimate_of(const PlanFor& plan, Config& config, const RunLayout& layout);
// Returns two lines: the parts of a predicted step, and the rates that were used.
std::string estimate_text(const PlanFor& plan, const StepEstimate& e);
Json estimate_json(const StepEstimate& e);
// Returns the cost of more leaves than data ranks; "" if there are no more.
std::string leaves_text(const PlanFor& plan, const RunLayout& layout, const StepEstimate& e);

}  // namespace ravine
