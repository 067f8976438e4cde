// What a hook sees of the run that calls it, and what it may ask of it. Nothing else of a run is open to hooks.
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

struct ValidationResult {
  double loss = 0;                                          // mean
  int64_t labels = 0;                                       // or pairs, that counted; 0: no loss
  int64_t samples = 0;                                      // rows that were read
  int64_t batches = 0;                                      // micro batches
  double seconds = 0;                                       // that it took
  std::vector<std::pair<std::string, double>> preferences;  // of train.objective=dpo, by name (step/preference.h)
};

class RunView {
 public:
  virtual ~RunView() = default;
  virtual const Config& config() const = 0;  // with what auto chose
  virtual Log& log() = 0;
  virtual std::string path(const std::string& name) const = 0;  // inside train.output
  virtual const Json& model_config() const = 0;                 // its config.json
  virtual int64_t samples() const = 0;                          // of one pass over the training data

  // Over the validation set, or nothing if there is none. All ranks ask. It may hold no label: then there is no loss.
  virtual std::optional<ValidationResult> validate() = 0;
  virtual void follow(double validation_loss) = 0;  // a schedule that does sets the rate of the next steps

  // Starts it, the background thread goes on; waits for the one before. All ranks ask.
  virtual void save_checkpoint(int64_t step) = 0;
  // Whether the checkpoint of the last step is complete; waits for the one under way. All ranks ask.
  virtual bool is_saved(int64_t step) = 0;

  virtual void begin_window() = 0;                    // a line was written: means begin again
  virtual const StepReport* last_report() const = 0;  // null: no step was made
};

}  // namespace ravine
