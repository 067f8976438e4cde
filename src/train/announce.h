// What a run says of itself before its first step.
#pragma once
#include "runs/opened_run.h"

namespace ravine {

// Likely mistakes, model, arithmetic, ranks, memory, data, and how long the run may take from step `done` on. `peak_flops`: of
// all ranks together, per second. Returns the seconds of a step as estimated, on the first rank; 0 on others. All ranks call
// it, before the engine has memory.
double announce(const OpenedRun& run, int64_t done, double peak_flops);

}  // namespace ravine
