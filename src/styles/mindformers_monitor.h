// The quantities of a step that MindFormers' TrainingStateMonitor shows, by its tags. Source:
// mindformers/core/callback/callback.py (TrainingStateMonitor), 1.6.
#pragma once
#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "train/hooks.h"

namespace ravine {

// Returns the local gradient norms of parameters under MindFormers' parameter names. Their order is MindFormers': first
// parameters with weight decay. model: the model's config.json.
std::vector<LocalNorm> in_mindformers_order(std::vector<LocalNorm> norms, const Json& model);

class MindFormersMonitor {
 public:
  // Reads log.monitor_target. A text that is no regular expression is a UserError.
  explicit MindFormersMonitor(const LogOptions& log);

  using Say = std::function<void(const std::string& tag, double value)>;
  // Calls `print_stderr` for each quantity in `asked` (log.monitor or log.tensorboard_monitor) in the step of the
  // report. In event files the local loss has another tag than in log lines.
  void each(RunView& run, const StepReport& report, const std::vector<std::string>& asked, bool events,
            const Say& print_stderr) const;

 private:
  bool fits(const std::string& name) const { return !target_ || std::regex_search(name, *target_); }
  void states(RunView& run, const StepReport& report, const std::vector<std::string>& asked, const Say& print_stderr) const;
  std::optional<std::regex> target_;
};

}  // namespace ravine
