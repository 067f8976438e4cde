// What a run says of a loss, a norm or a weight that is not finite.
#pragma once
#include <string>
#include <vector>

#include "step/fault_injection.h"
#include "step/step.h"

namespace ravine {

// "weight 'NAME' holds nan at element 5" of the first weight on any rank that is not finite; "" if all are. All ranks call it.
// Host work, after a failure.
std::string bad_weight(StepEngine& engine);

// Where the first number that is not finite came from: runs the step again under a NanWatch, with the faults that `injection`
// (null: none) plants, and without an update. As the end of a sentence, "; first: silu at ..", by the first rank that has one.
// All ranks call it; the engine runs nothing after it.
std::string origin_of_nan(StepEngine& engine, const std::vector<MicroBatch>& micros, int64_t step, FaultInjection* injection);

// Ends the run with what a step came to that is not finite: an Error that tells whether the weights still are, and ends in
// `origin`. All ranks call it, once no save is under way.
[[noreturn]] void end_not_finite(StepEngine& engine, int64_t step, const StepResult& result, const std::string& origin);

}  // namespace ravine
