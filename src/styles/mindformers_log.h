// The log lines and TensorBoard scalars of log.style=mindformers, in MindFormers' format, so that readers of its
// logs can read Ravine's. Source: mindformers/core/callback/callback.py (MFLossMonitor, TrainingStateMonitor,
// MoEDropRateCallback, TrainCallBack), 1.6.
//
//   { Epoch:[  1/  1], step:[    2/   20], loss:[5.890/5.846], per_step_time: 43ms, lr: 0.0005, overflow cond: ..
//     10.0% |█████                                             | 92.00456 samples/s/p  0:00:00 }
#pragma once
#include <memory>
#include <string>

#include "train/hooks.h"

namespace ravine {

// Returns a number as numpy prints an f32: the shortest digits that read back as the same f32, with at least one
// decimal.
std::string f32_text(double x);
// Returns a number as Python prints a float: 3.0, 0.001.
std::string python_text(double x);

// The values of MindFormers' two log lines of a step.
struct MindFormersLine {
  int64_t step = 0;  // in the run, from 1
  int64_t epochs = 1, steps_per_epoch = 1;
  double loss = 0;
  std::optional<double> mean;  // mean loss of this epoch so far; empty with log.sink
  double seconds = 0, lr = 0;
  bool overflow = false;
  double loss_scale = 1, grad_norm = 0;
  int64_t batch = 1;  // samples of a step
  int ranks = 1;
  double flops = 0;  // of the step, over all ranks; 0: not known
};
// Return MindFormers' two log lines of a step: step_line "{ Epoch:[..", bar_line the progress bar.
std::string step_line(const MindFormersLine& line);
std::string bar_line(const MindFormersLine& line);

// Return the hooks that write a run's log lines, and its TensorBoard scalars, in MindFormers' format. every: log.every,
// in steps.
std::unique_ptr<Hook> mindformers_console_hook(int64_t every);
std::unique_ptr<Hook> mindformers_tensorboard_hook(int64_t every);

}  // namespace ravine
