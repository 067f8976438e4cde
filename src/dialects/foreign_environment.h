// Variables of the environment that jobs of other programs set for their runtime, and their meaning here.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// The variables of this process that the table names, by name.
std::map<std::string, std::string> foreign_environment();

// A line for each variable of the table that is set: the reason why it changes nothing of the run.
std::vector<std::string> environment_notices(const std::map<std::string, std::string>& set);

// MINDSPORE_DUMP_CONFIG: the dump that its file asks for becomes probe.dump. The file counts iterations from 0 and the run from 1.
// A setting without a counterpart is refused with one that has.
void set_mindspore_dump(Translation& t, const std::map<std::string, std::string>& set);

}  // namespace ravine
