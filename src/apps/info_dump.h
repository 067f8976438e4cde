// What `ravine info` says about a dump of `probe.dump` (probe/dump_log.h).
#pragma once
#include <string>

#include "base/json.h"

namespace ravine {

Json describe_dump(const std::string& path, bool list);

}  // namespace ravine
