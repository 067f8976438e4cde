// Calls that two ranks' records have in common.
#pragma once
#include <string>
#include <unordered_set>

#include "probe/dump_log.h"

namespace ravine {

struct CommonCalls {
  // That both have and that read the same tensors. One that reads others (a norm that adds the branch and one that does not)
  // computes another thing under the same name.
  std::unordered_set<std::string> all;
  std::unordered_set<std::string> partly;  // of these, where another program's trace has not all that is read
};

CommonCalls common_calls(const RankDump& a, const RankDump& b, bool of_modules);

}  // namespace ravine
