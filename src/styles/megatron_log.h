// log.style=megatron: the lines that Megatron-LM prints of iterations and validations, and its TensorBoard scalars, so that
// what reads its logs reads ours. Source: megatron/training.py (training_log, evaluate_and_print_results), commit bcce6f54.
#pragma once
#include <memory>
#include <string>

#include "train/hooks.h"

namespace ravine {

// What a line tells of the iterations since the one before.
struct IterationLine {
  int64_t iteration = 0, iterations = 0, samples = 0;  // samples used up since the beginning
  double milliseconds = 0, lr = 0;                     // of an iteration, on average; of the next update
  int64_t batch = 0;
  std::optional<double> loss;  // mean over the iterations that were not skipped; nothing where there are none, or it is 0
  double loss_scale = 1;
  std::optional<double> tflops, grad_norm;  // tflops: of each rank, on average
  std::optional<int64_t> zeros;             // elements of the gradients of the last iteration that are 0
  std::optional<double> weight_norm;
  int64_t skipped = 0;
};
// " iteration        5/     100 | consumed samples:           40 | .. |", with numbers as wide as there.
std::string iteration_line(const IterationLine& line);

// The three lines of a validation, with dashes above and below.
std::string validation_lines(const std::string& prefix, double loss);

// log.local_norms as a script that is patched to print them has them: a list of the first rank's sums of squares.
std::string local_norm_lines(const std::vector<LocalNorm>& norms);

std::unique_ptr<Hook> megatron_console_hook(int64_t every);
std::unique_ptr<Hook> megatron_tensorboard_hook(int64_t every);

}  // namespace ravine
