// The checkpoints of checkpoint.layout=deepspeed: the Trainer's folders train.output/checkpoint-N with DeepSpeed's
// files (io/convert/deepspeed_state.h). They replace train.output/checkpoints.
//
// A run resumes from the folder in checkpoint.resume, of any ZeRO stage and number of ranks. With `auto` it resumes
// from the newest complete checkpoint in train.output. A run that would replace a checkpoint-N of another origin is
// refused.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "runs/checkpoint_files.h"
#include "runs/opened_run.h"

namespace ravine {

// Returns the reader and writer of the checkpoints of checkpoint.layout=deepspeed. outputs: settings from the Trainer's
// flags for trainer_state.json.
std::shared_ptr<const CheckpointFiles> deepspeed_files(const TrainerOutputs& outputs = {});

}  // namespace ravine
