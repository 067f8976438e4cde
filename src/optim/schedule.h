// The learning rate over the steps: a pure function, in the arithmetic of Transformers' optimization.py.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace ravine {

// Where a schedule ends.
struct ScheduleEnd {
  const char* key = "";  // the setting that says its length (total_steps, total_num_steps, lr_decay_steps, steps); none: ""
  int64_t length = 0;    // in steps; without a key that of the run
  int64_t update = 0;    // from 0: this one and all behind it have the last rate
};

// A warm-up that is longer goes on to its own end.
ScheduleEnd end_of(const ScheduleOptions& schedule, int64_t total_steps);

// The rate of optimizer step `step_index` (from 0) of a run of `total_steps` steps (the schedule's own length, if given, takes
// its place): base_lr, which is optimizer.lr, times a factor. During warm-up the factor rises from 0 (warmup_stable_decay: from
// min_lr_ratio). Behind the end of any schedule the rate stays at its last value, also where the formula would change it.
// cosine_warmup_with_min_lr rises from schedule.warmup_lr_ratio or, without it, to base_lr at the last step of the warm-up, and
// is a step ahead in its wave. A polynomial whose end_lr is not below base_lr is a UserError. Of a schedule that follows the
// validation loss (plateau.h) it is base_lr. Other programs' classes: class_schedules.h. Whatever the type, schedule.lr_scale is
// a factor.
double learning_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);
// The same by the formula alone, which goes on behind the end as that of the other program does: for replay (probe).
double formula_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);

// What the schedule says of an update: its rate, and betas in place of optimizer.betas where it makes them.
struct UpdateRates {
  double lr = 0;
  std::optional<std::array<double, 2>> betas = {};
  UpdateRates(double rate) : lr(rate) {}  // NOLINT(google-explicit-constructor): most have nothing else
};

// Behind the end of the schedule those of its end.
UpdateRates rates_of_update(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);

}  // namespace ravine
