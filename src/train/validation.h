// The validation of a model.
#pragma once
#include <optional>

#include "data/dataset.h"
#include "step/step.h"
#include "train/reference.h"
#include "train/run_view.h"

namespace ravine {

// Runs a validation on `data`, forward only, and returns the mean loss. Only the first `rows` rows are
// used; 0: the first train.valid_batches micro batches, or all of them if that option is not set. The loss is the
// cross-entropy over labels in nats, or the preference loss over pairs, with its metrics. Empty if `data` is null. All
// ranks call it together and get the same.
std::optional<ValidationResult> validation_result(StepEngine& engine, const Dataset* data, const TrainOptions& options,
                                                  const ReferenceLogProbs& reference, int64_t rows = 0);

}  // namespace ravine
