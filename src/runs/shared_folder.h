// Whether the ranks of a run write into one folder.
#pragma once
#include <string>

#include "comm/ranks.h"

namespace ravine {

// Of several ranks all write their parts of checkpoints into one folder: each makes a file in one that the first has made,
// which looks for them. A UserError on all ranks where one cannot write to `output`, or sees another folder there. `digits`:
// the same on all ranks; `world`: theirs, null of one alone. All ranks call it.
void check_shared(const Ranks& ranks, const World* world, const std::string& output, const std::string& digits);

}  // namespace ravine
