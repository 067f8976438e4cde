// What trainer_state.json and training_args.json say of a run, beyond the counts of the checkpoint that they lie in.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"
#include "config/config.h"
#include "dialects/trainer_outputs.h"
#include "runs/opened_run.h"
#include "train/best_model.h"

namespace ravine {

// Which checkpoint counts as the best; nothing where none is named.
std::optional<BestModel> best_model_of(const TrainerOutputs& outputs);

class TrainerRecord {
 public:
  TrainerRecord(const OpenedRun& run, const TrainerOutputs& outputs);
  // Fields of trainer_state.json after `step`; the checkpoint of a step is train.output/`before`N. `stays`: the step
  // whose checkpoint the run loads at its end, as far as is known now; 0: none.
  Json state(int64_t step, const std::string& before, int64_t& stays) const;
  // The Trainer's arguments, by its names, as far as a run has them.
  Json arguments() const;

 private:
  Config config_;
  TrainerOutputs outputs_;
  std::optional<BestModel> best_;
  std::string metrics_;
  double steps_of_pass_;
};

}  // namespace ravine
