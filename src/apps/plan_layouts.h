// `ravine plan` for several ranks: the possible layouts, the steps of a decision, and the communication and step time
// of a layout.
#pragma once
#include <string>

#include "plan/decide.h"
#include "plan/estimate.h"

namespace ravine {

// The input of a plan (print_layouts, print_decision, estimate_of): model, options and the machine to plan for.
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

// Returns the predicted time and communication of a step in the layout of `config`. Resolves parallel.split=cost in
// `config`.
StepEstimate estimate_of(const PlanFor& plan, Config& config, const RunLayout& layout);
// Returns two lines of text: the parts of a predicted step, and the rates of the machine that were used.
std::string estimate_text(const PlanFor& plan, const StepEstimate& e);
Json estimate_json(const StepEstimate& e);
// Returns a text on the cost of parallel.sum_leaves above the number of data ranks; "" if it is not above.
std::string leaves_text(const PlanFor& plan, const RunLayout& layout, const StepEstimate& e);

}  // namespace ravine
