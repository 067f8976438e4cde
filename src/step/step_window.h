// Means over several steps, for logs and metrics.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"

namespace ravine {

// The steps since the last line of the log, the newest among them: what log.every has lines and metrics show means of.
struct StepWindow {
  int64_t steps = 0, valid = 0, tokens = 0;  // labels counted; tokens fed
  double loss = 0, seconds = 0;              // sum of cross-entropies over the labels, in nats; wall time of the steps
  void add(double mean_loss, int64_t labels, int64_t fed, double time);
  // As training weighs: every label alike, so steps with more of them count more.
  double mean_loss() const { return valid > 0 ? loss / static_cast<double>(valid) : 0; }
  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double step_time() const { return seconds / static_cast<double>(steps); }
  Json json() const;
  static StepWindow from_json(const Json& j, const std::string& where);
};

}  // namespace ravine
