// The log lines and TensorBoard scalars of log.style=megatron, in Megatron-LM's format for iterations and
// validations, so that readers of its logs can read Ravine's.
// Source: megatron/training.py (training_log, evaluate_and_print_results), commit bcce6f54.
#pragma once
#include <memory>
#include <string>

#include "train/hooks.h"

namespace ravine {

// The values of Megatron's log line on the iterations since its previous log line.
struct IterationLine {
  int64_t iteration = 0, iterations = 0, samples = 0;  // iterations: of the run; samples: used since its beginning
  double milliseconds = 0, lr = 0;                     // mean time of an iteration; learning rate of the next update
  int64_t batch = 0;
  std::optional<double> loss;  // mean over the iterations that were not skipped; empty if all were skipped
  double loss_scale = 1;
  std::optional<double> tflops, grad_norm;  // tflops: mean per rank
  std::optional<int64_t> zeros;             // number of gradient elements that are 0, in the last iteration
  std::optional<double> weight_norm;
  int64_t skipped = 0;
};
// Returns Megatron's log line of iterations, with its column widths: " iteration        5/     100 | consumed samples:
// 40 | .. |". The line has no loss if the loss is empty or 0.
std::string iteration_line(const IterationLine& line);

// Returns Megatron's three log lines of a validation: dashes, `prefix` with loss and perplexity, dashes.
std::string validation_lines(const std::string& prefix, double loss);

// Returns the lines of log.local_norms in the format of a Megatron script that is patched to print them: a list of the
// first rank's sums of squares.
std::string local_norm_lines(const std::vector<LocalNorm>& norms);

// Return the hooks that write a run's log lines, and its TensorBoard scalars, in Megatron's format. every: log.every,
// in steps.
std::unique_ptr<Hook> megatron_console_hook(int64_t every);
std::unique_ptr<Hook> megatron_tensorboard_hook(int64_t every);

}  // namespace ravine
