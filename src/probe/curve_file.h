// Loss and gradient norm by step, of whatever has recorded them.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct TrainingCurve {
  std::string name, kind;  // kind: "run of Ravine", "log of Megatron", ..
  std::map<int64_t, double> loss,
      norm;  // by step; a value that is not finite stays one. Of a step that comes twice the last counts
  // The steps at which the file goes back, as a run that was resumed from a checkpoint makes it. What stood there of them and of
  // later steps is given up.
  std::vector<int64_t> goes_back;
  // Takes the loss of a step, and the norm where there is one, in the order of the file.
  void add(int64_t step, double loss_of_step, const double* norm_of_step = nullptr);
  // Half a unit of the last digit that was printed of a loss, the largest of all: what the file itself cannot tell apart. 0: all
  // digits are there.
  double loss_resolution = 0;
  std::string compute;  // precision.compute where it is known: "f32", "bf16"; else ""
};

// A folder with metrics.jsonl (a run of Ravine, or that file), with TensorBoard's files (or one of them) or trainer_state.json
// (of Transformers, or that file); a table, .csv or .jsonl, with columns of step and loss (TensorBoard's own export: Step, Value);
// or a log of Megatron or MindFormers, any other file. Errors: UserError names the file and what stands there.
TrainingCurve read_training_curve(const std::string& path);

}  // namespace ravine
