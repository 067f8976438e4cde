// What the gradients of parameters come to on each rank alone, before data ranks add them up (FlatGrads::watch_unreduced).
// MindFormers' local_norm is the sum of squares, its guide and others speak of the root: both are shown, under these names.
#pragma once
#include <string>
#include <vector>

#include "step/step.h"

namespace ravine {

struct LocalNorm {
  std::string parameter;
  std::vector<int> ranks;       // that hold it or a part of it
  std::vector<double> squares;  // of each of them: sum of squares of its part
  std::vector<int64_t> counts;  // of each: elements of its part
};

// Of the last step, of the parameters whose names match, in the order of the model, a tied one once. All ranks call it; the
// first gets them all.
std::vector<LocalNorm> gather_local_norms(StepEngine& engine, const std::string& pattern);

// The sum of squares for the table of token embeddings on this rank; 0 where it holds none.
double embedding_squares(StepEngine& engine);

}  // namespace ravine
