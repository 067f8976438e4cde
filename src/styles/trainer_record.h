// The fields of trainer_state.json and training_args.json on a run, in addition to the counts of their checkpoint.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"
#include "config/config.h"
#include "dialects/trainer_outputs.h"
#include "runs/opened_run.h"
#include "train/best_model.h"

namespace ravine {

// Returns how the checkpoint with the best validation is chosen and used; empty if trainer_state.json is to name no
// best checkpoint.
std::optional<BestModel> best_model_of(const TrainerOutputs& outputs);

// Makes the fields of trainer_state.json and training_args.json that describe a run, from its options and
// metrics.jsonl.
class TrainerRecord {
 public:
  TrainerRecord(const OpenedRun& run, const TrainerOutputs& outputs);
  // Returns the fields of trainer_state.json after `step`. before: the prefix of checkpoint folders: the checkpoint of
  // step N is train.output/`before`N. stays: receives the step with the best validation up to `step`, if the run loads
  // this checkpoint at its end, so that it must be kept; else 0.
  Json state(int64_t step, const std::string& before, int64_t& stays) const;
  // Returns the Trainer's arguments that have a counterpart in the options, by the Trainer's names.
  Json arguments() const;

 private:
  Config config_;
  TrainerOutputs outputs_;
  std::optional<BestModel> best_;
  std::string metrics_;
  double steps_of_pass_;
};

}  // namespace ravine
