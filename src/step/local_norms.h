// Norms of the gradients of each rank alone, before the sum over data ranks (FlatGrads::record_unreduced). MindFormers'
// local_norm is the sum of squares; its guide and others mean the root. Both are shown, with these names.
#pragma once
#include <string>
#include <vector>

#include "step/step.h"

namespace ravine {

// The local norms of one parameter by rank: sums of squares of the gradient of each rank alone, before the sum over
// data ranks. Filled by gather_local_norms.
struct LocalNorm {
  std::string parameter;
  std::vector<int> ranks;       // the ranks that hold the parameter or a part of it
  std::vector<double> squares;  // of each of these ranks: the sum of squares of the gradient of its part
  std::vector<int64_t> counts;  // of each of these ranks: the number of elements of its part
};

// Returns the local norms (gradients of each rank alone, before the sum over data ranks) of the last step. Included are
// parameters whose names match the glob `pattern`, in the order of the model. A tied parameter is listed once. All
// ranks call it together and get the same list.
std::vector<LocalNorm> gather_local_norms(StepEngine& engine, const std::string& pattern);

// Returns the sum of squares of this rank's own gradient of the token embedding in the last step (see
// FlatGrads::record_unreduced); 0 if this rank holds no part of it.
double embedding_squares(StepEngine& engine);

}  // namespace ravine
