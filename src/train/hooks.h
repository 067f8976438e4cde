// Seam S7: what happens around a step. A hook is one class that sees the run through a RunView; the run calls all of them in
// order.
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

// What a step came to; becomes a line of metrics.jsonl. Hooks may add to `more` ("valid_loss", ...).
struct StepReport {
  int64_t step = 0;
  double loss = 0, lr = 0, grad_norm = 0;  // where no label counted there is no loss, whatever stands here
  double next_lr = 0;                      // of the update behind this one
  int64_t valid = 0;                       // labels that counted in the step
  int64_t tokens = 0;                      // seen in all
  double tokens_per_second = 0, sol = 0, step_time = 0, memory_mb = 0;
  double flops = 0;  // of the model in this step, over all ranks
  double wait = 0;   // seconds spent waiting for data in this step
  StepTimes times;   // of the first rank
  int ranks = 1;
  StepTraffic traffic;                          // of several ranks
  StepWindow window;                            // this step and those before it back to the last line
  bool skipped = false;                         // nothing was learned
  bool overflow = false;                        // because gradients, scaled as they were, are not finite
  std::optional<double> loss_scale;             // of the next step, where losses are scaled
  int64_t spikes = 0;                           // steps in a row, this one too, that health.skip_norm left out
  int64_t updates = 0;                          // of the weights so far
  bool left_out = false;                        // by data.skip_steps: then nothing was computed either
  std::optional<double> embedding_local_norm;   // sum of squares on the first rank, where health.embedding_norm asks for it
  std::vector<LocalNorm> local_norms;           // of log.local_norms; the first rank has them
  std::map<std::string, double> state_squares;  // of log.monitor (train/state_norms.h)
  std::optional<double> weight_norm, tflops;    // of log.figures; tflops: per rank
  std::optional<int64_t> gradient_zeros;        // of log.figures
  std::vector<std::pair<std::string, double>> preferences;  // of train.objective=dpo, by TRL's names (step/preference.h)
  RouterReport routers;                                     // of a model with experts
  std::vector<std::pair<std::string, double>> more;
  std::optional<ValidationResult> validation;  // behind this step
  bool has_loss() const { return valid > 0; }
};

// Whether a line is written after this step: every log.every steps, after the last one, and where there is more to say than of
// other steps.
bool line_due(const StepReport& report, int64_t every, int64_t steps);

class Hook {
 public:
  virtual ~Hook() = default;
  virtual void start(RunView&, int64_t /*done*/) {}  // before the first step; `done` steps lie behind
  virtual void after_step(RunView&, StepReport&) {}
  virtual void last_words(RunView&, StepReport&) {}   // of a step that ends the run by a rule
  virtual void finish(RunView&, bool /*stopped*/) {}  // after the last step
  // Behind that, of a run that was not stopped: all is saved, and the weights are those that its model has.
  virtual void ended(RunView&) {}
};

// In the order in which a run uses them.
std::unique_ptr<Hook> validation_hook(int64_t every);
std::unique_ptr<Hook> metrics_hook(int64_t every);      // metrics.jsonl; on resume cut back to the checkpoint's step
std::unique_ptr<Hook> tensorboard_hook(int64_t every);  // event files in train.output/tensorboard
std::unique_ptr<Hook> tensorboard_hook_in(const std::string& folder, int64_t every);
std::unique_ptr<Hook> console_hook(int64_t every);  // the line per step and the progress bar
std::unique_ptr<Hook> window_hook(
    int64_t every);  // begins the window again behind each line; every rank has it, since each saves its part of the state
std::unique_ptr<Hook> checkpoint_hook(int64_t every);

}  // namespace ravine
