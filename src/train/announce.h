// The log lines of a run before its first step.
#pragma once
#include "runs/opened_run.h"

namespace ravine {

// Logs likely mistakes, model, arithmetic, ranks, memory, data, and an estimate of the time from step `done` on.
// `peak_flops`: of all ranks together, per second. Returns the estimated seconds of a step on the first rank, 0 on
// other ranks. All ranks call it together, before the engine allocates memory.
double announce(const OpenedRun& run, int64_t done, double peak_flops);

}  // namespace ravine
