// Learning rates that follow the validation loss. reduce_lr_on_plateau is torch.optim.lr_scheduler.ReduceLROnPlateau,
// which lowers the learning rate when the loss no longer falls. greedy is GreedyLR of Transformers 5, which also raises
// it while the loss falls. One validation is their epoch; there is no warmup. GreedyLR never changes a learning rate
// that starts outside of its bounds; here such a start is a UserError (config/validate.cpp).
#pragma once
#include <deque>
#include <limits>
#include <string>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

class PlateauRate {
 public:
  PlateauRate(const ScheduleOptions& schedule, double base_lr)
      : options_(schedule), base_(base_lr), rate_(base_lr), left_to_reset_(schedule.reset_after) {}
  double rate() const { return rate_; }
  // Updates the learning rate after a validation with this loss. A loss that is not finite never improves the best
  // loss, and is not part of the mean.
  void observe(double loss);
  // Return and restore the state that determines the next learning rates; checkpoints store it. A value of another type
  // is a UserError that names `where`.
  Json state() const;
  void restore(const Json& state, const std::string& where);

 private:
  bool greedy() const { return options_.type == ScheduleType::greedy; }
  double smoothed(double loss);
  bool better(double loss) const;
  void lower();
  void raise();
  void begin_anew();

  const ScheduleOptions& options_;
  double base_, rate_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0, good_ = 0;  // consecutive validations without, and with, improvement
  // Remaining validations that do not count: cooling_ after the learning rate was lowered, warming_ after it was
  // raised.
  int64_t cooling_ = 0, warming_ = 0;
  int64_t left_to_reset_;
  std::deque<double> window_;  // last losses, at most schedule.smooth_window
  double sum_ = 0;
};

}  // namespace ravine
