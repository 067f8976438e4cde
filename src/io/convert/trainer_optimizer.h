// optimizer.pt and scheduler.pt of Transformers' Trainer: torch's AdamW as state_dict() has it. Nothing of them is executed.
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
  std::map<int64_t, Pickle::Ref> states;  // by number; none where no update was made
  int64_t updates = 0;                    // that all of them have seen
  Json kept;                              // what a run of ours has added (kept_scalars.h); null: nothing
};

// A UserError where another optimizer's states are in it, or those of parameters that have seen different updates.
TrainerOptimizer read_trainer_optimizer(const std::string& folder);
// Plain values of scheduler.pt; null: there is none, or it holds nothing that is read.
Json read_trainer_scheduler(const std::string& folder);
// The tensors "exp_avg" or "exp_avg_sq" under the names of files. A UserError where groups and shapes are not those of the model.
std::map<std::string, ElementsPtr> trainer_moments(const TrainerOptimizer& optimizer, const std::string& key,
                                                   const Model& model, const WeightFiles& files, const std::string& where);
// Which of the model's parameters its second group has; errors as there.
TrainerGrouping trainer_grouping(const TrainerOptimizer& optimizer, const Model& model, const WeightFiles& files,
                                 const std::string& where);

}  // namespace ravine
