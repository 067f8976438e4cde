// Pictures of pipeline schedules.
#pragma once
#include <string>

#include "parallel/schedule.h"

namespace ravine {

// Returns a text chart of a pipeline schedule with one line per stage. F3 is the forward pass of micro batch 3, B3 its
// backward pass.
std::string pipeline_chart(const PipelineTimes& times);
std::string pipeline_svg(const PipelineTimes& times);
double pipeline_svg_height(const PipelineTimes& times);  // in pixels; the width is 1280

}  // namespace ravine
