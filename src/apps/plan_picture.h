// The picture of `ravine plan --svg`: what each stage of the pipeline does over a step, and below what memory that takes.
#pragma once
#include <string>
#include <vector>

#include "plan/estimate.h"
#include "step/step.h"

namespace ravine {

// stages: the memory of a rank of each pipeline stage. One <svg> document that needs nothing from outside. Each bar carries its
// number as data-bytes, beside data-stage, data-phase and data-kind; the line of a stage's total as data-total.
std::string plan_picture(const StepEstimate& estimate, const std::vector<RunMemory>& stages);

}  // namespace ravine
