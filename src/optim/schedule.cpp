#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "config/takes.h"
#include "optim/class_schedules.h"

namespace ravine {
namespace {

double cosine_wave(double cycles, double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * cycles * 2.0 * progress));
}

// Falls from 1 to 0 while progress goes from 0 to 1.
double fall(RateShape shape, double cycles, double progress) {
  if (shape == RateShape::linear) return 1.0 - progress;
  if (shape == RateShape::cosine) return cosine_wave(cycles, progress);
  return 1.0 - std::sqrt(progress);
}

double rise(RateShape shape, double progress) {
  if (shape == RateShape::linear) return progress;
  if (shape == RateShape::cosine) return 0.5 * (1.0 - std::cos(std::numbers::pi * progress));
  return 1.0 - std::sqrt(1.0 - progress);
}

double falling_polynomial(const ScheduleOptions& s, double base_lr, double steps, double step) {
  if (!(base_lr > s.end_lr))
    throw UserError(fmt::format("end_lr {} is not below lr {}", s.end_lr, base_lr), "schedule.end_lr",
                    "a polynomial schedule falls from optimizer.lr to schedule.end_lr", "lower schedule.end_lr");
  const double length = steps - static_cast<double>(s.warmup_steps);
  if (step > steps || length <= 0) return s.end_lr / base_lr;
  const double left = 1 - (step - static_cast<double>(s.warmup_steps)) / length;
  return ((base_lr - s.end_lr) * std::pow(left, s.power) + s.end_lr) / base_lr;
}

double stable_decay(const ScheduleOptions& s, double steps, double step) {
  const double warmup = static_cast<double>(s.warmup_steps), decay = static_cast<double>(s.decay_steps);
  const double stable = s.stable_steps >= 0 ? static_cast<double>(s.stable_steps) : steps - warmup - decay;
  auto raised = [&](double factor) { return std::max(0.0, factor * (1.0 - s.min_lr_ratio) + s.min_lr_ratio); };
  if (step < warmup) return raised(rise(s.warmup_type.value_or(RateShape::linear), step / std::max(1.0, warmup)));
  if (step < warmup + stable) return 1.0;
  if (step >= warmup + stable + decay) return s.min_lr_ratio;
  return raised(fall(s.decay_type, s.cycles > 0 ? s.cycles : 0.5, (step - warmup - stable) / std::max(1.0, decay)));
}

double warmed_cosine(const ScheduleOptions& s, double steps, double step) {
  const double warmup = static_cast<double>(s.warmup_steps);
  if (step < warmup) {
    if (s.warmup_lr_ratio == 0) return (step + 1.0) / std::max(1.0, warmup);
    return s.warmup_lr_ratio + (1.0 - s.warmup_lr_ratio) * step / std::max(1.0, warmup - 1.0);
  }
  const double progress = (step - warmup + 1.0) / std::max(1.0, steps - warmup);
  const double wave = cosine_wave(s.cycles > 0 ? s.cycles : 0.5, progress);
  return std::max(0.0, wave * (1 - s.min_lr_ratio) + s.min_lr_ratio);
}

double inverse_root(const ScheduleOptions& s, double step) {
  const double warmup = static_cast<double>(s.warmup_steps);
  const double timescale = s.timescale > 0 ? static_cast<double>(s.timescale) : s.warmup_steps > 0 ? warmup : 10000.0;
  return 1.0 / std::sqrt((step + (timescale - warmup)) / timescale);
}

int64_t length_of(const ScheduleOptions& s, int64_t total_steps) { return s.steps > 0 ? s.steps : total_steps; }

double factor_of(const ScheduleOptions& s, double base_lr, double steps, double step) {
  using enum ScheduleType;
  const double warmup = static_cast<double>(s.warmup_steps);
  if (follows_validation(s)) return 1.0;
  if (s.type == warmup_stable_decay) return stable_decay(s, steps, step);
  if (s.type == cosine_warmup_with_min_lr) return warmed_cosine(s, steps, step);
  if (step < warmup) return step / std::max(1.0, warmup);
  const double progress = (step - warmup) / std::max(1.0, steps - warmup);
  switch (s.type) {
    case linear:
      return std::max(0.0, (steps - step) / std::max(1.0, steps - warmup));
    case cosine: {
      const double wave = cosine_wave(s.cycles > 0 ? s.cycles : 0.5, progress);
      return std::max(0.0, wave * (1 - s.min_lr_ratio) + s.min_lr_ratio);
    }
    case cosine_with_restarts: {
      if (progress >= 1.0) return 0.0;
      const double phase = std::fmod((s.cycles > 0 ? s.cycles : 1.0) * progress, 1.0);
      return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * phase)));
    }
    case polynomial:
      return falling_polynomial(s, base_lr, steps, step);
    case inverse_sqrt:
      return inverse_root(s, step);
    default:  // constant, and the types returned above
      break;
  }
  return 1.0;
}

}  // namespace

ScheduleEnd end_of(const ScheduleOptions& schedule, int64_t total_steps) {
  using enum ScheduleType;
  const ScheduleClasses& c = schedule.classes;
  const ScheduleType type = schedule.type;
  const bool warms = type == WarmupLR || type == WarmupDecayLR || type == WarmupCosineLR;
  ScheduleEnd end{.length = total_steps};
  int64_t warmup = takes_setting(type, "warmup_steps") ? schedule.warmup_steps : 0;
  if (schedule.steps > 0) end.key = "steps", end.length = schedule.steps;
  if (warms) warmup = std::max<int64_t>(2, c.warmup_num_steps) + 1;  // its count begins at -1
  if (type == OptimizerParamScheduler) warmup = static_cast<int64_t>(std::ceil(c.lr_warmup_steps));
  if ((type == WarmupDecayLR || type == WarmupCosineLR) && c.total_num_steps > 0)
    end.key = "total_num_steps", end.length = c.total_num_steps;
  if (type == OptimizerParamScheduler && c.lr_decay_steps > 0)
    end.key = "lr_decay_steps", end.length = static_cast<int64_t>(std::ceil(c.lr_decay_steps));
  if (takes_setting(type, "total_steps") && c.total_steps > 0) end.key = "total_steps", end.length = c.total_steps;
  end.update = std::max(end.length, warmup);
  if (type == cosine_warmup_with_min_lr) end.update = std::max(end.update - 1, warmup);
  // The formulas of these types reach their last value one step later.
  if (type == cosine_with_restarts || type == polynomial || type == PolynomialWithWarmUpLR || type == WarmupDecayLR ||
      type == OptimizerParamScheduler)
    ++end.update;
  return end;
}

double learning_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index) {
  return formula_rate(schedule, base_lr, total_steps, std::min(step_index, end_of(schedule, total_steps).update));
}

double formula_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index) {
  const int64_t steps = length_of(schedule, total_steps);
  const double rate = is_class_schedule(schedule.type)
                          ? class_rate(schedule, base_lr, steps, step_index)
                          : base_lr * factor_of(schedule, base_lr, static_cast<double>(steps), static_cast<double>(step_index));
  return rate * schedule.classes.lr_scale;
}

UpdateRates rates_of_update(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index) {
  UpdateRates rates = learning_rate(schedule, base_lr, total_steps, step_index);
  rates.betas = class_betas(schedule, std::min(step_index, end_of(schedule, total_steps).update));
  return rates;
}

}  // namespace ravine
