// The files of DeepSpeed's checkpoints as full tensors, under the names of their parameters: ZeRO 0 to 3, with any number of data
// ranks, and universal ones (ds_to_universal). Masters are put together as upstream's zero_to_fp32 does, bit for bit; states of
// the optimizer lie as they do. Only tensors and plain values are read. Missing or surplus ranks, two steps, and sizes that do
// not add up are UserErrors. Source: deepspeed/utils/zero_to_fp32.py, runtime/zero/stage_1_and_2.py, stage3.py,
// runtime/fp16/fused_optimizer.py, checkpoint/ds_to_universal.py (0.13 to 0.19).
//
// A path is the folder with the file `latest` (checkpoint-N of the Trainer), or the tag's folder in it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/convert/elements.h"

namespace ravine {

// f32 masters, frozen parameters, buffers, and further names of shared parameters. Where there are no masters (ZeRO 0 in f32) the
// module's weights.
std::map<std::string, ElementsPtr> read_zero_weights(const std::string& path);
// A state of the optimizer by its key: "exp_avg", "sum", ... Frozen parameters have none.
std::map<std::string, ElementsPtr> read_zero_state(const std::string& path, const std::string& key);

// What a checkpoint says of its run.
struct ZeroRun {
  std::string folder;                           // of the tag
  int64_t steps = 0, skipped = 0, samples = 0;  // global_steps, skipped_steps, global_samples
  int64_t updates = 0;                          // that the optimizer has made
  std::vector<std::string> states;              // keys of the tensors that it keeps
  Json loss_scale;                              // as LossScale::state (step/loss_scale.h); null: it does not move
  Json groups;                                  // group_settings of the optimizer; null: none
  Json lr_scheduler;                            // plain values of its state; null: none
  Json kept;                                    // what a run of ours has added (kept_scalars.h); null: nothing
};
ZeroRun read_zero_run(const std::string& path);

// Whether the folder holds such a checkpoint; names of files alone count.
bool is_zero_checkpoint(const std::string& path);
// Its files; sorted.
std::vector<std::string> zero_checkpoint_files(const std::string& path);

}  // namespace ravine
