// Log-probabilities of preference pairs under the reference model. The engine of the run computes them once, before it
// loads the weights of the run, so one model is in memory at a time. train.output/reference.safetensors keeps them for
// later starts.
#pragma once
#include <vector>

#include "base/stop_token.h"
#include "runs/opened_run.h"
#include "runs/resume.h"

namespace ravine {

// The log-probabilities of both answers of every preference pair of one dataset under the reference model. NaN: not
// known yet.
class ReferenceLogProbs {
 public:
  explicit ReferenceLogProbs(int64_t pairs = 0);
  bool knows(const std::vector<int64_t>& pairs) const;
  // Stores the log-probabilities of the pairs with these indices: two values each, chosen then rejected. Other pairs
  // keep their values.
  void note(const std::vector<int64_t>& pairs, const std::vector<double>& values);
  void fill(MicroBatch& micro) const;  // sets micro.reference; all pairs must be known; does nothing if there are none
  std::vector<double>& values() { return values_; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;  // two for each pair; NaN: unknown
};

// The log-probabilities under the reference model for training and validation data. The result of reference_log_probs.
struct References {
  ReferenceLogProbs train, valid;
};

// Computes the log-probabilities of preference pairs under the reference model, for the steps from progress.done on and
// for their validations; empty without train.objective=dpo. The reference is dpo.reference, or the initial model of the
// run. Adapters are zero during the computation, so the reference of an adapter run is its base. The engine must be
// allocated; its weights are undefined afterwards. Values in train.output/reference.safetensors are not computed again.
// A stop request ends the computation early; computed values are stored. Missing initial weights are a UserError. All
// ranks call it together.
References reference_log_probs(const OpenedRun& run, const Progress& progress, const StopToken& stop);

}  // namespace ravine
