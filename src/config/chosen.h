// The options that the user chose. `Config::sources` has all options that were set, but a run's config.yaml sets every
// option.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "config/config.h"

namespace ravine {

// Returns the names of the options that the user set in a file or on the command line. In a file that sets 50 options
// or more, a default value is not counted.
std::set<std::string> chosen_options(const Config& config);

// Returns the options that the user chose but that do not apply, since their selector has another value
// (config/takes.h), in the order of the option table. `harmless` selects the options that have no effect (true), or the
// options that are refused (false).
std::vector<std::string> unused_options(const Config& config, bool harmless);

// Resets options that do not apply. If the command line sets optimizer.type or schedule.type, options that the file
// sets for its own type, and that the new type does not take, get their defaults. `sources` keeps their places under
// "OPTION, left aside". Called before the defaults of the type and validate().
void leave_aside(Config& config);

// Returns a line for each option that leave_aside has reset: "schedule.warmup_steps of run.yaml:4 has no effect with
// schedule.type=OneCycle".
std::vector<std::string> left_aside(const Config& config);

}  // namespace ravine
