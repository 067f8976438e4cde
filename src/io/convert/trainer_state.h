// Reads and writes checkpoints of Transformers' Trainer without DeepSpeed, to resume from and for the Trainer to resume
// from.
//
//   DIR/checkpoint-N/config.json, model.safetensors, tokenizer       whole weights; Ravine writes the f32 masters
//   DIR/checkpoint-N/adapter_config.json, adapter_model.safetensors  of PEFT, instead of these;
//   DIR/checkpoint-N/optimizer.pt, scheduler.pt                      torch's AdamW and LambdaLR (trainer_optimizer.h);
//   DIR/checkpoint-N/scaler.pt                                       torch's GradScaler, with f16
//   DIR/checkpoint-N/rng_state.pth                                   rng_state_R.pth of R > 1 ranks; written, not read
//   DIR/checkpoint-N/trainer_state.json                              counts and log
//
// training_args.bin, a pickle of classes, is neither read nor written; Ravine writes training_args.json. Ravine's
// additional state (position in blended data, state of a schedule) is in optimizer.pt under "ravine".
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"
#include "io/checkpoint.h"
#include "io/convert/target_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// True if the folder is a checkpoint of Transformers' Trainer without DeepSpeed: it holds `optimizer.pt` and
// `trainer_state.json`, and is not a checkpoint of DeepSpeed.
bool is_trainer_checkpoint(const std::string& folder);
// Returns the folders checkpoint-N of the Trainer in `folder`, by N. If `whole` is true, only the folders that were
// written completely.
std::map<int64_t, std::string> trainer_checkpoints(const std::string& folder, bool whole = true);
// Returns facts of trainer_state.json to display: global_step, epoch, max_steps, best_metric and the like; an empty
// object without the file.
Json trainer_state_of(const std::string& folder);

// Reads the weights, or the moments of AdamW (`kind`), of a Trainer checkpoint for a conversion, under the names of the
// files. `config` is the model's config.json; null: the config.json of the checkpoint is used.
Weights read_trainer_checkpoint(const std::string& path, const Json& config, const std::string& config_where, StateKind kind);

// The model that a run trains: its own model, or the model with adapters. With adapters, checkpoints hold the adapters
// alone.
struct TrainedModel {
  const Model* model = nullptr;
  bool adapter = false;
  std::string where;    // name of the model's config, for messages
  std::string weights;  // checksum of the base's weights: OpenedRun::weights
};

// Opens a Trainer checkpoint to resume from. `global_batch` is the batch size of the resuming run. `data_steps` is the
// number of steps, at that batch size, whose data count as used; -1: the position stored in the checkpoint, or its
// number of steps at that batch size, as the Trainer skips batches.
ForeignState open_trainer_state(const std::string& path, const TrainedModel& model, int64_t global_batch,
                                int64_t data_steps = -1);

// Sets in `config` the values that torch's load_state_dict would restore from the Trainer checkpoint `path`: learning
// rate, betas, eps and weight decay. Returns a line for each value that differs, and for each part of the folder that
// differs in this run or is not read.
std::vector<std::string> take_trainer_settings(const std::string& path, Config& config);

// Returns a note if this run cannot have the parameter groups of the Trainer checkpoint `path`; "" if it can. In
// Transformers 4.37 norms of some families decay while biases do not.
std::string unlike_trainer_groups(const std::string& path, const TrainedModel& model, const Config& config);

// The settings of write_trainer_state.
struct TrainerState {
  OptimizerOptions optimizer;  // options of the run; type adamw
  double lr = 0;               // learning rate of the next update
  DType compute = DType::f32;
  bool dynamic_scale = false;  // dynamic loss scale
  int64_t scale_window = 2000;
  int64_t ranks = 1, seed = 1;
  Json adapter_config;                  // used if TrainedModel::adapter
  Json trainer_state = Json::object();  // additional fields of trainer_state.json
  Json arguments;                       // training_args.json; null: none
};
// Writes a Trainer checkpoint into `folder`, which becomes checkpoint-N itself. `checkpoint` is the folder of a Ravine
// checkpoint with the state to write. `progress` is called with the bytes written.
void write_trainer_state(TargetFolder& folder, const std::string& checkpoint, const TrainedModel& model,
                         const TrainerState& state, const std::function<void(int64_t)>& progress);
// Returns the contents of trainer_state.json after `step` steps and `tokens` tokens; fields of `more` are added or
// replace them.
Json trainer_state_json(int64_t step, int64_t tokens, const Json& more);

}  // namespace ravine
