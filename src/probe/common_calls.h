// The calls that the records of two ranks have in common.
#pragma once
#include <string>
#include <unordered_set>

#include "probe/dump_log.h"

namespace ravine {

// The calls that two dumps of a rank have in common, by DumpRecord::call(): the result of common_calls().
struct CommonCalls {
  // The common calls: in both dumps, with input tensors of the same names; also those in `partly`. A call with other
  // input names (a norm with and without the branch) computes something else, and is not common.
  std::unordered_set<std::string> all;
  std::unordered_set<std::string> partly;  // the common calls of which one dump lacks some inputs that the other has
};

// Returns the calls that two dumps of a rank have in common. of_modules: true if one is a trace of another program; a
// call is then also common if one dump lacks some of its inputs.
CommonCalls common_calls(const RankDump& a, const RankDump& b, bool of_modules);

}  // namespace ravine
