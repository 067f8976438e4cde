// Schedules of pipelines as people see them.
#pragma once
#include <string>

#include "parallel/schedule.h"

namespace ravine {

// A chart: one line per stage; letters and digits as in `F3`: forward of micro batch 3.
std::string pipeline_chart(const PipelineTimes& times);
std::string pipeline_svg(const PipelineTimes& times);
double pipeline_svg_height(const PipelineTimes& times);  // in pixels; its width is 1280

}  // namespace ravine
