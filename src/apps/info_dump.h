// What `ravine info` says about a dump of any program that compare takes (probe/dump_kinds.h).
#pragma once
#include <string>

#include "base/json.h"

namespace ravine {

Json describe_dump(const std::string& path, bool list);

}  // namespace ravine
