// Training checkpoints of Megatron, as a run goes on from them and leaves them.
//
//   DIR/latest_checkpointed_iteration.txt                         "100"
//   DIR/iter_0000100/mp_rank_TT[_PPP]/model_optim_rng.pt           args, checkpoint_version, iteration, model, optimizer,
//                                                                  opt_param_scheduler
//   DIR/iter_0000100/mp_rank_TT[_PPP]/distrib_optim.pt             of the distributed optimizer (megatron_distrib.h)
//
// rng_state is not written: Megatron begins with the numbers of its --seed then, for which it wants --no-load-rng. What a run of
// ours keeps beyond (its place in blended data, the state of a schedule) is in the first file under "ravine".
// Source: megatron/training/checkpointing.py, megatron/core/optimizer/optimizer.py, grad_scaler.py, optimizer_param_scheduler.py.
#pragma once
#include <functional>
#include <string>

#include "config/config.h"
#include "io/checkpoint.h"
#include "io/convert/megatron.h"

namespace ravine {

// `path`: DIR, or a folder of ranks in it. `model`: its config.json, `where` for messages. global_batch: of the run that goes on;
// steps are never counted anew, and data go on behind args.consumed_train_samples. data_steps: of data that count as used, at that
// batch; -1: what it says. Beside what runs read, scalars hold "samples" and "opt_param_scheduler". The loss scale counts as
// Megatron's does (precision.scale_rule=deepspeed_013).
ForeignState open_megatron_state(const std::string& path, const Json& model, const std::string& where, int64_t global_batch,
                                 int64_t data_steps = -1);

// How a checkpoint is written.
struct MegatronState {
  MegatronLayout layout;       // `place` counts: "iter_0000100/", or "" where the folder is to be that one itself
  bool distributed = false;    // distrib_optim.pt, of a run with --use-distributed-optimizer and without --overlap-grad-reduce
  int64_t ranks = 1;           // data ranks; of the distributed optimizer's legacy form Megatron goes on with as many only
  DType compute = DType::f32;  // f32, bf16, f16
  OptimizerOptions optimizer;  // adamw, adam
  double lr = 0;               // of the next update
  bool dynamic_scale = false;  // losses are scaled by a scale that moves
  int64_t scale_window = 1000;
  Json scheduler = Json::object();  // opt_param_scheduler less what is counted
  Json arguments = Json::object();  // further fields of args
};
// Of a run with these options; `lr` is of the next update. What Megatron will do otherwise goes to `notes`.
MegatronState megatron_state_of(const Config& config, double lr, std::vector<std::string>& notes);
// From the folder of a checkpoint of ours. With a place in the layout the tracker file, config.json and tokenizer stand beside it.
// `progress` is called with the bytes written.
void write_megatron_state(TargetFolder& folder, const std::string& checkpoint, const Json& model, const std::string& where,
                          const MegatronState& state, const std::function<void(int64_t)>& progress);
// The bytes that it will write of a run with these masters, about: headers and padding are not counted.
int64_t megatron_state_bytes(const Weights& weights, const MegatronState& state);

}  // namespace ravine
