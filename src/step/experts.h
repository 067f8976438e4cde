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

// Applies the options moe.* to the experts of the model, and returns the model. UserErrors:
// - an option of moe.* is set, and the model has no experts;
// - choices are dropped, and moe.capacity_factor is below 1 / number of experts;
// - moe.shared_gate differs from config.json of the model;
// - moe.load_balance=bias, and the routers have no correction;
// - moe.aux_loss is above 0, and no balance loss is on.
std::unique_ptr<Model> with_experts(std::unique_ptr<Model> model, const Config& config);

// The result of router_report: statistics of the routers (of the layers with experts) in one step, over its micro
// batches, data ranks and pipeline stages.
struct RouterReport {
  // Load-balance loss and z loss of the routers, before multiplication with their coefficients. Means over the micro
  // batches. Empty if the loss of the run does not contain them.
  std::optional<double> balance, z;
  std::vector<int64_t> layers;               // the layers with experts; the vectors below have one element for each
  std::vector<double> drop_rate;             // dropped choices / all choices
  std::vector<double> load;                  // choices of the most loaded expert / mean over experts
  std::vector<std::vector<int64_t>> claims;  // choices of each expert, before drops
};
// Returns the statistics of all routers in a step from its sums, the same on all ranks. `layers` is empty if the model
// has no experts. All ranks call it together.
RouterReport router_report(const StepSums& sums, const std::vector<MicroBatch>& micros, const Model& model, const Ranks& ranks);

// Computes each expert's share of choices for moe.load_balance=global_aux, whose loss uses more than one micro batch,
// as in Megatron-core. A share counts all data ranks, and all micro batches of the step up to now. Data ranks add their
// n-th micro batches together. The layout decides which micro batches are added together. So another number of data
// ranks or micro batches changes gradients.
class SharesOfStep {
 public:
  SharesOfStep(const Group& data, const Model& model);
  // Adds the expert choices of one micro batch of every data rank, and sets the shares of its layers in the step sums
  // of `c`. `micro`: index of the micro batch on this rank in the step. Called between the forward and the backward
  // pass of the micro batch. All data ranks call it together.
  void add(Ctx& c, int64_t micro);

 private:
  const Group& data_;
  bool wanted_;
  std::map<int64_t, std::vector<int64_t>> choices_;  // [layer][expert]: number of choices in this step
};

// Changes the router correction of each expert after an update (moe.load_balance=bias; Wang et al. 2024, as in
// DeepSeek-V3 and Megatron-core). `rate` is added if the expert has fewer choices in this step than the mean of its
// layer. `rate` is subtracted if it has more. The arithmetic has the type of the master weights. before_unit: called
// before the parameters of a unit change, as in Optimizer. Each rank changes the corrections that it holds.
void correct_routers(FlatStore& store, const RouterReport& report, double rate,
                     const std::function<void(const Unit&)>& before_unit);

// Returns a text on the experts of a model: "8 experts in 4 of 6 layers, 2 per token; 12.9M of 46.7M parameters are
// active". "" if the model has no experts.
std::string experts_text(const Model& model);
// Returns a sentence for the log: the number of rows for which the memory of experts is planned. "" if the model has no
// experts. `tokens`: of a micro batch. `expert_ranks`: the number of ranks that divide the experts.
std::string expert_rows_text(const Model& model, int64_t tokens, int expert_ranks = 1);

}  // namespace ravine
