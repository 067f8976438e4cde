// Reads loss and gradient norm by step from the files of several programs.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace ravine {

// The curve of one run.
struct TrainingCurve {
  std::string name, kind;  // kind: "run of Ravine", "log of Megatron", ..
  // Values by step, also values that are not finite. If a step is repeated, its last values are kept.
  std::map<int64_t, double> loss, norm;
  // The steps at which the file goes back, as after a resume from a checkpoint. Earlier values of these and of later
  // steps are dropped.
  std::vector<int64_t> goes_back;
  // Adds the loss of a step, and the norm if it is known. Called in the order of the file.
  void add(int64_t step, double loss_of_step, const double* norm_of_step = nullptr);
  // Half a unit of the last printed digit of a loss, the largest of all losses: smaller differences are not in the
  // file. 0: all digits are printed.
  double loss_resolution = 0;
  std::string compute;  // precision.compute if it is known: "f32", "bf16"; else ""
};

// Reads a curve from one of these:
// - a folder with metrics.jsonl (a run of Ravine), TensorBoard files or trainer_state.json (Transformers), or one of
//   these files;
// - a table, .csv or .jsonl, with columns of step and loss (TensorBoard's export: Step, Value);
// - any other file: a log of Megatron or MindFormers.
// An unreadable file is a UserError that names it and its content.
TrainingCurve read_training_curve(const std::string& path);

}  // namespace ravine
