// The share of the peak rates (products and memory) that training steps reach on this machine. Estimates of a step are
// divided by it.
#pragma once
#include "kernels/kernels.h"
#include "kernels/peaks.h"

namespace ravine {

// Measures the share of the peak rates that training steps reach: the estimated time / the measured time of one step.
// The step is of a small Llama (hidden 768, 2 layers, 2 sequences of 512 tokens, f32). The estimate uses `peaks` alone;
// the measured time is the median of five steps. Takes a few seconds and about 300 MB.
double measure_step_share(const MachinePeaks& peaks);

}  // namespace ravine
