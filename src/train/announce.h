// The log lines of a run before its first step.
#pragma once
#include "runs/opened_run.h"

namespace ravine {

// Logs a run before its first step: likely mistakes, model, arithmetic, ranks, memory, data, and an estimate of the
// remaining time. `done`: the number of steps already done. `peak_flops`: FLOP/s of all ranks together. Returns the
// estimated seconds of one step on the first rank, 0 on other ranks. All ranks call it together, before the engine
// allocates memory.
double announce(const OpenedRun& run, int64_t done, double peak_flops);

}  // namespace ravine
