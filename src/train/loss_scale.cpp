#include "train/loss_scale.h"

#include <algorithm>
#include <cmath>

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

void LossScale::restore(const Json& state, const std::string& where) {
  try {
    scale_ = state.at("scale").get<double>();
    step_ = state.at("step").get<int64_t>();
    last_overflow_ = state.at("last_overflow").get<int64_t>();
    left_ = state.at("hysteresis").get<int64_t>();
  } catch (const Json::exception&) {
    throw UserError("no state of a loss scale", where, "it holds scale, step, last_overflow and hysteresis",
                    "use another checkpoint");
  }
  if (!(scale_ > 0) || !std::isfinite(scale_) || left_ < 1 || left_ > settings_.hysteresis)
    throw UserError(fmt::format("a loss scale of {}, hysteresis {}", scale_, left_), where,
                    "a scale is above zero, the hysteresis 1 to that of the options", "use another checkpoint");
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
