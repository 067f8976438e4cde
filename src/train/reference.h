// Log-probabilities of preference pairs under the reference model: worked out once, by the engine of the run itself before it
// has the run's weights, so no second model is ever in memory; kept in train.output/reference.safetensors for every later
// start.
#pragma once
#include <vector>

#include "base/stop_token.h"
#include "runs/opened_run.h"
#include "runs/resume.h"

namespace ravine {

class ReferenceLogProbs {
 public:
  explicit ReferenceLogProbs(int64_t pairs = 0);
  bool knows(const std::vector<int64_t>& pairs) const;
  // Of the pairs in order, two each: the chosen, the rejected. Elsewhere it stays as it is.
  void note(const std::vector<int64_t>& pairs, const std::vector<double>& values);
  void fill(MicroBatch& micro) const;  // micro.reference; all must be known. Nothing without pairs
  std::vector<double>& values() { return values_; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;  // two of each pair; NaN: not known
};

struct References {
  ReferenceLogProbs train, valid;
};

// Of train.objective=dpo what the steps from progress.done on and their validations take; else nothing. The reference is
// dpo.reference, or the model as the run began; adapters are zero while it runs, which is the base without them. The engine is
// allocated and its weights are anything behind it. What is in the file is not worked out again; who asks to stop ends it
// early, and what is known by then is kept. A reference of then that is not there any more is a UserError. All ranks call it.
References reference_log_probs(const OpenedRun& run, const Progress& progress, const StopToken& stop);

}  // namespace ravine
