// Reads and writes training checkpoints of Megatron, to resume from and for Megatron to resume from.
//
//   DIR/latest_checkpointed_iteration.txt                 "100";
//   DIR/iter_0000100/mp_rank_TT[_PPP]/model_optim_rng.pt  args, checkpoint_version, iteration, model, optimizer,
//                                                         opt_param_scheduler;
//   DIR/iter_0000100/mp_rank_TT[_PPP]/distrib_optim.pt    of the distributed optimizer (megatron_distrib.h)
//
// rng_state is not written: Megatron then starts with the random numbers of its --seed, and needs --no-load-rng.
// Ravine's additional state (position in blended data, state of a schedule) is in the first file under "ravine".
// Source: megatron/training/checkpointing.py, megatron/core/optimizer/optimizer.py, grad_scaler.py,
// optimizer_param_scheduler.py.
#pragma once
#include <functional>
#include <string>

#include "config/config.h"
#include "io/checkpoint.h"
#include "io/convert/megatron.h"

namespace ravine {

// Opens a Megatron checkpoint to resume from. `path` is DIR or a folder of ranks in it, `model` the model's
// config.json, `where` its name in messages. `global_batch` is the batch size of the resuming run. The step count is
// not converted to that batch size; the data continue after args.consumed_train_samples. `data_steps` is the number of
// steps, at that batch size, whose data count as used; -1: as many samples as the checkpoint has used. In addition to
// the usual scalars, the result has "samples" and "opt_param_scheduler". The loss scale follows Megatron's counting
// (precision.scale_rule=deepspeed_013).
ForeignState open_megatron_state(const std::string& path, const Json& model, const std::string& where, int64_t global_batch,
                                 int64_t data_steps = -1);

// The settings of write_megatron_state; megatron_state_of makes them from the options of a run.
struct MegatronState {
  bool states = true;        // false: weights alone, as for --no-save-optim; Megatron does not go on from these
  MegatronLayout layout;     // with its `place`: "iter_0000100/", or "" if the folder itself is to be that one
  bool distributed = false;  // write distrib_optim.pt, as for --use-distributed-optimizer without --overlap-grad-reduce
  // Number of data ranks. With the distributed optimizer's legacy form, Megatron resumes only with the same number.
  int64_t ranks = 1;
  DType compute = DType::f32;  // f32, bf16, f16
  OptimizerOptions optimizer;  // adamw, adam
  double lr = 0;               // learning rate of the next update
  bool dynamic_scale = false;  // dynamic loss scale
  int64_t scale_window = 1000;
  Json scheduler = Json::object();  // opt_param_scheduler without its counters
  Json arguments = Json::object();  // additional fields of args
};
// Returns the settings of write_megatron_state for a run with these options; `lr` is the learning rate of the next
// update. Differences in Megatron's behaviour are appended to `notes`.
MegatronState megatron_state_of(const Config& config, double lr, std::vector<std::string>& notes);
// Writes a Megatron checkpoint into `folder`. `checkpoint` is the folder of a Ravine checkpoint with the state to
// write. If the layout has a place, the tracker file, config.json and tokenizer are written next to it. `progress` is
// called with the bytes written.
void write_megatron_state(TargetFolder& folder, const std::string& checkpoint, const Json& model, const std::string& where,
                          const MegatronState& state, const std::function<void(int64_t)>& progress);
// Returns the approximate number of bytes that write_megatron_state writes for a model with these master weights,
// without headers and padding.
int64_t megatron_state_bytes(const Weights& weights, const MegatronState& state);

}  // namespace ravine
