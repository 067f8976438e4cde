// Which arguments of schedule_classes.h a schedule.type takes. What Ravine's own types and these classes share is not among
// them: where it has no effect a run says so (train/advice.cpp).
#pragma once
#include <string_view>
#include <vector>

#include "config/choices.h"

namespace ravine {

// Whether `key` is such an argument at all.
bool is_class_argument(std::string_view key);
bool takes_argument(ScheduleType type, std::string_view key);

}  // namespace ravine
