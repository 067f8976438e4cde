// Lengths of a run that are asked for as shares of something else.
#pragma once
#include <cstdint>

#include "config/config.h"

namespace ravine {

// train.epochs becomes train.steps, as many as take so many passes, and schedule.warmup_ratio of Ravine's own types (those of other
// programs count it themselves) becomes schedule.warmup_steps of schedule.steps, or of train.steps. Both are rounded up.
// `samples`: sequences of one pass over the data; 0: not known yet, then what needs it stays as it is.
void count_steps(Config& config, int64_t samples = 0);

}  // namespace ravine
