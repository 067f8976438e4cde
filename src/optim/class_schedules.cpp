#include "optim/class_schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace ravine {
namespace {

double half_wave(double angle) { return 0.5 * (1 + std::cos(angle)); }

// ---- MindFormers ----

struct Length {
  double total, warmup;
};

Length length_of(const ScheduleOptions& s, int64_t steps) {
  const double total = static_cast<double>(s.classes.total_steps > 0 ? s.classes.total_steps : steps);
  const double warmup =
      s.classes.warmup_ratio ? std::floor(total * *s.classes.warmup_ratio) : static_cast<double>(s.warmup_steps);
  return {total, warmup};
}

// Returns decay_ratio times the length, else decay_steps, else `otherwise`.
double decay_of(const ScheduleOptions& s, double total, double otherwise) {
  if (s.classes.decay_ratio) return std::floor(total * *s.classes.decay_ratio);
  return s.decay_steps > 0 ? static_cast<double>(s.decay_steps) : otherwise;
}

double class_cosine(const ScheduleOptions& s, double lr, const Length& l, double t) {
  const double end = s.classes.lr_end.value_or(0), progress = (t - l.warmup) / std::max(1.0, l.total - l.warmup);
  const double wave = half_wave(std::numbers::pi * 2 * s.classes.num_cycles.value_or(0.5) * progress);
  return end + (lr - end) * std::max(0.0, wave);
}

double class_cosine_restarts(const ScheduleOptions& s, double lr, const Length& l, double t) {
  const double end = s.classes.lr_end.value_or(0), progress = (t - l.warmup) / std::max(1.0, l.total - l.warmup);
  if (progress >= 1) return 0;
  const double wave = half_wave(std::numbers::pi * std::fmod(s.classes.num_cycles.value_or(1) * progress, 1.0));
  return end + (lr - end) * std::max(0.0, wave);
}

double class_polynomial(const ScheduleOptions& s, double lr, const Length& l, double t) {
  const double end = s.classes.lr_end.value_or(1e-7);
  if (t > l.total) return end;  // also after the decay, where the formula would fall below zero
  const double left = std::max(0.0, 1 - (t - l.warmup) / decay_of(s, l.total, l.total - l.warmup));
  return (lr - end) * std::pow(left, s.power) + end;
}

double class_stable_decay(const ScheduleOptions& s, double lr, const Length& l, double t) {
  const double end = s.classes.lr_end.value_or(1e-7);
  const double begin = s.classes.decay_start_ratio ? std::floor(l.total * *s.classes.decay_start_ratio)
                                                   : static_cast<double>(s.classes.decay_start_steps);
  return t < begin ? lr : lr - (lr - end) * (t - begin) / (l.total - begin);
}

double class_cool_down(const ScheduleOptions& s, double lr, const Length& l, double t) {
  const ScheduleClasses& c = s.classes;
  const double decay = decay_of(s, l.total, l.total), in_decay = t - l.warmup - static_cast<double>(c.keep_steps);
  if (in_decay < 0) return lr;
  if (in_decay < decay) {
    const double wave = half_wave(std::numbers::pi * 2 * c.num_cycles.value_or(0.5) * in_decay / std::max(1.0, decay));
    return c.lr_end1 + (lr - c.lr_end1) * std::max(0.0, wave);
  }
  const double last = c.lr_end2.value_or(0);
  return in_decay < decay + static_cast<double>(c.final_steps) || last == 0 ? c.lr_end1 : last;
}

double class_annealing(const ScheduleOptions& s, double lr, double t) {
  const ScheduleClasses& c = s.classes;
  const bool restarts = s.type == ScheduleType::CosineAnnealingWarmRestarts;
  double length = static_cast<double>(std::max<int64_t>(1, restarts ? c.t_0 : c.t_max));
  if (restarts && c.t_mult == 1)
    t = std::fmod(t, length);
  else
    for (; restarts && t >= length; length *= static_cast<double>(c.t_mult)) t -= length;
  return c.eta_min + (lr - c.eta_min) * half_wave(std::numbers::pi * t / length);
}

double mindformers_rate(const ScheduleOptions& s, double lr, int64_t steps, double t) {
  using enum ScheduleType;
  if (s.type == CosineAnnealingLR || s.type == CosineAnnealingWarmRestarts) return class_annealing(s, lr, t);
  const Length l = length_of(s, steps);
  // Tested before the warmup, as in MindFormers.
  if ((s.type == CosineWithWarmUpLR || s.type == CosineWithRestartsAndWarmUpLR) && t >= decay_of(s, l.total, l.total))
    return s.classes.lr_end.value_or(0);
  if (t < l.warmup) return s.classes.warmup_lr_init + (lr - s.classes.warmup_lr_init) * t / l.warmup;
  switch (s.type) {
    case LinearWithWarmUpLR:
      return lr * std::max(0.0, (l.total - t) / std::max(1.0, l.total - l.warmup));
    case CosineWithWarmUpLR:
      return class_cosine(s, lr, l, t);
    case CosineWithRestartsAndWarmUpLR:
      return class_cosine_restarts(s, lr, l, t);
    case PolynomialWithWarmUpLR:
      return class_polynomial(s, lr, l, t);
    case WarmUpStableDecayLR:
      return class_stable_decay(s, lr, l, t);
    case ConstantWithCoolDownLR:
      return class_cool_down(s, lr, l, t);
    default:
      return lr;  // ConstantWarmUpLR
  }
}

// ---- DeepSpeed: `i` counts updates from -1 ----

double warm(const ScheduleOptions& s, double i, double warmup) {
  return s.warmup_type == RateShape::linear ? i / warmup : std::log(i + 1) / std::log(warmup);
}

double warmup_rate(const ScheduleOptions& s, double base_lr, double total, double i) {
  using enum ScheduleType;
  const ScheduleClasses& c = s.classes;
  const double warmup = static_cast<double>(std::max<int64_t>(2, c.warmup_num_steps));
  if (s.type == WarmupCosineLR) {
    if (i < 0) return 0;
    if (i < warmup) return base_lr * (c.warmup_min_ratio + (1 - c.warmup_min_ratio) * warm(s, i, warmup));
    const double progress = std::min(1.0, (i - warmup + 1) / std::max(1.0, total - warmup));
    return base_lr * std::max(0.0, c.cos_min_ratio + (1 - c.cos_min_ratio) * half_wave(std::numbers::pi * progress));
  }
  if (i < 0) return c.warmup_min_lr;
  double share = 1;
  if (i < warmup)
    share = warm(s, i, warmup);
  else if (s.type == WarmupDecayLR)
    share = std::max(0.0, (total - i) / std::max(1.0, total - warmup));
  return c.warmup_min_lr + (c.warmup_max_lr.value_or(base_lr) - c.warmup_min_lr) * share;
}

// The position in a OneCycle: its scale between lowest and highest rate, or the units of decay after the cycle.
struct Cycle {
  double scale = 0, decayed = 0;
  bool over = false;
};

Cycle cycle_at(const ScheduleClasses& c, double step) {
  const int64_t second = c.cycle_second_step_size > 0 ? c.cycle_second_step_size : c.cycle_first_step_size;
  const double first = static_cast<double>(c.cycle_first_step_size), total = first + static_cast<double>(second);
  if (step > total)
    return {.decayed = c.decay_step_size > 0 ? (step - total) / static_cast<double>(c.decay_step_size) : 0, .over = true};
  const double part = first / total, x = 1 + step / total - std::floor(1 + step / total);
  const bool rises = x <= part;
  double scale = rises ? x / part : (x - 1) / (part - 1);
  const int64_t stairs = rises || c.cycle_second_stair_count < 0 ? c.cycle_first_stair_count : c.cycle_second_stair_count;
  if (stairs > 0) {  // in integers: a stair begins at a step
    const int64_t turn = static_cast<int64_t>(step) % (c.cycle_first_step_size + second);
    const int64_t done =
        rises ? turn * stairs / c.cycle_first_step_size : (c.cycle_first_step_size + second - turn) * stairs / second;
    scale = static_cast<double>(done) / static_cast<double>(stairs);
  }
  return {.scale = scale};
}

double one_cycle(const ScheduleClasses& c, double step) {
  const Cycle at = cycle_at(c, step);
  const double least = c.cycle_min_lr.value_or(0), most = c.cycle_max_lr.value_or(0);
  return at.over ? least / (1 + c.decay_lr_rate * at.decayed) : least + (most - least) * at.scale;
}

// ---- Megatron ----

// ModelLink and Megatron-LM count samples; with a constant batch size the quotients are the same as with steps.
double param_scheduler(const ScheduleOptions& s, double lr, int64_t steps, double t) {
  const ScheduleClasses& c = s.classes;
  const double warmup = c.lr_warmup_steps, length = c.lr_decay_steps > 0 ? c.lr_decay_steps : static_cast<double>(steps);
  if (warmup > 0 && t <= warmup) return c.lr_warmup_init + (lr - c.lr_warmup_init) * t / warmup;
  if (c.lr_decay_style == DecayStyle::constant) return lr;
  if (t > length) return c.min_lr;
  if (c.lr_decay_style == DecayStyle::inverse_square_root) return std::max(c.min_lr, lr * std::sqrt(warmup) / std::sqrt(t));
  const double done = (t - warmup) / (length - warmup);
  return c.min_lr + (c.lr_decay_style == DecayStyle::linear ? 1 - done : half_wave(std::numbers::pi * done)) * (lr - c.min_lr);
}

double range_test(const ScheduleClasses& c, double step) {
  double units = step / static_cast<double>(c.lr_range_test_step_size);
  if (c.lr_range_test_staircase) units = std::floor(units);
  return c.lr_range_test_min_lr * (1 + c.lr_range_test_step_rate * units);
}

}  // namespace

