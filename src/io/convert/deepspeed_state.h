// Reads and writes training checkpoints of DeepSpeed, to resume from and for DeepSpeed to resume from.
//
//   DIR/checkpoint-N/config.json, model.safetensors, tokenizer             Hugging Face, compute type;
//   DIR/checkpoint-N/trainer_state.json, scheduler.pt, training_args.json  the Trainer's
//   DIR/checkpoint-N/latest                                                "global_stepN";
//   DIR/checkpoint-N/global_stepN/mp_rank_00_model_states.pt               ZeRO 3: zero_pp_rank_R_mp_rank_00_...;
//   DIR/checkpoint-N/global_stepN/[bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   of ZeRO 1, 2, 3
//   universal: DIR/checkpoint-N/latest_universal, global_stepN_universal/zero/NAME/{fp32,exp_avg,exp_avg_sq,step}.pt
//
// zero_to_fp32.py is not written; use `ravine convert` instead. Ravine's additional state (position in blended data,
// state of a schedule) is stored in the model file under "ravine", next to DeepSpeed's client state.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "config/optimizer_options.h"
#include "io/checkpoint.h"
#include "io/convert/target_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Returns the folders checkpoint-N with DeepSpeed checkpoints in `folder`, by N. If `whole` is true, only the folders
// that were written completely.
std::map<int64_t, std::string> deepspeed_checkpoints(const std::string& folder, bool whole = true);

// Opens a DeepSpeed checkpoint to resume from. `path` is a path as in zero_checkpoint.h, `model` the model's
// config.json, `where` its name in messages. `global_batch` is the batch size of the resuming run. The step count is
// not converted to that batch size; the data continue after the number of samples in the checkpoint. `data_steps` is
// the number of steps, at that batch size, whose data count as used; -1: as many samples as the checkpoint has used. In
// addition to the usual scalars, the result has "skipped_steps", "samples" and "lr_scheduler".
ForeignState open_deepspeed_state(const std::string& path, const Json& model, const std::string& where, int64_t global_batch,
                                  int64_t data_steps = -1);

// The settings of write_deepspeed_state.
struct DeepSpeedState {
  int64_t stage = 2, ranks = 1;  // ZeRO stage (0 to 3); data ranks; DeepSpeed resumes only with the same
  // True: writes a universal checkpoint instead of shards; DeepSpeed resumes from it with any stage and number of
  // ranks.
  bool universal = false;
  bool round_robin = false;           // round_robin_gradients: ZeRO 1 and 2 assign parameters to ranks in turn
  DType compute = DType::f32;         // f32, bf16, f16
  int64_t sub_group = 1'000'000'000;  // sub_group_size: elements of a rank under ZeRO 3
  OptimizerOptions optimizer;         // options that DeepSpeed reads from the checkpoint; type adamw, adam or lion
  double lr = 0;                      // learning rate of the next update, which DeepSpeed reads too
  bool dynamic_scale = false;         // dynamic loss scale, with DeepSpeed's parameters below
  int64_t scale_window = 1000, scale_hysteresis = 2;
  double scale_min = 1;
  bool scale_consecutive = false;
  Json trainer_state = Json::object();  // additional fields of trainer_state.json
  Json arguments;                       // training_args.json; null: none
  Json ds_config = Json::object();      // config for readers in the files; stage and type are added
};
// Writes a DeepSpeed checkpoint into `folder`, which becomes checkpoint-N itself. `checkpoint` is the folder of a
// Ravine checkpoint with the state to write. Parameters have the order of Transformers' modules; a family with unknown
// order is a UserError. `progress` is called with the bytes written.
void write_deepspeed_state(TargetFolder& folder, const std::string& checkpoint, const Json& model, const std::string& where,
                           const DeepSpeedState& state, const std::function<void(int64_t)>& progress);
// Returns the approximate number of bytes that write_deepspeed_state writes for a model with these master weights,
// without headers.
int64_t deepspeed_state_bytes(const Weights& weights, const DeepSpeedState& state);

}  // namespace ravine
