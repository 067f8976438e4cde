// checkpoint.layout=deepspeed: train.output/checkpoint-N of the Trainer with DeepSpeed's files in it (io/convert/deepspeed_state.h),
// in the place of train.output/checkpoints.
//
// A run goes on from the folder that checkpoint.resume names, of any ZeRO stage and number of ranks, or with `auto` from the newest
// of train.output. A checkpoint-N that was there before the run and is not its own is never replaced: such a run is refused.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "runs/checkpoint_files.h"
#include "runs/opened_run.h"

namespace ravine {

// `outputs`: what trainer_state.json holds of a run by the Trainer's flags.
std::shared_ptr<const CheckpointFiles> deepspeed_files(const TrainerOutputs& outputs = {});

}  // namespace ravine
