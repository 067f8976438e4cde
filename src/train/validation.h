// The validation of a model.
#pragma once
#include <optional>

#include "data/dataset.h"
#include "step/step.h"
#include "train/reference.h"
#include "train/run_view.h"

namespace ravine {

// Returns means over the first `rows` rows of `data`; 0: over its first train.valid_batches micro batches, or all. The
// loss is the cross-entropy over labels in nats, or the preference loss over pairs, with its metrics. Empty if `data`
// is null. All ranks call it together and get the same.
std::optional<ValidationResult> validation_result(StepEngine& engine, const Dataset* data, const TrainOptions& options,
                                                  const ReferenceLogProbs& reference, int64_t rows = 0);

}  // namespace ravine
