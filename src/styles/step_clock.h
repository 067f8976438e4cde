// wall_clock_breakdown of DeepSpeed: the times of each step in its words (deepspeed/utils/timer.py, runtime/engine.py).
//
//   [Rank 0] time (ms) | fwd_microstep: 3.10 | bwd_microstep: 6.52 | bwd_inner_microstep: 6.52 | bwd_allreduce_microstep: 0.00 | ..
//   [Rank 0] time (ms) | fwd: 12.40 | bwd: 26.20 | bwd_inner: 26.08 | bwd_allreduce: 0.12 | step: 1.75
//
// The first line comes for each micro batch of the first rank, the second for the step. bwd_inner is the backward pass; what is
// left of the sum over data ranks behind it is bwd_allreduce, of the last micro batch; bwd is both.
#pragma once
#include <memory>

#include "train/hooks.h"

namespace ravine {

// `micro`: the lines of micro batches too.
std::unique_ptr<Hook> step_clock_hook(bool micro);

}  // namespace ravine
