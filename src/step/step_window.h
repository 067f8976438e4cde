// Means over several steps, for logs and metrics.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"

namespace ravine {

// Sums over the steps since the previous line of the log, the newest step included. Log lines and metrics show their
// means (log.every).
struct StepWindow {
  int64_t steps = 0, valid = 0, tokens = 0;  // valid: labels with a loss; tokens: tokens fed
  // loss: sum of cross-entropies over all labels of these steps, in nats; seconds: wall time of these steps.
  double loss = 0, seconds = 0;
  void add(double mean_loss, int64_t labels, int64_t fed, double time);
  // Returns the mean loss per label over the steps of the window, in nats; 0 if there is no label. A step with more
  // labels has more weight.
  double mean_loss() const { return valid > 0 ? loss / static_cast<double>(valid) : 0; }
  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double step_time() const { return seconds / static_cast<double>(steps); }
  Json json() const;
  static StepWindow from_json(const Json& j, const std::string& where);
};

}  // namespace ravine
