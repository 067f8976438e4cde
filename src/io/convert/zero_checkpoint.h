// Reads DeepSpeed checkpoints as full tensors, under the names of their parameters. Formats: ZeRO 0 to 3 with any
// number of data ranks, and universal checkpoints (ds_to_universal). Masters are assembled bit for bit as in upstream's
// zero_to_fp32; optimizer states have the same layout. Only tensors and plain values are read. Missing or surplus
// ranks, different steps, and inconsistent sizes are UserErrors. Source: deepspeed/utils/zero_to_fp32.py,
// runtime/zero/stage_1_and_2.py, stage3.py, runtime/fp16/fused_optimizer.py, checkpoint/ds_to_universal.py (0.13 to
// 0.19).
//
// A path is the folder with the file `latest` (checkpoint-N of the Trainer), or the tag's folder in it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/convert/elements.h"

namespace ravine {

// Returns the f32 masters of a ZeRO checkpoint by parameter name, with frozen parameters, buffers, and aliases of
// shared parameters. If the checkpoint has no masters (ZeRO 0 in f32), the module's weights are returned.
std::map<std::string, ElementsPtr> read_zero_weights(const std::string& path);
// Returns an optimizer state of a ZeRO checkpoint by parameter name. `key` is its name in torch: "exp_avg", "sum", ...
// Frozen parameters have none.
std::map<std::string, ElementsPtr> read_zero_state(const std::string& path, const std::string& key);

// The facts of a run that its ZeRO checkpoint stores; the result of read_zero_run.
struct ZeroRun {
  std::string folder;                           // folder of the tag
  int64_t steps = 0, skipped = 0, samples = 0;  // global_steps, skipped_steps, global_samples
  int64_t updates = 0;                          // updates made by the optimizer
  std::vector<std::string> states;              // keys of the optimizer's tensors
  Json loss_scale;                              // as LossScale::state (step/loss_scale.h); null: static
  Json groups;                                  // group_settings of the optimizer; null: none
  Json lr_scheduler;                            // plain values of the learning rate scheduler's state; null: none
  Json kept;                                    // state that a run of Ravine added (kept_scalars.h); null: none
};
ZeroRun read_zero_run(const std::string& path);

// True if the folder holds a DeepSpeed checkpoint (ZeRO 0 to 3, or universal), by file names alone.
bool is_zero_checkpoint(const std::string& path);
// Returns the files of the DeepSpeed checkpoint at `path`, sorted.
std::vector<std::string> zero_checkpoint_files(const std::string& path);

}  // namespace ravine
