// The options moe.* of a run: they change the experts of a model, and report the routers of a step.
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

// Returns the model with the changes of the options moe.* to its experts. UserErrors:
// - an option of moe.* is set, and the model has no experts;
// - a capacity is below 1 / experts of the even share;
// - moe.shared_gate differs from config.json of the model;
// - moe.load_balance=bias, and the routers have no correction;
// - moe.aux_loss is above 0, and no balance loss is on.
std::unique_ptr<Model> with_experts(std::unique_ptr<Model> model, const Config& config);

// The statistics of all routers in a step, over its micro batches, data ranks and pipeline stages.
struct RouterReport {
  // losses before their coefficients, means over micro batches; empty if not in the loss
  std::optional<double> balance, z;
  std::vector<int64_t> layers;               // the layers with experts; the vectors below have one element for each
  std::vector<double> drop_rate;             // dropped choices / all choices
  std::vector<double> load;                  // choices of the most loaded expert / mean over experts
  std::vector<std::vector<int64_t>> claims;  // choices of each expert, before drops
};
// Returns the report, the same on all ranks; without layers if the model has no experts. All ranks call it together.
RouterReport router_report(const StepSums& sums, const std::vector<MicroBatch>& micros, const Model& model, const Ranks& ranks);

// The shares of choices for moe.load_balance=global_aux, which sum over more than one micro batch, as in Megatron-core.
// A share counts all data ranks, and all micro batches of the step up to now. Data ranks add their n-th micro batches
// together. The layout decides which micro batches are added together. So another number of data ranks or micro batches
// changes gradients.
class SharesOfStep {
 public:
  SharesOfStep(const Group& data, const Model& model);
  // Adds the n-th micro batch of every data rank: `micro` is this rank's. Sets the shares of its layers in the step
  // sums. Called between the forward and the backward pass of the micro batch. All data ranks call it together.
  void add(Ctx& c, int64_t micro);

 private:
  const Group& data_;
  bool wanted_;
  std::map<int64_t, std::vector<int64_t>> choices_;  // [layer][expert]: number of choices in this step
};

// Moves the router corrections after an update (moe.load_balance=bias; Wang et al. 2024, as in DeepSeek-V3 and
// Megatron-core). An expert with fewer choices in this step than the mean of its layer gains `rate`. An expert with
// more loses `rate`. Sums have the type of the master. before_unit: as in Optimizer. Each rank moves the corrections
// that it holds.
void correct_routers(FlatStore& store, const RouterReport& report, double rate,
                     const std::function<void(const Unit&)>& before_unit);

// Returns "8 experts in 4 of 6 layers, 2 per token; 12.9M of 46.7M parameters are active"; "" if the model has no
// experts.
std::string experts_text(const Model& model);
// Returns a sentence on the number of rows that experts are planned for; "" if the model has no experts. `tokens`: of a
// micro batch. `expert_ranks`: the number of ranks that share the experts.
std::string expert_rows_text(const Model& model, int64_t tokens, int expert_ranks = 1);

}  // namespace ravine
