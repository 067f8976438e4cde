// Diagnosis of a loss, a gradient norm or a weight that is not finite.
#pragma once
#include <string>
#include <vector>

#include "step/fault_injection.h"
#include "step/step.h"

namespace ravine {

// Looks for a weight that is not finite, on all ranks. Returns a text on the first one, "weight 'NAME' holds nan at
// element 5"; "" if all are finite. All ranks call it together. Host work, after a failure.
std::string bad_weight(StepEngine& engine);

// Finds the kernel call that wrote the first NaN or infinity of a failed step. Returns it as the end of a sentence: ";
// first: silu at ...". Runs the step again under a NanObserver, without an update. `injection`: the faults to inject
// again, null for no faults. The first rank that finds an origin reports it. All ranks call it together. The engine
// runs no step afterwards.
std::string origin_of_nan(StepEngine& engine, const std::vector<MicroBatch>& micros, int64_t step, FaultInjection* injection);

// Throws the Error that ends the run after a step whose loss or gradient norm is not finite. The message says if all
// weights are finite, and ends in `origin` (the text of origin_of_nan). All ranks call it together, when no checkpoint
// is being written.
[[noreturn]] void end_not_finite(StepEngine& engine, int64_t step, const StepResult& result, const std::string& origin);

}  // namespace ravine
