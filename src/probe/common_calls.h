// The calls that the records of two ranks have in common.
#pragma once
#include <string>
#include <unordered_set>

#include "probe/dump_log.h"

namespace ravine {

// The common calls of two ranks, by DumpRecord::call().
struct CommonCalls {
  // Calls in both dumps that read tensors of the same names. A call that reads others (a norm with and without the
  // branch) computes something else under the same name.
  std::unordered_set<std::string> all;
  std::unordered_set<std::string> partly;  // calls of which another program's trace lacks some inputs
};

// Returns the common calls. of_modules: a call may lack inputs of the other.
CommonCalls common_calls(const RankDump& a, const RankDump& b, bool of_modules);

}  // namespace ravine
