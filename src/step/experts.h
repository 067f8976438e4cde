// The section moe of a run: what it makes of a model's experts, and what routers did in a step.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "config/config.h"
#include "data/loader.h"
#include "engine/ctx.h"
#include "model/model.h"
#include "parallel/flat_store.h"

namespace ravine {

// The model with the experts that the options ask for. A UserError where it has none, where a capacity lets an expert take
// less than its even share of one choice, and where a gate of a shared expert is asked for that is not there.
std::unique_ptr<Model> with_experts(std::unique_ptr<Model> model, const Config& config);

// What routers did in a step, over all its micro batches, data ranks and stages.
struct RouterReport {
  std::optional<double> balance, z;          // losses before their coefficients, means over micro batches; where they count
  std::vector<int64_t> layers;               // those with experts; of each
  std::vector<double> drop_rate;             // the part of choices that was dropped
  std::vector<double> load;                  // choices of the expert that has most, over the mean
  std::vector<std::vector<int64_t>> claims;  // choices of each expert, before any were dropped
};
// All ranks call it together and get the same. No layers where the model has no experts.
RouterReport router_report(const StepSums& sums, const std::vector<MicroBatch>& micros, const Model& model, const Ranks& ranks);

// Shares of choices that reach beyond a micro batch (moe.load_balance=global_aux): over all data ranks and the micro batches of
// the step so far, those of an equal number on each rank side by side, as Megatron-core has it. Which these are follows from the
// layout, so other numbers of data ranks and of micro batches give other gradients.
class SharesOfStep {
 public:
  SharesOfStep(const Group& data, const Model& model);
  // After the forward pass of this micro batch of each data rank, and before its backward pass. All data ranks call it together.
  void add(Ctx& c, int64_t micro);

 private:
  const Group& data_;
  bool wanted_;
  std::map<int64_t, std::vector<int64_t>> choices_;  // by layer and expert
};

// Moves corrections of routers after an update (moe.load_balance=bias; Wang et al. 2024, as DeepSeek-V3 and Megatron-core have
// it): an expert with fewer choices than the mean of its layer in this step gains `rate`, one with more loses it, in the type of
// the master. before_unit: as in Optimizer. Every rank moves what it holds, alike.
void correct_routers(FlatStore& store, const RouterReport& report, double rate,
                     const std::function<void(const Unit&)>& before_unit);

// "8 experts in 4 of 6 layers, 2 of them per token; 12.9M of 46.7M parameters are active"; "" of a model without.
std::string experts_text(const Model& model);
// How many rows experts are planned for, with so many ranks that divide them: "" of a model without.
std::string expert_rows_text(const Model& model, int64_t tokens, int expert_ranks = 1);

}  // namespace ravine
