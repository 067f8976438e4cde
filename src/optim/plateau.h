// Learning rates that follow the validation loss: torch.optim.lr_scheduler.ReduceLROnPlateau (schedule.type:
// reduce_lr_on_plateau), which lowers the rate when the loss no longer falls, and GreedyLR as Transformers 5 has it (greedy),
// which also raises it while the loss falls. One validation is what they call an epoch; there is no warm-up. GreedyLR leaves a
// rate alone for ever that begins outside of its lowest and highest; here that is refused (config/validate.cpp).
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
  // After each validation. A loss that is not finite is no better than the best, and no part of the mean.
  void observe(double loss);
  // All that the next rates hang on; a checkpoint keeps it. A value of another type is a UserError that names `where`.
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
  int64_t bad_ = 0, good_ = 0;         // validations in a row that were no better, and that were
  int64_t cooling_ = 0, warming_ = 0;  // validations that do not count: after the rate was lowered, raised
  int64_t left_to_reset_;
  std::deque<double> window_;  // of schedule.smooth_window
  double sum_ = 0;
};

}  // namespace ravine
