// Loss scaling for 16-bit gradients (Micikevicius et al. 2018): the loss is multiplied before backward, gradients are divided
// after it by the scale of their own backward; a step whose gradients are not finite is not applied.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

struct LossScaleSettings {
  // As deepspeed/runtime/fp16/loss_scaler.py (DynamicLossScaler) or MindSpore's DynamicLossScaleUpdateCell:
  //   deepspeed      0.19: grows after `window` good steps behind an overflow, the one right behind it not counted
  //   deepspeed_013  0.13: that one counts
  //   mindformers    grows `window` steps after an overflow or a growth; no hysteresis; an overflow at the minimum changes
  //                  nothing
  //   mindformers_adaptive  the same, and the window moves (mindformers/wrapper/adaptive_loss_scale.py): after three growths to the
  //                  next longer one of window_list, after three overflows in a row to 1
  ScaleRule rule = ScaleRule::deepspeed;
  double initial = 65536, factor = 2, least = 1;
  int64_t window = 1000;
  int64_t hysteresis = 2;                 // so many overflows before the scale falls
  bool consecutive_hysteresis = false;    // each good step fills it again
  bool fixed = false;                     // the scale stays
  int64_t longest = 1000, shortest = 20;  // windows, of mindformers_adaptive; longest is the larger
};

// The windows of mindformers_adaptive, ascending: of 1000 and 20: 20 30 40 50 100 200 500 1000.
std::vector<int64_t> window_list(int64_t longest, int64_t shortest);

bool is_overflow(double loss, double grad_norm);  // one of them is not finite

class LossScale {
 public:
  explicit LossScale(const LossScaleSettings& settings);
  double scale() const { return scale_; }  // for the next backward
  int64_t hysteresis() const { return left_; }
  // After a step. False: an overflow at the smallest scale, with which DeepSpeed ends the run; nothing changes then.
  [[nodiscard]] bool update(bool overflow);

  Json state() const;  // for checkpoints
  // After `steps` steps of a run; what is no state of this class then is a UserError that names the field.
  void restore(const Json& state, int64_t steps, const std::string& where);

 private:
  LossScaleSettings settings_;
  void move_window(bool overflow, bool grows);
  double scale_;
  int64_t step_, last_overflow_, left_;
  // Of mindformers_adaptive. place_ -1: the window is 1.
  std::vector<int64_t> windows_;
  int64_t window_ = 0, place_ = 0, growths_ = 0, overflows_ = 0;
};

// What the options ask for with this arithmetic; nothing: losses are not scaled.
std::optional<LossScale> loss_scale_of(const PrecisionOptions& options, DType compute);

}  // namespace ravine
