// Which options somebody asked for: `sources` of a Config knows what was given, but a run's config.yaml gives all of them.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "config/config.h"

namespace ravine {

// Names of the options that were given. Of a file that lists options, most of which are as they are anyhow, a value that is the
// option's default is no wish.
std::set<std::string> asked_options(const Config& config);

// Of these, those that belong to another value of their selector (config/takes.h), in the order of the option table.
std::vector<std::string> asked_in_vain(const Config& config, bool harmless);

// Where optimizer.type or schedule.type is given behind the file, on the command line, what the file says for its own type and
// the other does not take becomes the default again. `sources` keeps, as "OPTION, left aside", where it was said. Before the
// defaults of the type and validate().
void leave_aside(Config& config);

// Of what was left aside, what to say: "schedule.warmup_steps of run.yaml:4 has no effect with schedule.type=OneCycle".
std::vector<std::string> left_aside(const Config& config);

}  // namespace ravine
