// checkpoint.layout=deepspeed: train.output/checkpoint-N of the Trainer with DeepSpeed's files in it (io/convert/deepspeed_state.h),
// in the place of train.output/checkpoints.
//
// A run goes on from the folder that checkpoint.resume names, of any ZeRO stage and number of ranks, or with `auto` from the newest
// of train.output. A checkpoint-N that was there before the run and is not its own is never replaced: such a run is refused.
#pragma once
#include <memory>

#include "runs/checkpoint_files.h"
#include "runs/opened_run.h"
#include "train/best_model.h"

namespace ravine {

// `best`: trainer_state.json names the best checkpoint so far.
std::shared_ptr<const CheckpointFiles> deepspeed_files(std::optional<BestModel> best = {});

}  // namespace ravine
