// How near steps of training come to what products and memory allow on this machine: what every predicted step is divided by.
#pragma once
#include "kernels/kernels.h"
#include "kernels/peaks.h"

namespace ravine {

// A step of a small Llama (hidden 768, 2 layers, 2 sequences of 512 tokens, f32), estimated from `peaks` alone, by the median
// of five that are timed. Takes a few seconds and about 300 MB.
double measure_step_share(const MachinePeaks& peaks);

}  // namespace ravine
