// Learning rate schedules that other programs name by their classes: DeepSpeed 0.19 (runtime/lr_schedules.py),
// MindFormers 1.6 (core/lr/lr_schedule.py) and Megatron-LM (optimizer_param_scheduler.py). Arguments:
// config/schedule_classes.h.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace ravine {

bool is_class_schedule(ScheduleType type);

// Returns the learning rate of update `step` (from 0). `steps` is the length of the schedule, unless the class has its
// own length. MindFormers counts updates from 0 too. DeepSpeed's first two updates share a learning rate: DeepSpeed
// sets the rate after each update and counts from -1. Its LRRangeTest and OneCycle count from the first update. After
// the end the formula continues as upstream (below zero for WarmUpStableDecayLR); a run keeps the last rate
// (schedule.h).
double class_rate(const ScheduleOptions& schedule, double base_lr, int64_t steps, int64_t step);

// Returns both betas of update `step` if the schedule sets them: OneCycle with cycle_momentum. A beta of 1 or more is a
// UserError.
std::optional<std::array<double, 2>> class_betas(const ScheduleOptions& schedule, int64_t step);

}  // namespace ravine
