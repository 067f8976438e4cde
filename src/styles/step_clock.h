// wall_clock_breakdown of DeepSpeed: the times of each step, in its format (deepspeed/utils/timer.py,
// runtime/engine.py).
//
//   [Rank 0] time (ms) | fwd_microstep: 3.10 | bwd_microstep: 6.52 | bwd_inner_microstep: 6.52 | ..
//   [Rank 0] time (ms) | fwd: 12.40 | bwd: 26.20 | bwd_inner: 26.08 | bwd_allreduce: 0.12 | step: 1.75
//
// The first line is printed for each micro batch of the first rank, the second for the step. bwd_inner is the backward
// pass and bwd is bwd_inner + bwd_allreduce. bwd_allreduce is the time that the sum over data ranks takes after the
// backward pass; only the last micro batch has it.
#pragma once
#include <memory>

#include "train/hooks.h"

namespace ravine {

// Returns the hook that logs the times of each step in DeepSpeed's format. micro: true also logs a line for each micro
// batch.
std::unique_ptr<Hook> step_clock_hook(bool micro);

}  // namespace ravine
