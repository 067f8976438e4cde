// Culprits: pairs above their bounds, as a comparison reports them (compare_dumps.h).
#pragma once
#include <optional>
#include <vector>

#include "probe/comparison.h"
#include "probe/dump_log.h"

namespace ravine {

// The name of the tensor of numbers that an update reads: learning rate, bias corrections, clipping.
constexpr const char* kScalars = "scalars";

// True if a record of a parameter's tensor is its gradient, by the tensor's name; false for values of the parameter.
bool is_gradient(const DumpRecord& r);

// Describes a pair of tensors above its bound as a culprit. given: true if the pair is a parameter before the first
// step. a, b: the two dumps of the pair's rank. `order` of the result is not set.
Culprit culprit_of(const ComparedPair& p, bool given, const RankDump& a, const RankDump& b);

// Adds a culprit to a list. If the list has one of the same op with the same fault, only its count `alike` is
// increased, and the earlier of the two in the run is kept.
void add_culprit(std::vector<Culprit>& to, Culprit c);

// Removes a culprit if an earlier culprit of its rank is a module inside it (with a longer path). The output of the
// outer module shows the fault of the inner one.
void drop_modules_around(std::vector<Culprit>& culprits);

// Returns the difference of the update rules of two runs of Ravine, whose calls have no partners; nothing if both have
// the same rule, or if a dump has no update.
std::optional<Culprit> other_update_rule(const Dump& a, const Dump& b);

}  // namespace ravine
