// The files of DeepSpeed's monitors (deepspeed/monitor): Train/Samples/train_loss, lr and, of f16, loss_scale of every step. The
// loss stands at the samples before its step, the others at those behind it, with the rate of the next step, as there.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "train/hooks.h"

namespace ravine {

// A CSV file per tag (Train_Samples_lr.csv, under "step,lr") in one folder, TensorBoard's event files in another. Rows that a run
// which goes on makes anew are cut from the CSV files first.
std::unique_ptr<Hook> deepspeed_monitors_hook(const TrainerOutputs& outputs);

}  // namespace ravine
