// The checkpoints of checkpoint.layout=trainer: the folders train.output/checkpoint-N of Transformers' Trainer
// without DeepSpeed (io/convert/trainer_state.h). They replace train.output/checkpoints.
//
// A run resumes from the folder in checkpoint.resume. With `auto` it resumes from the newest complete checkpoint in
// train.output, which the Trainer may have written. As in the Trainer, learning rates, betas, eps and weight decay of
// the checkpoint override the options; the log names them. A run that would replace a checkpoint-N of another origin
// is refused.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "runs/checkpoint_files.h"

namespace ravine {

// Returns the reader and writer of the checkpoints of checkpoint.layout=trainer. outputs: settings from the Trainer's
// flags for trainer_state.json.
std::shared_ptr<const CheckpointFiles> trainer_files(const TrainerOutputs& outputs = {});

}  // namespace ravine
