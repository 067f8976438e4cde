// `ravine plan` of several ranks: the layouts that there are, the steps of a decision, what one layout sends and how long its
// step takes.
#pragma once
#include <string>

#include "plan/decide.h"
#include "plan/estimate.h"

namespace ravine {

// What a plan is for.
struct PlanFor {
  Model& model;
  const Config& config;
  Backend backend;
  Types types;
  Kernels kernels;
  int ranks = 1;
  int64_t columns = 1;
  int64_t memory = 0;  // bytes of a rank
  Rates rates;
  bool json = false;
};

int print_layouts(const PlanFor& plan);
int print_decision(const PlanFor& plan);

// The layout of the config with its predicted step, "parallel.split=cost" worked out in `config`.
StepEstimate estimate_of(const PlanFor& plan, Config& config, const RunLayout& layout);
// Two lines: of what a predicted step is made, and by which rates.
std::string estimate_text(const PlanFor& plan, const StepEstimate& e);
Json estimate_json(const StepEstimate& e);
// What summing over more leaves than data ranks costs; "" where there are no more.
std::string leaves_text(const PlanFor& plan, const RunLayout& layout, const StepEstimate& e);

}  // namespace ravine
