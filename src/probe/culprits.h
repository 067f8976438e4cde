// Culprits: pairs above their bounds, as a comparison reports them (compare_dumps.h).
#pragma once
#include <vector>

#include "probe/comparison.h"
#include "probe/dump_log.h"

namespace ravine {

constexpr const char* kScalars = "scalars";  // of an update: learning rate, bias corrections, clipping

// True if the tensor of a parameter is its gradient, which a call adds to or the update reads.
bool is_gradient(const DumpRecord& r);

// Returns the culprit of a pair of a rank; a and b are the dumps of this rank. given: the pair is a parameter before
// the first step. `place` is not set.
Culprit culprit_of(const ComparedPair& p, bool given, const RankDump& a, const RankDump& b);

// Adds a culprit. Calls of one op with the same fault are one culprit.
void add_culprit(std::vector<Culprit>& to, Culprit c);

// Drops modules around a culprit: a module writes the fault of the module inside it, too.
void drop_modules_around(std::vector<Culprit>& culprits);

}  // namespace ravine
