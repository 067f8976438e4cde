// The learning rate as a function of the step, in the arithmetic of Transformers' optimization.py. Pure functions.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace ravine {

// The end of a learning rate schedule; the result of end_of.
struct ScheduleEnd {
  const char* key = "";  // option that sets the length (total_steps, total_num_steps, lr_decay_steps, steps); "": none
  int64_t length = 0;    // length in steps; if `key` is "", the length of the run
  int64_t update = 0;    // number of the update, from 0: it and all later updates have the last learning rate
};

// Returns the end of the schedule in a run of `total_steps` steps. If the warmup is longer than the schedule, the
// schedule ends with the warmup.
ScheduleEnd end_of(const ScheduleOptions& schedule, int64_t total_steps);

// Returns the learning rate of update `step_index` (from 0) of a run of `total_steps` steps. The schedule's own length,
// if set, replaces `total_steps`. The rate is base_lr (optimizer.lr) times a factor and schedule.lr_scale. During
// warmup the factor rises from 0 (warmup_stable_decay: from min_lr_ratio). After the end of any schedule the rate keeps
// its last value, even if the formula would change it. cosine_warmup_with_min_lr rises from schedule.warmup_lr_ratio,
// or from 1 / warmup steps if that is 0, and reaches base_lr at the last step of the warmup. Its cosine is one step
// ahead. A polynomial whose end_lr is not below base_lr is a UserError. For a schedule that follows the validation loss
// (plateau.h) the result is base_lr. Classes of other programs: class_schedules.h.
double learning_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);
// Returns the learning rate of update `step_index` (from 0) by the formula alone, which continues after the end of the
// schedule as in the other program. Used by replay (probe).
double formula_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);

// The learning rate of an update, and the betas that replace optimizer.betas if the schedule sets them. The result of
// rates_of_update.
struct UpdateRates {
  double lr = 0;
  std::optional<std::array<double, 2>> betas = {};
  UpdateRates(double rate) : lr(rate) {}  // NOLINT(google-explicit-constructor): most have nothing else
};

// Returns the learning rate and betas of update `step_index` (from 0). After the end of the schedule, the values at its
// end are returned.
UpdateRates rates_of_update(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);

}  // namespace ravine
