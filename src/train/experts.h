// The section moe of a run: what it makes of a model's experts, and what routers did in a step.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "config/config.h"
#include "data/loader.h"
#include "engine/sides.h"
#include "model/model.h"

namespace ravine {

// The model with the experts that the options ask for. A UserError where it has none, where a capacity lets an expert take
// less than its even share of one choice, and where a gate of a shared expert is asked for that is not there.
std::unique_ptr<Model> with_experts(std::unique_ptr<Model> model, const Config& config);

// What routers did in a step, over all its micro batches, data ranks and stages.
struct RouterReport {
  std::optional<double> balance, z;  // losses before their coefficients, means over micro batches; where they count
  std::vector<int64_t> layers;       // those with experts; of each
  std::vector<double> drop_rate;     // the part of choices that was dropped
  std::vector<double> load;          // choices of the expert that has most, over the mean
};
// All ranks call it together and get the same. No layers where the model has no experts.
RouterReport router_report(const Sides& sides, const std::vector<MicroBatch>& micros, const Model& model, const Ranks& ranks);

// "8 experts in 4 of 6 layers, 2 of them per token; 12.9M of 46.7M parameters are active"; "" of a model without.
std::string experts_text(const Model& model);
// How many rows experts are planned for, with so many ranks that divide them: "" of a model without.
std::string expert_rows_text(const Model& model, int64_t tokens, int expert_ranks = 1);

}  // namespace ravine
