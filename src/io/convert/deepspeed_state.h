// Training checkpoints of DeepSpeed, as a run goes on from them and leaves them.
//
//   DIR/checkpoint-N/config.json, model.safetensors, tokenizer            of Hugging Face, in the type of compute
//   DIR/checkpoint-N/trainer_state.json, scheduler.pt, training_args.json the Trainer's
//   DIR/checkpoint-N/latest                                               "global_stepN"
//   DIR/checkpoint-N/global_stepN/mp_rank_00_model_states.pt              ZeRO 3: zero_pp_rank_R_mp_rank_00_model_states.pt
//   DIR/checkpoint-N/global_stepN/[bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   of ZeRO 1, 2, 3
//   universal: DIR/checkpoint-N/latest_universal, global_stepN_universal/zero/NAME/{fp32,exp_avg,exp_avg_sq,step}.pt
//
// zero_to_fp32.py is not written: `ravine convert` is the way. What a run of ours keeps beyond (its place in blended data, the
// state of a schedule) is in the model file under "ravine", where DeepSpeed has its client state.
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

// The folders checkpoint-N in `folder`, by N; `whole`: those alone that were written to their end.
std::map<int64_t, std::string> deepspeed_checkpoints(const std::string& folder, bool whole = true);

// `path`: as in zero_checkpoint.h. `model`: its config.json, `where` for messages. global_batch: of the run that goes on; steps are
// never counted anew, and data go on behind the samples that the checkpoint says. data_steps: of data that count as used, at
// that batch; -1: what it says. Beside what runs read, scalars hold "skipped_steps", "samples" and "lr_scheduler".
ForeignState open_deepspeed_state(const std::string& path, const Json& model, const std::string& where, int64_t global_batch,
                                  int64_t data_steps = -1);

// How a checkpoint is written.
struct DeepSpeedState {
  int64_t stage = 2, ranks = 1;       // ZeRO 0 to 3; data ranks. DeepSpeed goes on with the same only
  bool universal = false;             // in place of the shards: any stage and number of ranks goes on
  bool round_robin = false;           // round_robin_gradients: ZeRO 1 and 2 deal parameters out to ranks in turn
  DType compute = DType::f32;         // f32, bf16, f16
  int64_t sub_group = 1'000'000'000;  // sub_group_size: elements of a rank, ZeRO 3
  OptimizerOptions optimizer;         // DeepSpeed takes these from the checkpoint; adamw, adam and lion
  double lr = 0;                      // of the next update: it takes that too
  bool dynamic_scale = false;         // losses are scaled by a scale that moves, as DeepSpeed's does with these:
  int64_t scale_window = 1000, scale_hysteresis = 2;
  double scale_min = 1;
  bool scale_consecutive = false;
  Json trainer_state = Json::object();  // fields of trainer_state.json beyond those that the checkpoint says
  Json arguments;                       // training_args.json; null: none
  Json ds_config = Json::object();      // in the files for readers; stage and type are added
};
// From the folder of a checkpoint of ours, into `folder`, which is checkpoint-N itself. Parameters lie in the order of
// Transformers' modules; a family whose order is not known is a UserError. `progress` is called with the bytes written.
void write_deepspeed_state(TargetFolder& folder, const std::string& checkpoint, const Json& model, const std::string& where,
                           const DeepSpeedState& state, const std::function<void(int64_t)>& progress);
// The bytes that it will write of a run with these masters, about: headers are not counted.
int64_t deepspeed_state_bytes(const Weights& weights, const DeepSpeedState& state);

}  // namespace ravine
