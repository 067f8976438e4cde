// Loss scaling for 16-bit gradients (Micikevicius et al. 2018): the loss is multiplied before backward, gradients are divided
// after it by the scale of their own backward; a step whose gradients are not finite is not applied.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

struct LossScaleSettings {
  // As deepspeed/runtime/fp16/loss_scaler.py (DynamicLossScaler) or MindSpore's DynamicLossScaleUpdateCell:
  //   deepspeed      0.19: grows after `window` good steps behind an overflow, the one right behind it not counted
  //   deepspeed_013  0.13: that one counts
  //   mindformers    grows `window` steps after an overflow or a growth; no hysteresis; an overflow at the minimum changes
  //                  nothing
  ScaleRule rule = ScaleRule::deepspeed;
  double initial = 65536, factor = 2, least = 1;
  int64_t window = 1000;
  int64_t hysteresis = 2;               // so many overflows before the scale falls
  bool consecutive_hysteresis = false;  // each good step fills it again
  bool fixed = false;                   // the scale stays
};

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
  double scale_;
  int64_t step_, last_overflow_, left_;
};

// What the options ask for with this arithmetic; nothing: losses are not scaled.
std::optional<LossScale> loss_scale_of(const PrecisionOptions& options, DType compute);

}  // namespace ravine
