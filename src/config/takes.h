// The options that apply only under some values of another option, their selector: optimizer.type, schedule.type, ...
// One table gives help texts, rules between options and notes. The rows of optimizer.type are in config/optimizers.def.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace ravine {

// The condition under which an option applies: the option that selects it, and the values of that selector.
struct Taken {
  std::string selector;             // "schedule.type"
  std::vector<std::string> values;  // values of the selector that take the option
  // Under other values of the selector the option has no effect, with a note (true), or is refused (false).
  bool harmless = false;
};
// Returns the condition of an option, e.g. "schedule.t_max"; null if the option always applies.
const Taken* taken_by(const std::string& option);

// Returns the end of an option's help text that names the values under which it applies: " (optimizer.type lamb,
// onebit_lamb)"; "" if the option always applies.
std::string taken_text(const std::string& option);

// Returns the condition of an option as text: "log.style=mindformers", "data.order=mindspore or mindspore-whole".
std::string selected_text(const Taken& taken);

// True if the option `key` of section schedule applies to this type. type, steps and lr_scale apply to all types.
bool takes_setting(ScheduleType type, std::string_view key);
// True if count_steps replaces schedule.warmup_ratio by warmup_steps: for Ravine's own types. The schedules of other
// programs apply the ratio to another length.
bool makes_steps_of_ratio(ScheduleType type);
// True if the option `key` of section schedule may be set with this type. The option applies to the type, or it is a
// warmup_steps or min_lr_ratio of 0, which has no effect.
bool accepts_key(const ScheduleOptions& schedule, std::string_view key);

}  // namespace ravine
