// Reads optimizer.pt and scheduler.pt of Transformers' Trainer: torch's AdamW in the form of state_dict(). Nothing in
// them is executed.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/torch_file.h"
#include "io/convert/elements.h"
#include "io/convert/trainer_order.h"

namespace ravine {

// A parameter group of the optimizer in optimizer.pt.
struct TrainerGroup {
  double lr = 0, weight_decay = 0, eps = 0;
  std::vector<double> betas;
  std::vector<int64_t> numbers;  // numbers of its parameters
};

// The contents of optimizer.pt; the result of read_trainer_optimizer.
struct TrainerOptimizer {
  std::shared_ptr<const TorchFile> file;
  std::vector<TrainerGroup> groups;
  std::map<int64_t, Pickle::Ref> states;  // state dict of each parameter by its number; empty before the first update
  int64_t updates = 0;                    // number of updates so far, the same for all parameters
  Json kept;                              // state that a run of Ravine added (kept_scalars.h); null: none
};

// Reads optimizer.pt of the Trainer's checkpoint `folder`. States of another optimizer than AdamW, or parameters with
// different numbers of updates, are a UserError.
TrainerOptimizer read_trainer_optimizer(const std::string& folder);
// Returns the plain values of scheduler.pt in the Trainer's checkpoint `folder`; null if there is no such file, or it
// cannot be read.
Json read_trainer_scheduler(const std::string& folder);
// Returns the first (`key` "exp_avg") or second ("exp_avg_sq") moments of all trained tensors, under their names in
// `files`. Groups or shapes of another model are a UserError that names `where`.
std::map<std::string, ElementsPtr> trainer_moments(const TrainerOptimizer& optimizer, const std::string& key,
                                                   const Model& model, const WeightFiles& files, const std::string& where);
// Returns how the optimizer divides the parameters into its two groups; errors as in trainer_moments.
TrainerGrouping trainer_grouping(const TrainerOptimizer& optimizer, const Model& model, const WeightFiles& files,
                                 const std::string& where);

}  // namespace ravine
