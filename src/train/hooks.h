// Seam S7: the actions around a step. A hook is a class that reads the run through a RunView; the run calls its hooks
// in order.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "step/experts.h"
#include "step/local_norms.h"
#include "step/step.h"
#include "step/step_window.h"
#include "step/traffic.h"
#include "train/run_view.h"

namespace ravine {

// The results of one step, as hooks get them and as a line of metrics.jsonl stores them. Hooks may append to `more`
// ("valid_loss", ...).
struct StepReport {
  int64_t step = 0;
  double loss = 0, lr = 0, grad_norm = 0;  // loss is undefined if valid is 0
  double next_lr = 0;                      // learning rate of the next update
  int64_t valid = 0;                       // labels with a loss in this step
  int64_t tokens = 0;                      // tokens of all steps up to here
  double tokens_per_second = 0, sol = 0, step_time = 0, memory_mb = 0;
  double flops = 0;  // of the model in this step, over all ranks
  double wait = 0;   // seconds of waiting for data in this step
  StepTimes times;   // of the first rank
  int ranks = 1;
  StepTraffic traffic;                                      // if there are several ranks
  StepWindow window;                                        // the steps since the last line of the log, with this one
  bool skipped = false;                                     // the step was not applied
  bool overflow = false;                                    // the scaled gradients are not finite
  std::optional<double> loss_scale;                         // of the next step, if losses are scaled
  int64_t spikes = 0;                                       // skipped by health.skip_norm in a row, with this step
  int64_t updates = 0;                                      // number of updates up to here
  bool left_out = false;                                    // skipped by data.skip_steps: nothing was computed
  bool has_line = false;                                    // a log line is asked for, whatever log.every is
  std::optional<double> embedding_local_norm;               // sum of squares on the first rank; health.embedding_norm
  std::vector<LocalNorm> local_norms;                       // for log.local_norms; on the first rank
  std::map<std::string, double> state_squares;              // for log.monitor (train/state_norms.h)
  std::optional<double> weight_norm, tflops;                // for log.figures; tflops: per rank
  std::optional<int64_t> gradient_zeros;                    // for log.figures
  std::vector<std::pair<std::string, double>> preferences;  // for train.objective=dpo, by TRL's names
  RouterReport routers;                                     // if the model has experts
  std::vector<std::pair<std::string, double>> more;
  std::optional<ValidationResult> validation;  // after this step
  bool has_loss() const { return valid > 0; }
};

// True if a log line is written after the step of `report`. `every`: log.every; `steps`: train.steps. Lines are due
// every log.every steps, after the last step and after a skipped step. A step also has a line if has_line is set or
// `more` is not empty.
bool line_due(const StepReport& report, int64_t every, int64_t steps);

// Base class of actions around the steps of a run (log lines, metrics, validation, checkpoints). A run calls the
// functions below in their order.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void start(RunView&, int64_t /*done*/) {}  // before the first step; `done` steps are done
  virtual void after_step(RunView&, StepReport&) {}
  virtual void last_words(RunView&, StepReport&) {}   // before a rule ends the run at this step
  virtual void finish(RunView&, bool /*stopped*/) {}  // after the last step
  // Called after finish() if the run was not stopped: all checkpoints are saved, and the engine holds the
  // weights of the exported model.
  virtual void ended(RunView&) {}
};

// validation_hook and the functions after it return one hook each, in the order in which a run calls them. `every`: the
// number of steps between two actions (log.every, train.valid_every or checkpoint.every).
std::unique_ptr<Hook> validation_hook(int64_t every);
// Returns the hook that appends steps to metrics.jsonl. A resumed run first removes the lines behind its checkpoint's
// step.
std::unique_ptr<Hook> metrics_hook(int64_t every);
std::unique_ptr<Hook> tensorboard_hook(int64_t every);  // event files in train.output/tensorboard
std::unique_ptr<Hook> tensorboard_hook_in(const std::string& folder, int64_t every);
std::unique_ptr<Hook> console_hook(int64_t every);  // the line per step, and the progress bar
std::unique_ptr<Hook> lines_hook(int64_t every);    // the line per step alone
// Returns the hook that starts a new window of means after each log line. Runs on every rank, because each rank stores
// the window in its checkpoint.
std::unique_ptr<Hook> window_hook(int64_t every);
std::unique_ptr<Hook> checkpoint_hook(int64_t every);

}  // namespace ravine
