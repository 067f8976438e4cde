// Checkpoints of Transformers' Trainer without DeepSpeed, as a run goes on from them and leaves them.
//
//   DIR/checkpoint-N/config.json, model.safetensors, tokenizer       whole weights; ours are the masters, in f32
//   DIR/checkpoint-N/adapter_config.json, adapter_model.safetensors  of PEFT, in the place of these
//   DIR/checkpoint-N/optimizer.pt, scheduler.pt                      torch's AdamW and LambdaLR (trainer_optimizer.h)
//   DIR/checkpoint-N/scaler.pt                                       torch's GradScaler, with f16
//   DIR/checkpoint-N/rng_state.pth                                   rng_state_R.pth of R > 1 ranks; written, not read
//   DIR/checkpoint-N/trainer_state.json                              counts and log
//
// training_args.bin is a pickle of classes: neither read nor written; ours have training_args.json. What a run of ours keeps beyond
// (its place in blended data, the state of a schedule) is in optimizer.pt under "ravine".
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

// Whether the folder holds optimizer.pt and trainer_state.json, and no checkpoint of DeepSpeed.
bool is_trainer_checkpoint(const std::string& folder);
// The folders checkpoint-N in `folder`, by N; `whole`: those alone that were written to their end.
std::map<int64_t, std::string> trainer_checkpoints(const std::string& folder, bool whole = true);
// What trainer_state.json says, for a person: global_step, epoch, max_steps, best_metric and the like; an empty object without one.
Json trainer_state_of(const std::string& folder);

// For conversions: weights, or moments of AdamW, under the names of the files.
Weights read_trainer_checkpoint(const std::string& path, const Json& config, const std::string& config_where, StateKind kind);

// The model of a run: its own, or one with adapters, of which these alone lie in checkpoints.
struct TrainedModel {
  const Model* model = nullptr;
  bool adapter = false;
  std::string where;    // for messages: what names its config
  std::string weights;  // of the base: OpenedRun::weights
};

// data_steps: of data that count as used, at the batch of the run that goes on; -1: what the checkpoint says, or its steps at that
// batch, as the Trainer skips batches.
ForeignState open_trainer_state(const std::string& path, const TrainedModel& model, int64_t global_batch,
                                int64_t data_steps = -1);

// What load_state_dict brings back over what a run was asked for: rates, betas, eps and weight decay, which go into `config`.
// A line for each that differs, and for what of the folder is not so in this run, or not read.
std::vector<std::string> take_trainer_settings(const std::string& path, Config& config);

// What of its groups this run cannot have; "": nothing. In 4.37 norms of some families decay while biases do not.
std::string unlike_trainer_groups(const std::string& path, const TrainedModel& model, const Config& config);

// How a checkpoint is written.
struct TrainerState {
  OptimizerOptions optimizer;  // adamw
  double lr = 0;               // of the next update
  DType compute = DType::f32;
  bool dynamic_scale = false;  // losses are scaled by a scale that moves
  int64_t scale_window = 2000;
  int64_t ranks = 1, seed = 1;
  Json adapter_config;                  // of TrainedModel::adapter
  Json trainer_state = Json::object();  // fields of trainer_state.json beyond those that the checkpoint says
  Json arguments;                       // training_args.json; null: none
};
// From the folder of a checkpoint of ours, into `folder`, which is checkpoint-N itself. `progress` gets the bytes written.
void write_trainer_state(TargetFolder& folder, const std::string& checkpoint, const TrainedModel& model,
                         const TrainerState& state, const std::function<void(int64_t)>& progress);
// trainer_state.json; `more`: fields beyond, or in the place of its own.
Json trainer_state_json(int64_t step, int64_t tokens, const Json& more);

}  // namespace ravine
