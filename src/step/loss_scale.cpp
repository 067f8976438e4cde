#include "step/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ravine {

// DeepSpeed counts steps from 0 with the last overflow at -1, MindSpore from 1 with it at 0.
LossScale::LossScale(const LossScaleSettings& settings)
    : settings_(settings),
      scale_(settings.initial),
      step_(settings.rule == ScaleRule::mindformers ? 1 : 0),
      last_overflow_(settings.rule == ScaleRule::mindformers ? 0 : -1),
      left_(settings.hysteresis) {
  require(settings.initial > 0 && settings.factor > 1 && settings.window > 0 && settings.hysteresis > 0,
          "loss scale: initial {}, factor {}, window {}, hysteresis {}", settings.initial, settings.factor, settings.window,
          settings.hysteresis);
}

bool is_overflow(double loss, double grad_norm) { return !std::isfinite(loss) || !std::isfinite(grad_norm); }

bool LossScale::update(bool overflow) {
  if (settings_.fixed) return true;
  const bool mindformers = settings_.rule == ScaleRule::mindformers;
  if (overflow) {
    if (mindformers || settings_.hysteresis == 1 || left_ == 1) {
      if (!mindformers && scale_ <= settings_.least) return false;
      scale_ = std::max(scale_ / settings_.factor, settings_.least);
    } else {
      --left_;
    }
    last_overflow_ = step_;
  } else {
    if (settings_.consecutive_hysteresis) left_ = settings_.hysteresis;
    const int64_t since = step_ - last_overflow_ - (settings_.rule == ScaleRule::deepspeed ? 1 : 0);
    const bool grows = mindformers ? since >= settings_.window : since > 0 && since % settings_.window == 0;
    if (grows) {
      left_ = settings_.hysteresis;
      scale_ *= settings_.factor;
      if (mindformers) last_overflow_ = step_;
    }
  }
  ++step_;
  return true;
}

Json LossScale::state() const {
  return {{"scale", scale_}, {"step", step_}, {"last_overflow", last_overflow_}, {"hysteresis", left_}};
}

void LossScale::restore(const Json& state, int64_t steps, const std::string& where) {
  auto wrong = [&](const char* key, const std::string& got, const std::string& rule) {
    throw UserError(fmt::format("'{}' is {}", key, got), where, rule, "use another checkpoint");
  };
  auto count = [&](const char* key, int64_t low, int64_t high) {
    const auto n = field<int64_t>(state, key, where);
    if (n < low || n > high) wrong(key, std::to_string(n), fmt::format("a whole number from {} to {}", low, high));
    return n;
  };
  scale_ = field<double>(state, "scale", where);
  const double least = std::min(1e-30, settings_.least);
  if (!(scale_ >= least && scale_ <= std::numeric_limits<float>::max()))
    wrong("scale", fmt::format("{}", scale_), fmt::format("a loss scale is a number of f32 from {} on", least));
  step_ = count("step", 0, steps + 1);
  last_overflow_ = count("last_overflow", -1, step_);
  left_ = count("hysteresis", 1, settings_.hysteresis);
}

std::optional<LossScale> loss_scale_of(const PrecisionOptions& o, DType compute) {
  if (!o.loss_scale && compute != DType::f16) return std::nullopt;
  const double fixed = o.loss_scale.value_or(0);
  return LossScale({.rule = o.scale_rule,
                    .initial = fixed > 0 ? fixed : o.scale_initial,
                    .factor = o.scale_factor,
                    .least = o.scale_min,
                    .window = o.scale_window,
                    .hysteresis = o.scale_hysteresis,
                    .consecutive_hysteresis = o.scale_consecutive_hysteresis,
                    .fixed = fixed > 0});
}

}  // namespace ravine
