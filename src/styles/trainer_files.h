// checkpoint.layout=trainer: train.output/checkpoint-N of Transformers' Trainer without DeepSpeed (io/convert/trainer_state.h), in the
// place of train.output/checkpoints.
//
// A run goes on from the folder that checkpoint.resume names, or with `auto` from the newest of train.output, also one of the
// Trainer's making. As there the checkpoint's rates, betas, eps and weight decay count over the options, which is told. A
// checkpoint-N that was there before the run and is not its own is never replaced: such a run is refused.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "runs/checkpoint_files.h"

namespace ravine {

// `outputs`: what trainer_state.json holds of a run by the Trainer's flags.
std::shared_ptr<const CheckpointFiles> trainer_files(const TrainerOutputs& outputs = {});

}  // namespace ravine
