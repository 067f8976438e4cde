// The options that apply only under some values of another option, their selector: optimizer.type, schedule.type, ...
// One table gives help texts, rules between options and notes. The rows of optimizer.type are in config/optimizers.def.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace ravine {

// The selector of an option and its values under which the option applies.
struct Taken {
  std::string selector;             // "schedule.type"
  std::vector<std::string> values;  // values of the selector that take the option
  // Under other values: true if the option has no effect, with a note; false if it is refused.
  bool harmless = false;
};
// Returns the entry of an option, e.g. "schedule.t_max"; null if the option always applies.
const Taken* taken_by(const std::string& option);

// Returns the help text " (optimizer.type lamb, onebit_lamb)"; "" if the option always applies.
std::string taken_text(const std::string& option);

// Returns "log.style=mindformers", "data.order=mindspore or mindspore-whole".
std::string selected_text(const Taken& taken);

// True if the schedule takes the option `key` of its section. All take type, steps and lr_scale.
bool takes_setting(ScheduleType type, std::string_view key);
// True if count_steps turns warmup_ratio into warmup_steps: Ravine's own types. Those of other programs use another
// length.
bool makes_steps_of_ratio(ScheduleType type);
// True if the type takes the option, or its value holds for every type: no warmup, no lowest learning rate.
bool may_say(const ScheduleOptions& schedule, std::string_view key);

}  // namespace ravine
