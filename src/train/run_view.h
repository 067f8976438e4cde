// The interface of a run for its hooks. Hooks have no other access to a run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "config/config.h"

namespace ravine {

struct StepReport;

// The result of a validation: mean loss over the validation data, counts, and duration.
struct ValidationResult {
  double loss = 0;                                          // mean
  int64_t labels = 0;                                       // labels (or pairs) with a loss; 0: there is no loss
  int64_t samples = 0;                                      // rows read
  int64_t batches = 0;                                      // micro batches
  double seconds = 0;                                       // duration
  std::vector<std::pair<std::string, double>> preferences;  // for train.objective=dpo, by name (step/preference.h)
};

// Base class that gives hooks access to a run: its config, log, validation and checkpoints.
class RunView {
 public:
  virtual ~RunView() = default;
  virtual const Config& config() const = 0;  // resolved: with the values that auto chose
  virtual Log& log() = 0;
  virtual std::string path(const std::string& name) const = 0;  // path of a file in train.output
  virtual const Json& model_config() const = 0;                 // config.json of the model
  virtual int64_t samples() const = 0;                          // samples of an epoch of the training data

  // Runs a validation and returns its result; empty if there are no validation data. The result may have no label, and
  // so no loss. All ranks call it together.
  virtual std::optional<ValidationResult> validate() = 0;
  virtual void follow(double validation_loss) = 0;  // gives the loss to a schedule that sets the learning rate by it

  // Starts to save a checkpoint of `step`, which a background thread finishes. Waits for the previous checkpoint. All
  // ranks call it together.
  virtual void save_checkpoint(int64_t step) = 0;
  // True if the checkpoint of `step`, the last step of the run, is complete. Waits for the checkpoint that is being
  // written. All ranks call it together.
  virtual bool is_saved(int64_t step) = 0;

  virtual void begin_window() = 0;                    // starts the means again after a log line
  virtual const StepReport* last_report() const = 0;  // null: no step is done
};

}  // namespace ravine
