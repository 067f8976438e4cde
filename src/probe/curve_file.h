// Reads loss, gradient norm and learning rate by step from the files of several programs.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace ravine {

// The losses, gradient norms and learning rates of one run by step: the result of read_training_curve().
struct TrainingCurve {
  std::string name, kind;  // kind: "run of Ravine", "log of Megatron", ..
  // Loss and gradient norm by step, also values that are not finite. If a step is repeated, its last values are kept.
  std::map<int64_t, double> loss, norm;
  std::map<int64_t, double> rate;  // learning rate by step, if the file has it
  // The steps at which the file goes back to an earlier step, as after a resume from a checkpoint. Earlier values of
  // these and of later steps are dropped.
  std::vector<int64_t> goes_back;
  // Adds the loss of a step, and the norm if it is known. Called in the order of the file.
  void add(int64_t step, double loss_of_step, const double* norm_of_step = nullptr, const double* rate_of_step = nullptr);
  // The largest rounding error of the printed losses: half a unit of the last printed digit. Smaller differences are
  // not visible in the file. 0: all digits are printed.
  double loss_resolution = 0;
  double norm_resolution = 0, rate_resolution = 0;  // the same of norms; of rates relative to the rate
  std::string compute;                              // precision.compute if it is known: "f32", "bf16"; else ""
};

// Reads the losses and gradient norms of a run. path is one of these:
// - a folder with metrics.jsonl (a run of Ravine), TensorBoard files or trainer_state.json (Transformers), or one of
//   these files;
// - a table, .csv or .jsonl, with columns of step and loss (TensorBoard's export: Step, Value);
// - any other file: a log of Megatron or MindFormers.
// An unreadable file is a UserError that names it and its content.
TrainingCurve read_training_curve(const std::string& path);

}  // namespace ravine
