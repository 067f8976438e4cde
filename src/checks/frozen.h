// The judgement of a run without updates: losses and gradient norms against another program's, on the same
// weights and data. Steps do not depend on one another, so the cause of an outlying step is in its own batch.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "probe/curve_file.h"

namespace ravine {

// The limits of the precision guide's case: losses within 0.001, global norms within 0.05.
struct FrozenLimits {
  double loss = 0.001, norm = 0.05;
};

// The result of judge_frozen().
struct FrozenVerdict {
  struct Step {
    int64_t step = 0;
    double loss = 0, norm = 0;  // differences; norm is 0 if a side has none
    bool beyond = false;        // beyond a limit; false: within, but far from all other steps
  };
  int64_t steps = 0, with_norm = 0;  // steps that both have; of these with norms
  // Mean differences with their signs, and the largest |difference|.
  double loss_mean = 0, loss_most = 0, norm_mean = 0, norm_most = 0;
  std::vector<Step> out;    // steps that stand out, the largest first
  bool all_beyond = false;  // most steps are beyond: no batch is at fault
  bool agrees() const;
  std::string text(const FrozenLimits& limits) const;
  Json json(const FrozenLimits& limits) const;
};

// Compares two curves at their common steps. A UserError if there are none.
FrozenVerdict judge_frozen(const TrainingCurve& ours, const TrainingCurve& theirs, const FrozenLimits& limits);

}  // namespace ravine
