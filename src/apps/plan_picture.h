// The picture of `ravine plan --svg`: the work of each pipeline stage over a step, and its memory below.
#pragma once
#include <string>
#include <vector>

#include "plan/estimate.h"
#include "step/step.h"

namespace ravine {

// Returns one <svg> document without external references. stages: memory of a rank of each pipeline stage. Each bar has
// its value as data-bytes, and data-stage, data-phase and data-kind; the line of a stage's total has data-total.
std::string plan_picture(const StepEstimate& estimate, const std::vector<RunMemory>& stages);

}  // namespace ravine
