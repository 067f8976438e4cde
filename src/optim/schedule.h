// The learning rate over the steps: a pure function, in the arithmetic of Transformers' optimization.py.
#pragma once
#include <cstdint>

#include "config/config.h"

namespace ravine {

// The rate of optimizer step `step_index` (from 0) of a run of `total_steps` steps (schedule.steps, if given, takes its place):
// base_lr, which is optimizer.lr, times a factor. During warm-up the factor rises from 0 (warmup_stable_decay: from
// min_lr_ratio). Steps past the end are as there: linear, polynomial and warmup_stable_decay stay where they ended, restarts
// are 0, cosine follows its wave. A polynomial whose end_lr is not below base_lr is a UserError.
double learning_rate(const ScheduleOptions& schedule, double base_lr, int64_t total_steps, int64_t step_index);

}  // namespace ravine
