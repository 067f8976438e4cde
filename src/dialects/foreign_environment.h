// Environment variables that jobs of other programs set for their runtime, and their effect in Ravine.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// Returns the environment variables of this process that other programs' jobs use for their runtime (by a table), with
// their values.
std::map<std::string, std::string> foreign_environment();

// Returns a line for the user for each variable that has no effect on a run of Ravine, with the reason. set: the result
// of foreign_environment().
std::vector<std::string> environment_notices(const std::map<std::string, std::string>& set);

// Translates the dump in the file of MINDSPORE_DUMP_CONFIG into probe.dump. The file counts iterations from 0, the run
// counts steps from 1. A setting without a counterpart is refused, with a value that has one.
void set_mindspore_dump(Translation& t, const std::map<std::string, std::string>& set);

}  // namespace ravine
