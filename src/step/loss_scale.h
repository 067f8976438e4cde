// Loss scaling for 16-bit gradients (Micikevicius et al. 2018). The loss is multiplied by the scale before the backward
// pass. Gradients are divided by the same scale after it. A step whose gradients are not finite is not applied.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

struct LossScaleSettings {
  // The rule for changes of the scale, from deepspeed/runtime/fp16/loss_scaler.py (DynamicLossScaler) or MindSpore's
  // DynamicLossScaleUpdateCell:
  //   deepspeed      0.19: grows after `window` good steps; the first step after an overflow does not count
  //   deepspeed_013  0.13: the first step after an overflow counts
  //   mindformers    grows `window` steps after an overflow or a growth; no hysteresis.
  //                  An overflow at the minimum keeps the scale.
  //   mindformers_adaptive  as mindformers, with a window that changes (mindformers/wrapper/adaptive_loss_scale.py).
  //                  After three growths the window is the next longer window of window_list.
  //                  After three overflows in a row the window is 1.
  ScaleRule rule = ScaleRule::deepspeed;
  double initial = 65536, factor = 2, least = 1;
  int64_t window = 1000;
  int64_t hysteresis = 2;                 // the first hysteresis - 1 overflows after a growth keep the scale
  bool consecutive_hysteresis = false;    // a good step resets the count of overflows, too
  bool fixed = false;                     // the scale does not change
  int64_t longest = 1000, shortest = 20;  // windows of mindformers_adaptive; longest > shortest
};

// Returns the windows (steps without an overflow before the loss scale grows) that the rule mindformers_adaptive uses,
// in ascending order. For longest 1000 and shortest 20 they are 20 30 40 50 100 200 500 1000.
std::vector<int64_t> window_list(int64_t longest, int64_t shortest);

bool is_overflow(double loss, double grad_norm);  // true if the loss or the norm is not finite

// The loss scale of a run (factor of 16-bit losses), with the state of the rule that changes it.
class LossScale {
 public:
  explicit LossScale(const LossScaleSettings& settings);
  double scale() const { return scale_; }  // for the next backward pass
  int64_t hysteresis() const { return left_; }
  // Updates the loss scale after a step. `overflow`: true if loss or gradient norm of the step was not finite. Returns
  // false, and changes nothing, if a step overflows at the smallest scale; the run then ends (DeepSpeed's rules only).
  [[nodiscard]] bool update(bool overflow);

  Json state() const;  // for checkpoints
  // Restores the state of the loss scale from a checkpoint after `steps` steps. A value that no run can have is a
  // UserError that names the field. `where`: name of the checkpoint in the message.
  void restore(const Json& state, int64_t steps, const std::string& where);

 private:
  LossScaleSettings settings_;
  void move_window(bool overflow, bool grows);
  double scale_;
  int64_t step_, last_overflow_, left_;
  // The state of the rule mindformers_adaptive. windows_: the result of window_list. index_: index of the window in
  // windows_; -1: the window is 1.
  std::vector<int64_t> windows_;
  int64_t window_ = 0, index_ = 0, growths_ = 0, overflows_ = 0;
};

// Makes the LossScale of a run from its options; empty if losses are not scaled with this compute type.
std::optional<LossScale> loss_scale_of(const PrecisionOptions& options, DType compute);

}  // namespace ravine
