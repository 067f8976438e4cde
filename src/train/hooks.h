// Seam S7: what happens around a step. A hook is one class; the trainer calls all of them in order.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "train/traffic.h"

namespace ravine {

class Trainer;

// What a step came to; becomes a line of metrics.jsonl. Hooks may add to `more` ("valid_loss", ...).
struct StepReport {
  int64_t step = 0;
  double loss = 0, lr = 0, grad_norm = 0;
  int64_t tokens = 0;               // seen in all
  double tokens_per_second = 0, sol = 0, step_time = 0, memory_mb = 0;
  double wait = 0;                  // seconds spent waiting for data in this step
  int ranks = 1;
  StepTraffic traffic;              // of several ranks
  bool skipped = false;             // left out by data.skip_steps: nothing was learned
  std::vector<std::pair<std::string, double>> more;
};

class Hook {
 public:
  virtual ~Hook() = default;
  virtual void start(Trainer&, int64_t /*done*/) {}       // before the first step; `done` steps lie behind
  virtual void after_step(Trainer&, StepReport&) {}
  virtual void finish(Trainer&, bool /*stopped*/) {}      // after the last step
};

// In the order in which a run uses them.
std::unique_ptr<Hook> validation_hook(int64_t every);
std::unique_ptr<Hook> metrics_hook(int64_t every);      // metrics.jsonl; on resume cut back to the checkpoint's step
std::unique_ptr<Hook> tensorboard_hook(int64_t every);
std::unique_ptr<Hook> console_hook(int64_t every);      // the line per step and the progress bar
std::unique_ptr<Hook> checkpoint_hook(int64_t every);

}  // namespace ravine
