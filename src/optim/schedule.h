// The learning rate over the steps: a pure function, in the arithmetic of Transformers' optimization.py.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace ravine {

// The rate of optimizer step `step_index` (from 0) of a run of `total_steps` steps (schedule.steps, if given, takes its place):
// base_lr, which is optimizer.lr, times a factor. During warm-up the factor rises from 0 (warmup_stable_decay: from
// min_lr_ratio). Behind the end the rate stays at its last value: 0 of restarts, and that of the end of its wave of cosine and
// cosine_warmup_with_min_lr, which rise again in Transformers. cosine_warmup_with_min_lr rises from schedule.warmup_lr_ratio or, without
// it, to base_lr at the last step of the warm-up, and is a step ahead in its wave. A polynomial whose end_lr is not below base_lr
// is a UserError. Of a schedule that follows the validation loss (plateau.h) it is base_lr.
// Other programs' classes: class_schedules.h. Whatever the type, schedule.lr_scale is a factor.
double learning_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);
// The same by the formula alone, which rises again behind the end where that of Transformers does: for replay (probe).
double formula_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);

// What the schedule says of an update: its rate, and betas in place of optimizer.betas where it makes them.
struct UpdateRates {
  double lr = 0;
  std::optional<std::array<double, 2>> betas = {};
  UpdateRates(double rate) : lr(rate) {}  // NOLINT(google-explicit-constructor): most have nothing else
};

UpdateRates rates_of_update(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);

}  // namespace ravine
