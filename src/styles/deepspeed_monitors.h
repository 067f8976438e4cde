// The files of DeepSpeed's monitors (deepspeed/monitor). They store Train/Samples/train_loss, lr and, with f16,
// loss_scale of every step. The x value is a number of samples, as in DeepSpeed: for the loss the samples before its
// step, for lr and loss_scale the samples after it. lr is the learning rate of the next step.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "train/hooks.h"

namespace ravine {

// Returns a hook that writes a CSV file per tag to `outputs.csv` and TensorBoard's event files to
// `outputs.event_files`. Train_Samples_lr.csv has the header "step,lr". A resumed run first cuts the CSV rows that it
// will write again.
std::unique_ptr<Hook> deepspeed_monitors_hook(const TrainerOutputs& outputs);

}  // namespace ravine
