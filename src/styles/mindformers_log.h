// log.style=mindformers: the lines that MindFormers prints of steps, and its TensorBoard scalars, so that what reads its logs
// reads ours. Source: mindformers/core/callback/callback.py (MFLossMonitor, TrainingStateMonitor, MoEDropRateCallback,
// TrainCallBack), 1.6.
//
//   { Epoch:[  1/  1], step:[    2/   20], loss:[5.890/5.846], per_step_time: 43ms, lr: 0.0005, overflow cond: False, ..
//     10.0% |█████                                             | 92.00456 samples/s/p  0:00:00 }
#pragma once
#include <memory>
#include <string>

#include "train/hooks.h"

namespace ravine {

// A number as numpy writes one of f32: the shortest digits that read back, at least one behind the point.
std::string f32_text(double x);
// A number as Python writes a float: 3.0, 0.001.
std::string python_text(double x);

// What the two lines of a step tell.
struct MindFormersLine {
  int64_t step = 0;  // of the run, from 1
  int64_t epochs = 1, steps_per_epoch = 1;
  double loss = 0;
  std::optional<double> mean;  // of this epoch so far; nothing where steps are sunk
  double seconds = 0, lr = 0;
  bool overflow = false;
  double loss_scale = 1, grad_norm = 0;
  int64_t batch = 1;  // of a step
  int ranks = 1;
  double flops = 0;  // of the step, over all ranks; 0: not known
};
std::string step_line(const MindFormersLine& line);
std::string bar_line(const MindFormersLine& line);

// Under the names of MindFormers, in the order of its parameters: those that decay first.
std::vector<LocalNorm> in_mindformers_order(std::vector<LocalNorm> norms, const Json& model);

std::unique_ptr<Hook> mindformers_console_hook(int64_t every);
std::unique_ptr<Hook> mindformers_tensorboard_hook(int64_t every);

}  // namespace ravine
