// Which options belong to a value of another one, their selector: optimizer.type, schedule.type, train.objective, .. One table, from
// which come help, rules between options and notices. The rows of optimizer.type are those of config/optimizers.def.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace ravine {

struct Taken {
  std::string selector;             // "schedule.type"
  std::vector<std::string> values;  // of it, that take the option
  // Elsewhere it has no effect, and that is said. Otherwise it is refused there.
  bool harmless = false;
};
// Of "schedule.t_max"; null: whatever others say, it counts.
const Taken* taken_by(const std::string& option);

// For help: " (optimizer.type lamb, onebit_lamb)"; "" where it always counts.
std::string taken_text(const std::string& option);

// "log.style=mindformers", "data.order=mindspore or mindspore-whole".
std::string selected_text(const Taken& taken);

// type, steps and lr_scale are taken by all.
bool takes_setting(ScheduleType type, std::string_view key);
// Of types that are Ravine's own: those of other programs count it themselves, over another length.
bool makes_steps_of_ratio(ScheduleType type);
// Whether its type takes the setting, or the value is true of every type: no warm-up, no lowest rate.
bool may_say(const ScheduleOptions& schedule, std::string_view key);

}  // namespace ravine