bool is_class_schedule(ScheduleType type) {
  using enum ScheduleType;
  switch (type) {
    case constant:
    case linear:
    case cosine:
    case polynomial:
    case cosine_with_restarts:
    case inverse_sqrt:
    case warmup_stable_decay:
    case cosine_warmup_with_min_lr:
    case reduce_lr_on_plateau:
    case greedy:
      return false;
    case LRRangeTest:
    case OneCycle:
    case WarmupLR:
    case WarmupDecayLR:
    case WarmupCosineLR:
    case ConstantWarmUpLR:
    case ConstantWithCoolDownLR:
    case LinearWithWarmUpLR:
    case CosineWithWarmUpLR:
    case CosineWithRestartsAndWarmUpLR:
    case PolynomialWithWarmUpLR:
    case WarmUpStableDecayLR:
    case CosineAnnealingLR:
    case CosineAnnealingWarmRestarts:
    case OptimizerParamScheduler:
      return true;
  }
  fail("schedule: no such type");
}

double class_rate(const ScheduleOptions& s, double base_lr, int64_t steps, int64_t step) {
  using enum ScheduleType;
  const double t = static_cast<double>(step);
  switch (s.type) {
    case OptimizerParamScheduler:
      return param_scheduler(s, base_lr, steps, t);
    case LRRangeTest:
      return range_test(s.classes, t);
    case OneCycle:
      return one_cycle(s.classes, t);
    case WarmupLR:
    case WarmupDecayLR:
    case WarmupCosineLR:
      return warmup_rate(s, base_lr, static_cast<double>(s.classes.total_num_steps > 0 ? s.classes.total_num_steps : steps),
                         t - 1);
    default:
      return mindformers_rate(s, base_lr, steps, t);
  }
}

std::optional<std::array<double, 2>> class_betas(const ScheduleOptions& s, int64_t step) {
  const ScheduleClasses& c = s.classes;
  if (s.type != ScheduleType::OneCycle || !c.cycle_momentum) return std::nullopt;
  const Cycle at = cycle_at(c, static_cast<double>(step));
  double beta = step == 0 ? c.cycle_min_mom  // the initial value, before the first update
                : at.over ? c.cycle_max_mom * (1 + c.decay_mom_rate * at.decayed)
                          : c.cycle_max_mom - (c.cycle_max_mom - c.cycle_min_mom) * at.scale;
  if (!(beta < 1))
    throw UserError(fmt::format("update {}: the first beta would be {}", step + 1, beta), "schedule.decay_mom_rate",
                    "after its cycle OneCycle raises the first beta, which must stay below 1",
                    "lower schedule.decay_mom_rate, or set schedule.cycle_momentum=false");
  return std::array<double, 2>{beta, 0.99};
}

}  // namespace ravine
