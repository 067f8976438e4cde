// Environment variables that jobs of other programs set for their runtime, and their effect in Ravine.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// Returns the variables of the table that are set in this process, by name.
std::map<std::string, std::string> foreign_environment();

// Returns a line for each set variable that has no effect on the run, with the reason.
std::vector<std::string> environment_notices(const std::map<std::string, std::string>& set);

// Translates the dump in the file of MINDSPORE_DUMP_CONFIG into probe.dump. The file counts iterations from 0, the run
// counts steps from 1. A setting without a counterpart is refused, with a value that has one.
void set_mindspore_dump(Translation& t, const std::map<std::string, std::string>& set);

}  // namespace ravine
