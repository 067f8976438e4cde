#include "step/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ravine {

namespace {
bool is_mindformers(ScaleRule rule) { return rule == ScaleRule::mindformers || rule == ScaleRule::mindformers_adaptive; }
}  // namespace

// DeepSpeed counts steps from 0, with the last overflow at -1. MindSpore counts from 1, with the last overflow at 0.
LossScale::LossScale(const LossScaleSettings& settings)
    : settings_(settings),
      scale_(settings.initial),
      step_(is_mindformers(settings.rule) ? 1 : 0),
      last_overflow_(is_mindformers(settings.rule) ? 0 : -1),
      left_(settings.hysteresis),
      window_(settings.window) {
  require(settings.initial > 0 && settings.factor > 1 && settings.window > 0 && settings.hysteresis > 0,
          "loss scale: initial {}, factor {}, window {}, hysteresis {}", settings.initial, settings.factor, settings.window,
          settings.hysteresis);
  if (settings.rule != ScaleRule::mindformers_adaptive || settings.fixed) return;
  windows_ = window_list(settings.longest, settings.shortest);
  const auto at = std::find(windows_.begin(), windows_.end(), settings.window);
  index_ = at == windows_.end() ? 0 : at - windows_.begin();
  window_ = windows_[static_cast<size_t>(index_)];
}

std::vector<int64_t> window_list(int64_t longest, int64_t shortest) {
  require(longest > shortest && shortest > 0, "loss scale: windows of {} to {} steps", shortest, longest);
  constexpr double kStep = 100;
  std::vector<int64_t> list{longest};
  for (auto window = static_cast<double>(longest); window > static_cast<double>(shortest);) {
    if (window > kStep)
      window = std::floor(window / 2 / kStep) * kStep;
    else
      window = window == kStep ? kStep / 2 : window - static_cast<double>(shortest) / 2;
    list.push_back(static_cast<int64_t>(window));
  }
  std::reverse(list.begin(), list.end());
  return list;
}

void LossScale::move_window(bool overflow, bool grows) {
  constexpr int64_t kTimes = 3;
  if (grows) {
    growths_ = (growths_ + 1) % (kTimes + 1), overflows_ = 0;
    if (growths_ == kTimes && index_ + 1 < static_cast<int64_t>(windows_.size())) {
      growths_ = 0;
      window_ = windows_[static_cast<size_t>(++index_)];
    }
  } else if (overflow) {
    overflows_ = (overflows_ + 1) % (kTimes + 1);
    if (overflows_ == kTimes && index_ > 0) growths_ = overflows_ = 0, window_ = 1, index_ = -1;
  }
}

bool is_overflow(double loss, double grad_norm) { return !std::isfinite(loss) || !std::isfinite(grad_norm); }

bool LossScale::update(bool overflow) {
  if (settings_.fixed) return true;
  const bool mindformers = is_mindformers(settings_.rule);
  bool grows = false;
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
    grows = mindformers ? since >= window_ : since > 0 && since % settings_.window == 0;
    if (grows) {
      left_ = settings_.hysteresis;
      scale_ *= settings_.factor;
      if (mindformers) last_overflow_ = step_;
    }
  }
  if (!windows_.empty()) move_window(overflow, grows);
  ++step_;
  return true;
}

Json LossScale::state() const {
  Json state = {{"scale", scale_}, {"step", step_}, {"last_overflow", last_overflow_}, {"hysteresis", left_}};
  if (!windows_.empty()) state["window"] = {window_, index_, growths_, overflows_};
  return state;
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
  if (windows_.empty() || !state.contains("window")) return;
  std::vector<int64_t> w;
  for (const Json& n : array_field(state, "window", where)) w.push_back(n.is_number_integer() ? n.get<int64_t>() : -9);
  const auto sizes = static_cast<int64_t>(windows_.size());
  if (w.size() != 4 || w[1] < -1 || w[1] >= sizes || w[0] != (w[1] < 0 ? 1 : windows_[static_cast<size_t>(w[1])]) || w[2] < 0 ||
      w[2] > 3 || w[3] < 0 || w[3] > 3)
    wrong("window", Json(w).dump(), "a window of the list of this rule, its place, and growths and overflows from 0 to 3");
  window_ = w[0], index_ = w[1], growths_ = w[2], overflows_ = w[3];
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
                    .fixed = fixed > 0,
                    .longest = o.scale_window_max,
                    .shortest = o.scale_window_min});
}

}  // namespace ravine
