// Learning rates of the schedules that other programs name by their classes: DeepSpeed 0.19 (runtime/lr_schedules.py),
// MindFormers 1.6 (core/lr/lr_schedule.py) and Megatron-LM (optimizer_param_scheduler.py). Arguments: config/schedule_classes.h.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace ravine {

bool is_class_schedule(ScheduleType type);

// The rate of the update `step` (from 0) of a run whose schedule is `steps` long; the class's own length, where it has one,
// takes its place. MindFormers counts as this does; DeepSpeed's first two updates share a rate, since it sets a rate behind
// each update and counts these from -1, but LRRangeTest and OneCycle count from the first. Behind its end the formula goes on
// as there (that of WarmUpStableDecayLR below zero); a run stays at the last rate (schedule.h).
double class_rate(const ScheduleOptions& schedule, double base_lr, int64_t steps, int64_t step);

// Both betas of the update `step` where the schedule makes them: OneCycle with cycle_momentum. A beta of 1 or more is a
// UserError.
std::optional<std::array<double, 2>> class_betas(const ScheduleOptions& schedule, int64_t step);

}  // namespace ravine
