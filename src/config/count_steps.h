// The length of a run, if it is set as a share of something else.
#pragma once
#include <cstdint>

#include "config/config.h"

namespace ravine {

// Replaces train.epochs by train.steps, and schedule.warmup_ratio by schedule.warmup_steps. Both are rounded up.
// warmup_ratio is a share of schedule.steps, or else of train.steps. Schedules of other programs apply it themselves.
// `samples` is the number of sequences in an epoch. If it is 0 (not known yet), values that need it stay.
void count_steps(Config& config, int64_t samples = 0);

}  // namespace ravine
