// Which settings of the section a schedule.type takes.
#pragma once
#include <string_view>

#include "config/config.h"

namespace ravine {

// type, steps and lr_scale are taken by all.
bool takes_setting(ScheduleType type, std::string_view key);

// Whether its type takes the setting, or the value is true of every type: no warm-up, no lowest rate.
bool may_say(const ScheduleOptions& schedule, std::string_view key);

}  // namespace ravine
