// Checks that all ranks of a run write to the same folder.
#pragma once
#include <string>

#include "comm/ranks.h"

namespace ravine {

// Checks that all ranks see the same output folder: each rank writes a file into a folder made by the first rank, which
// looks for all files. A UserError on all ranks if a rank cannot write to `output`, or sees another folder there.
// `digits`: a text that is the same on all ranks, used in the names of these files. `world`: the ranks of the job; null
// for a single rank. All ranks call it together.
void check_shared(const Ranks& ranks, const World* world, const std::string& output, const std::string& digits);

}  // namespace ravine
