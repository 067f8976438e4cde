// Describes a dump of any program that compare reads (probe/dump_kinds.h).
#pragma once
#include <string>

#include "base/json.h"

namespace ravine {

Json describe_dump(const std::string& path, bool list);

}  // namespace ravine
