// Log-probabilities of preference pairs under the reference model. The engine of the run computes them once, before it
// loads the weights of the run, so one model is in memory at a time. train.output/reference.safetensors keeps them for
// later starts.
#pragma once
#include <vector>

#include "base/stop_token.h"
#include "runs/opened_run.h"
#include "runs/resume.h"

namespace ravine {

// The log-probabilities of the pairs of one dataset; NaN for unknown pairs.
class ReferenceLogProbs {
 public:
  explicit ReferenceLogProbs(int64_t pairs = 0);
  bool knows(const std::vector<int64_t>& pairs) const;
  // Stores the values of `pairs`, two each: chosen, rejected. Other pairs keep their values.
  void note(const std::vector<int64_t>& pairs, const std::vector<double>& values);
  void fill(MicroBatch& micro) const;  // sets micro.reference; all pairs must be known; does nothing if there are none
  std::vector<double>& values() { return values_; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;  // two for each pair; NaN: unknown
};

// The log-probabilities of the training and validation data.
struct References {
  ReferenceLogProbs train, valid;
};

// Returns the log-probabilities that the steps from progress.done on and their validations need; empty without
// train.objective=dpo. The reference is dpo.reference, or the initial model of the run. Adapters are zero meanwhile, so
// the reference of an adapter run is its base. The engine must be allocated; its weights are undefined afterwards.
// Values of the file are not computed again. A stop request ends the computation early; values known by then are kept.
// Missing initial weights are a UserError. All ranks call it together.
References reference_log_probs(const OpenedRun& run, const Progress& progress, const StopToken& stop);

}  // namespace ravine
