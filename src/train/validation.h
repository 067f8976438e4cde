// What the model comes to on the validation data.
#pragma once
#include <optional>

#include "data/dataset.h"
#include "step/step.h"
#include "train/reference.h"
#include "train/run_view.h"

namespace ravine {

// Means over `data`, or over its first `rows` (0: over its first train.valid_batches micro batches): of the cross-entropy over labels, in nats, or of the
// loss and the metrics of preferences over pairs. Nothing where `data` is null. All ranks call it and get the
// same.
std::optional<ValidationResult> validation_result(StepEngine& engine, const Dataset* data, const TrainOptions& options,
                                                  const ReferenceLogProbs& reference, int64_t rows = 0);

}  // namespace ravine
