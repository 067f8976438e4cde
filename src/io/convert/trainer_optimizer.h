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

struct TrainerGroup {
  double lr = 0, weight_decay = 0, eps = 0;
  std::vector<double> betas;
  std::vector<int64_t> numbers;  // of its parameters
};

struct TrainerOptimizer {
  std::shared_ptr<const TorchFile> file;
  std::vector<TrainerGroup> groups;
  std::map<int64_t, Pickle::Ref> states;  // by number; empty before the first update
  int64_t updates = 0;                    // the number of updates of all parameters
  Json kept;                              // added by a run of Ravine (kept_scalars.h); null: nothing
};

// Reads optimizer.pt. States of another optimizer, or parameters with different numbers of updates, are a UserError.
TrainerOptimizer read_trainer_optimizer(const std::string& folder);
// Returns the plain values of scheduler.pt; null if there is none, or none that can be read.
Json read_trainer_scheduler(const std::string& folder);
// Returns the tensors "exp_avg" or "exp_avg_sq" under the names of files. Groups or shapes of another model are a
// UserError.
std::map<std::string, ElementsPtr> trainer_moments(const TrainerOptimizer& optimizer, const std::string& key,
                                                   const Model& model, const WeightFiles& files, const std::string& where);
// Returns which parameters are in the optimizer's second group; errors as in trainer_moments.
TrainerGrouping trainer_grouping(const TrainerOptimizer& optimizer, const Model& model, const WeightFiles& files,
                                 const std::string& where);

}  // namespace ravine
